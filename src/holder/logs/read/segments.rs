//! The files that make up a log, opened together: an open file stays readable whatever the writer does to its name.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use flate2::read::GzDecoder;
use jiff::Timestamp;

use super::super::compress::noted_inode;
use super::super::files::Place;
use super::super::names::Turn;

/// The writer rotates at most a few times in this many attempts.
const ATTEMPTS: u32 = 100;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(1);

/// One opened file of a log.
pub struct Segment {
    file: File,
    form: Form,
    /// Bytes when it was opened.
    pub size: u64,
    /// Last written.
    pub modified: Timestamp,
    /// Its place, if it was rotated when it was opened; none while it is live.
    turn: Option<Turn>,
    /// Of the file as it was written; a compressed file notes it. While we hold a file open as it was written, no newer
    /// one has its inode; an older, compressed one may note the same.
    inode: u64,
}

/// How a segment is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As written.
    Plain,
    /// By gzip.
    Compressed,
}

/// Bytes of a segment as they were written.
pub enum Source {
    /// Of a file.
    Plain(io::Take<File>),
    /// Of a compressed file.
    Compressed(Box<GzDecoder<File>>),
}

impl Segment {
    fn open(path: &Path, form: Form, turn: Option<Turn>) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let inode = match form {
            Form::Plain => metadata.ino(),
            Form::Compressed => {
                let decoder = GzDecoder::new(&file);
                let extra = decoder.header().and_then(|header| header.extra());
                extra.and_then(noted_inode).unwrap_or(metadata.ino())
            }
        };
        Ok(Self {
            form,
            size: metadata.size(),
            modified: Timestamp::try_from(metadata.modified()?).unwrap_or(Timestamp::MAX),
            turn,
            inode,
            file,
        })
    }

    /// How it is stored.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The file, if it is stored as written.
    pub fn plain(&self) -> Option<&File> {
        (self.form == Form::Plain).then_some(&self.file)
    }

    /// Its bytes from `offset` (of the stored form) up to `limit` further ones. Segments are read one after the other:
    /// sources of one segment share its position.
    pub fn source(&self, offset: u64, limit: u64) -> io::Result<Source> {
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(match self.form {
            Form::Plain => Source::Plain(file.take(limit)),
            Form::Compressed => Source::Compressed(Box::new(GzDecoder::new(file))),
        })
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read(buffer),
            Self::Compressed(decoder) => decoder.read(buffer),
        }
    }
}

/// All segments of a log, oldest first, the live one last. Consistent: taken again until no rotation came in between.
/// If somebody removed the live file, the others are all there is until the next rotation.
pub fn snapshot(place: &Place) -> io::Result<Vec<Segment>> {
    let mut left = ATTEMPTS;
    loop {
        left -= 1;
        match try_snapshot(place) {
            Ok(Snapshot::Whole(segments)) => return Ok(segments),
            Ok(Snapshot::WithoutLive(segments)) if left == 0 && !segments.is_empty() => {
                return Ok(segments);
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(error) if left == 0 || !place.dir.exists() => return Err(error),
            Ok(_) if left == 0 => return Err(io::ErrorKind::NotFound.into()),
            // A rotation came in between.
            Ok(_) | Err(_) => std::thread::sleep(BETWEEN_ATTEMPTS),
        }
    }
}

enum Snapshot {
    /// No rotation came in between.
    Whole(Vec<Segment>),
    /// There was no live file, or it was rotated meanwhile.
    WithoutLive(Vec<Segment>),
}

fn try_snapshot(place: &Place) -> io::Result<Snapshot> {
    let live = match Segment::open(&place.live, Form::Plain, None) {
        Ok(live) => Some(live),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let mut segments = Vec::new();
    for rotated in place.rotated()? {
        let form = if rotated.kept.compressed {
            Form::Compressed
        } else {
            Form::Plain
        };
        segments.push(Segment::open(&rotated.path, form, Some(rotated.turn))?);
    }
    match live {
        Some(live) if inode_of(&place.live)? == Some(live.inode) => {
            segments.push(live);
            Ok(Snapshot::Whole(segments))
        }
        Some(_) | None => Ok(Snapshot::WithoutLive(segments)),
    }
}

/// The segments that follow one which the caller holds open: none while it is live. If it is gone already, all that are
/// left: the oldest files go first, so they are all newer.
pub fn newer_than(place: &Place, current: &Segment) -> io::Result<Vec<Segment>> {
    let live = inode_of(&place.live)?;
    if live.is_none() || (current.turn.is_none() && live == Some(current.inode)) {
        return Ok(Vec::new());
    }
    let mut segments = snapshot(place)?;
    match &current.turn {
        Some(turn) => segments.retain(|it| it.turn.as_ref().is_none_or(|other| other > turn)),
        None => {
            if let Some(at) = segments.iter().rposition(|it| it.inode == current.inode) {
                segments.drain(..=at);
            }
        }
    }
    Ok(segments)
}

fn inode_of(path: &Path) -> io::Result<Option<u64>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
