//! A directory held open, on Unix: reached step by step from the root, each step checked, and used by its descriptor from then
//! on. Nobody but root and this user can put something else in its place, before or after.
//!
//! Each directory on the way must belong to root or to this user and be writable by no one else, but for sticky ones as /tmp,
//! where nobody can rename or remove what is another's. Links on the way are followed one by one under the same rules; the last
//! step may not be one. Rights that access lists give show in the group's bits, so they are covered.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Most links that are followed, as Linux has it.
const MOST_LINKS: usize = 40;
/// Written by the group or by anybody.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// To pass through a directory one need not be able to list it.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
const PASS: OFlags = OFlags::PATH;
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
const PASS: OFlags = OFlags::RDONLY;

/// A directory of this user's own, by its descriptor.
#[derive(Clone, Debug)]
pub(super) struct Folder(Arc<OwnedFd>);

impl Folder {
    /// The directory `path`; what is missing of it is made for this user alone.
    pub(super) fn open(path: &Path) -> Result<Folder, String> {
        let path = std::path::absolute(path).map_err(|error| format!("cannot be found: {error}"))?;
        Walk::to(&path, Missing::Made, "choose another place by POLYWARP_CACHE")?.end()
    }

    /// The bytes of the file `path`, which like every directory on the way to it only root and this user can write.
    pub(super) fn trusted(path: &Path, most_bytes: u64) -> Result<Vec<u8>, String> {
        let path = std::path::absolute(path).map_err(|error| format!("cannot be found: {error}"))?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err("is not a file".to_owned());
        };
        let walk = Walk::to(parent, Missing::Refused, "copy it to where only you can write")?;
        walk.check_passed()?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&walk.here().0, name, flags, Mode::empty());
        let opened = opened.map_err(|error| match error {
            Errno::LOOP => "is a link; name the file itself".to_owned(),
            error => format!("cannot be opened: {error}"),
        })?;
        let found = rustix::fs::fstat(&opened).map_err(|error| format!("cannot be looked at: {error}"))?;
        let mode = rights(&found, walk.user).0 & 0o7777;
        if kind(&found) != FileType::RegularFile {
            return Err("is not a regular file".to_owned());
        }
        if found.st_uid != 0 && found.st_uid != walk.user {
            return Err(format!("belongs to user {}, not to user {}", found.st_uid, walk.user));
        }
        if mode & OTHERS_WRITE != 0 {
            return Err(format!("can be written by others (mode {mode:04o}); run chmod go-w on it"));
        }
        super::whole(opened.into(), most_bytes)
    }

    /// Opens a file for reading: not through a link, which could lead to what others write, and without waiting for whoever
    /// writes a pipe.
    pub(super) fn read(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.0, name, flags, Mode::empty())?.into())
    }

    /// Makes a file for this user alone.
    pub(super) fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?)
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// The length of the file `name`, and when it was written last; `None` for what is no file itself.
    pub(super) fn look(&self, name: &str) -> io::Result<Option<(u64, SystemTime)>> {
        let found = rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let since = Duration::from_secs(u64::try_from(found.st_mtime).unwrap_or(0));
        let is_file = kind(&found) == FileType::RegularFile;
        Ok(is_file.then(|| (u64::try_from(found.st_size).unwrap_or(0), UNIX_EPOCH + since)))
    }

    /// Every name that is UTF-8, in no order.
    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let name = entry?.file_name().to_str().map(str::to_owned);
            names.extend(name.ok().filter(|name| name != "." && name != ".."));
        }
        Ok(names)
    }
}

/// The steps of `path` behind the root.
fn steps(path: &Path) -> VecDeque<OsString> {
    let steps = path.components().filter(|step| matches!(step, Component::Normal(_) | Component::ParentDir));
    steps.map(|step| step.as_os_str().to_owned()).collect()
}

fn kind(found: &Stat) -> FileType {
    FileType::from_raw_mode(found.st_mode)
}

/// What to do where there is no directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    /// It is made for this user alone.
    Made,
    Refused,
}

/// Where one has come to: every directory from the root on, open, with its name for people.
struct Walk {
    user: u32,
    root: (Arc<OwnedFd>, PathBuf),
    passed: Vec<(Arc<OwnedFd>, PathBuf)>,
    links: usize,
    missing: Missing,
    /// What to do about a place that is not trusted.
    advice: &'static str,
    /// The mode and the owner of the last one.
    last: (u32, u32),
}

impl Walk {
    /// Goes to `path`, an absolute one.
    fn to(path: &Path, missing: Missing, advice: &'static str) -> Result<Walk, String> {
        let mut walk = Walk::new(missing, advice)?;
        let mut ahead = steps(path);
        while let Some(step) = ahead.pop_front() {
            walk.take(step, &mut ahead)?;
        }
        Ok(walk)
    }

    fn new(missing: Missing, advice: &'static str) -> Result<Walk, String> {
        let flags = PASS | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root =
            rustix::fs::open("/", flags, Mode::empty()).map_err(|error| format!("cannot be reached: {error}"))?;
        let root = (Arc::new(root), PathBuf::from("/"));
        let found = stat(&root)?;
        let user = rustix::process::geteuid().as_raw();
        let last = rights(&found, user);
        Ok(Walk { user, root, passed: Vec::new(), links: 0, missing, advice, last })
    }

    fn here(&self) -> &(Arc<OwnedFd>, PathBuf) {
        self.passed.last().unwrap_or(&self.root)
    }

