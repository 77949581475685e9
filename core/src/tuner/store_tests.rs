//! What is kept is found again, and nothing else is.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::tuner::{Place, Timed};

/// A directory of one test, gone afterwards.
pub(in crate::tuner) struct Directory(PathBuf);

impl Directory {
    pub(in crate::tuner) fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("polywarp-tuner-test-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Directory(path)
    }

    pub(in crate::tuner) fn place(&self) -> Place {
        Place::At(self.0.clone())
    }

    pub(in crate::tuner) fn files(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(in crate::tuner) fn identity(driver: &str) -> Identity {
    let text = str::to_owned;
    Identity { device: text("Card"), api: text("test"), driver: text(driver), kernels: text("k1") }
}

fn answer(driver: &str, key: &str, winner: &str) -> Answer {
    let times = vec![Timed { candidate: winner.to_owned(), ns: 12.5 }];
    Answer { identity: identity(driver), key: key.to_owned(), winner: winner.to_owned(), complete: true, times }
}

fn verdict(wrong: Option<&str>) -> Verdict {
    let (class, candidate) = ("f32".to_owned(), "tiled".to_owned());
    Verdict { identity: identity("1"), class, candidate, wrong: wrong.map(str::to_owned) }
}

#[test]
fn answers_and_verdicts_are_found_again_by_another_process() {
    let directory = Directory::new("again");
    let store = Store::open(&directory.place());
    let own = answer("1", "matmul", "tiled");
    store.put(&Record::Answer(own.clone()));
    store.put(&Record::Verdict(verdict(Some("wrong"))));
    let later = Store::open(&directory.place());
    assert_eq!(later.answer(&identity("1"), "matmul"), Some(own));
    assert_eq!(later.verdict(&identity("1"), "f32", "tiled"), Some(verdict(Some("wrong"))));
    assert_eq!(later.quarantine(), [verdict(Some("wrong"))]);
    // Another driver, key, class or candidate has none.
    assert_eq!(later.answer(&identity("2"), "matmul"), None);
    assert_eq!(later.answer(&identity("1"), "matmul f16"), None);
    assert_eq!(later.verdict(&identity("1"), "f16", "tiled"), None);
    assert_eq!(later.verdict(&identity("1"), "f32", "split"), None);
}

#[test]
fn verdicts_of_an_older_check_are_not_found() {
    let directory = Directory::new("older");
    let store = Store::open(&directory.place());
    let subject = |check| name(&identity("1"), &["verdict", check, "f32", "tiled"]);
    let place = |check| directory.0.join(subject(check));
    for check in ["0.0.1 1", concat!(env!("CARGO_PKG_VERSION"), " 0")] {
        fs::write(place(check), encode(&Record::Verdict(verdict(Some("wrong")))).unwrap()).unwrap();
    }
    assert_eq!(store.verdict(&identity("1"), "f32", "tiled"), None);
    assert_eq!(store.quarantine(), []);
    fs::copy(place("0.0.1 1"), place(CHECK)).unwrap();
    assert_eq!(store.verdict(&identity("1"), "f32", "tiled"), Some(verdict(Some("wrong"))));
    assert_eq!(store.clear(), Ok(3), "those of older checks go too");
}

#[test]
fn every_truncation_flip_and_extension_is_a_miss() {
    let file = encode(&Record::Answer(answer("1", "matmul", "tiled"))).unwrap();
    assert!(decode(&file).is_ok());
    for len in 0..file.len() {
        assert!(decode(&file[..len]).is_err(), "{len} of {} bytes", file.len());
    }
    for at in 0..file.len() {
        let mut flipped = file.clone();
        flipped[at] ^= 1;
        assert!(decode(&flipped).is_err(), "byte {at}");
    }
    assert!(decode(&[file.as_slice(), b" "].concat()).is_err());
}

#[test]
fn another_version_is_a_miss() {
    let file = String::from_utf8(encode(&Record::Verdict(verdict(None))).unwrap()).unwrap();
    let newer = file.replacen(&format!("polywarp-tuning {VERSION} "), "polywarp-tuning 999 ", 1);
    assert_ne!(newer, file);
    assert_eq!(decode(newer.as_bytes()), Err("it is of another version"));
}

#[test]
fn corrupted_and_renamed_files_are_ignored() {
    let directory = Directory::new("corrupt");
    let store = Store::open(&directory.place());
    store.put(&Record::Answer(answer("1", "matmul", "tiled")));
    let file = directory.files().remove(0);
    let sound = fs::read(&file).unwrap();
    fs::write(&file, &sound[..sound.len() / 2]).unwrap();
    assert_eq!(store.answer(&identity("1"), "matmul"), None);
    assert!(store.table().is_empty());
    // An entry under another's name is about something else.
    fs::write(directory.0.join(answer_name(&identity("1"), "other")), &sound).unwrap();
    assert_eq!(store.answer(&identity("1"), "other"), None);
    assert!(store.table().is_empty());
    store.put(&Record::Answer(answer("1", "matmul", "split")));
    assert_eq!(store.answer(&identity("1"), "matmul").map(|a| a.winner), Some("split".to_owned()), "written again");
}

#[cfg(unix)]
#[test]
fn a_directory_that_others_can_write_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new("open");
    fs::create_dir_all(&directory.0).unwrap();
    fs::set_permissions(&directory.0, fs::Permissions::from_mode(0o777)).unwrap();
    let store = Store::open(&directory.place());
    assert_eq!(store.path(), None);
    store.put(&Record::Verdict(verdict(None)));
    assert!(directory.files().is_empty());
    let why = store.check().unwrap_err();
    assert_eq!(why.path.as_ref(), Some(&directory.0));
    assert!(why.to_string().contains("can be written by others (mode 0777)"), "{why}");
    assert_eq!((store.merge(&Table::new()), store.clear()), (Err(why.clone()), Err(why)));
    // A fresh one is this user's alone.
    let fresh = Directory::new("fresh");
    Store::open(&fresh.place()).put(&Record::Verdict(verdict(None)));
    let mode = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&fresh.0), mode(&fresh.files()[0])), (0o700, 0o600));
}

