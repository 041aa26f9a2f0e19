//! Key files: written whole or not at all, and read only if nobody else can read them.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::{Place, StoredKey};
use crate::failure::Failure;

/// The mode of a key file.
const MODE: u32 = 0o600;
/// The permission bits that a key file must not have: those of its group and of all others, as for ssh.
const OF_OTHERS: u32 = 0o077;
/// The longest text that is read, in bytes. A key has at most a few kilobytes.
const LONGEST: u64 = 64 * 1024;

/// A key that was read, and where it was.
pub(crate) struct Found {
    pub(crate) stored: StoredKey,
    /// The file; `None` for standard input.
    file: Option<(PathBuf, Identity)>,
}

/// Which file it is, whatever its name is by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

/// Why there is no key.
pub(crate) enum Absence {
    /// There is no such file.
    NoFile,
    /// It cannot be used.
    Failed(Failure),
}

/// Whether this path stands for standard input or output.
pub(crate) fn is_stream(path: &Path) -> bool {
    path == Path::new("-")
}

/// Reads a key from a file, or from standard input for `-`.
pub(crate) fn read(path: &Path) -> Result<Found, Absence> {
    if is_stream(path) {
        let text = text_of(io::stdin().lock()).map_err(|error| failed("standard input", &error))?;
        let stored = StoredKey::parse(&text).map_err(|why| unusable("standard input", &why))?;
        return Ok(Found { stored, file: None });
    }
    let shown = path.display().to_string();
    let (text, identity) = match open(path) {
        Ok((file, identity)) => (text_of(file).map_err(|error| failed(&shown, &error))?, identity),
        Err(Refused::By(error)) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Absence::NoFile);
        }
        Err(Refused::By(error)) => return Err(failed(&shown, &error)),
        Err(Refused::Because(why)) => return Err(unusable(&shown, &why)),
    };
    let stored = StoredKey::parse(&text).map_err(|why| unusable(&shown, &why))?;
    Ok(Found { stored, file: Some((path.to_owned(), identity)) })
}

impl Found {
    /// Removes the file, unless another file has its name by now. The next holder may use the same name, and may have
    /// its key there already.
    pub(crate) fn remove(&self) -> Result<(), Failure> {
        let Some((path, identity)) = &self.file else { return Ok(()) };
        let is_same = |found: &Metadata| Identity::of(found) == *identity;
        let removed = match fs::symlink_metadata(path) {
            Ok(found) if is_same(&found) => fs::remove_file(path),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let subject = format!("{}: the key file could not be removed", path.display());
                Err(Failure::of_system(&subject, &error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Checks that a key of this lease can be written to the path: that the folder takes files, and that nothing is lost
/// by it.
///
/// An empty file is replaced, and one with a key of the same lease: once the lease is granted anew, that key is good
/// for nothing.
pub(crate) fn check(path: &Path, place: &Place, name: &str) -> Result<(), Failure> {
    if is_stream(path) {
        return Ok(());
    }
    draft(path).map_err(|error| not_written(path, &error))?;
    let shown = path.display();
    let refused = |why: String| Err(Failure::usage(format!("{shown}: {why}")));
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(not_written(path, &error)),
        Ok(found) if !found.is_file() => return refused("it is not a regular file".to_owned()),
        Ok(found) if found.len() == 0 => return Ok(()),
        Ok(_) => {}
    }
    match read(path) {
        Ok(Found { stored, .. }) if stored.place == *place && stored.key.name() == name => Ok(()),
        Ok(Found { stored, .. }) => {
            let other = stored.key.name();
            refused(format!("it has the key of another lease, {other:?}: release that first"))
        }
        Err(Absence::NoFile) => Ok(()),
        Err(Absence::Failed(_)) => refused(
            "it is there already, and has no key that could be replaced: remove it first"
                .to_owned(),
        ),
    }
}

/// Writes a key into a file, whole or not at all: to a file beside it first, which then gets its name.
///
/// The path is checked once more: another command may have written its key there during the wait for this lease.
pub(crate) fn write(path: &Path, stored: &StoredKey) -> Result<(), Failure> {
    check(path, &stored.place, stored.key.name())?;
    let written = || -> io::Result<()> {
        let mut draft = draft(path)?;
        writeln!(draft, "{}", stored.to_json())?;
        draft.as_file().sync_all()?;
        draft.persist(path).map_err(|error| error.error)?;
        // The name survives a power failure too. Some file systems cannot promise that.
        let _ = File::open(folder(path)).and_then(|folder| folder.sync_all());
        Ok(())
    };
    written().map_err(|error| not_written(path, &error))
}

/// An empty file beside this one, which is removed unless it is kept.
fn draft(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".mongo-lease-key-").permissions(Permissions::from_mode(MODE));
    builder.tempfile_in(folder(path))
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        Some(_) | None => Path::new("."),
    }
}

/// Why a file cannot be used.
enum Refused {
    By(io::Error),
    Because(String),
}

/// Opens a key file that nobody else can read. A symbolic link is refused: the removal would leave the key.
fn open(path: &Path) -> Result<(File, Identity), Refused> {
    // A pipe without a writer would block the opening.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let flags = i32::try_from(flags).map_err(|_| Refused::By(io::ErrorKind::Unsupported.into()))?;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let is_link = || fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    let file = opened.map_err(|error| match is_link() {
        true => Refused::Because("it is a symbolic link: name the file itself".to_owned()),
        false => Refused::By(error),
    })?;
    let found = file.metadata().map_err(Refused::By)?;
    if !found.is_file() {
        let why = "it is not a regular file: pass the key on standard input, with `--key -`";
        return Err(Refused::Because(why.to_owned()));
    }
    let mode = found.mode() & 0o777;
    if mode & OF_OTHERS != 0 {
        return Err(Refused::Because(format!(
            "its mode is {mode:03o}, and whoever reads it can release the lease: `chmod 600` it"
        )));
    }
    Ok((file, Identity::of(&found)))
}

impl Identity {
    fn of(found: &Metadata) -> Identity {
        Identity { device: found.dev(), inode: found.ino() }
    }
}

fn text_of(source: impl Read) -> io::Result<String> {
    let mut text = String::new();
    source.take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}

fn failed(subject: &str, error: &io::Error) -> Absence {
    Absence::Failed(Failure::usage(format!("{subject}: the key cannot be read: {error}")))
}

fn unusable(subject: &str, why: &str) -> Absence {
    Absence::Failed(Failure::usage(format!("{subject}: {why}")))
}

fn not_written(path: &Path, error: &io::Error) -> Failure {
    Failure::of_system(&format!("{}: the key cannot be written", path.display()), error)
}
