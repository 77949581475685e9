//! Writes the files of commands: whole or not at all, and never over another file that the same command reads or writes.
//!
//! A file is written under another name beside it and then renamed, so that an interrupt or a full disk leaves the old
//! one as it was. A device, and a descriptor of this process, are written directly: a rename would replace them by a
//! file. Named pipes, sockets and disks are refused, because opening them may hang or is hardly intended.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Fault, output_failed};

/// The most links that are followed to a file, as in Linux.
const MOST_LINKS: usize = 40;

/// Writes a file's contents; may be called again, and then starts over.
type Fill<'a> = &'a dyn Fn(&mut dyn Write) -> io::Result<()>;

/// Whether `path` is standard output: `-`, or the system's name for it.
pub fn is_output(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| path == Path::new(name))
}

/// Writes the output of `fill` to `path`, which may be standard output. The old contents stay when that fails.
pub fn save(path: &Path, fill: Fill<'_>) -> Result<(), Fault> {
    if is_output(path) {
        let mut out = io::stdout().lock();
        return fill(&mut out).and_then(|()| out.flush()).map_err(output_failed);
    }
    write(path, fill).map_err(|e| failed(path, &e))
}

/// An error unless a file can be written to `path`: for a check before long work, not after it.
pub fn check_writable(path: &Path) -> Result<(), Fault> {
    if is_output(path) {
        return Ok(());
    }
    let fail = |e: io::Error| failed(path, &e);
    let target = followed(path);
    match fs::metadata(&target) {
        // An existing file or folder is kept until it is replaced.
        Ok(there) if there.is_file() || there.is_dir() => {
            OpenOptions::new().append(true).open(&target).map(drop).map_err(fail)
        }
        // For a descriptor or a terminal, opening is already a use.
        Ok(there) => check_kind(&target, &there).map_err(fail),
        Err(_) => {
            File::create_new(&target).map_err(fail)?;
            fs::remove_file(&target).map_err(fail)
        }
    }
}

/// Refuses a command line whose outputs are the same file, or the same as an input, under any names. Each path comes
/// with the flag or role by which the user knows it.
pub fn check_distinct(inputs: &[(String, &Path)], outputs: &[(String, &Path)]) -> Result<(), Fault> {
    let inputs = inputs.iter().map(|(what, path)| (what, place(path)));
    let mut known: Vec<(&String, PathBuf)> = inputs.collect();
    for (what, path) in outputs {
        let own = if is_output(path) { PathBuf::from("-") } else { place(path) };
        if let Some((other, _)) = known.iter().find(|(_, taken)| *taken == own) {
            return Err(Fault::usage(format!("{other} and {what} name the same file, {}", path.display())));
        }
        known.push((what, own));
    }
    Ok(())
}

/// Why `path` cannot be read: a named pipe, whose opening waits for its writer; a folder; a socket. Files that this
/// process has open, such as a shell's `<(...)`, can be read.
pub fn check_readable(path: &Path) -> Result<(), String> {
    let target = followed(path);
    let there = fs::metadata(&target).map_err(|error| error.to_string())?;
    match kind(&there) {
        Some(what @ ("a folder" | "a socket")) => Err(format!("it is {what}, not a file")),
        Some(what @ "a named pipe") if !is_descriptor(&target) => {
            Err(format!("it is {what}, not a file; copy what it gives into one"))
        }
        _ => Ok(()),
    }
}

/// Why `path` is no file with contents of its own.
pub fn check_regular(path: &Path) -> Result<(), String> {
    match kind(&fs::metadata(path).map_err(|error| error.to_string())?) {
        None => Ok(()),
        Some(what) => Err(format!("not a regular file but {what}")),
    }
}