#[test]
fn export_and_merge_keep_what_says_more() {
    let directory = Directory::new("merge");
    let store = Store::open(&directory.place());
    store.put(&Record::Answer(answer("1", "a", "tiled")));
    store.put(&Record::Answer(Answer { complete: false, ..answer("1", "b", "tiled") }));
    let mut table = Table::new();
    table.add(answer("1", "a", "split")); // says no more than what is there
    table.add(answer("1", "b", "split"));
    table.add(answer("2", "a", "split"));
    let read = Table::from_json(&table.to_json()).unwrap();
    assert_eq!(read, table);
    assert_eq!(store.merge(&read), Ok(2));
    let winner = |driver, key| store.answer(&identity(driver), key).unwrap().winner;
    assert_eq!([winner("1", "a"), winner("1", "b"), winner("2", "a")], ["tiled", "split", "split"]);
    assert_eq!(store.merge(&read), Ok(0), "twice changes nothing");
    assert_eq!((store.clear(), store.table().len()), (Ok(3), 0));
}

#[test]
fn tables_keep_every_time_and_version_1_is_read() {
    let mut table = Table::new();
    let timed = |times: &[(&str, f64)]| {
        times.iter().map(|&(candidate, ns)| Timed { candidate: candidate.to_owned(), ns }).collect::<Vec<_>>()
    };
    table.add(answer("1", "only", "tiled"));
    table.add(Answer { times: timed(&[("split", 7.25), ("tiled", 12.5)]), ..answer("1", "both", "split") });
    table.add(Answer { complete: false, times: timed(&[("split", 7.25)]), ..answer("2", "others", "tiled") });
    table.add(Answer { times: Vec::new(), ..answer("2", "none", "tiled") });
    assert_eq!(Table::from_json(&table.to_json()).unwrap(), table);
    assert_eq!(Table::from_json(&Table::new().to_json()).unwrap(), Table::new());
    let lines: Vec<String> = table.answers().map(|answer| serde_json::to_string(answer).unwrap()).collect();
    let first = format!("{{\"format\":\"polywarp tuning table\",\"version\":1,\"answers\":[{}]}}", lines.join(","));
    assert_eq!(Table::from_json(&first).unwrap(), table);
    let winners = table.winners();
    let times: Vec<_> = winners.answers().map(|answer| answer.times.clone()).collect();
    assert_eq!(times, [timed(&[("split", 7.0)]), timed(&[("tiled", 13.0)]), vec![], vec![]]);
}

