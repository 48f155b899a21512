//! The two messages of `grpc.health.v1.Health/Check`, on the wire of gRPC: five bytes of prefix, then protobuf.

/// Length of the prefix: whether it is compressed, and how long it is.
const PREFIX: usize = 5;

/// What a server says of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// 0, or nothing said.
    Unknown,
    /// 1.
    Serving,
    /// 2.
    NotServing,
    /// 3.
    ServiceUnknown,
    /// Any other.
    Other(u64),
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown => f.write_str("UNKNOWN"),
            Self::Serving => f.write_str("SERVING"),
            Self::NotServing => f.write_str("NOT_SERVING"),
            Self::ServiceUnknown => f.write_str("SERVICE_UNKNOWN"),
            Self::Other(number) => write!(f, "{number}"),
        }
    }
}

/// A request: field 1 is the service, left away when it is empty.
pub fn request(service: &str) -> Vec<u8> {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(1 << 3 | 2);
        put_varint(&mut message, service.len());
        message.extend(service.as_bytes());
    }
    // A service comes from a manifest, whose size is bounded far below.
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut framed = vec![0];
    framed.extend(length.to_be_bytes());
    framed.extend(message);
    framed
}

fn put_varint(bytes: &mut Vec<u8>, mut number: usize) {
    while let Ok(more @ 0x80..) = u8::try_from(number & 0x7f | if number > 0x7f { 0x80 } else { 0 })
    {
        bytes.push(more);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap_or_default());
}

/// A response: field 1 is the status. None if it is no such message.
pub fn response(framed: &[u8]) -> Option<Status> {
    let (prefix, message) = framed.split_at_checked(PREFIX)?;
    let (compressed, length) = prefix.split_first()?;
    let length = u32::from_be_bytes(length.try_into().ok()?);
    if *compressed != 0 || usize::try_from(length).ok()? != message.len() {
        return None;
    }
    let mut rest = message;
    let mut status = 0;
    while !rest.is_empty() {
        match varint(&mut rest)? {
            0x08 => status = varint(&mut rest)?,
            key => skip(&mut rest, key)?,
        }
    }
    Some(match status {
        0 => Status::Unknown,
        1 => Status::Serving,
        2 => Status::NotServing,
        3 => Status::ServiceUnknown,
        other => Status::Other(other),
    })
}

/// Leaves a field away that a later version of the protocol may have.
fn skip(rest: &mut &[u8], key: u64) -> Option<()> {
    let length = match key & 7 {
        0 => return varint(rest).map(drop),
        1 => 8,
        2 => usize::try_from(varint(rest)?).ok()?,
        5 => 4,
        _ => return None,
    };
    *rest = rest.get(length..)?;
    Some(())
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_the_service() {
        assert_eq!(request(""), [0, 0, 0, 0, 0]);
        assert_eq!(request("ab"), [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b']);
        let long = request(&"x".repeat(300));
        assert_eq!(long[..8], [0, 0, 0, 1, 0x2f, 0x0a, 0xac, 0x02]);
        assert_eq!(long.len(), 8 + 300);
    }

    #[test]
    fn a_response_holds_the_status() {
        for (message, status) in [
            (&[][..], Status::Unknown),
            (&[0x08, 1], Status::Serving),
            (&[0x08, 2], Status::NotServing),
            (&[0x08, 3], Status::ServiceUnknown),
            (&[0x08, 0xac, 2], Status::Other(300)),
            // Unknown fields of each wire type.
            (
                &[0x10, 0x96, 1, 0x1a, 2, 9, 9, 0x08, 1, 0x25, 1, 2, 3, 4],
                Status::Serving,
            ),
        ] {
            let length = u8::try_from(message.len()).unwrap();
            let framed = [&[0, 0, 0, 0, length][..], message].concat();
            assert_eq!(response(&framed), Some(status), "{message:?}");
        }
    }

    #[test]
    fn what_is_no_response_is_none() {
        for framed in [
            &[][..],
            &[0, 0, 0, 0],
            &[1, 0, 0, 0, 0],
            &[0, 0, 0, 0, 1],
            &[0, 0, 0, 0, 1, 0x08],
            &[0, 0, 0, 0, 2, 0x12, 9],
            &[0, 0, 0, 0, 1, 0x0b],
            &[0, 0, 0, 0, 3, 0x08, 0x80, 0x80],
        ] {
            assert_eq!(response(framed), None, "{framed:?}");
        }
    }
}
