//! The tuner with runners that have neither device nor clock.

mod failures;
mod threads;

use super::store::tests::{Directory, identity};
use super::*;
use crate::ops::Matmul;
use crate::{DType, Layout, Precision, Result, Shape, TensorSpec};

const CLASS: &str = "matmul test";
const MS: u64 = 1_000_000;

/// Candidates whose times are written down; the clock advances by what they take.
struct Fake {
    /// Nanoseconds of a run of each candidate; infinite when it fails.
    times: Vec<f64>,
    /// What the check of each finds.
    checks: Vec<Check>,
    situation: Situation,
    clock_ns: u64,
    check_ns: u64,
    compiles_ns: Vec<u64>,
    /// What compiling takes in truth: part of the first run, where it is thought to take anything.
    compiling_ns: f64,
    checked: Vec<usize>,
    runs: Vec<usize>,
    timing_fails_with: Option<Error>,
    /// What runs of infinite time end with.
    fails_with: Error,
    /// What earlier work did to the device.
    settles_with: Option<Error>,
    /// After so long everything takes twice as long; 0: never.
    doubles_ns: u64,
    /// How long it must run, after a pause of 20 ms, before it takes no longer than it should: until then it takes thrice as long. 0: never.
    wakes_ns: u64,
    /// For how long it has run without a pause, and until when.
    busy: (u64, u64),
}

impl Fake {
    fn new(times: &[f64]) -> Fake {
        Fake {
            times: times.to_vec(),
            checks: vec![Check::Right; times.len()],
            situation: Situation::Free,
            clock_ns: 0,
            check_ns: MS,
            compiles_ns: vec![0; times.len()],
            compiling_ns: 0.0,
            checked: Vec::new(),
            runs: vec![0; times.len()],
            timing_fails_with: None,
            fails_with: broken(),
            settles_with: None,
            doubles_ns: 0,
            wakes_ns: 0,
            busy: (0, 0),
        }
    }

    fn timed(&self) -> Vec<usize> {
        (0..self.runs.len()).filter(|&candidate| self.runs[candidate] > 0).collect()
    }
}

fn broken() -> Error {
    Error::Backend { device: "Card".to_owned(), op: "matmul".to_owned(), message: "launch failed".to_owned() }
}

impl Runner for Fake {
    fn situation(&self) -> Situation {
        self.situation
    }

    fn settle(&mut self) -> Result<()> {
        self.settles_with.clone().map_or(Ok(()), Err)
    }

    fn check(&mut self, candidate: usize) -> Result<Check> {
        self.checked.push(candidate);
        self.clock_ns += self.check_ns;
        Ok(self.checks[candidate].clone())
    }

    fn compile_ns(&self, candidate: usize) -> u64 {
        self.compiles_ns[candidate]
    }

    fn time(&mut self, candidate: usize, runs: u32) -> Result<f64> {
        if let Some(error) = &self.timing_fails_with {
            return Err(error.clone());
        }
        let mut ns = self.times[candidate];
        if ns.is_infinite() {
            return Err(self.fails_with.clone());
        }
        if self.doubles_ns > 0 {
            ns *= 1.0 + self.clock_ns as f64 / self.doubles_ns as f64;
        }
        if std::mem::take(&mut self.compiles_ns[candidate]) > 0 {
            ns += self.compiling_ns / f64::from(runs);
        }
        let (busy_ns, until_ns) = self.busy;
        let busy_ns = if self.clock_ns > until_ns + 20 * MS { 0 } else { busy_ns };
        if busy_ns < self.wakes_ns {
            ns *= 3.0;
        }
        self.runs[candidate] += runs as usize;
        let all_ns = (ns * f64::from(runs)) as u64;
        self.clock_ns += all_ns;
        self.busy = (busy_ns + all_ns, self.clock_ns);
        Ok(ns)
    }

    fn now_ns(&self) -> u64 {
        self.clock_ns
    }
}

fn key(precision: Precision) -> Key {
    let square = TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(&[512, 512]).unwrap()));
    let op = Matmul { precision, ..Matmul::product(square, square, square) };
    Key::of(&op.check().unwrap().into()).unwrap()
}

fn options(mode: Mode, place: Place) -> Options {
    Options { mode, budget: Duration::from_millis(50), place, effort: Effort::Normal }
}