/// The kind of a path that is no regular file, in a word.
fn kind(there: &Metadata) -> Option<&'static str> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let ty = there.file_type();
        let kinds = [
            (ty.is_fifo(), "a named pipe"),
            (ty.is_socket(), "a socket"),
            (ty.is_block_device(), "a disk or part of one"),
            (ty.is_char_device(), "a device"),
        ];
        if let Some((_, what)) = kinds.into_iter().find(|(is, _)| *is) {
            return Some(what);
        }
    }
    match (there.is_dir(), there.is_file()) {
        (true, _) => Some("a folder"),
        (_, true) => None,
        _ => Some("something else"),
    }
}

/// Refuses to write to named pipes, whose opening waits for their reader, to sockets and to disks. Files that this
/// process has open, and devices such as /dev/null, may be written.
fn check_kind(target: &Path, there: &Metadata) -> io::Result<()> {
    match kind(there) {
        None | Some("a device" | "a folder") => Ok(()), // a folder does not open
        Some(_) if is_descriptor(target) => Ok(()),
        Some(what) => Err(io::Error::other(format!("it is {what}; name a regular file, or - for standard output"))),
    }
}

fn failed(path: &Path, error: &io::Error) -> Fault {
    Fault::Machine(format!("cannot write {}: {error}", path.display()))
}

/// One name for each file, whether it exists or not. A path that is no regular file keeps its name: several may be one terminal.
fn place(path: &Path) -> PathBuf {
    let target = followed(path);
    match fs::metadata(&target) {
        Ok(there) if there.is_file() => fs::canonicalize(&target).unwrap_or(target),
        Ok(_) => path.to_path_buf(),
        Err(_) => {
            let folder = fs::canonicalize(folder_of(&target)).ok();
            let whole = folder.zip(target.file_name()).map(|(folder, name)| folder.join(name));
            whole.unwrap_or(target)
        }
    }
}

/// The file at the end of the links from `path`, whether it exists or not.
fn followed(path: &Path) -> PathBuf {
    let mut target = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        if is_descriptor(&target) {
            break;
        }
        let Ok(next) = fs::read_link(&target) else { break };
        target = folder_of(&target).join(next);
    }
    target
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether `path` is a descriptor of some process; the target of such a link is no path of a file.
fn is_descriptor(path: &Path) -> bool {
    path.starts_with("/dev/fd") || path.starts_with("/proc")
}

fn write(path: &Path, fill: Fill<'_>) -> io::Result<()> {
    let target = followed(path);
    let old = match fs::metadata(&target) {
        Ok(there) => there,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return replace(&target, None, fill),
        Err(error) => return Err(error),
    };
    if is_descriptor(&target) {
        // Appends to the owner's earlier output, because a second opening has a position of its own in the file.
        return fill(&mut OpenOptions::new().write(true).append(old.is_file()).open(&target)?);
    }
    check_kind(&target, &old)?;
    if !old.is_file() {
        return fill(&mut OpenOptions::new().write(true).open(&target)?);
    }
    // A file without write permission is not replaced either.
    drop(OpenOptions::new().append(true).open(&target)?);
    match replace(&target, Some(&old), fill) {
        // The file may be written but its folder not, or the file is a mount of its own: then it can only be written directly.
        Err(error) if is_the_folders(&error) => {
            let mut file = OpenOptions::new().write(true).truncate(true).open(&target)?;
            fill(&mut file).and_then(|()| file.sync_all())
        }
        done => done,
    }
}

/// Whether `error` is about making or replacing a file, and not about its contents.
fn is_the_folders(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem | ResourceBusy)
}

/// Writes beside `target` and renames; keeps the owner and the permissions of the `old` file, if there is one.
fn replace(target: &Path, old: Option<&Metadata>, fill: Fill<'_>) -> io::Result<()> {
    let (temporary, mut file) = create_beside(target)?;
    let kept = old.map_or(Ok(()), |old| keep_rights(&file, old));
    let filled = kept.and_then(|()| fill(&mut file)).and_then(|()| file.sync_all());
    drop(file);
    let renamed = filled.and_then(|()| fs::rename(&temporary, target));
    if renamed.is_err() {
        let _ = fs::remove_file(&temporary); // the first error is the one to tell
    }
    renamed
}

