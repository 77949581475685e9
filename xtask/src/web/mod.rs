//! polywarp in a browser: builds the program in `tests/web`, serves it on this machine, has headless Chromium open it and
//! judges what the page sends back.
//!
//! Chromium comes with SwiftShader, a Vulkan on the CPU, so no GPU is needed; `--serve` waits for any browser on any GPU
//! instead. Not part of `cargo xtask test`: the first run installs Chromium and builds the tool that writes the glue.

mod browser;
mod report;
mod server;

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::Cmd;
use crate::{Result, wasm};

/// The page with everything it loads.
const PAGE: &str = "target/web/page";

/// Where `wasm-bindgen` is installed.
const TOOLS: &str = "target/tools";

/// Builds, serves, runs and judges.
pub fn run(arguments: &[&str]) -> Result {
    let options = Options::parse(arguments)?;
    let program = wasm::program()?;
    let page = make_page(&program)?;
    let server = server::Server::start(page)?;
    let address = format!("http://localhost:{}/?{}", server.port(), options.query);
    let results = if options.serve {
        println!("open {address} in a browser with WebGPU");
        server.results(None, &mut || Ok(()))?
    } else {
        let mut browser = browser::Browser::start(&address)?;
        server.results(Some(browser::PATIENCE), &mut || browser.alive())?
    };
    report::judge(&results)
}

struct Options {
    query: String,
    serve: bool,
}

impl Options {
    fn parse(arguments: &[&str]) -> Result<Options> {
        let mut options = Options { query: String::new(), serve: false };
        let mut rest = arguments.iter();
        while let Some(&argument) = rest.next() {
            match (argument, rest.as_slice().first()) {
                ("--serve", _) => options.serve = true,
                ("--pipelines", _) => options.query.push_str("pipelines&"),
                ("--level" | "--filter", Some(value)) => {
                    options.query.push_str(&format!("{}={}&", &argument[2..], percent_encoded(value)));
                    rest.next();
                }
                _ => return Err(format!("web: {argument:?} is not understood; see `cargo xtask help`")),
            }
        }
        Ok(options)
    }
}

/// For a query: everything but letters, digits and a few safe signs becomes %XX.
fn percent_encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// The folder with page, wasm and the glue between them.
fn make_page(program: &Path) -> Result<PathBuf> {
    let page = PathBuf::from(PAGE);
    fs::create_dir_all(&page).map_err(|e| format!("cannot make {PAGE}: {e}"))?;
    let line = "--target web --no-typescript --out-dir";
    Cmd::new("").program(&wasm_bindgen()?).args(line.split_whitespace()).arg(&page).arg(program).run()?;
    let html = page.join("index.html");
    fs::copy("tests/web/index.html", &html).map_err(|e| format!("{}: {e}", html.display()))?;
    Ok(page)
}

/// The tool that writes the glue, in exactly the version that the program was built against, installed once.
fn wasm_bindgen() -> Result<PathBuf> {
    let lock = fs::read_to_string("Cargo.lock").map_err(|e| format!("Cargo.lock: {e}"))?;
    let version = version_in(&lock, "wasm-bindgen").ok_or("Cargo.lock names no wasm-bindgen")?;
    let tool = Path::new(TOOLS).join("bin/wasm-bindgen");
    let installed = Cmd::new("").program(&tool).arg("--version").output().unwrap_or_default();
    if installed.split_whitespace().last() != Some(version) {
        Cmd::new("cargo install wasm-bindgen-cli --bin wasm-bindgen --root")
            .arg(TOOLS)
            .arg("--version")
            .arg(version)
            .run()?;
    }
    Ok(tool)
}

/// The version of `package` in a lock file.
fn version_in<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let entry = format!("name = \"{package}\"\nversion = \"");
    let (_, rest) = lock.split_once(&entry)?;
    rest.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_of_the_package_itself() {
        let lock =
            "name = \"wasm-bindgen-futures\"\nversion = \"0.4\"\n\nname = \"wasm-bindgen\"\nversion = \"0.2.1\"\n";
        assert_eq!(version_in(lock, "wasm-bindgen"), Some("0.2.1"));
        assert_eq!(version_in(lock, "bindgen"), None);
    }

    #[test]
    fn arguments_become_a_query() {
        let options = Options::parse(&["--filter", "softmax f32 [3,259]", "--level", "full"]).unwrap();
        assert_eq!(
            (options.query.as_str(), options.serve),
            ("filter=softmax%20f32%20%5B3%2C259%5D&level=full&", false)
        );
        assert!(Options::parse(&["--filter"]).is_err() && Options::parse(&["full"]).is_err());
    }
}