    /// Goes one step on; `ahead` are those that follow, to which a link adds its own.
    fn take(&mut self, step: OsString, ahead: &mut VecDeque<OsString>) -> Result<(), String> {
        if step == ".." {
            self.passed.pop();
            let found = stat(self.here())?;
            self.last = rights(&found, self.user);
            return Ok(());
        }
        self.check_passed()?;
        let (folder, shown) = (Arc::clone(&self.here().0), self.here().1.join(&step));
        let found = match rustix::fs::statat(&folder, &step, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) if self.missing == Missing::Made => {
                match rustix::fs::mkdirat(&folder, &step, Mode::RWXU) {
                    // Another process was quicker.
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(format!("cannot be made: {}: {error}", shown.display())),
                }
                rustix::fs::statat(&folder, &step, AtFlags::SYMLINK_NOFOLLOW)
            }
            found => found,
        };
        let found = found.map_err(|error| format!("cannot be looked at: {}: {error}", shown.display()))?;
        match kind(&found) {
            FileType::Symlink if ahead.is_empty() && self.missing == Missing::Made => {
                Err("is not a directory itself".to_owned())
            }
            FileType::Symlink => self.follow(&folder, &step, &shown, found.st_uid, ahead),
            FileType::Directory => {
                let flags = PASS | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let opened = rustix::fs::openat(&folder, &step, flags, Mode::empty());
                let opened = opened.map_err(|error| format!("cannot be opened: {}: {error}", shown.display()))?;
                let next = (Arc::new(opened), shown);
                // Of what was opened, whatever has the name by now.
                let found = stat(&next)?;
                self.last = rights(&found, self.user);
                self.passed.push(next);
                Ok(())
            }
            _ if ahead.is_empty() => Err("is not a directory itself".to_owned()),
            _ => Err(format!("cannot be reached: {} is not a directory", shown.display())),
        }
    }

    fn follow(
        &mut self,
        folder: &OwnedFd,
        step: &OsString,
        shown: &Path,
        owner: u32,
        ahead: &mut VecDeque<OsString>,
    ) -> Result<(), String> {
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err("cannot be reached: too many links on the way".to_owned());
        }
        if owner != 0 && owner != self.user {
            return Err(format!("is reached by a link of user {owner}, {}", shown.display()));
        }
        let target = rustix::fs::readlinkat(folder, step, Vec::new());
        let target = target.map_err(|error| format!("cannot be reached: {}: {error}", shown.display()))?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            self.passed.clear();
            let found = stat(&self.root)?;
            self.last = rights(&found, self.user);
        }
        steps(&target).into_iter().rev().for_each(|step| ahead.push_front(step));
        Ok(())
    }

    /// Refuses to go on from a directory in which others could put something of theirs.
    fn check_passed(&self) -> Result<(), String> {
        let ((mode, owner), shown) = (self.last, self.here().1.display());
        let advice = self.advice;
        if owner != 0 && owner != self.user {
            return Err(format!("lies in {shown}, which belongs to user {owner}; {advice}"));
        }
        if mode & OTHERS_WRITE != 0 && mode & STICKY == 0 {
            let mode = mode & 0o7777;
            return Err(format!(
                "lies in {shown}, where others can replace it (mode {mode:04o}); run chmod go-w on that, or {advice}"
            ));
        }
        Ok(())
    }

    /// The directory one has come to, which must be this user's alone.
    fn end(self) -> Result<Folder, String> {
        let ((mode, owner), user) = (self.last, self.user);
        if mode & OTHERS_WRITE != 0 {
            return Err(format!("can be written by others (mode {:04o}); run chmod 700 on it", mode & 0o7777));
        }
        if owner != user {
            return Err(format!("belongs to user {owner}, not to user {user}"));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.here().0, ".", flags, Mode::empty());
        Ok(Folder(Arc::new(opened.map_err(|error| format!("cannot be opened: {error}"))?)))
    }
}

/// The mode of a directory or file, and its owner. A group with the number of `user` is that user's own, as the systems have it
/// whose new files it may write (umask 002): it is nobody else.
fn rights(found: &Stat, user: u32) -> (u32, u32) {
    let own_group = user != 0 && found.st_gid == user && found.st_uid == user;
    let mode = if own_group { found.st_mode & !0o020 } else { found.st_mode };
    (mode, found.st_uid)
}

fn stat((folder, shown): &(Arc<OwnedFd>, PathBuf)) -> Result<Stat, String> {
    rustix::fs::fstat(folder).map_err(|error| format!("cannot be looked at: {}: {error}", shown.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_of_the_users_own_is_nobody_else() {
        let mut found = stat(&Walk::new(Missing::Refused, "").unwrap().root).unwrap();
        (found.st_mode, found.st_uid, found.st_gid) = (0o040775, 1000, 1000);
        assert_eq!(rights(&found, 1000).0 & OTHERS_WRITE, 0);
        found.st_mode = 0o040777;
        assert_eq!(rights(&found, 1000).0 & OTHERS_WRITE, 0o002, "everybody is somebody else");
        (found.st_mode, found.st_gid) = (0o040775, 100);
        assert_eq!(rights(&found, 1000).0 & OTHERS_WRITE, 0o020, "a group of many");
        (found.st_uid, found.st_gid) = (0, 0);
        assert_eq!(rights(&found, 0).0 & OTHERS_WRITE, 0o020, "root's group has members elsewhere");
    }
}