#[test]
fn what_cannot_be_written_is_reported_and_not_counted() {
    let directory = Directory::new("unwritable");
    let store = Store::open(&directory.place());
    assert_eq!((store.check(), store.failure()), (Ok(()), None));
    assert!(directory.files().is_empty(), "a check leaves nothing");
    // No file takes the place of a folder, whoever runs this.
    let blocked = directory.0.join(answer_name(&identity("1"), "b"));
    fs::create_dir(&blocked).unwrap();
    let mut table = Table::new();
    for key in ["a", "b", "c"] {
        table.add(answer("1", key, "tiled"));
    }
    let refused = store.merge(&table).unwrap_err();
    assert_eq!((refused.path.as_ref(), refused.done), (Some(&directory.0), 1));
    assert!(refused.reason.starts_with("cannot be written: "), "{refused}");
    assert_eq!(store.table().len(), 1, "what was counted is there");
    assert_eq!(store.failure(), None, "whoever asked was told");
    // What nobody waits for is remembered.
    store.put(&Record::Answer(answer("1", "b", "tiled")));
    assert_eq!(store.failure().map(|failure| failure.path.as_ref()), Some(Some(&directory.0)));
    let left = store.clear().unwrap_err();
    assert_eq!((left.path, left.done), (Some(blocked), 1));
    assert!(left.reason.starts_with("cannot be removed: "), "{}", left.reason);
    assert!(store.table().is_empty(), "the others are gone");
}

#[test]
fn store_without_a_directory_says_so() {
    let store = Store::open(&Place::Nowhere);
    let refused = [store.check().err(), store.merge(&Table::new()).err(), store.clear().err()];
    for error in refused {
        assert_eq!(error.map(|error| error.path), Some(None));
    }
    store.put(&Record::Verdict(verdict(None)));
    assert_eq!(store.failure(), None, "nothing was to be kept");
}

#[test]
fn tables_that_are_none_are_refused() {
    let sound = {
        let mut table = Table::new();
        table.add(answer("1", "a", "tiled"));
        table.to_json()
    };
    assert!(Table::from_json(&sound).is_ok());
    let long = "x".repeat(500);
    for (from, to) in [
        ("polywarp tuning table", "some other table"),
        ("\"version\": 2", "\"version\": 1"),
        ("\"version\": 2", "\"version\": 3"),
        ("\"devices\"", "\"others\""),
        ("12.5", "-12.5"),
        ("12.5", "1e999"),
        ("\"winner\":\"tiled\"", "\"winner\":\"\""),
        ("\"winner\":\"tiled\"", &format!("\"winner\":\"{long}\"")),
        ("]}\n", "]"),
        ("\"key\"", "\"keys\""),
    ] {
        let broken = sound.replacen(from, to, 1);
        assert_ne!(broken, sound, "{from}");
        let refused = Table::from_json(&broken);
        assert!(
            matches!(refused, Err(crate::Error::InvalidArgument { what: "tuning table", .. })),
            "{from}: {refused:?}"
        );
    }
}

#[test]
fn the_shipped_table_can_be_read() {
    let table = Table::from_json(include_str!("shipped.json")).unwrap();
    let ops = ["matmul ", "grouped_matmul ", "reduced_matmul ", "sparse_matmul "];
    let known = |key: &str| ops.iter().any(|op| key.starts_with(op));
    assert!(table.answers().all(|answer| !answer.times.is_empty() && known(&answer.key)));
}
