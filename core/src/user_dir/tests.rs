//! Tests of the user's directory: what is trusted, what is read, what is kept.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use super::*;

/// A place of one test's, gone afterwards. The system's own temporary directory is sticky.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Place {
        let path = std::env::temp_dir().join(format!("polywarp-user-dir-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Place(fs::canonicalize(path).unwrap())
    }

    /// A directory in it with this mode.
    fn with(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn read_takes_files_themselves_and_nothing_else() {
    let place = Place::new("read");
    let path = place.0.join("own");
    let directory = UserDir::open(path.clone()).unwrap();
    directory.write("file", b"own").unwrap();
    assert_eq!(directory.read("file", 3).unwrap().as_deref(), Some(&b"own"[..]));
    assert!(directory.has("file") && !directory.has("absent"));
    assert!(directory.read("file", 2).is_err(), "longer than it may be");
    assert_eq!(directory.read("absent", 3).unwrap(), None);
    // A link is refused wherever it leads, also to a good file and to none.
    for (name, to) in [("near", path.join("file")), ("far", "/proc/version".into()), ("lost", path.join("absent"))] {
        symlink(to, path.join(name)).unwrap();
        let refused = directory.read(name, 1 << 20).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::LOOP.raw_os_error()), "{name}: {refused}");
        assert!(!directory.has(name));
    }
    fs::create_dir(path.join("folder")).unwrap();
    assert!(directory.read("folder", 1 << 20).is_err());
    // Nobody writes this pipe: a read that waits for that does not end.
    if std::process::Command::new("mkfifo").arg(path.join("pipe")).status().is_ok_and(|made| made.success()) {
        assert!(directory.read("pipe", 1 << 20).is_err());
    }
    // A name is not a path.
    for name in ["../own/file", "folder/file", ".."] {
        assert!(directory.read(name, 9).is_err() && directory.write(name, b"").is_err(), "{name}");
        assert!(directory.remove(name).is_err() && !directory.has(name), "{name}");
    }
}

#[test]
fn directory_below_one_that_others_write_is_refused() {
    let place = Place::new("ancestors");
    // A group of this user's own is nobody else.
    let found = fs::metadata(&place.0).unwrap();
    let own_group = found.uid() != 0 && found.uid() == found.gid();
    let closed = [0o700, 0o755, 0o711].map(|mode| (mode, true));
    let open = [(0o770, own_group), (0o775, own_group), (0o757, false), (0o777, false)];
    for (mode, trusted) in closed.into_iter().chain(open) {
        for below in ["own", "far/below/own"] {
            let open = place.with("shared", mode);
            let opened = UserDir::open(open.join(below));
            match opened {
                Ok(_) => assert!(trusted, "{mode:o} {below}"),
                Err(why) => {
                    assert!(!trusted, "{mode:o}: {why}");
                    let told =
                        why.contains("ancestors") && why.contains(&format!("{mode:04o}")) && why.contains("chmod");
                    assert!(told, "{why}");
                    assert!(!open.join("own").exists(), "nothing is made where it is not trusted");
                }
            }
            fs::remove_dir_all(&open).unwrap();
        }
    }
    // In a sticky one nobody can touch what is another's.
    let sticky = place.with("sticky", 0o1777);
    UserDir::open(sticky.join("own")).unwrap().write("file", b"own").unwrap();
    // The directory itself may not be written by others, sticky or not.
    let why = UserDir::open(sticky).unwrap_err();
    assert!(why.contains("can be written by others (mode 1777)"), "{why}");
}

#[test]
fn links_on_the_way_are_followed_under_the_same_rules() {
    let place = Place::new("links");
    let good = place.with("good", 0o700);
    let open = place.with("open", 0o777);
    fs::create_dir(open.join("below")).unwrap();
    symlink(&good, place.0.join("to-good")).unwrap();
    symlink("good", place.0.join("relative")).unwrap();
    symlink("open/below/../../good", place.0.join("round")).unwrap();
    symlink(open.join("below"), place.0.join("to-open")).unwrap();
    symlink("again", place.0.join("again")).unwrap();
    for name in ["to-good", "relative", "./relative/../relative"] {
        UserDir::open(place.0.join(name).join("own")).unwrap().write("file", name.as_bytes()).unwrap();
        assert_eq!(fs::read(good.join("own/file")).unwrap(), name.as_bytes());
    }
    for name in ["to-open", "round"] {
        let why = UserDir::open(place.0.join(name).join("own")).unwrap_err();
        assert!(why.contains("where others can replace it"), "{name}: {why}");
    }
    assert!(UserDir::open(place.0.join("again/own")).unwrap_err().contains("too many links"));
    // The last step is the directory itself.
    assert!(UserDir::open(place.0.join("to-good")).unwrap_err().contains("is not a directory itself"));
    fs::write(place.0.join("file"), "").unwrap();
    assert!(UserDir::open(place.0.join("file")).unwrap_err().contains("is not a directory itself"));
    assert!(UserDir::open(place.0.join("file/own")).unwrap_err().contains("is not a directory"));
}

