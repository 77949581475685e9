//! Every folder of kept results has a page of its own, which the list of them names.

use std::collections::BTreeSet;
use std::path::Path;

use super::Document;

const FOLDER: &str = "benches/results";

/// One complaint per folder without a page, and per page that the list does not link.
pub fn check(documents: &[Document]) -> Vec<String> {
    let list = documents.iter().find(|document| document.path == Path::new(FOLDER).join("README.md"));
    let list = list.map_or("", |document| document.text.as_str());
    let below = documents.iter().filter_map(|document| document.path.strip_prefix(FOLDER).ok());
    let folders: BTreeSet<String> = below
        .filter(|path| path.components().count() > 1)
        .filter_map(|path| Some(path.components().next()?.as_os_str().to_string_lossy().into_owned()))
        .collect();
    let mut complaints = Vec::new();
    for folder in folders {
        let page = Path::new(FOLDER).join(&folder).join("README.md");
        if !documents.iter().any(|document| document.path == page) {
            complaints.push(format!("{FOLDER}/{folder}: no README.md says what was run, and on what"));
        } else if !list.contains(&format!("]({folder}/README.md)")) {
            complaints.push(format!("{FOLDER}/README.md: no link to {folder}/README.md"));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_without_a_page_or_a_link_are_named() {
        let document = |path: &str, text: &str| Document { path: path.into(), text: text.to_owned() };
        let mut documents = vec![
            document("benches/results/README.md", "[a](a/README.md), [ab](ab/README.md)"),
            document("benches/results/a/README.md", ""),
            document("benches/results/b/README.md", ""),
            document("benches/results/c/x.txt", ""),
        ];
        let found = check(&documents);
        assert!(
            found.len() == 2 && found[0].contains("no link to b/") && found[1].contains("c: no README.md"),
            "{found:?}"
        );
        documents.truncate(2);
        assert!(check(&documents).is_empty());
    }
}
