use super::*;

#[test]
fn a_stream_that_unpacks_to_more_than_it_may_ends_with_an_error() {
    let read = |allowance| {
        let mut stream = LayerStream {
            inner: Hashing::new(io::repeat(0).take(1000)),
            allowance,
        };
        io::copy(&mut stream, &mut io::sink())
    };
    assert_eq!(read(1000).unwrap(), 1000);
    let error = read(999).unwrap_err();
    assert_eq!(error.to_string(), "it unpacks to far more than its size");
}

#[test]
fn skipping_beyond_the_end_is_an_error() {
    let mut stream = LayerStream {
        inner: Hashing::new(&b"12345"[..]),
        allowance: 100,
    };
    Input::skip(&mut &mut stream, 5).unwrap();
    let error = Input::skip(&mut &mut stream, 1).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}
