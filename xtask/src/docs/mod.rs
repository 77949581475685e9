//! The documents, held to the code: links lead somewhere, recipes name files that exist, sources say what they are,
//! and nothing in the repository depends on one person's machine. What can be generated is generated, then compared.

mod circles;
mod floors;
mod heads;
mod imports;
mod links;
mod ops;
mod recipes;
mod results;
mod rooms;
mod sizes;
mod speed;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Result, files};

/// One text file of the repository.
pub struct Document {
    /// Relative to the top of the repository.
    pub path: PathBuf,
    pub text: String,
}

/// Complaints about the documents, one line each.
type Check = fn(&[Document]) -> Vec<String>;

/// Runs every check; the error lists all complaints, one a line.
pub fn check() -> Result {
    let paths = files::all(Path::new("."))?;
    let documents = texts(&paths);
    let checks: [(&str, Check); 12] = [
        ("relative links resolve", links::check),
        ("recipes name existing files and are short", recipes::check),
        ("kept results are listed", results::check),
        ("modules import downwards", rooms::check),
        ("circles of modules are small", circles::check),
        ("sources open with what they are", heads::check),
        ("the table of operations is the registry's", ops::check),
        ("picture and table of speeds are what was measured", speed::check),
        ("nothing names one machine", words::check),
        ("imports of backends lead downwards", floors::check),
        ("the operation to copy from is small", sizes::check),
        ("tables of rates are what was measured", |_| crate::rates::complaints()),
    ];
    let mut complaints = Vec::new();
    for (what, check) in checks {
        let found = check(&documents);
        println!("{what}: {}", if found.is_empty() { "yes".to_owned() } else { format!("{} complaints", found.len()) });
        complaints.extend(found);
    }
    if complaints.is_empty() { Ok(()) } else { Err(format!("documents:\n  {}", complaints.join("\n  "))) }
}

/// Makes the generated documents anew.
pub fn write() -> Result {
    ops::write()?;
    speed::write()?;
    check()
}

/// Those of `paths` that are text, with their text.
fn texts(paths: &[PathBuf]) -> Vec<Document> {
    let texts = paths.iter().map(|path| (path, fs::read_to_string(path)));
    texts.filter_map(|(path, text)| Some(Document { path: path.clone(), text: text.ok()? })).collect()
}

/// Those with this extension.
fn with_extension<'a>(documents: &'a [Document], extension: &'a str) -> impl Iterator<Item = &'a Document> {
    documents.iter().filter(move |document| document.path.extension().is_some_and(|e| e == extension))
}
