//! Relative links of Markdown files lead to files that exist, and their anchors to headings that exist.

use std::path::{Component, Path, PathBuf};

use super::{Document, with_extension};

/// One complaint per link that leads nowhere.
pub fn check(documents: &[Document]) -> Vec<String> {
    let mut complaints = Vec::new();
    for document in with_extension(documents, "md") {
        for link in links(&document.text) {
            if let Some(reason) = broken(document, link, documents) {
                complaints.push(format!("{}: link `{link}`: {reason}", document.path.display()));
            }
        }
    }
    complaints
}

/// Why `link` in `document` leads nowhere, if it does.
fn broken(document: &Document, link: &str, documents: &[Document]) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let folder = document.path.parent().unwrap_or(Path::new(""));
    let target = if path.is_empty() { document.path.clone() } else { normal(&folder.join(path)) };
    if !target.exists() && !documents.iter().any(|d| d.path == target) {
        return Some(format!("no such file {}", target.display()));
    }
    let text = &documents.iter().find(|d| d.path == target)?.text;
    let known = anchor.is_empty() || target.extension().is_none_or(|e| e != "md") || has_heading(text, anchor);
    (!known).then(|| format!("no heading #{anchor} in {}", target.display()))
}

/// `a/../b` as `b`: the documents are known by plain paths.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if normal.pop() => {}
            other => normal.push(other),
        }
    }
    normal
}

/// The targets of `[text](target)` and `[name]: target` outside code.
fn links(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for line in prose(text) {
        let mut rest = line;
        while let Some((_, after)) = rest.split_once("](") {
            let (target, after) = after.split_once(')').unwrap_or((after, ""));
            // `](target "title")`
            found.extend(target.split_whitespace().next());
            rest = after;
        }
        if let Some((_, target)) = line.split_once("]: ").filter(|_| line.starts_with('[')) {
            found.extend(target.split_whitespace().next());
        }
    }
    found
}

/// The lines outside fenced code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

/// Whether a heading of `text` has this anchor, by GitHub's rule: lower case, spaces to hyphens, punctuation dropped.
fn has_heading(text: &str, anchor: &str) -> bool {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    headings.map(|line| slug(line.trim_start_matches('#').trim())).any(|slug| slug == anchor)
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|&c| c.is_alphanumeric() || c == ' ' || c == '-' || c == '_');
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_code_are_not_links() {
        let text = "see [a](x.md) and [b](y.md \"title\")\n```\n[c](z.md)\n```\n[d]: w.md\n";
        assert_eq!(links(text), ["x.md", "y.md", "w.md"]);
    }

    #[test]
    fn missing_file_and_missing_heading_are_complaints() {
        let document = |path: &str, text: &str| Document { path: path.into(), text: text.to_owned() };
        let text = "# The `one` door\n[ok](#the-one-door) [no](#window) [gone](no/such.md) [web](https://x.test/y)";
        let complaints = check(&[document("README.md", text)]);
        assert_eq!(complaints.len(), 2, "{complaints:?}");
        assert!(complaints[0].contains("#window") && complaints[1].contains("no/such.md"), "{complaints:?}");
    }
}