fn tuner(mode: Mode) -> Tuner {
    Tuner::new(identity("1"), options(mode, Place::Nowhere))
}

const NAMES: [&str; 6] = ["c0", "c1", "c2", "c3", "c4", "c5"];

/// Offers with these estimates.
fn offers(estimates: &[f64]) -> Vec<Offer<'static>> {
    estimates.iter().zip(NAMES).map(|(&estimate_ns, name)| Offer { name, estimate_ns }).collect()
}

fn decide(tuner: &Tuner, fake: &mut Fake, estimates: &[f64]) -> Choice {
    tuner.decide(&key(Precision::Highest), CLASS, &offers(estimates), fake).unwrap()
}

#[test]
fn full_takes_the_fastest_and_times_once() {
    let (tuner, mut fake) = (tuner(Mode::Full), Fake::new(&[9e5, 5e5, 7e5]));
    let estimates = [1e5, 1.1e5, 1.2e5];
    assert_eq!(decide(&tuner, &mut fake, &estimates), Choice { candidate: 1, settled: true });
    assert_eq!((fake.checked.clone(), fake.timed()), (vec![0, 1, 2], vec![0, 1, 2]));
    let runs = fake.runs.clone();
    assert_eq!(decide(&tuner, &mut fake, &estimates).candidate, 1);
    assert_eq!(fake.runs, runs, "not timed again");
    let answer = tuner.answer(&key(Precision::Highest)).unwrap();
    assert!(answer.complete && answer.winner == "c1" && answer.times.len() == 3, "{answer:?}");
}

#[test]
fn a_hair_faster_does_not_displace_the_planners_choice() {
    let mut fake = Fake::new(&[1e6, 0.99e6]);
    assert_eq!(decide(&tuner(Mode::Full), &mut fake, &[1.0, 1.0]).candidate, 0);
}

#[test]
fn one_candidate_is_neither_checked_nor_timed() {
    let mut fake = Fake::new(&[1e6]);
    assert_eq!(decide(&tuner(Mode::Full), &mut fake, &[1.0]), Choice { candidate: 0, settled: true });
    assert!(fake.checked.is_empty() && fake.timed().is_empty());
}

#[test]
fn those_that_are_close_are_timed_again_in_turns() {
    let best = |doubles_ns| {
        let mut runner = Fake { doubles_ns, ..Fake::new(&[100_000.0, 97_000.0, 130_000.0]) };
        let choice =
            tuner(Mode::Full).decide(&key(Precision::Highest), CLASS, &offers(&[1.0; 3]), &mut runner).unwrap();
        (choice.candidate, runner.runs)
    };
    let (steady, runs) = best(0);
    assert_eq!(steady, 1);
    // A card that slows down by 1 % each millisecond: the second was timed later than the first, and came out less than 2 % faster.
    assert_eq!(best(100 * MS).0, 1);
    // One run to warm up, five samples of two; one more as what the next is compared with; seven more of those that are close.
    assert_eq!(runs[..2], [1 + 5 * 2 + 2 + 7 * 2; 2]);
    assert!(runs[2] < 1 + 5 * 2, "{runs:?}");
}

#[test]
fn hopeless_estimates_are_left_out() {
    let mut fake = Fake::new(&[1e6, 2e6, 1.0]);
    let tuner = tuner(Mode::Full);
    assert_eq!(decide(&tuner, &mut fake, &[1e6, 2e6, 3.1e6]).candidate, 0);
    assert_eq!(fake.timed(), [0, 1]);
    assert!(tuner.answer(&key(Precision::Highest)).unwrap().complete);
}

#[test]
fn a_candidate_far_behind_is_given_up_early() {
    let mut fake = Fake::new(&[1e6, 2e6]);
    decide(&tuner(Mode::Full), &mut fake, &[1e6, 1e6]);
    // A warm-up and five samples of the first, a warm-up and two of the other, and the first as it is then.
    assert_eq!(fake.runs, [7, 3]);
}

