//! `polywarp compile`: the offline shader compiler.

use std::path::PathBuf;

use polywarp::compiler::{BindSlot, Output, Request, Target, compile};
use polywarp::shader::Reflection;
use serde::Serialize;

use super::files::{check_distinct, save};
use super::{Fault, Verdict, in_shader, parse_define, read_shader};

/// Compiles a WGSL shader to another language
#[derive(clap::Args)]
pub struct Args {
    /// The WGSL file
    file: PathBuf,
    /// spirv, msl, hlsl, glsl, wgsl or ptx
    #[arg(long, value_parser = parse_target)]
    target: Target,
    /// PTX only: the architecture, such as sm_90 (sm_70 when left out, which runs on every newer card)
    #[arg(long, value_name = "SM")]
    arch: Option<String>,
    /// The entry point to keep (all of them when left out; GLSL holds one)
    #[arg(long, value_name = "E")]
    entry: Option<String>,
    /// Sets an `override` of the shader; may be repeated
    #[arg(long = "define", value_name = "N=V", value_parser = parse_define)]
    defines: Vec<(String, f64)>,
    /// Writes what a host must know to this file, as JSON: entry points, bindings, overrides, features; `-` is standard
    /// output
    #[arg(long, value_name = "J")]
    reflect: Option<PathBuf>,
    /// The file to write; `-` is standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
}

fn parse_target(text: &str) -> Result<Target, String> {
    text.parse().map_err(|e: polywarp::Error| e.to_string())
}

/// The file that `--reflect` writes.
#[derive(Serialize)]
struct Described<'a> {
    target: Target,
    #[serde(flatten)]
    shader: &'a Reflection,
    /// The place of each resource in the target language.
    slots: &'a [BindSlot],
}

pub fn run(args: &Args) -> Result<Verdict, Fault> {
    let reflect = args.reflect.iter().map(|path| ("--reflect".to_owned(), path.as_path()));
    let outputs: Vec<_> = reflect.chain([("--output".to_owned(), args.output.as_path())]).collect();
    check_distinct(&[("the shader".to_owned(), args.file.as_path())], &outputs)?;
    let source = read_shader(&args.file)?;
    let request = Request {
        source: &source,
        target: args.target,
        entry: args.entry.as_deref(),
        defines: &args.defines,
        arch: args.arch.as_deref(),
    };
    let Output { bytes, reflection, slots } = compile(&request).map_err(|e| in_shader(&args.file, e))?;
    if let Some(path) = &args.reflect {
        let described = Described { target: args.target, shader: &reflection, slots: &slots };
        let mut json = serde_json::to_vec_pretty(&described).map_err(|e| Fault::Machine(format!("JSON: {e}")))?;
        json.push(b'\n');
        save(path, &|out| out.write_all(&json))?;
    }
    save(&args.output, &|out| out.write_all(&bytes))?;
    Ok(Verdict::Well)
}
