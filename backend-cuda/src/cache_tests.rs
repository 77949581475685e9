//! The cache refuses everything but what was written, whoever writes.

use std::fs;

use super::*;
use crate::params::{Field, Value};

fn entry(seed: u8) -> Entry {
    let metadata = Metadata {
        symbol: "main".to_owned(),
        block: [64, 2, 1],
        dynamic_shared_bytes: 0,
        params_bytes: 24,
        fields: vec![
            Field { offset: 0, value: Value::Uniform(0, 0, 16) },
            Field { offset: 16, value: Value::Address(0, 1) },
        ],
    };
    Entry { metadata, cubin: (0..200u32).map(|i| (i as u8).wrapping_mul(seed)).collect() }
}

fn key() -> Key {
    Key::of(&["@compute ...", "sm_90"])
}

/// A directory of one test, gone afterwards.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("polywarp-cache-test-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Directory(path)
    }

    fn files(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn decode_gives_back_what_was_encoded() {
    let file = encode(&key(), &entry(3)).unwrap();
    assert_eq!(decode(&key(), &file).unwrap(), entry(3));
}

#[test]
fn every_truncation_and_extension_is_refused() {
    let file = encode(&key(), &entry(3)).unwrap();
    for len in 0..file.len() {
        assert!(decode(&key(), &file[..len]).is_err(), "{len} of {} bytes", file.len());
    }
    assert!(decode(&key(), &[file.as_slice(), &[0]].concat()).is_err());
}

#[test]
fn every_changed_byte_is_refused() {
    let file = encode(&key(), &entry(3)).unwrap();
    for at in 0..file.len() {
        for flip in [1u8, 0x80, 0xff] {
            let mut changed = file.clone();
            changed[at] ^= flip;
            assert!(decode(&key(), &changed).is_err(), "byte {at} ^ {flip:#x}");
        }
    }
}

#[test]
fn entry_under_another_key_is_refused() {
    let file = encode(&key(), &entry(3)).unwrap();
    assert_eq!(decode(&Key::of(&["another"]), &file).unwrap_err(), "it is another kernel's");
}

#[test]
fn unsound_metadata_is_refused_though_the_digest_is_right() {
    let mut bad = entry(3);
    bad.metadata.fields[1].offset = 4000;
    let file = encode(&key(), &bad).unwrap();
    assert_eq!(decode(&key(), &file).unwrap_err(), "its metadata cannot be true");
}

#[test]
fn key_depends_on_every_part_and_where_it_ends() {
    let keys = [Key::of(&["ab", "c"]), Key::of(&["a", "bc"]), Key::of(&["abc"]), Key::of(&["c", "ab"]), Key::of(&[])];
    for (i, a) in keys.iter().enumerate() {
        for b in &keys[i + 1..] {
            assert_ne!(a, b);
        }
    }
}

#[test]
fn cache_keeps_entries_for_the_next_process() {
    let directory = Directory::new("keeps");
    let cache = DiskCache::at(directory.0.join("deep").join("er"));
    assert_eq!(cache.get(&key()), None);
    cache.put(&key(), &entry(3));
    assert_eq!(DiskCache::at(directory.0.join("deep").join("er")).get(&key()), Some(entry(3)));
    assert_eq!(cache.get(&Key::of(&["another"])), None);
}

#[test]
fn torn_or_foreign_files_are_misses_and_are_replaced() {
    let directory = Directory::new("torn");
    let cache = DiskCache::at(directory.0.clone());
    let path = directory.0.join(key().file_name(&KERNEL));
    for content in [&b""[..], b"pwcubin1", b"something else entirely"] {
        fs::write(&path, content).unwrap();
        assert_eq!(cache.get(&key()), None);
        cache.put(&key(), &entry(5));
        assert_eq!(cache.get(&key()), Some(entry(5)));
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(cache.get(&key()), None);
    cache.put(&key(), &entry(5)); // cannot replace a directory: logged
    assert_eq!(cache.get(&key()), None);
    assert_eq!(directory.files(), [path], "nothing temporary is left");
}

#[test]
fn concurrent_writers_and_readers_never_see_half_an_entry() {
    let directory = Directory::new("race");
    let cache = DiskCache::at(directory.0.clone());
    cache.put(&key(), &entry(1));
    std::thread::scope(|scope| {
        for seed in 1..5 {
            let cache = &cache;
            scope.spawn(move || {
                for _ in 0..50 {
                    cache.put(&key(), &entry(seed));
                    let found = cache.get(&key()).expect("an entry is always there");
                    assert!((1..5).any(|s| found == entry(s)));
                }
            });
        }
    });
    assert_eq!(directory.files().len(), 1, "nothing temporary is left");
}

#[cfg(unix)]
#[test]
fn files_and_directory_are_the_users_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new("modes");
    DiskCache::at(directory.0.clone()).put(&key(), &entry(3));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory.0), 0o700);
    assert_eq!(directory.files().iter().map(|path| mode(path)).collect::<Vec<_>>(), [0o600]);
}

#[cfg(unix)]
#[test]
fn directory_that_others_write_or_a_link_is_not_trusted() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new("untrusted");
    DiskCache::at(directory.0.clone()).put(&key(), &entry(3));
    for mode in [0o720, 0o702, 0o777] {
        fs::set_permissions(&directory.0, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(DiskCache::at(directory.0.clone()).get(&key()), None, "mode {mode:o}");
    }
    fs::set_permissions(&directory.0, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(DiskCache::at(directory.0.clone()).get(&key()).is_some());
    let link = Directory::new("link");
    std::os::unix::fs::symlink(&directory.0, &link.0).unwrap();
    assert_eq!(DiskCache::at(link.0.clone()).get(&key()), None);
    fs::remove_file(&link.0).unwrap();
    // An entry that is a link is not followed either.
    let path = directory.0.join(key().file_name(&KERNEL));
    let elsewhere = directory.0.join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    assert_eq!(DiskCache::at(directory.0.clone()).get(&key()), None);
}

#[cfg(target_os = "linux")]
#[test]
fn directory_of_another_user_is_not_trusted() {
    use std::os::unix::fs::MetadataExt;
    let own = fs::metadata("/proc/self").unwrap().uid();
    // Any directory of another user will do; without one there is nothing to refuse.
    let others = ["/root", "/home", "/usr"].iter().map(Path::new);
    let Some(other) = others.into_iter().find(|path| fs::metadata(path).is_ok_and(|found| found.uid() != own)) else {
        let directory = Directory::new("owner");
        fs::create_dir(&directory.0).unwrap();
        if std::os::unix::fs::chown(&directory.0, Some(own + 1), None).is_ok() {
            assert!(UserDir::open(directory.0.clone()).is_err_and(|why| why.contains("belongs to user")));
        }
        return;
    };
    assert!(UserDir::open(other.to_owned()).is_err());
}