#[test]
fn directory_is_the_one_that_was_opened_whatever_has_its_name_later() {
    let place = Place::new("moved");
    let directory = UserDir::open(place.0.join("own")).unwrap();
    directory.write("file", b"first").unwrap();
    fs::rename(place.0.join("own"), place.0.join("moved")).unwrap();
    fs::create_dir(place.0.join("own")).unwrap();
    fs::write(place.0.join("own/file"), "another's").unwrap();
    assert_eq!(directory.read("file", 99).unwrap().as_deref(), Some(&b"first"[..]));
    directory.write("later", b"second").unwrap();
    assert!(place.0.join("moved/later").exists() && !place.0.join("own/later").exists());
    assert_eq!(directory.names("").unwrap(), ["file", "later"]);
}

/// Sets when `name` was used last.
fn age(directory: &UserDir, name: &str, hours: u64) {
    let file = fs::File::open(directory.path().join(name)).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3600 * hours)).unwrap();
}

#[test]
fn files_unused_for_longest_go_when_there_are_too_many() {
    let place = Place::new("limit");
    let mut directory = UserDir::open(place.0.join("own")).unwrap();
    directory.limit = Arc::new(Limit::of(4000));
    // What is not of the kind that is written is not ours to count, however old or large.
    fs::write(place.0.join("own/notes.txt"), [0; 9000]).unwrap();
    age(&directory, "notes.txt", 9000);
    for number in 0..4u64 {
        let name = format!("{number}.cubin");
        directory.write(&name, &[0; 900]).unwrap();
        age(&directory, &name, 400 - 100 * number);
    }
    // The oldest is used again, and so is not the oldest any more.
    assert!(directory.read("0.cubin", 900).unwrap().is_some());
    directory.write("4.cubin", &[0; 900]).unwrap();
    assert_eq!(directory.names(".cubin").unwrap(), ["0.cubin", "3.cubin", "4.cubin"]);
    assert!(directory.has("notes.txt"));
    // The one that was written stays, though it is more than the limit by itself.
    directory.write("large.cubin", &[0; 5000]).unwrap();
    assert_eq!(directory.names(".cubin").unwrap(), ["large.cubin"]);
}

#[test]
fn temporary_files_of_killed_processes_go_and_fresh_ones_stay() {
    let place = Place::new("stale");
    let mut directory = UserDir::open(place.0.join("own")).unwrap();
    directory.limit = Arc::new(Limit::of(1 << 20));
    let names = [".12-0-5.tmp", ".34-1-77.tmp", ".mine.tmp"];
    names.iter().for_each(|name| fs::write(place.0.join("own").join(name), "half").unwrap());
    age(&directory, names[0], 2);
    age(&directory, names[2], 2);
    directory.write("file", b"own").unwrap();
    assert_eq!(directory.names("").unwrap(), [names[1], names[2], "file"]);
}

#[test]
fn file_that_others_can_write_or_replace_is_not_trusted() {
    let place = Place::new("trusted");
    let folder = place.with("folder", 0o755);
    let file = folder.join("file");
    fs::write(&file, "code").unwrap();
    let with = |folder_mode: u32, file_mode: u32| {
        fs::set_permissions(&folder, Permissions::from_mode(folder_mode)).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(file_mode)).unwrap();
        read_trusted(&file, 4)
    };
    assert_eq!(with(0o755, 0o644).unwrap(), b"code");
    assert_eq!(with(0o1777, 0o600).unwrap(), b"code");
    for mode in [0o664, 0o646, 0o666] {
        assert!(with(0o755, mode).unwrap_err().contains("can be written by others"), "{mode:o}");
    }
    for mode in [0o775, 0o757, 0o777] {
        let why = with(mode, 0o644).unwrap_err();
        assert!(why.contains("where others can replace it") && why.contains("copy it"), "{mode:o}: {why}");
    }
    with(0o755, 0o644).unwrap();
    assert!(read_trusted(&file, 3).unwrap_err().contains("more than 3 bytes"));
    symlink(&file, folder.join("link")).unwrap();
    assert!(read_trusted(&folder.join("link"), 4).unwrap_err().contains("is a link"));
    assert!(read_trusted(&folder, 4).unwrap_err().contains("not a regular file"));
    assert!(read_trusted(&folder.join("absent/file"), 4).is_err() && !folder.join("absent").exists());
    // The folder may be reached by a link under the same rules.
    symlink(&folder, place.0.join("way")).unwrap();
    assert_eq!(read_trusted(&place.0.join("way/file"), 4).unwrap(), b"code");
    if std::process::Command::new("mkfifo").arg(folder.join("pipe")).status().is_ok_and(|made| made.success()) {
        assert!(read_trusted(&folder.join("pipe"), 4).unwrap_err().contains("not a regular file"));
    }
}
