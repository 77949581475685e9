//! The repository's own files, found by walking: a source archive without git history is checked the same way.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;

/// Hidden folders are a tool's or a person's own, but for these two.
const HIDDEN_BUT_OURS: [&str; 2] = [".cargo", ".ci"];

/// Every file below `top` but build products, sorted, relative to `top`.
pub fn all(top: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(top.join(&folder)).map_err(|e| format!("{}: {e}", folder.display()))?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let path = folder.join(&name);
            let (name, kind) = (name.to_string_lossy(), entry.file_type());
            let is_folder = kind.is_ok_and(|kind| kind.is_dir());
            let foreign = name.starts_with('.') && !HIDDEN_BUT_OURS.contains(&&*name);
            match is_folder {
                true if foreign || name == "target" => {}
                true => folders.push(path),
                // A further work tree of one repository has a file of this name, which holds a path.
                false if name == ".git" => {}
                false => found.push(path),
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_passes_over_what_git_and_cargo_keep() {
        let top = std::env::temp_dir().join(format!("xtask-files-{}", std::process::id()));
        for folder in ["target", ".ci", ".idea", "src"] {
            fs::create_dir_all(top.join(folder)).unwrap();
            fs::write(top.join(folder).join("file"), "text").unwrap();
        }
        fs::write(top.join(".git"), "gitdir: elsewhere").unwrap();
        fs::write(top.join(".gitignore"), "/target").unwrap();
        let found = all(&top);
        fs::remove_dir_all(&top).unwrap();
        assert_eq!(found.unwrap(), [".ci/file", ".gitignore", "src/file"].map(PathBuf::from));
    }
}
