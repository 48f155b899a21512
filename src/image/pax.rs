//! Pax extended headers: records `<length> <key>=<value>\n`, whose values may hold any byte.

use rustix::fs::Timespec;

use super::sparse::PaxSparse;

const XATTR: &[u8] = b"SCHILY.xattr.";

/// The records that matter here.
#[derive(Debug, Default)]
pub struct Pax {
    /// `path`, or the real name of a sparse file.
    pub path: Option<Vec<u8>>,
    /// `linkpath`.
    pub link: Option<Vec<u8>>,
    /// `size`: wins over the header's.
    pub size: Option<u64>,
    /// `uid`.
    pub uid: Option<u64>,
    /// `gid`.
    pub gid: Option<u64>,
    /// `mtime`, with fractions.
    pub mtime: Option<Timespec>,
    /// `SCHILY.xattr.*`.
    pub xattrs: Vec<(String, Vec<u8>)>,
    /// `GNU.sparse.*`.
    pub sparse: PaxSparse,
}

impl Pax {
    /// `None`: malformed.
    pub fn parse(mut data: &[u8]) -> Option<Self> {
        let mut pax = Self::default();
        while !data.is_empty() && data[0] != 0 {
            let space = data.iter().position(|b| *b == b' ')?;
            let length: usize = number(&data[..space])?;
            if length <= space + 1 || length > data.len() {
                return None;
            }
            let (record, rest) = data.split_at(length);
            let record = record[space + 1..].strip_suffix(b"\n")?;
            let equals = record.iter().position(|b| *b == b'=')?;
            pax.apply(&record[..equals], &record[equals + 1..])?;
            data = rest;
        }
        if let Some(name) = pax.sparse.name.take() {
            pax.path = Some(name);
        }
        Some(pax)
    }

    fn apply(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        match key {
            b"path" => self.path = Some(value.to_vec()),
            b"linkpath" => self.link = Some(value.to_vec()),
            b"size" => self.size = Some(number(value)?),
            b"uid" => self.uid = Some(number(value)?),
            b"gid" => self.gid = Some(number(value)?),
            b"mtime" => self.mtime = Some(time(value)?),
            _ => {
                if let Some(name) = key.strip_prefix(XATTR) {
                    let name = String::from_utf8(name.to_vec()).ok()?;
                    self.xattrs.push((name, value.to_vec()));
                } else if let Some(key) = key.strip_prefix(b"GNU.sparse.") {
                    self.sparse.apply(key, value)?;
                }
            }
        }
        Some(())
    }
}

/// A decimal number.
pub fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// `-12.5`: seconds with a fraction; nanoseconds always count forward.
fn time(text: &[u8]) -> Option<Timespec> {
    let text = std::str::from_utf8(text).ok()?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let tv_sec: i64 = seconds.parse().ok()?;
    let digits: String = fraction
        .chars()
        .chain("000000000".chars())
        .take(9)
        .collect();
    let tv_nsec: i64 = digits.parse().ok()?;
    if text.starts_with('-') && tv_nsec > 0 {
        return Some(Timespec {
            tv_sec: tv_sec.checked_sub(1)?,
            tv_nsec: 1_000_000_000 - tv_nsec,
        });
    }
    (tv_nsec >= 0).then_some(Timespec { tv_sec, tv_nsec })
}
