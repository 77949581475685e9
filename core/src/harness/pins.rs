//! For tests: texts that users' machines keep, and which therefore change on purpose only, as digests in a file.
//!
//! The values of a case follow from its name, stores of tuned answers are found by the texts of keys and candidates, caches of
//! compiled kernels by their WGSL. A change of any of them shows as a line of the file; `POLYWARP_PINS=renew cargo test pins`
//! writes the files anew, and the commit says why.

use std::fmt::Write;

/// Digests, a line each: a name, how many texts, and FNV-1a of them in order.
#[derive(Debug, Default)]
pub struct Pins(String);

impl Pins {
    /// Adds a line called `name` for `texts`.
    pub fn pin<T: AsRef<str>>(&mut self, name: &str, texts: impl IntoIterator<Item = T>) {
        // Fowler, Noll, Vo: 64 bits of FNV-1a.
        let (mut count, mut hash) = (0u64, 0xcbf2_9ce4_8422_2325u64);
        for text in texts {
            count += 1;
            for byte in text.as_ref().bytes().chain([0]) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
        // Writing into a String cannot fail.
        let _ = writeln!(self.0, "{name} {count} {hash:016x}");
    }

    /// What differs from `kept`, the text of the file at `path`; nothing where the lines are the same or have been renewed.
    ///
    /// # Errors
    /// The lines that differ, in a message that says what to do; or that the file cannot be written.
    pub fn differences(&self, kept: &str, path: &str) -> Result<(), String> {
        let Some(differences) = self.compared(kept, path) else { return Ok(()) };
        if renews() {
            return std::fs::write(path, &self.0).map_err(|error| format!("{path}: {error}"));
        }
        Err(differences)
    }

    fn compared(&self, kept: &str, path: &str) -> Option<String> {
        let missing = |from: &str, of: &str| -> Vec<String> {
            of.lines().filter(|line| !from.lines().any(|other| other == *line)).map(str::to_owned).collect()
        };
        let (gone, new) = (missing(&self.0, kept), missing(kept, &self.0));
        let list = |lines: &[String]| lines.iter().map(|line| format!("\n    {line}")).collect::<String>();
        (!gone.is_empty() || !new.is_empty()).then(|| {
            format!(
                "texts that must not change by accident are not those of {path}\n  before:{}\n  now:{}\nPOLYWARP_PINS=renew \
                 keeps them",
                list(&gone),
                list(&new)
            )
        })
    }
}

/// Whether the files are to be written anew.
pub(crate) fn renews() -> bool {
    std::env::var("POLYWARP_PINS").is_ok_and(|value| value == "renew")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::products::products;
    use crate::harness::{BenchSize, Level};
    use crate::ops::REGISTRY;
    use crate::tuner::Key;

    #[test]
    fn what_changed_is_named() {
        let mut pins = Pins::default();
        pins.pin("a", ["x", "y"]);
        let kept = pins.0.clone();
        assert_eq!(pins.compared(&kept, "here"), None);
        let mut other = Pins::default();
        other.pin("a", ["xy"]);
        assert!(other.compared(&kept, "here").is_some_and(|text| text.contains("before:\n    a 2 ")));
    }

    #[test]
    fn pins_of_case_names_and_keys_hold() {
        let mut pins = Pins::default();
        for family in REGISTRY {
            for level in [Level::Quick, Level::Full] {
                let names = (family.cases)(level).into_iter().map(|case| case.name);
                pins.pin(&format!("cases {} {level}", family.name), names);
            }
            for size in [BenchSize::Small, BenchSize::Normal, BenchSize::Large] {
                let names = (family.benches)(size).into_iter().map(|bench| bench.name);
                pins.pin(&format!("benches {} {size:?}", family.name), names);
            }
            let costs = (family.benches)(BenchSize::Large).into_iter().map(|bench| {
                let cost = bench.op.cost();
                format!("{} {} {}", cost.flops, cost.bytes_read, cost.bytes_written)
            });
            pins.pin(&format!("costs {}", family.name), costs);
        }
        let cases = REGISTRY.iter().flat_map(|family| (family.cases)(Level::Quick)).map(|case| case.op);
        let tuned: Vec<_> =
            cases.chain(products().unwrap()).filter_map(|op| Some((Key::of(&op)?, op.tuned()?.class()))).collect();
        pins.pin("keys", tuned.iter().map(|(key, _)| key.to_string()));
        pins.pin("classes", tuned.iter().map(|(_, class)| class));
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/harness/pins.txt");
        pins.differences(include_str!("pins.txt"), path).unwrap_or_else(|text| panic!("{text}"));
    }
}