fn keep_rights(file: &File, old: &Metadata) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        // Only the system's administrator may change a file's owner; for other users the file is their own.
        let _ = fchown(file, Some(old.uid()), Some(old.gid()));
    }
    file.set_permissions(old.permissions())
}

/// A new file in the folder of `target`, under a name that nobody else uses.
fn create_beside(target: &Path) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder_of(target).join(format!(".polywarp-{}-{number}.tmp", std::process::id()));
        match File::create_new(&path) {
            // A killed process with the same number left this file behind.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(file) => return Ok((path, file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder for one test, removed afterwards.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("polywarp-files-{test}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort_unstable();
            names
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn write_that_fails_keeps_the_old_file_and_leaves_no_other() {
        let folder = Folder::new("fails");
        let (old, new) = (folder.0.join("old"), folder.0.join("new"));
        fs::write(&old, "old").unwrap();
        let full: Fill<'_> = &|out| {
            out.write_all(b"half of")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        };
        for path in [&old, &new] {
            assert_eq!(write(path, full).unwrap_err().kind(), io::ErrorKind::StorageFull);
        }
        assert_eq!(folder.names(), ["old"]);
        assert_eq!(fs::read_to_string(&old).unwrap(), "old");
        for path in [&old, &new] {
            write(path, &|out| out.write_all(b"whole")).unwrap();
            assert_eq!(fs::read_to_string(path).unwrap(), "whole");
        }
        assert_eq!(folder.names(), ["new", "old"]);
    }

    #[cfg(unix)]
    #[test]
    fn replaced_file_keeps_its_rights_and_the_links_to_it() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = Folder::new("rights");
        let (file, link) = (folder.0.join("file"), folder.0.join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        write(&link, &|out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        // Writing through a link to a missing file makes that file.
        let (absent, lost) = (folder.0.join("absent"), folder.0.join("lost"));
        symlink("absent", &lost).unwrap();
        write(&lost, &|out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read_to_string(&absent).unwrap(), "new");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn device_is_written_and_not_replaced() {
        use std::os::unix::fs::FileTypeExt;
        write(Path::new("/dev/null"), &|out| out.write_all(b"lost")).unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        let full = write(Path::new("/dev/full"), &|out| out.write_all(b"lost"));
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn same_file_is_found_under_every_name() {
        let folder = Folder::new("same");
        let file = folder.0.join("file");
        fs::write(&file, "").unwrap();
        fs::create_dir(folder.0.join("sub")).unwrap();
        let refused = |inputs: &[&Path], outputs: &[&Path]| {
            let named = |what: &str, paths: &[&Path]| -> Vec<(String, PathBuf)> {
                paths.iter().map(|path| (what.to_owned(), path.to_path_buf())).collect()
            };
            let (inputs, outputs) = (named("the input", inputs), named("--output", outputs));
            let inputs: Vec<_> = inputs.iter().map(|(what, path)| (what.clone(), path.as_path())).collect();
            let outputs: Vec<_> = outputs.iter().map(|(what, path)| (what.clone(), path.as_path())).collect();
            check_distinct(&inputs, &outputs).is_err()
        };
        let (new, round) = (folder.0.join("new"), folder.0.join("sub/../file"));
        assert!(refused(&[&file], &[&file]) && refused(&[&file], &[&round]), "an input");
        assert!(refused(&[], &[&new, &folder.0.join("./new")]), "two outputs, neither there yet");
        assert!(refused(&[], &[&new, &folder.0.join("sub/../new")]));
        assert!(refused(&[], &[Path::new("-"), Path::new("/dev/stdout")]));
        assert!(!refused(&[&file, &round], &[&new, Path::new("-")]), "inputs may be the same");
        #[cfg(unix)]
        {
            let link = folder.0.join("link");
            std::os::unix::fs::symlink("new", &link).unwrap();
            assert!(refused(&[], &[&new, &link]));
        }
    }
}