#[test]
fn budget_is_kept_and_what_is_left_is_for_the_next_process() {
    let directory = Directory::new("budget");
    let open = || Tuner::new(identity("1"), options(Mode::Full, directory.place()));
    // 8 ms each: the first takes a check and six runs, five of them against the budget of 50 ms.
    let mut fake = Fake::new(&[8e6, 7e6, 6e6, 5e6]);
    let estimates = [8e6; 4];
    assert_eq!(decide(&open(), &mut fake, &estimates).candidate, 0);
    assert!(fake.clock_ns <= MS + 8 * MS + 50 * MS, "{} ms", fake.clock_ns / MS);
    let stored = open().store().table();
    let first = stored.answers().next().unwrap();
    assert!(!first.complete && first.winner == "c0", "{first:?}");
    // Each process goes on; in the end the fastest is known, and nobody times any more.
    let mut winners = Vec::new();
    for _ in 0..8 {
        let mut fake = Fake::new(&[8e6, 7e6, 6e6, 5e6]);
        let tuner = Tuner::new(
            identity("1"),
            Options { budget: Duration::from_millis(80), ..options(Mode::Full, directory.place()) },
        );
        winners.push(decide(&tuner, &mut fake, &estimates).candidate);
        if fake.timed().is_empty() {
            break;
        }
    }
    assert_eq!(winners.last(), Some(&3), "{winners:?}");
    let table = open().store().table();
    let last = table.answers().next().unwrap();
    assert!(last.complete && last.times.len() == 4, "{last:?}");
}

#[test]
fn checks_count_and_each_process_gets_at_least_one_further() {
    let directory = Directory::new("checks");
    let mut timed = 0;
    for process in 1..=4 {
        let tuner = Tuner::new(identity("1"), options(Mode::Full, directory.place()));
        // Checks as slow as a pipeline's compilation.
        let mut fake = Fake { check_ns: 45 * MS, ..Fake::new(&[5e5, 4e5, 3e5, 2e5]) };
        decide(&tuner, &mut fake, &[1.0; 4]);
        // The first candidate, and the one that was begun when the budget ended.
        assert!(fake.clock_ns <= (45 + 1 + 50 + 45) * MS, "{} ms", fake.clock_ns / MS);
        let known = tuner.answer(&key(Precision::Highest)).unwrap().times.len();
        assert!(known > timed || known == 4, "process {process}: {known}");
        timed = known;
    }
    assert_eq!(timed, 4);
}

#[test]
fn what_must_be_compiled_is_left_to_a_larger_budget() {
    let (tuner, estimates) = (tuner(Mode::Full), [1e5, 1e5, 1e5]);
    let mut fake = Fake { compiles_ns: vec![400 * MS, 300 * MS, 0], ..Fake::new(&[3e5, 1e5, 2e5]) };
    // The planner's first is what the caller came for, compiled or not.
    assert_eq!(decide(&tuner, &mut fake, &estimates), Choice { candidate: 2, settled: true });
    assert_eq!(fake.timed(), [0, 2]);
    assert!(tuner.answer(&key(Precision::Highest)).unwrap().complete, "the next process would not reach it either");
    tuner.set(Mode::Full, Duration::from_secs(2));
    assert_eq!(decide(&tuner, &mut fake, &estimates), Choice { candidate: 1, settled: true });
}

#[test]
fn what_the_first_run_compiled_is_not_its_time() {
    let tuner = tuner(Mode::Full);
    // Longer than the budget of 50 ms, and than it is thought to take.
    let mut fake = Fake { compiles_ns: vec![40 * MS, 0], compiling_ns: 90e6, ..Fake::new(&[2e5, 3e5]) };
    assert_eq!(decide(&tuner, &mut fake, &[1.0, 1.0]).candidate, 0);
    let answer = tuner.answer(&key(Precision::Highest)).unwrap();
    assert!(answer.complete && answer.times[0].ns == 2e5, "{answer:?}");
}

#[test]
fn what_a_pause_does_to_the_clock_is_no_candidates_time() {
    let tuner = tuner(Mode::Full);
    tuner.set(Mode::Full, Duration::from_secs(2));
    // The second is compiled while the card's clock sinks; it runs slowly for 100 ms.
    let mut fake = Fake { check_ns: 60 * MS, wakes_ns: 100 * MS, ..Fake::new(&[2e5, 1e5]) };
    assert_eq!(decide(&tuner, &mut fake, &[1.0, 1.0]).candidate, 1);
    let answer = tuner.answer(&key(Precision::Highest)).unwrap();
    assert_eq!(answer.times.iter().map(|timed| timed.ns).collect::<Vec<_>>(), [2e5, 1e5]);
}

