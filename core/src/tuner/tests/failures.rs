//! Candidates that are wrong, that fail, and that take the device with them.

use super::*;

#[test]
fn wrong_candidates_are_in_quarantine_for_every_process() {
    let directory = Directory::new("quarantine");
    let open = || Tuner::new(identity("1"), options(Mode::Full, directory.place()));
    let mut fake = Fake::new(&[1e5, 9e5]);
    fake.checks[0] = Check::Wrong("element [3] is 7".to_owned());
    let first = open();
    assert_eq!(decide(&first, &mut fake, &[1.0, 1.0]).candidate, 1);
    assert_eq!(fake.timed(), [1], "what is wrong is not timed");
    let reported = first.quarantine();
    assert!(reported.len() == 1 && reported[0].candidate == "c0", "{reported:?}");
    assert_eq!(reported[0].wrong.as_deref(), Some("element [3] is 7"));
    // The next process takes the word for it: of what is wrong, and of what is right.
    let mut fake = Fake::new(&[1e5, 9e5]);
    assert_eq!(decide(&open(), &mut fake, &[1.0, 1.0]).candidate, 1);
    assert!(fake.checked.is_empty());
    // Another driver is another matter.
    let other = Tuner::new(identity("2"), options(Mode::Full, directory.place()));
    assert_eq!(decide(&other, &mut fake, &[1.0, 1.0]).candidate, 0);
}

#[test]
fn nothing_right_is_a_typed_error_that_says_why() {
    let mut fake = Fake::new(&[1e5, 1e5]);
    fake.checks = vec![Check::Wrong("zeros".to_owned()), Check::Wrong("does not run".to_owned())];
    let refused = tuner(Mode::Full).decide(&key(Precision::Highest), CLASS, &offers(&[1.0, 1.0]), &mut fake);
    let Err(Error::Backend { op, message, .. }) = refused else { panic!("{refused:?}") };
    assert!(op == "matmul" && message.contains("c0: zeros") && message.contains("c1: does not run"), "{message}");
}

#[test]
fn a_candidate_that_does_not_run_is_not_chosen() {
    let mut fake = Fake::new(&[f64::INFINITY, 2e6, 3e6]);
    let tuner = tuner(Mode::Full);
    assert_eq!(decide(&tuner, &mut fake, &[1.0, 1.0, 1.0]).candidate, 1);
    assert_eq!(tuner.quarantine().len(), 1);
}

/// Its class has no sizes: of a smaller op it may be the best.
#[test]
fn a_candidate_whose_scratch_space_is_too_large_is_left_out_and_not_blamed() {
    let too_large = Error::BindingTooLarge { device: "Card".to_owned(), size: 200, limit: 100 };
    let mut fake = Fake { fails_with: too_large, ..Fake::new(&[f64::INFINITY, 2e6, 3e6]) };
    let tuner = tuner(Mode::Full);
    assert_eq!(decide(&tuner, &mut fake, &[1.0, 1.0, 1.0]).candidate, 1);
    assert!(tuner.quarantine().is_empty());
}

#[test]
fn what_earlier_work_did_to_the_device_is_no_verdict() {
    let directory = Directory::new("settled");
    let open = || Tuner::new(identity("1"), options(Mode::Full, directory.place()));
    let lost = Error::DeviceLost { device: "Card".to_owned(), reason: "by a shader of the user's".to_owned() };
    let mut fake = Fake { settles_with: Some(lost), ..Fake::new(&[1e6, 2e6]) };
    let refused = open().decide(&key(Precision::Highest), CLASS, &offers(&[1.0, 1.0]), &mut fake);
    assert!(matches!(refused, Err(Error::DeviceLost { .. })) && fake.checked.is_empty(), "{refused:?}");
    let mut fake = Fake::new(&[1e6, 2e6]);
    assert_eq!(decide(&open(), &mut fake, &[1.0, 1.0]).candidate, 0);
}

#[test]
fn errors_that_are_no_candidates_fault_reach_the_caller() {
    let lost = Error::DeviceLost { device: "Card".to_owned(), reason: "gone".to_owned() };
    let foreign = crate::foreign_buffer("Card");
    for error in [lost, foreign] {
        let (tuner, mut fake) = (tuner(Mode::Full), Fake::new(&[1e5, 1e5]));
        fake.timing_fails_with = Some(error.clone());
        let got = tuner.decide(&key(Precision::Highest), CLASS, &offers(&[1.0, 1.0]), &mut fake).unwrap_err();
        assert_eq!(got.to_string(), error.to_string());
        assert!(tuner.quarantine().is_empty());
    }
}

