//! Two cards of one machine, in one process: what one card alone cannot show. `POLYWARP_REQUIRE_PEERS=1` demands two; with
//! one card it is said that nothing ran. `POLYWARP_LIST_CARDS=1` makes a process of this program print what it sees and end,
//! for the tests that start it with other values of CUDA_VISIBLE_DEVICES.

mod common;

use std::process::Command;
use std::time::{Duration, Instant};

use common::{add_kernel, assert_alive, bind, download, upload, usable};
use polywarp_core::{Backend, DType, Device, Error, Tensor};
use polywarp_cuda::{CardEntry, CudaBackend, Options, card, cards};

const LIST: &str = "POLYWARP_LIST_CARDS";
/// Bytes of the copies that are timed: long enough that starting them does not show.
const LARGE: u64 = 1 << 28;

/// The first two cards; `None` when there is one only, which is said.
fn two() -> Option<[CardEntry; 2]> {
    let mut found = usable().into_iter();
    if let (Some(one), Some(other)) = (found.next(), found.next()) {
        return Some([one, other]);
    }
    let required = std::env::var("POLYWARP_REQUIRE_PEERS").is_ok_and(|value| !value.is_empty());
    assert!(!required, "POLYWARP_REQUIRE_PEERS demands two cards");
    println!("NOT RUN: it needs two cards");
    None
}

fn open(cards: &[CardEntry; 2]) -> [CudaBackend; 2] {
    [0, 1].map(|i| cards[i].open(Options::default()).unwrap())
}

/// Not a test of its own: the process that `listed` starts.
#[test]
fn list_of_cards_is_printed_when_asked_for() {
    if std::env::var_os(LIST).is_none() {
        return;
    }
    match cards() {
        Ok(found) => found.iter().for_each(|entry| println!("CARD {} {} {}", entry.id, entry.uuid, entry.pci_bus)),
        Err(error) => println!("NONE {error}"),
    }
}

/// UUIDs that a process sees with this CUDA_VISIBLE_DEVICES, or why none.
fn listed(visible: Option<&str>) -> Result<Vec<String>, String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "list_of_cards_is_printed_when_asked_for", "--nocapture"]).env(LIST, "1");
    match visible {
        Some(value) => command.env("CUDA_VISIBLE_DEVICES", value),
        None => command.env_remove("CUDA_VISIBLE_DEVICES"),
    };
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    if let Some(why) = text.lines().find_map(|line| line.strip_prefix("NONE ")) {
        return Err(why.to_owned());
    }
    let lines = text.lines().filter_map(|line| line.strip_prefix("CARD "));
    Ok(lines
        .enumerate()
        .map(|(ordinal, line)| {
            let mut words = line.split(' ');
            assert_eq!(words.next(), Some(format!("cuda:{ordinal}").as_str()), "{text}");
            words.next().unwrap().to_owned()
        })
        .collect())
}

#[test]
fn cards_are_told_apart_and_found_by_each_of_their_names() {
    let Some(both) = two() else { return };
    for entry in &both {
        println!("{} {} {} {}", entry.id, entry.name, entry.uuid, entry.pci_bus);
        for name in [&entry.id, &entry.uuid, &entry.pci_bus] {
            assert_eq!(card(name).unwrap().uuid, entry.uuid, "{name}");
        }
        let backend = entry.open(Options::default()).unwrap();
        assert_eq!(backend.info().id, entry.id);
        assert_eq!(backend.info().pci_bus.as_deref(), Some(entry.pci_bus.as_str()));
    }
    assert!(both[0].uuid != both[1].uuid && both[0].pci_bus != both[1].pci_bus);
}

#[test]
fn visible_devices_are_honoured_in_their_order() {
    let Some(_) = two() else { return };
    let all = listed(None).unwrap();
    assert!(all.len() >= 2);
    let [first, second] = [all[0].as_str(), all[1].as_str()];
    assert_eq!(listed(Some("1")).unwrap(), [second]);
    assert_eq!(listed(Some("1,0")).unwrap(), [second, first]);
    assert_eq!(listed(Some(&format!("{second},{first}"))).unwrap(), [second, first]);
    assert_eq!(listed(Some(&second[..12])).unwrap(), [second], "the beginning of a UUID");
    // The driver stops at the first number that is no card.
    assert_eq!(listed(Some("0,99,1")).unwrap(), [first]);
    for nothing in ["", "-1", "99"] {
        let why = listed(Some(nothing)).unwrap_err();
        println!("CUDA_VISIBLE_DEVICES={nothing:?}: {why}");
        assert!(why.contains("CUDA_VISIBLE_DEVICES"), "{why}");
    }
}