#[test]
fn candidates_are_compared_at_the_same_clock() {
    // A card that wakes up in 20 ms: the first is timed at a third of the clock of the others, and is the fastest.
    let mut fake = Fake { check_ns: 5 * MS, wakes_ns: 3 * MS, ..Fake::new(&[2e5, 3e5, 3.5e5]) };
    assert_eq!(decide(&tuner(Mode::Full), &mut fake, &[1.0; 3]).candidate, 0);
    // And one that falls asleep as the next candidate is compiled.
    let mut fake = Fake { check_ns: 25 * MS, wakes_ns: 30 * MS, ..Fake::new(&[2e5, 1.5e5]) };
    fake.busy = (30 * MS, 25 * MS);
    assert_eq!(decide(&tuner(Mode::Full), &mut fake, &[1.0; 2]).candidate, 1);
}

#[test]
fn one_timed_as_the_card_still_woke_is_timed_again() {
    for wakes_ms in 140..180 {
        let tuner = tuner(Mode::Full);
        tuner.set(Mode::Full, Duration::from_secs(2));
        let mut fake = Fake { check_ns: 15 * MS, wakes_ns: wakes_ms * MS, ..Fake::new(&[2e5, 3e5]) };
        assert_eq!(decide(&tuner, &mut fake, &[1.0, 1.0]).candidate, 0, "a card that wakes up in {wakes_ms} ms");
    }
}

#[test]
fn a_run_longer_than_the_budget_is_not_repeated() {
    let mut fake = Fake::new(&[200e6, 100e6]);
    assert_eq!(decide(&tuner(Mode::Full), &mut fake, &[1e6, 1e6]).candidate, 0);
    assert_eq!(fake.runs, [1, 0], "what the caller came for, and no more");
}

#[test]
fn off_takes_the_first_that_is_right_and_cached_what_is_remembered() {
    let directory = Directory::new("modes");
    let open = |mode| Tuner::new(identity("1"), options(mode, directory.place()));
    let estimates = [1.0, 1.0, 1.0];
    let with_wrong_first = || {
        let mut fake = Fake::new(&[3e6, 2e6, 1e6]);
        fake.checks[0] = Check::Wrong("tail".to_owned());
        fake
    };
    let mut fake = with_wrong_first();
    assert_eq!(decide(&open(Mode::Cached), &mut fake, &estimates).candidate, 1, "nothing is remembered yet");
    assert!(fake.timed().is_empty());
    assert_eq!(decide(&open(Mode::Full), &mut with_wrong_first(), &estimates).candidate, 2);
    assert_eq!(decide(&open(Mode::Cached), &mut with_wrong_first(), &estimates).candidate, 2);
    assert_eq!(decide(&open(Mode::Off), &mut with_wrong_first(), &estimates).candidate, 1);
}

/// The folder of answers cannot be written any more: a file lies in its place.
#[test]
fn what_cannot_be_stored_is_merged_into_the_process() {
    let directory = Directory::new("unwritable");
    let Place::At(path) = directory.place() else { panic!("it has a place") };
    let tuner = Tuner::new(identity("1"), options(Mode::Full, directory.place()));
    assert!(tuner.store().path().is_some());
    let _ = std::fs::remove_dir_all(&path);
    std::fs::write(&path, b"no folder").unwrap();
    let times = vec![Timed { candidate: "c1".to_owned(), ns: 1e6 }];
    let key_text = key(Precision::Highest).to_string();
    let mut table = Table::new();
    table.add(Answer { identity: identity("1"), key: key_text, winner: "c1".to_owned(), complete: true, times });
    assert_eq!(tuner.merge(&table), 1);
    let mut fake = Fake::new(&[1e6, 2e6]);
    assert_eq!(decide(&tuner, &mut fake, &[1.0, 1.0]).candidate, 1);
    assert!(fake.timed().is_empty());
    std::fs::remove_file(path).unwrap();
}

#[test]
fn recordings_time_nothing_and_settle_nothing() {
    let (tuner, estimates) = (tuner(Mode::Full), [1.0, 1.0]);
    let mut fake = Fake { situation: Situation::Recording, ..Fake::new(&[2e6, 1e6]) };
    assert_eq!(decide(&tuner, &mut fake, &estimates), Choice { candidate: 0, settled: false });
    assert!(fake.timed().is_empty() && fake.checked == [0]);
    fake.situation = Situation::Free;
    assert_eq!(decide(&tuner, &mut fake, &estimates), Choice { candidate: 1, settled: true });
    fake.situation = Situation::Recording;
    assert_eq!(decide(&tuner, &mut fake, &estimates), Choice { candidate: 1, settled: true }, "what is known is used");
}

