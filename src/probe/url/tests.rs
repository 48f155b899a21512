use super::*;

fn base() -> Url {
    Url {
        tls: false,
        host: "10.0.0.5".to_owned(),
        port: 8080,
        path: "/a/b?q=1".to_owned(),
    }
}

#[test]
fn the_path_is_made_fit_for_a_request_line() {
    for (written, sent) in [
        ("/healthz", "/healthz"),
        ("/healthz?full=1&x=a%20b#top", "/healthz?full=1&x=a%20b"),
        ("/a b", "/a%20b"),
        ("/ü", "/%C3%BC"),
        ("/x\r\nEvil: 1", "/x%0D%0AEvil:%201"),
        ("/%zz", "/%zz"),
    ] {
        assert_eq!(escape(written), sent);
    }
}

#[test]
fn a_location_is_resolved_as_browsers_do() {
    for (location, leads) in [
        ("/x", "http://10.0.0.5:8080/x"),
        ("x?y=2", "http://10.0.0.5:8080/a/x?y=2"),
        ("../x", "http://10.0.0.5:8080/x"),
        ("../../../x/.", "http://10.0.0.5:8080/x/"),
        ("?z", "http://10.0.0.5:8080/a/b?z"),
        ("#z", "http://10.0.0.5:8080/a/b?q=1"),
        ("//other/x", "http://other:80/x"),
        ("https://other", "https://other:443/"),
        ("HTTP://me@other:81?x", "http://other:81/?x"),
        ("http://[fd00::1]:81/x", "http://[fd00::1]:81/x"),
        ("/x:y", "http://10.0.0.5:8080/x:y"),
    ] {
        let url = base().join(location).unwrap();
        assert_eq!(url.to_string(), leads, "{location}");
    }
}

#[test]
fn a_location_that_makes_no_sense_leads_nowhere() {
    for location in [
        "ftp://other/",
        "mailto:me",
        "http:///x",
        "http://other:99999/",
        "http://[::1/",
        "http://[::1]x/",
        "http:x",
    ] {
        assert_eq!(base().join(location), None, "{location}");
    }
}
