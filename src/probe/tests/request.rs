//! What goes over the wire, byte for byte, as kubelet 1.36 sends it.

use super::http::get;
use super::server::Server;
use super::*;

const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

fn sent(headers: &[(&str, &str)]) -> String {
    let server = Server::answering(NOT_FOUND);
    let mut get = get(server.port(), "/healthz?full=1");
    get.headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    check(&Check::HttpGet(get), LONG);
    let port = server.port().to_string();
    server.request().replace(&port, "PORT")
}

#[test]
fn a_plain_probe() {
    assert_eq!(
        sent(&[]),
        "GET /healthz?full=1 HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nUser-Agent: kube-probe/1.36\r\n\
         Accept: */*\r\nConnection: close\r\n\r\n"
    );
}

#[test]
fn headers_of_the_manifest_are_sorted_and_repeat() {
    let headers = [
        ("x-b", "2"),
        ("X-A", " first "),
        ("Accept", "text/plain"),
        ("x-a", "second"),
        ("X-Empty", ""),
        ("Content-Length", "5"),
    ];
    assert_eq!(
        sent(&headers),
        "GET /healthz?full=1 HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nUser-Agent: kube-probe/1.36\r\n\
         Accept: text/plain\r\nX-A: first\r\nX-A: second\r\nX-B: 2\r\nX-Empty: \r\n\
         Connection: close\r\n\r\n"
    );
}

#[test]
fn host_and_agent_are_replaced() {
    let headers = [("host", "example.org"), ("user-agent", "me/1")];
    assert_eq!(
        sent(&headers),
        "GET /healthz?full=1 HTTP/1.1\r\nHost: example.org\r\nUser-Agent: me/1\r\n\
         Accept: */*\r\nConnection: close\r\n\r\n"
    );
}

#[test]
fn empty_values_remove_defaults_except_the_host() {
    let headers = [("Host", ""), ("User-Agent", ""), ("Accept", "")];
    assert_eq!(
        sent(&headers),
        "GET /healthz?full=1 HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nConnection: close\r\n\r\n"
    );
}
