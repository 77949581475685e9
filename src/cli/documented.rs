//! The command lines of README and pages, read as this program reads them: none stays in the documents that it would refuse.

use std::path::Path;

use clap::Parser;
use clap::error::ErrorKind;

use super::Cli;

/// A line of a shell up to a description behind two spaces, a comment, a redirection or a further command, as words.
fn words(line: &str) -> Vec<String> {
    let ends = ["  ", " #", " > ", " && ", " | "];
    let line = ends.iter().fold(line, |line, end| line.split(end).next().unwrap_or(line));
    let (mut words, mut is_quoted, mut is_open) = (Vec::new(), false, false);
    for c in line.chars() {
        if c.is_whitespace() && !is_quoted {
            is_open = false;
            continue;
        }
        if !is_open {
            words.push(String::new());
            is_open = true;
        }
        match c {
            '\'' => is_quoted = !is_quoted,
            c => words.last_mut().unwrap().push(c),
        }
    }
    words
}

/// The lines of a document with the language of the block that each stands in; fences are empty lines of none.
fn lines(document: &str) -> impl Iterator<Item = (Option<&str>, &str)> {
    let mut block = None;
    document.lines().map(move |line| match (line.trim_start().strip_prefix("```"), block) {
        (Some(language), None) => {
            block = Some(language);
            (None, "")
        }
        (Some(_), Some(_)) => {
            block = None;
            (None, "")
        }
        (None, block) => (block, line),
    })
}

/// The command lines of this program in blocks of shell text, with the line of each.
fn command_lines(document: &str) -> Vec<(usize, Vec<String>)> {
    let of_shell = |language: &str| ["", "text", "sh", "bash", "console"].contains(&language);
    let numbered = (1..).zip(lines(document)).filter(|(_, (block, _))| block.is_some_and(of_shell));
    let commands = numbered.filter_map(|(number, (_, line))| {
        let line = line.trim().replace("cargo run --release -- ", "polywarp ");
        let line = line.split(' ').skip_while(|word| word.contains('=')).collect::<Vec<_>>().join(" ");
        line.starts_with("polywarp ").then(|| (number, words(&line)))
    });
    commands.collect()
}

/// The command lines in code within sentences, which need not be complete; a line may end in one.
fn mentions(document: &str) -> Vec<(usize, Vec<String>)> {
    let prose: Vec<&str> = lines(document).map(|(block, line)| if block.is_none() { line } else { "" }).collect();
    let (prose, mut found, mut number) = (prose.join("\n"), Vec::new(), 1);
    for (at, text) in prose.split('`').enumerate() {
        let code = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if at % 2 == 1 && code.starts_with("polywarp ") {
            found.push((number, words(&code)));
        }
        number += text.matches('\n').count();
    }
    found
}

/// What README and pages say to type is understood.
#[test]
fn documented_command_lines_parse() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = |folder: &str| std::fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let documents = [root.join("README.md")].into_iter().chain(pages("docs")).chain(pages("docs/guide"));
    let (mut typed, mut faults) = (0, Vec::new());
    for path in documents.filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
        let document = std::fs::read_to_string(&path).unwrap();
        let mut parse = |number: usize, words: &[String], is_whole: bool| {
            let Err(error) = Cli::try_parse_from(words) else { return };
            let is_fine = match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
                ErrorKind::MissingRequiredArgument => !is_whole,
                _ => false,
            };
            if !is_fine {
                faults.push(format!("{}:{number}: {words:?}: {error}", path.display()));
            }
        };
        for (number, words) in command_lines(&document) {
            typed += 1;
            parse(number, &words, true);
        }
        for (number, words) in mentions(&document) {
            parse(number, &words, false);
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(typed >= 20, "{typed} command lines were found");
}

#[test]
fn command_lines_are_read_to_their_end() {
    let block = "```text\npolywarp bench --only 'a b' -o ''x > y\nA=1 polywarp top # c\ncargo run --release -- bench     # d\n```\npolywarp no\n```\npolywarp a `b\n```\n`polywarp c`";
    let found = command_lines(block);
    let told: Vec<(usize, Vec<&str>)> =
        found.iter().map(|(line, words)| (*line, words.iter().map(String::as_str).collect())).collect();
    let wanted = [
        (2, vec!["polywarp", "bench", "--only", "a b", "-o", "x"]),
        (3, vec!["polywarp", "top"]),
        (4, vec!["polywarp", "bench"]),
        (8, vec!["polywarp", "a", "`b"]),
    ];
    assert_eq!(told, wanted);
    assert_eq!(mentions(block), [(10, words("polywarp c"))]);
    assert_eq!(mentions("so `polywarp check\n--device D` does"), [(1, words("polywarp check --device D"))]);
}
