//! Nothing names one machine: no home folders, no package archive's host.

use std::path::Path;

use super::Document;

/// Each in two parts, so that this file does not hold what it looks for.
const FORBIDDEN: [(&str, &str); 8] = [
    ("/ro", "ot/"),
    ("/wo", "rk/"),
    ("/ho", "me/"),
    ("C:\\Us", "ers\\"),
    ("deb.deb", "ian.org"),
    ("static.crates", ".io"),
    ("index.crates", ".io"),
    ("files.python", "hosted.org"),
];

/// One complaint per line that holds one of them. Results of measurements and lock files are records, not text.
pub fn check(documents: &[Document]) -> Vec<String> {
    let mut complaints = Vec::new();
    let written = documents.iter().filter(|document| document.path != Path::new("Cargo.lock"));
    for document in written {
        for (number, line) in document.text.lines().enumerate() {
            for (head, tail) in FORBIDDEN {
                if line.contains(&[head, tail].concat()) {
                    complaints.push(format!("{}:{}: names `{head}{tail}`", document.path.display(), number + 1));
                }
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_folder_is_a_complaint_with_its_line() {
        let text = format!("fine\ncd {}me/somebody\n", "/ho");
        let complaints = check(&[Document { path: "docs/x.md".into(), text }]);
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].starts_with("docs/x.md:2: "), "{complaints:?}");
    }
}