#[test]
fn a_winner_that_fails_later_is_evicted() {
    let directory = Directory::new("evict");
    let open = || Tuner::new(identity("1"), options(Mode::Full, directory.place()));
    let tuner = open();
    let (mut fake, estimates) = (Fake::new(&[3e6, 1e6, 2e6]), [1.0, 1.0, 1.0]);
    assert_eq!(decide(&tuner, &mut fake, &estimates).candidate, 1);
    let generation = tuner.generation();
    tuner.failed(&key(Precision::Highest), CLASS, "c1", &broken());
    assert!(tuner.generation() > generation, "plans chosen before are looked at again");
    assert_eq!(decide(&tuner, &mut fake, &estimates).candidate, 2);
    assert!(tuner.quarantine()[0].wrong.as_ref().unwrap().contains("launch failed"));
    // The next process may try it again, after a check.
    let (next, mut fake) = (open(), Fake::new(&[3e6, 1e6, 2e6]));
    assert_eq!(decide(&next, &mut fake, &estimates).candidate, 1);
    assert!(fake.checked.contains(&1));
}

#[test]
fn a_candidate_that_loses_the_device_while_it_is_timed_is_not_tried_by_the_next_process() {
    let directory = Directory::new("lost");
    let open = || Tuner::new(identity("1"), options(Mode::Full, directory.place()));
    let lost = Error::DeviceLost { device: "Card".to_owned(), reason: "an illegal address".to_owned() };
    let mut fake = Fake { timing_fails_with: Some(lost), ..Fake::new(&[1e6, 2e6]) };
    let refused = open().decide(&key(Precision::Highest), CLASS, &offers(&[1.0, 1.0]), &mut fake);
    assert!(matches!(refused, Err(Error::DeviceLost { .. })), "{refused:?}");
    let (next, mut fake) = (open(), Fake::new(&[1e6, 2e6]));
    assert_eq!(decide(&next, &mut fake, &[1.0, 1.0]).candidate, 1);
    assert!(next.quarantine()[0].wrong.as_ref().unwrap().contains("while it was timed"));
}

#[test]
fn without_room_for_a_check_the_first_is_used_for_now() {
    let (tuner, estimates) = (tuner(Mode::Full), [1.0, 1.0]);
    let mut fake = Fake { checks: vec![Check::Untried; 2], ..Fake::new(&[2e6, 1e6]) };
    assert_eq!(decide(&tuner, &mut fake, &estimates), Choice { candidate: 0, settled: false });
    assert!(fake.timed().is_empty() && tuner.quarantine().is_empty());
    // One that is known to be right goes before it.
    fake.checks[1] = Check::Right;
    assert_eq!(decide(&tuner, &mut fake, &estimates).candidate, 1);
}

#[test]
fn short_of_scratch_space_is_no_verdict() {
    let (tuner, mut fake) = (tuner(Mode::Full), Fake::new(&[2e6, 1e6]));
    let (device, limit) = ("Card".to_owned(), None);
    fake.timing_fails_with =
        Some(Error::OutOfMemory { device, requested: 1, in_use: 0, cached: 0, limit, largest: Default::default() });
    assert_eq!(decide(&tuner, &mut fake, &[1.0, 1.0]).candidate, 0);
    assert!(tuner.quarantine().is_empty());
}

#[test]
fn a_lost_device_during_a_check_is_remembered_for_the_next_process() {
    struct Deadly;
    impl Runner for Deadly {
        fn situation(&self) -> Situation {
            Situation::Free
        }
        fn check(&mut self, _: usize) -> Result<Check> {
            let text = str::to_owned;
            Err(Error::DevicePoisoned { device: text("Card"), first_error: text("700"), op: text("check") })
        }
        fn time(&mut self, _: usize, _: u32) -> Result<f64> {
            Ok(1.0)
        }
        fn now_ns(&self) -> u64 {
            0
        }
    }
    let directory = Directory::new("lost");
    let open = || Tuner::new(identity("1"), options(Mode::Full, directory.place()));
    let refused = open().decide(&key(Precision::Highest), CLASS, &offers(&[1.0, 1.0]), &mut Deadly);
    assert!(matches!(refused, Err(Error::DevicePoisoned { .. })), "{refused:?}");
    let mut fake = Fake::new(&[1e6, 2e6]);
    assert_eq!(decide(&open(), &mut fake, &[1.0, 1.0]).candidate, 1);
    assert!(!fake.checked.contains(&0));
}