#[test]
fn two_cards_compute_at_the_same_time_and_the_same() {
    let Some(both) = two() else { return };
    let work = |entry: &CardEntry| -> (Vec<f32>, Duration) {
        let device = Device::new(entry.open(Options::default()).unwrap());
        let x = Tensor::arange(&device, DType::F32, 0, 1, 1 << 20).unwrap().reshape([1024, 1024]).unwrap();
        let x = x.mul(&Tensor::full(&device, DType::F32, [1024, 1024], 1e-6).unwrap()).unwrap();
        let y = x.matmul(&x).unwrap();
        let first = y.add(&x).unwrap().to_vec::<f32>().unwrap();
        let start = Instant::now();
        for _ in 0..2000 {
            drop(x.matmul(&x).unwrap());
        }
        device.synchronize().unwrap();
        (first, start.elapsed())
    };
    let alone = [work(&both[0]), work(&both[1])];
    let together = std::thread::scope(|scope| {
        let threads = [&both[0], &both[1]].map(|entry| scope.spawn(|| work(entry)));
        threads.map(|thread| thread.join().unwrap())
    });
    for (alone, together) in alone.iter().zip(&together) {
        println!("2000 products alone {:?}, beside the other card {:?}", alone.1, together.1);
        assert_eq!(alone.0, together.0);
    }
    assert_eq!(alone[0].0, alone[1].0, "cards of one kind");
}

#[test]
fn buffers_of_one_card_are_refused_by_the_other() {
    let Some(both) = two() else { return };
    let [a, b] = open(&both).map(Device::new);
    let x = Tensor::full(&a, DType::F32, [64], 1.0).unwrap();
    let y = Tensor::full(&b, DType::F32, [64], 2.0).unwrap();
    let refused = x.add(&y);
    assert!(matches!(refused, Err(Error::DeviceMismatch { .. })), "{refused:?}");
    assert_eq!(x.add(&y.to_device(&a).unwrap()).unwrap().to_vec::<f32>().unwrap(), [3.0; 64]);
}

#[test]
fn copies_between_cards_arrive_and_are_timed() {
    let Some(both) = two() else { return };
    let [a, b] = open(&both);
    for (from, to) in [(&a, &b), (&b, &a)] {
        let words: Vec<u32> = (0..LARGE as u32 / 4).collect();
        let (x, y) = (upload(from, &words), upload(to, &vec![7; words.len()]));
        from.copy_to_peer(&x, 400, to, &y, 8, 4000).unwrap();
        let seen = download(to, &y);
        assert_eq!(seen[2..1002], words[100..1100]);
        assert!(seen[..2].iter().chain(&seen[1002..]).all(|&word| word == 7));
        from.copy_to_peer(&x, 0, to, &y, 0, LARGE).unwrap();
        assert!(download(to, &y) == words, "a copy of {LARGE} bytes");
        let start = Instant::now();
        let rounds = 20;
        for _ in 0..rounds {
            from.copy_to_peer(&x, 0, to, &y, 0, LARGE).unwrap();
        }
        let given = start.elapsed();
        to.synchronize().unwrap();
        let rate = (rounds * LARGE) as f64 / start.elapsed().as_secs_f64() / 1e9;
        println!("{} to {}: {rate:.1} GB/s; given to the driver after {given:?}", from.info().id, to.info().id);
        drop((x, y));
    }
    assert_alive(&a);
    assert_alive(&b);
}

#[test]
fn copies_are_ordered_with_the_work_of_both_cards() {
    let Some(both) = two() else { return };
    let [a, b] = open(&both);
    let words = 1 << 22;
    let groups = words as u32 / 64;
    let (x, y) = (upload(&a, &vec![0; words]), upload(&b, &vec![0; words]));
    for round in 0..20u32 {
        (0..5).for_each(|_| a.launch(&add_kernel(1), [groups, 1, 1], &[bind(0, &x)]).unwrap());
        // The last round's work of `b` on `y` must be done before this overwrites it.
        a.copy_to_peer(&x, 0, &b, &y, 0, 4 * words as u64).unwrap();
        b.launch(&add_kernel(1000), [groups, 1, 1], &[bind(0, &y)]).unwrap();
        b.copy_to_peer(&y, 0, &a, &x, 0, 4 * words as u64).unwrap();
        assert!(round < 19 || download(&a, &x).iter().all(|&word| word == 20 * 1005));
    }
    // Dropped while the copy may be under way: the pools keep the order.
    let z = upload(&b, &vec![1; words]);
    a.copy_to_peer(&x, 0, &b, &z, 0, 4 * words as u64).unwrap();
    drop(x);
    let again = upload(&a, &vec![9; words]);
    assert!(download(&b, &z).iter().all(|&word| word == 20 * 1005));
    assert!(download(&a, &again).iter().all(|&word| word == 9));
}