#[test]
fn where_nothing_can_be_waited_for_the_first_is_settled_for() {
    let mut fake = Fake { situation: Situation::CannotWait, ..Fake::new(&[2e6, 1e6]) };
    fake.checks = vec![Check::Untried; 2];
    assert_eq!(decide(&tuner(Mode::Full), &mut fake, &[1.0, 1.0]), Choice { candidate: 0, settled: true });
}

#[test]
fn precisions_never_share_an_answer() {
    let tuner = tuner(Mode::Full);
    let both = offers(&[1.0, 1.0]);
    let decide = |precision, times: &[f64]| {
        tuner.decide(&key(precision), &format!("{precision:?}"), &both, &mut Fake::new(times)).unwrap().candidate
    };
    assert_eq!(decide(Precision::Medium, &[2e6, 1e6]), 1);
    assert_eq!(decide(Precision::Highest, &[1e6, 2e6]), 0);
    assert_eq!(decide(Precision::Medium, &[1e6, 2e6]), 1);
}

#[test]
fn an_answer_whose_winner_is_not_on_offer_is_found_anew() {
    let directory = Directory::new("offer");
    let open = || Tuner::new(identity("1"), options(Mode::Full, directory.place()));
    assert_eq!(decide(&open(), &mut Fake::new(&[3e6, 2e6, 1e6]), &[1.0, 1.0, 1.0]).candidate, 2);
    assert_eq!(decide(&open(), &mut Fake::new(&[3e6, 2e6]), &[1.0, 1.0]).candidate, 1);
}

#[test]
fn a_merged_table_decides_without_timing_but_not_without_a_check() {
    let tuner = tuner(Mode::Full);
    let mut table = Table::new();
    let times = vec![Timed { candidate: "c2".to_owned(), ns: 1.0 }];
    let (identity, key) = (identity("1"), key(Precision::Highest).to_string());
    table.add(Answer { identity, key, winner: "c2".to_owned(), complete: true, times });
    tuner.merge(&table);
    let mut fake = Fake::new(&[1e6, 2e6, 3e6]);
    assert_eq!(decide(&tuner, &mut fake, &[1.0, 1.0, 1.0]).candidate, 2);
    assert!(fake.timed().is_empty() && fake.checked == [2]);
}

#[test]
fn retune_finds_out_anew_whatever_was_known() {
    let directory = Directory::new("retune");
    let tuner = Tuner::new(identity("1"), options(Mode::Full, directory.place()));
    assert_eq!(decide(&tuner, &mut Fake::new(&[1e6, 2e6]), &[1.0, 1.0]).candidate, 0);
    tuner.retune(&key(Precision::Highest));
    assert!(tuner.store().table().is_empty());
    assert_eq!(decide(&tuner, &mut Fake::new(&[2e6, 1e6]), &[1.0, 1.0]).candidate, 1);
    assert_eq!(tuner.store().table().answers().next().map(|a| a.winner.clone()), Some("c1".to_owned()));
}

#[test]
fn progress_is_told_after_a_second() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener = Arc::clone(&told);
    set_progress(Some(Box::new(move |progress| listener.lock().unwrap().push(progress.clone()))));
    let tuner = Tuner::new(
        identity("progress"),
        Options { budget: Duration::from_secs(60), ..options(Mode::Full, Place::Nowhere) },
    );
    decide(&tuner, &mut Fake::new(&[800e6, 700e6, 600e6]), &[1e6; 3]);
    set_progress(None);
    let told: Vec<Progress> = std::mem::take(&mut told.lock().unwrap());
    let own: Vec<&Progress> = told.iter().filter(|p| p.key.contains("512%128") && p.total == 3).collect();
    assert!(own.iter().any(|p| p.done == 2 && p.candidate == "c2" && p.spent >= Duration::from_secs(1)), "{told:?}");
    assert!(own.iter().all(|p| p.spent >= Duration::from_secs(1)), "{told:?}");
}
