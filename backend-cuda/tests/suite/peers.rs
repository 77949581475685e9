//! Access between two cards, which copies between them need to be direct: asked for once per ordered pair, and done without
//! where it is refused. On the interpreted driver with two cards, which counts; how fast copies are is `tests/two_cards.rs`'s.

use crate::common::{Control, assert_alive, download, interpreted, is_child, on_interpreted, upload, usable};
use polywarp_core::Error;
use polywarp_cuda::{CudaBackend, Options};

const ENABLE: &str = "cuCtxEnablePeerAccess";
const INVALID_VALUE: u32 = 1;
const PEER_ACCESS_UNSUPPORTED: u32 = 217;
const TOO_MANY_PEERS: u32 = 711;
const LAUNCH_FAILED: u32 = 719;

/// Two devices, in the process that was started for it.
fn two() -> ([CudaBackend; 2], Control) {
    assert!(interpreted());
    let cards = usable();
    ([0, 1].map(|card: usize| cards[card].open(Options::default()).unwrap()), Control::new())
}

/// Copies words there and back, and sees that they arrive.
fn copy_both_ways(a: &CudaBackend, b: &CudaBackend) {
    let (x, y, z) = (upload(a, &[1, 2, 3, 4]), upload(b, &[0; 4]), upload(a, &[0; 4]));
    a.copy_to_peer(&x, 4, b, &y, 0, 12).unwrap();
    b.copy_to_peer(&y, 0, a, &z, 4, 8).unwrap();
    assert_eq!((download(b, &y), download(a, &z)), (vec![2, 3, 4, 0], vec![0, 2, 3, 0]));
}

#[test]
fn access_is_asked_for_once_per_ordered_pair() {
    const NAME: &str = "access_is_asked_for_once_per_ordered_pair";
    if !is_child(NAME) {
        on_interpreted(NAME, &[("INTERPRETED_DEVICES", "2")]);
        return;
    }
    let ([a, b], control) = two();
    control.count(ENABLE);
    let (x, y) = (upload(&a, &[7]), upload(&b, &[8]));
    a.copy_to_peer(&x, 0, &b, &y, 0, 0).unwrap();
    assert_eq!(control.calls(), 0, "nothing was copied");
    a.copy_to_peer(&x, 0, &b, &y, 0, 4).unwrap();
    assert_eq!(control.calls(), 1, "one way only");
    (0..3).for_each(|_| copy_both_ways(&a, &b));
    assert_eq!(control.calls(), 2, "and the other way");
    // Later devices on the same cards ask again, and are told that it is so already.
    let [c, d] = two().0;
    copy_both_ways(&c, &d);
    assert_eq!(control.calls(), 4);
    // Two devices of one card have one memory.
    copy_both_ways(&a, &c);
    assert_eq!((control.calls(), control.staged()), (4, 0));
    println!("SURVIVED");
}

#[test]
fn cards_that_cannot_reach_each_other_copy_all_the_same() {
    const NAME: &str = "cards_that_cannot_reach_each_other_copy_all_the_same";
    if !is_child(NAME) {
        on_interpreted(NAME, &[("INTERPRETED_DEVICES", "2"), ("INTERPRETED_PEERS", "0")]);
        return;
    }
    let ([a, b], control) = two();
    control.count("cuDeviceCanAccessPeer");
    (0..2).for_each(|_| copy_both_ways(&a, &b));
    assert_eq!((control.calls(), control.staged()), (2, 4), "asked once each way");
    control.count(ENABLE);
    copy_both_ways(&a, &b);
    assert_eq!(control.calls(), 0);
    println!("SURVIVED");
}

#[test]
fn access_that_the_driver_refuses_is_done_without() {
    const NAME: &str = "access_that_the_driver_refuses_is_done_without";
    if !is_child(NAME) {
        on_interpreted(NAME, &[("INTERPRETED_DEVICES", "2")]);
        return;
    }
    for (function, code) in
        [(ENABLE, PEER_ACCESS_UNSUPPORTED), (ENABLE, TOO_MANY_PEERS), ("cuDeviceCanAccessPeer", INVALID_VALUE)]
    {
        let ([a, b], control) = two();
        let staged = control.staged();
        control.fail(function, code, 0);
        let (x, y) = (upload(&a, &[1, 2]), upload(&b, &[0; 2]));
        for _ in 0..2 {
            a.copy_to_peer(&x, 0, &b, &y, 0, 8).unwrap();
            assert_eq!(download(&b, &y), [1, 2], "{function} {code}");
        }
        assert_eq!((control.calls(), control.staged() - staged), (1, 2), "{function} {code}: asked once");
    }
    // A fault of the card is not taken for a refusal.
    let ([a, b], control) = two();
    let (x, y) = (upload(&a, &[1, 2]), upload(&b, &[0; 2]));
    control.fail(ENABLE, LAUNCH_FAILED, 0);
    let failed = a.copy_to_peer(&x, 0, &b, &y, 0, 8);
    assert!(matches!(failed, Err(Error::DevicePoisoned { .. })), "{failed:?}");
    assert_alive(&b);
    println!("SURVIVED");
}
