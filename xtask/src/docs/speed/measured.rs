//! Where a bar's two measurements are kept, and how they are read: lines of JSON that `polywarp bench` wrote, or what other programs printed.

use std::fs;

use serde_json::Value;

use crate::{Result, root};

/// This library's rate over another's, from files below `benches/results`.
pub enum Ratio {
    /// The geometric mean that `polywarp bench` gives of a kind of product beside the vendor's library, in bursts.
    Mean { folder: &'static str, file: &'static str, kind: &'static str },
    /// Two rates in one unit.
    Rates { folder: &'static str, ours: Source, theirs: Source },
    /// Two times in one unit: less is faster.
    Times { folder: &'static str, ours: Source, theirs: Source },
}

/// One number of a file; its path goes on from the folder's.
#[derive(Clone, Copy)]
pub enum Source {
    /// A line of JSON: the rate of a case, or of a network's items, on a device.
    Line { file: &'static str, case: &'static str, device: &'static str },
    /// The number that follows the first `before` behind the first `part`.
    Text { file: &'static str, part: &'static str, before: &'static str },
}

impl Ratio {
    /// Reads the files.
    pub fn read(&self) -> Result<f64> {
        match *self {
            Ratio::Mean { folder, file, kind } => mean(&text(folder, file)?, kind)
                .ok_or_else(|| format!("{folder}{file}: no mean of {kind} beside the vendor's library")),
            Ratio::Rates { folder, ours, theirs } => Ok(ours.read(folder)? / theirs.read(folder)?),
            Ratio::Times { folder, ours, theirs } => Ok(theirs.read(folder)? / ours.read(folder)?),
        }
    }

    /// The file of this library's measurement, below `benches/results`.
    pub fn file(&self) -> String {
        match *self {
            Ratio::Mean { folder, file, .. } => [folder, file].concat(),
            Ratio::Rates { folder, ours, .. } | Ratio::Times { folder, ours, .. } => [folder, ours.file()].concat(),
        }
    }
}

impl Source {
    fn file(&self) -> &'static str {
        match self {
            Source::Line { file, .. } | Source::Text { file, .. } => file,
        }
    }

    fn read(&self, folder: &str) -> Result<f64> {
        let text = text(folder, self.file())?;
        let found = match *self {
            Source::Line { case, device, .. } => {
                rate(&text, case, device).ok_or_else(|| format!("`{case}` on {device}"))
            }
            Source::Text { part, before, .. } => {
                number(&text, part, before).ok_or_else(|| format!("number behind `{before}` behind `{part}`"))
            }
        };
        found.map_err(|what| format!("{folder}{}: no {what}", self.file()))
    }
}

fn text(folder: &str, file: &str) -> Result<String> {
    let path = root().join("benches/results").join([folder, file].concat());
    fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
}

/// The values of lines that are JSON, by the word that says what each is.
fn lines<'a>(text: &'a str, kind: &'a str) -> impl Iterator<Item = Value> + 'a {
    text.lines().filter_map(move |line| serde_json::from_str::<Value>(line).ok()?.get(kind).cloned())
}

fn mean(text: &str, kind: &str) -> Option<f64> {
    lines(text, "vendor_mean").find(|mean| mean["kind"] == kind)?["burst"].as_f64()
}

fn rate(text: &str, case: &str, device: &str) -> Option<f64> {
    let is_it = |row: &Value| row["case"] == case && row["device"] == device;
    let network = lines(text, "network").find(is_it).map(|row| row["per_second"].clone());
    network.or_else(|| Some(lines(text, "row").find(is_it)?["rate"].clone()))?.as_f64()
}

fn number(text: &str, part: &str, before: &str) -> Option<f64> {
    let rest = &text[text.find(part)? + part.len()..];
    let rest = rest[rest.find(before)? + before.len()..].trim_start_matches(' ');
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_is_the_first_behind_its_part() {
        let text = "one b64 (x): 16.31 ms, 3925/s\none b256 (x): 45.9 ms,   5580/s, peak 2 GiB\n";
        assert_eq!(number(text, "b64", " ms, "), Some(3925.0));
        assert_eq!(number(text, "b256", " ms,"), Some(5580.0));
        assert_eq!(number(text, "b256", "(x): "), Some(45.9));
        assert_eq!(number(text, "b512", " ms,"), None);
        assert_eq!(number(text, "b64", "one "), None);
    }

    #[test]
    fn lines_are_found_by_case_device_and_kind() {
        let text = "not JSON\n{\"row\":{\"case\":\"add\",\"device\":\"cpu\",\"rate\":2.5}}\n\
            {\"row\":{\"case\":\"add\",\"device\":\"cuda:0\",\"rate\":50.0}}\n\
            {\"network\":{\"case\":\"bert\",\"device\":\"cuda:0\",\"per_second\":15.0}}\n\
            {\"vendor_mean\":{\"kind\":\"f16\",\"burst\":1.14}}\n";
        assert_eq!(rate(text, "add", "cuda:0"), Some(50.0));
        assert_eq!(rate(text, "bert", "cuda:0"), Some(15.0));
        assert_eq!(rate(text, "bert", "cpu"), None);
        assert_eq!(mean(text, "f16"), Some(1.14));
        assert_eq!(mean(text, "bf16"), None);
    }
}
