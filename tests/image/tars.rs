//! Tars as no honest program writes them: every byte of a header can be chosen.

use tar::{EntryType, Header};

/// A tar being written. Names are taken as they are; long ones get a GNU long-name header.
#[derive(Default)]
pub struct Tar(Vec<u8>);

impl Tar {
    /// Empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// A regular file, mode 0644, owner 0:0.
    pub fn file(self, path: &str, data: &str) -> Self {
        self.entry(EntryType::Regular, path, |_| {}, data.as_bytes())
    }

    /// A directory, mode 0755.
    pub fn dir(self, path: &str) -> Self {
        self.entry(EntryType::Directory, path, |h| h.set_mode(0o755), b"")
    }

    /// A symbolic link.
    pub fn symlink(self, path: &str, target: &str) -> Self {
        self.link(EntryType::Symlink, path, target)
    }

    /// A hard link.
    pub fn hard_link(self, path: &str, target: &str) -> Self {
        self.link(EntryType::Link, path, target)
    }

    /// A link of either kind.
    pub fn link(mut self, kind: EntryType, path: &str, target: &str) -> Self {
        if target.len() > 100 {
            self = self.long(EntryType::GNULongLink, target);
        }
        let set = |header: &mut Header| put(&mut header.as_old_mut().linkname, target);
        self.entry(kind, path, set, b"")
    }

    /// A device.
    pub fn device(self, kind: EntryType, path: &str, (major, minor): (u32, u32)) -> Self {
        let set = |header: &mut Header| {
            header.set_device_major(major).expect("a ustar header");
            header.set_device_minor(minor).expect("a ustar header");
        };
        self.entry(kind, path, set, b"")
    }

    /// A pax header for the next entry.
    pub fn pax(self, records: &[(&str, &[u8])]) -> Self {
        let mut data = Vec::new();
        for (key, value) in records {
            let body = 1 + key.len() + 1 + value.len() + 1;
            let mut length = body + 1;
            while length != body + length.to_string().len() {
                length = body + length.to_string().len();
            }
            data.extend_from_slice(format!("{length} {key}=").as_bytes());
            data.extend_from_slice(value);
            data.push(b'\n');
        }
        self.entry(EntryType::XHeader, "pax", |_| {}, &data)
    }

    /// Any entry; `edit` changes the header before its checksum is made.
    pub fn entry(
        mut self,
        kind: EntryType,
        path: &str,
        edit: impl FnOnce(&mut Header),
        data: &[u8],
    ) -> Self {
        if path.len() > 100 {
            self = self.long(EntryType::GNULongName, path);
        }
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        put(&mut header.as_old_mut().name, path);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1_000_000_000);
        header.set_size(data.len() as u64);
        edit(&mut header);
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(data);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn long(self, kind: EntryType, text: &str) -> Self {
        self.entry(
            kind,
            "././@LongLink",
            |_| {},
            format!("{text}\0").as_bytes(),
        )
    }

    /// With the two empty blocks that end an archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

fn put(field: &mut [u8; 100], text: &str) {
    let length = text.len().min(100);
    field[..length].copy_from_slice(&text.as_bytes()[..length]);
}
