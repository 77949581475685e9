//! The kernel of `polywarp run`, by the ending of its file: WGSL, SPIR-V (`.spv`), and CUDA's own forms (`.ptx`,
//! `.cubin`, `.fatbin`, `.cu`). Those do not describe their arguments; flags do, and the name of the flags says that
//! nobody checks them.

use std::path::Path;

use polywarp::{Argument, Code, Kernel, Signature, f16};

use super::{Fault, read_bytes, read_shader};

/// Longest machine code or text for CUDA that is read.
const MOST_BYTES: u64 = 256 << 20;

/// What a file for CUDA does not say of itself.
#[derive(clap::Args)]
pub struct Launching {
    /// .ptx, .cu, .cubin and .fatbin files, on cuda devices: the kernel's arguments in their order. in:B and out:B are the address
    /// of what is bound at B (0.B), read or written; others are values, such as f32:2.5, u64:1000. What the kernel does with
    /// them is not checked
    #[arg(long, value_name = "in:B|out:B|TYPE:VALUE,...", value_parser = parse_arguments)]
    unchecked_args: Option<Arguments>,
    /// The same files: threads of a block along x, y and z
    #[arg(long, value_name = "X,Y,Z", value_parser = super::run::parse_extents)]
    block: Option<[u32; 3]>,
    /// The same files: bytes of dynamic shared memory
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    shared: u32,
}

#[derive(Clone, Debug, PartialEq)]
struct Arguments(Vec<Argument>);

fn parse_arguments(text: &str) -> Result<Arguments, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(parse_argument).collect::<Result<_, _>>().map(Arguments)
}

fn parse_argument(text: &str) -> Result<Argument, String> {
    let (kind, value) =
        text.split_once(':').ok_or_else(|| format!("`{text}` is not in:B, out:B or TYPE:VALUE, such as u32:7"))?;
    let refused = || format!("`{value}` is not a value of {kind}");
    /// The bytes of a number; their count is also its alignment.
    fn number<T: std::str::FromStr, const N: usize>(text: &str, bytes: fn(T) -> [u8; N]) -> Option<Argument> {
        Some(Argument::Value(bytes(text.parse().ok()?).to_vec(), N))
    }
    let binding = || {
        let number = value.strip_prefix("0.").unwrap_or(value).parse().ok();
        number.ok_or_else(|| format!("`{value}` is not a binding of group 0"))
    };
    let parsed = match kind {
        "in" => return Ok(Argument::Read(binding()?)),
        "out" => return Ok(Argument::Write(binding()?)),
        "f16" => number(value, |x: f32| f16::from_f32(x).to_le_bytes()),
        "f32" => number(value, f32::to_le_bytes),
        "f64" => number(value, f64::to_le_bytes),
        "i8" => number(value, i8::to_le_bytes),
        "u8" => number(value, u8::to_le_bytes),
        "i16" => number(value, i16::to_le_bytes),
        "u16" => number(value, u16::to_le_bytes),
        "i32" => number(value, i32::to_le_bytes),
        "u32" => number(value, u32::to_le_bytes),
        "i64" => number(value, i64::to_le_bytes),
        "u64" => number(value, u64::to_le_bytes),
        _ => {
            return Err(format!("`{kind}` is none of in, out, f16, f32, f64, i8, u8, i16, u16, i32, u32, i64, u64"));
        }
    };
    parsed.ok_or_else(refused)
}

impl Launching {
    /// The kernel in `path`.
    pub fn read(&self, path: &Path, entry: Option<String>, defines: Vec<(String, f64)>) -> Result<Kernel, Fault> {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
        let kernel = match ending.as_str() {
            "ptx" | "cu" => {
                let text = String::from_utf8(read_bytes(path, MOST_BYTES)?)
                    .map_err(|_| Fault::usage(format!("{}: not UTF-8 text", path.display())))?;
                let signature = self.signature(path)?;
                match ending.as_str() {
                    "ptx" => Kernel::ptx_unchecked(text, signature),
                    _ => Kernel::cuda_cpp_unchecked(text, signature),
                }
            }
            "cubin" | "fatbin" => Kernel::cubin_unchecked(read_bytes(path, MOST_BYTES)?, self.signature(path)?),
            "spv" => Kernel::spirv(read_bytes(path, polywarp::shader::MAX_SOURCE_BYTES as u64)?),
            _ => Kernel::wgsl(read_shader(path)?),
        };
        let is_for_cuda = matches!(kernel.code, Code::Cuda { .. });
        if !is_for_cuda && (self.unchecked_args.is_some() || self.block.is_some() || self.shared > 0) {
            let form = kernel.form();
            return Err(Fault::usage(format!(
                "{}: --unchecked-args, --block and --shared are for .ptx, .cu, .cubin and .fatbin files; {form} says \
                 what it takes",
                path.display()
            )));
        }
        Ok(Kernel { entry, defines, ..kernel })
    }

    fn signature(&self, path: &Path) -> Result<Signature, Fault> {
        let (Some(Arguments(arguments)), Some(block)) = (&self.unchecked_args, self.block) else {
            return Err(Fault::usage(format!(
                "{}: such a file does not say how it is launched; give --unchecked-args and --block, such as \
                 --unchecked-args in:0,out:1,u32:1000 --block 256",
                path.display()
            )));
        };
        let signature = Signature::new(block).dynamic_shared_bytes(self.shared);
        Ok(arguments.iter().cloned().fold(signature, Signature::argument))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_buffers_and_values_in_order() {
        let Arguments(parsed) = parse_arguments("out:2, in:0.1,f32:1.5,u64:7,i8:-1,f16:1").unwrap();
        let expected = [
            Argument::Write(2),
            Argument::Read(1),
            Argument::Value(1.5f32.to_le_bytes().to_vec(), 4),
            Argument::Value(7u64.to_le_bytes().to_vec(), 8),
            Argument::Value(vec![0xff], 1),
            Argument::Value(vec![0x00, 0x3c], 2),
        ];
        assert_eq!(parsed, expected);
        assert_eq!(parse_arguments("").unwrap(), Arguments(Vec::new()));
        for bad in ["in", "in:x", "in:1.0", "u8:256", "u32:-1", "f32:", "q:1", "in:0;out:1"] {
            assert!(parse_arguments(bad).is_err(), "{bad}");
        }
    }
}
