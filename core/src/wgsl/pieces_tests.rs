//! That holes are filled, that files of pieces are in order, and that planners write no functions themselves.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use super::*;

const EXAMPLE: Pieces = Pieces(
    "// A head.

//# sum: with a remark
fn sum_${kind}(at: u32) -> $ty {
    let x = load_$name(at);
    $more
    return x;
}

//# empty
fn none() {}

",
);

#[test]
fn holes_take_words_and_whole_lines() {
    let sum = |more: &str| EXAMPLE.fill("sum", holes!(kind = 4, ty = "f32", name = "x", more));
    let (head, tail) = ("fn sum_4(at: u32) -> f32 {\n    let x = load_x(at);\n", "    return x;\n}\n");
    assert_eq!(sum(""), format!("{head}{tail}"));
    assert_eq!(sum("  a\n   b\n"), format!("{head}  a\n   b\n{tail}"));
    assert_eq!(EXAMPLE.get("empty"), "fn none() {}\n\n");
    // What fills a hole is not looked through.
    assert_eq!(fill("$a$b", holes!(a = "$b", b = 1)), "$b1");
}

#[test]
#[should_panic(expected = "the hole $b has no value")]
fn hole_without_a_value_is_a_fault() {
    fill("$a $b", holes!(a = 1));
}

#[test]
#[should_panic(expected = "no hole takes some of")]
fn value_without_a_hole_is_a_fault() {
    fill("$a", holes!(a = 1, b = 2));
}

#[test]
#[should_panic(expected = "$a takes whole lines, not x")]
fn word_in_the_place_of_lines_is_a_fault() {
    fill("  $a\n", holes!(a = "x"));
}

#[test]
#[should_panic(expected = "holes of the piece sum are not filled")]
fn piece_with_holes_is_not_got_as_it_is() {
    EXAMPLE.get("sum");
}

#[test]
#[should_panic(expected = "there is no piece other")]
fn piece_that_is_not_there_is_a_fault() {
    EXAMPLE.get("other");
}

/// Paths and texts of the files below a folder of this crate.
fn files(folder: &str, extension: &str) -> Vec<(String, String)> {
    fn collect(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { collect(&path, found) } else { found.push(path) }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    collect(&root.join(folder), &mut found);
    found.sort();
    let of_kind = found.iter().filter(|path| path.extension().is_some_and(|own| own == extension));
    let relative = |path: &Path| path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
    of_kind.map(|path| (relative(path), fs::read_to_string(path).unwrap())).collect()
}

/// Code that makes kernels, without its tests.
fn planners() -> Vec<(String, String)> {
    let sources = [files("src/ops", "rs"), files("src/wgsl", "rs")].concat();
    let is_shipped = |path: &str| !path.ends_with("tests.rs") && !path.ends_with("/validate.rs");
    let without_tests = |text: String| {
        let ends = ["#[cfg(test)]\nmod ", "#[cfg(test)]\n#[path"].map(|of| text.find(of).unwrap_or(text.len()));
        text[..ends[0].min(ends[1])].to_owned()
    };
    sources.into_iter().filter(|(path, _)| is_shipped(path)).map(|(path, text)| (path, without_tests(text))).collect()
}

/// The texts between quotation marks of Rust code.
fn literals(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find(['"', '\'', '/']) {
        let from = &rest[at + 1..];
        rest = match &rest[at..=at] {
            "/" if from.starts_with('/') => from.find('\n').map_or("", |end| &from[end..]),
            "'" if from.starts_with('\\') => from[2..].split_once('\'').map_or("", |(_, behind)| behind),
            // A character; a lifetime has no second quotation mark.
            "'" => match from.char_indices().nth(1) {
                Some((end, '\'')) => &from[end + 1..],
                _ => from,
            },
            "\"" => {
                let mut is_escaped = false;
                let end = from.find(|c| {
                    let ends = c == '"' && !is_escaped;
                    is_escaped = c == '\\' && !is_escaped;
                    ends
                });
                let end = end.unwrap_or(from.len());
                found.push(&from[..end]);
                from.get(end + 1..).unwrap_or_default()
            }
            _ => from,
        };
    }
    found
}

/// Functions of WGSL that Rust code spells out.
fn functions(code: &str) -> usize {
    let begin = |text: &str| {
        let starts = text.match_indices("fn ").filter(|(at, _)| {
            let before = text[..*at].chars().next_back();
            // `\n` within a literal is two characters.
            let is_word = before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
            (!is_word || text[..*at].ends_with("\\n"))
                && text[at + 3..].starts_with(|c: char| c == '{' || c.is_ascii_lowercase())
        });
        starts.count()
    };
    literals(code).into_iter().map(begin).sum()
}

#[test]
fn functions_are_found_in_literals_alone() {
    let code = "fn a() { b(\"fn c() {}\\nfn d() {}\", '\"', \"x\"); } // \"fn e\"\nlet s: &'a str = \"\\\"fn {f}() \"; '\\''; \"afn g\";";
    assert_eq!(functions(code), 3);
}

#[test]
fn files_of_pieces_are_in_order_and_each_piece_is_used() {
    let planners = planners();
    let files = files("wgsl/pieces", "wgsl");
    assert!(!files.is_empty());
    let named: HashSet<&str> = planners.iter().flat_map(|(_, code)| literals(code)).collect();
    for (path, text) in &files {
        let file = path.rsplit('/').next().unwrap();
        let include = format!("pieces!(\"{file}\")");
        assert!(planners.iter().any(|(_, code)| code.contains(&include)), "no planner reads {path}");
        let text: &'static str = text.clone().leak();
        let markers = text.lines().filter(|line| line.starts_with("//#")).count();
        let pieces: Vec<_> = Pieces(text).all().collect();
        assert_eq!(pieces.len(), markers, "{path}: a line //# has a space and a name behind it");
        assert_eq!(text.matches("\n\n//# ").count(), markers, "{path}: an empty line stands before each piece");
        for (number, (name, piece)) in pieces.iter().enumerate() {
            assert!(!pieces[..number].iter().any(|(other, _)| other == name), "{path}: two pieces {name}");
            assert!(named.contains(name), "{path}: nothing uses {name}");
            let mut holes = piece.split('$').skip(1);
            assert!(holes.all(|hole| !split_name(hole).0.is_empty()), "{path}: a hole of {name}");
            assert!(piece.ends_with('\n') && !piece.starts_with('\n'), "{path}: the lines of {name}");
        }
    }
}

/// A name, a number, an expression or a line may be made in Rust; a whole function is a piece, whatever its lines are made of.
#[test]
fn planners_spell_out_no_functions() {
    let planners = planners();
    assert!(planners.len() > 100, "{} files", planners.len());
    let found: Vec<&str> =
        planners.iter().filter(|(_, code)| functions(code) > 0).map(|(path, _)| path.as_str()).collect();
    assert!(found.is_empty(), "functions of WGSL in literals of {found:?} belong into core/wgsl/pieces");
}
