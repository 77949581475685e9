//! Users' kernels in CUDA's own forms: PTX, machine code, CUDA C++.
//!
//! Compiled or loaded once per (code, entry point, defines, block); a launch's arguments follow the kernel's
//! [`Signature`]. Its number and sizes are checked against the code, its buffers as WGSL's are (device, range, alignment, aliasing).
//! The caller vouches for what the kernel does with them. Machine code that the driver made of PTX is kept on disk, as that of WGSL is.

use std::sync::Arc;

use polywarp_core::{Argument, Binding, Code, CudaCode, Error, Kernel as Text, Part, Result, Signature};
use polywarp_shaders::wgsl::{BufferInfo, BufferUse, Interface};

use crate::cache::{Entry, Key};
use crate::driver::one_line;
use crate::kernels::Kernel;
use crate::native::{self, Function, NotLinked, Start};
use crate::params::{Block, MAX_PARAM_BYTES, Metadata};
use crate::state::CudaBackend;
use crate::status::{Code as Status, code};
use crate::user::ptx::{self, Head, Param};
use crate::user::{ForeignKernel, compiled, image};

/// Longest code accepted: machine code of whole libraries has some hundred megabytes.
const MAX_CODE_BYTES: usize = 256 << 20;

impl CudaBackend {
    pub(super) fn run_foreign(
        &self,
        text: &Text,
        code: &CudaCode,
        signature: &Signature,
        grid: [u32; 3],
        bindings: &[Binding],
    ) -> Result<()> {
        if signature.block().contains(&0) {
            let reason = format!("a block of {:?} has no threads", signature.block());
            return Err(Error::InvalidArgument { what: "block", reason });
        }
        let start = self.requests.begin();
        let interface = interface_of(text, signature);
        let limits = &self.launch_limits;
        limits.check_resources(&interface)?;
        let loaded = self.foreign_kernel(text, code, signature)?;
        let kernel = &loaded.kernel;
        let places = places(&kernel.name, signature, loaded.params.as_deref())?;
        let checked = interface.check_bindings(limits, bindings, |buffer| Ok(self.own(buffer)?.lease()))?;
        limits.check_grid(grid)?;
        if grid.contains(&0) {
            return Ok(());
        }
        let end = places.iter().zip(signature.arguments()).map(|(at, argument)| at + size_bytes(argument)).max();
        let mut params = Block::zeroed(end.unwrap_or(0));
        for (&at, argument) in places.iter().zip(signature.arguments()) {
            let put = match argument {
                Argument::Value(bytes, _) => params.put(at, bytes),
                Argument::Read(number) | Argument::Write(number) => {
                    let found = checked.iter().find(|bound| bound.declared.binding == *number);
                    let address = found.map_or(0, |bound| bound.memory.address() + bound.offset_bytes);
                    params.put(at, &address.to_le_bytes())
                }
            };
            put.map_err(arguments_error)?;
        }
        let leases = checked.iter().map(|bound| bound.memory);
        // SAFETY: the parameters are as many and as large as the code says, or, where neither it nor the driver tells, as
        // the caller vouched for in the name of the kernel's constructor, as for all that the kernel does with them. The
        // addresses are of live buffers. A buffer that is dropped before the kernel ran goes to the pool, and its next
        // owner's work comes later on the stream.
        unsafe { self.give(kernel, grid, params.bytes(), leases)? };
        self.requests.end(start, Part::default(), &kernel.name);
        Ok(())
    }

    fn foreign_kernel(&self, text: &Text, code: &CudaCode, signature: &Signature) -> Result<Arc<ForeignKernel>> {
        // Arguments are a launch's own.
        let code_alone = Code::Cuda { code: code.clone(), signature: signature.without_arguments() };
        let known_by = Text { code: code_alone, entry: text.entry.clone(), defines: text.defines.clone() };
        if let Some(loaded) = self.foreign_kernels.get(&known_by) {
            return Ok(loaded);
        }
        let len = match code {
            CudaCode::Ptx(text) | CudaCode::Cpp(text) => text.len(),
            CudaCode::Cubin(code) => code.len(),
        };
        if len > MAX_CODE_BYTES {
            let (what, found, limit) = ("size in bytes", len as u64, MAX_CODE_BYTES as u64);
            return Err(Error::ShaderTooComplex { what, found, limit });
        }
        let loaded = self.with_room(|| match code {
            CudaCode::Ptx(ptx) => {
                no_defines(text)?;
                self.assembled(ptx, text.entry.as_deref(), signature)
            }
            CudaCode::Cubin(cubin) => {
                no_defines(text)?;
                self.loaded_cubin(cubin, text.entry.as_deref(), signature)
            }
            CudaCode::Cpp(source) => self.compiled(source, text, signature),
        })?;
        Ok(self.foreign_kernels.insert(&known_by, loaded))
    }

    /// The kernel of PTX text.
    fn assembled(&self, ptx: &str, entry: Option<&str>, signature: &Signature) -> Result<ForeignKernel> {
        let head = chosen(ptx, entry)?;
        check_block(&head, signature)?;
        let compiler = &self.kernels.compiler;
        let context = &compiler.context;
        let key = Key::of(&["user PTX", ptx, &compiler.target.to_string(), &context.api.identity()]);
        if let Some(entry) = compiler.disk.get(&key)
            && let Ok(function) = native::load(context, &entry.cubin, &head.name, 0)?
        {
            return self.ready(&head.name, function, Some(head.params), signature);
        }
        let cubin = match native::link(context, ptx)? {
            Ok(cubin) => cubin,
            Err(failed) => return Err(self.not_assembled(ptx, &head.name, failed)),
        };
        match native::load(context, &cubin, &head.name, 0)? {
            Ok(function) => {
                compiler.disk.put(&key, &Entry { metadata: metadata(&head.name, signature), cubin });
                self.ready(&head.name, function, Some(head.params), signature)
            }
            Err(failed) => Err(self.not_loaded(&head.name, failed)),
        }
    }

    /// The kernel called `entry` of machine code.
    fn loaded_cubin(&self, cubin: &[u8], entry: Option<&str>, signature: &Signature) -> Result<ForeignKernel> {
        image::check(cubin).map_err(|why| shader_error(0, &format!("machine code: {why}")))?;
        let Some(entry) = entry else {
            let reason =
                "machine code needs its name: Kernel::entry, `polywarp run --entry` (cuobjdump -symbols lists them)"
                    .to_owned();
            return Err(Error::InvalidArgument { what: "entry point", reason });
        };
        match native::load(&self.kernels.compiler.context, cubin, entry, 0)? {
            Ok(function) => {
                let told = function.params()?.map(|params| {
                    let unnamed =
                        |(offset, bytes)| Param { name: String::new(), offset: offset as u64, bytes: bytes as u64 };
                    params.into_iter().map(unnamed).collect()
                });
                self.ready(entry, function, told, signature)
            }
            Err(failed) => Err(self.not_loaded(entry, failed)),
        }
    }

    /// The kernel of CUDA C++.
    fn compiled(&self, source: &str, text: &Text, signature: &Signature) -> Result<ForeignKernel> {
        let compiler = &self.kernels.compiler;
        let (major, minor) = compiler.target.compute_capability();
        let defines = text.defines.iter().map(|(name, value)| define(name, *value)).collect::<Result<Vec<_>>>()?;
        let nvrtc = native::nvrtc(compiler.context.api.version)?;
        // A name as the code has it, as errors list them, is none of the source.
        let in_source = text.entry.as_deref().filter(|name| !name.starts_with("_Z"));
        let sm = 10 * major + minor;
        let compiled = compiled::kept(&compiler.disk, &nvrtc.identity(sm), (source, in_source, &defines), || {
            nvrtc.compile(source, in_source, &defines, sm)
        })?;
        let entry = compiled.entry.as_deref().or(text.entry.as_deref());
        let head = chosen(&compiled.ptx, entry)?;
        check_block(&head, signature)?;
        if let Some(cubin) = compiled.cubin.filter(|cubin| image::check(cubin).is_ok()) {
            match native::load(&compiler.context, &cubin, &head.name, 0)? {
                Ok(function) => return self.ready(&head.name, function, Some(head.params), signature),
                // Such as by a driver of an older CUDA than NVRTC's: it may read the text.
                Err(failed) => log::debug!("machine code of NVRTC is not used: {}", compiler.context.api.words(failed)),
            }
        }
        self.assembled(&compiled.ptx, Some(&head.name), signature)
    }

    /// The kernel `name` as loaded, if the card can run it as `signature` says.
    fn ready(
        &self,
        name: &str,
        function: Function,
        params: Option<Vec<Param>>,
        signature: &Signature,
    ) -> Result<ForeignKernel> {
        let (most_threads, own_shared) = function.demands()?;
        let [x, y, z] = signature.block().map(u64::from);
        let shared = u64::from(own_shared) + u64::from(signature.shared_bytes());
        let most_threads = if most_threads == 0 { u64::MAX } else { u64::from(most_threads) };
        let needs = [
            ("invocations per workgroup, for the registers that this kernel takes", x * y * z, most_threads),
            ("bytes of workgroup memory", shared, self.launch_limits.workgroup_bytes),
        ];
        if let Some((kind, requested, max)) = needs.into_iter().find(|(_, requested, max)| requested > max) {
            return Err(Error::ResourceLimit { device: self.id().to_owned(), kind, requested, max });
        }
        if signature.shared_bytes() > 0 {
            function.allow_shared(signature.shared_bytes())?;
        }
        let kernel = Kernel {
            name: name.to_owned(),
            function,
            metadata: metadata(name, signature),
            offsets: Vec::new(),
            start: Start::InTurn,
        };
        Ok(ForeignKernel { kernel: Arc::new(kernel), params })
    }

    /// What of a user's PTX the driver says.
    fn not_assembled(&self, ptx: &str, name: &str, failed: NotLinked) -> Error {
        let context = &self.kernels.compiler.context;
        match failed.code {
            code::INVALID_PTX | code::INVALID_IMAGE | code::NO_BINARY_FOR_GPU | code::UNKNOWN => {
                let words = if failed.log.is_empty() { context.api.words(failed.code) } else { failed.log };
                shader_error(line_of(&words), &format!("the driver refuses the PTX: {words}"))
            }
            _ => native::not_linked(context, name, ptx::version(ptx).unwrap_or("of no version"), failed),
        }
    }

    /// What of a user's machine code the driver says.
    fn not_loaded(&self, name: &str, failed: Status) -> Error {
        let context = &self.kernels.compiler.context;
        match failed {
            code::NOT_FOUND => {
                let reason = format!("`{name}` is not in the machine code (C++ functions have longer names there)");
                Error::InvalidArgument { what: "entry point", reason }
            }
            code::NO_BINARY_FOR_GPU => {
                let (major, minor) = self.kernels.compiler.target.compute_capability();
                Error::Unsupported {
                    device: self.id().to_owned(),
                    what: "this machine code".to_owned(),
                    reason: format!(
                        "it has none for compute capability {major}.{minor}; compile it for sm_{major}{minor}, or give PTX"
                    ),
                }
            }
            code::INVALID_IMAGE | code::INVALID_PTX | code::INVALID_VALUE => {
                shader_error(0, &format!("the driver refuses the machine code: {}", context.api.words(failed)))
            }
            other => context.error(&format!("loading kernel `{name}`"), other),
        }
    }
}

/// The buffers of `signature` as a shader would declare them: each binding once, written where any argument writes it.
fn interface_of(text: &Text, signature: &Signature) -> Interface {
    let mut buffers: Vec<BufferInfo> = Vec::new();
    for (index, argument) in signature.arguments().iter().enumerate() {
        let (binding, usage) = match argument {
            Argument::Read(binding) => (*binding, BufferUse::Read),
            Argument::Write(binding) => (*binding, BufferUse::ReadWrite),
            Argument::Value(..) => continue,
        };
        match buffers.iter_mut().find(|buffer| buffer.binding == binding) {
            Some(buffer) if usage == BufferUse::ReadWrite => buffer.usage = usage,
            Some(_) => {}
            None => {
                let name = format!("argument {index}");
                buffers.push(BufferInfo { group: 0, binding, name, usage, min_bytes: 1, element_bytes: None });
            }
        }
    }
    Interface {
        entry: text.entry.clone().unwrap_or_default(),
        declared: buffers.iter().map(|buffer| (0, buffer.binding)).collect(),
        buffers,
        workgroup_size: signature.block(),
        workgroup_bytes: signature.shared_bytes().into(),
        private_bytes: 0,
        constants: Vec::new(),
    }
}

fn size_bytes(argument: &Argument) -> usize {
    match argument {
        Argument::Read(_) | Argument::Write(_) => 8,
        Argument::Value(bytes, _) => bytes.len(),
    }
}

/// Where each argument of `signature` lies in the block of parameters of `kernel`, held against its own `params`.
fn places(kernel: &str, signature: &Signature, params: Option<&[Param]>) -> Result<Vec<usize>> {
    let given = signature.arguments();
    if let Some(params) = params
        && params.len() != given.len()
    {
        let reason = format!("`{kernel}` takes {}, the signature has {}", params.len(), given.len());
        return Err(Error::InvalidArgument { what: "arguments of the kernel", reason });
    }
    let (mut places, mut end) = (Vec::with_capacity(given.len()), 0usize);
    for (index, argument) in given.iter().enumerate() {
        let bytes = size_bytes(argument);
        let align = match argument {
            Argument::Read(_) | Argument::Write(_) => 8,
            Argument::Value(_, align) => *align,
        };
        if !align.is_power_of_two() || bytes == 0 {
            return Err(arguments_error(format!(
                "argument {index} has {bytes} bytes, aligned to {align}, which cannot be"
            )));
        }
        let at = match params.map(|params| &params[index]) {
            Some(param) if param.bytes == bytes as u64 => usize::try_from(param.offset).unwrap_or(usize::MAX),
            Some(param) => {
                let name = if param.name.is_empty() { String::new() } else { format!(" (`{}`)", param.name) };
                let what = match argument {
                    Argument::Value(..) => format!("the value given has {bytes}"),
                    Argument::Read(_) | Argument::Write(_) => "a buffer's address has 8".to_owned(),
                };
                return Err(arguments_error(format!(
                    "argument {index}{name} of `{kernel}` has {} bytes, {what}",
                    param.bytes
                )));
            }
            None => end.next_multiple_of(align),
        };
        end = at.saturating_add(bytes);
        if end > MAX_PARAM_BYTES {
            return Err(arguments_error(format!(
                "argument {index} ends at byte {end}, and {MAX_PARAM_BYTES} bytes can be passed"
            )));
        }
        places.push(at);
    }
    Ok(places)
}

fn arguments_error(reason: String) -> Error {
    Error::InvalidArgument { what: "arguments of the kernel", reason }
}

/// The kernel called `entry` of PTX text, or the only one.
fn chosen(ptx: &str, entry: Option<&str>) -> Result<Head> {
    let mut heads = ptx::heads(ptx).map_err(|why| shader_error(0, &format!("PTX: {why}")))?;
    let at = match (entry, heads.as_slice()) {
        (_, []) => Err("the text has no .entry".to_owned()),
        (None, [_]) => Ok(0),
        (None, _) => Err(format!("the text has {}; choose one", listed(&heads))),
        (Some(name), _) => heads
            .iter()
            .position(|head| head.name == name)
            .ok_or_else(|| format!("`{name}` is not in the text, which has {}", listed(&heads))),
    };
    at.map(|at| heads.swap_remove(at)).map_err(|reason| Error::InvalidArgument { what: "entry point", reason })
}

fn listed(heads: &[Head]) -> String {
    heads.iter().map(|head| format!("`{}`", head.name)).collect::<Vec<_>>().join(", ")
}

/// Whether the kernel can be launched with blocks as `signature` says.
fn check_block(head: &Head, signature: &Signature) -> Result<()> {
    let block = signature.block();
    let threads = block.iter().map(|&n| u64::from(n)).product::<u64>();
    let reason = match (head.required_block, head.most_threads) {
        (Some(required), _) if required != block => {
            format!("`{}` demands blocks of {required:?} threads, not {block:?}", head.name)
        }
        (_, Some(most)) if threads > u64::from(most) => {
            format!("`{}` takes at most {most} threads in a block, not {threads}", head.name)
        }
        _ => return Ok(()),
    };
    Err(Error::InvalidArgument { what: "block", reason })
}

fn metadata(name: &str, signature: &Signature) -> Metadata {
    let (symbol, dynamic_shared_bytes) = (name.to_owned(), signature.shared_bytes());
    Metadata { symbol, block: signature.block(), dynamic_shared_bytes, params_bytes: 0, fields: Vec::new() }
}

fn no_defines(text: &Text) -> Result<()> {
    match text.defines.first() {
        None => Ok(()),
        Some((name, _)) => {
            let reason = format!("`{name}`: {} has no values to set; pass it as an argument", text.form());
            Err(Error::InvalidArgument { what: "define", reason })
        }
    }
}

/// `N=4` as a macro of C++.
fn define(name: &str, value: f64) -> Result<String> {
    let is_name =
        !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name || name.is_empty() || !value.is_finite() {
        let reason = format!("`{name}` = {value} is no macro of a finite number");
        return Err(Error::InvalidArgument { what: "define", reason });
    }
    Ok(format!("{name}={value}"))
}

fn shader_error(line: u32, message: &str) -> Error {
    Error::Shader { line, column: 0, message: one_line(message) }
}

/// The line that an assembler's words name first: `ptxas application ptx input, line 7; error ...`.
fn line_of(words: &str) -> u32 {
    let after = words.split("line ").nth(1).unwrap_or_default();
    let digits = after.find(|c: char| !c.is_ascii_digit()).map_or(after, |end| &after[..end]);
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(result: Result<Vec<usize>>) -> String {
        match result {
            Err(Error::InvalidArgument { what: "arguments of the kernel", reason }) => reason,
            other => panic!("{other:?}"),
        }
    }

    fn param(name: &str, offset: u64, bytes: u64) -> Param {
        Param { name: name.to_owned(), offset, bytes }
    }

    #[test]
    fn arguments_lie_where_the_kernel_has_them() {
        let signature = Signature::new([1; 3]).value(1u8).reads(0).value(2.0f32).bytes(&[0; 12], 4).writes(1);
        let params = [param("a", 0, 1), param("b", 8, 8), param("c", 16, 4), param("d", 32, 12), param("e", 48, 8)];
        assert_eq!(places("f", &signature, Some(&params)).unwrap(), [0, 8, 16, 32, 48]);
        assert_eq!(places("f", &signature, None).unwrap(), [0, 8, 16, 20, 32], "packed as C does");
        assert_eq!(places("f", &Signature::new([1; 3]), Some(&[])).unwrap(), [0usize; 0]);
    }

    #[test]
    fn arguments_that_do_not_fit_are_told_by_number_name_and_sizes() {
        let signature = Signature::new([1; 3]).reads(0).value(1u32);
        let wrong = reason(places("f", &signature, Some(&[param("p", 0, 4), param("n", 4, 4)])));
        assert_eq!(wrong, "argument 0 (`p`) of `f` has 4 bytes, a buffer's address has 8");
        let wrong = reason(places("f", &signature, Some(&[param("p", 0, 8), param("", 8, 8)])));
        assert_eq!(wrong, "argument 1 of `f` has 8 bytes, the value given has 4");
        assert_eq!(reason(places("f", &signature, Some(&[]))), "`f` takes 0, the signature has 2");
        let long = Signature::new([1; 3]).bytes(&[0; 4097], 1);
        assert!(reason(places("f", &long, None)).contains("4096 bytes can be passed"));
        for bad in [Signature::new([1; 3]).bytes(&[], 1), Signature::new([1; 3]).bytes(&[1], 3)] {
            assert!(reason(places("f", &bad, None)).contains("cannot be"));
        }
    }

    #[test]
    fn lines_and_macros_are_read_and_written() {
        assert_eq!(line_of("ptxas application ptx input, line 12; error : x"), 12);
        assert_eq!((line_of("no place"), line_of("line x")), (0, 0));
        assert_eq!(define("TILE", 16.0).unwrap(), "TILE=16");
        assert_eq!(define("x_1", 0.5).unwrap(), "x_1=0.5");
        for (name, value) in [("", 1.0), ("1x", 1.0), ("A=B", 1.0), ("A", f64::NAN)] {
            assert!(define(name, value).is_err(), "{name}");
        }
    }

    #[test]
    fn machine_code_of_every_architecture_is_taken_for_whole_and_not_when_cut_short() {
        let nvrtc = match native::nvrtc(13_000) {
            Ok(nvrtc) => nvrtc,
            Err(error) => return println!("NOT RUN: {error}"),
        };
        let source = "__constant__ float c[9]; __global__ void f(float *y) {
            __shared__ float s[99]; extern __shared__ float d[];
            s[threadIdx.x] = y[threadIdx.x]; d[1] = c[threadIdx.x % 9]; __syncthreads(); y[0] = s[7] + d[1]; printf(\"%f\", y[0]); }";
        let mut checked = 0;
        for sm in [75, 80, 86, 89, 90, 100, 120] {
            let compiled = nvrtc.compile(source, Some("f"), &[], sm).unwrap();
            let Some(code) = compiled.cubin else { continue };
            image::check(&code).unwrap_or_else(|why| panic!("sm_{sm}: {why}"));
            image::check(&code[..code.len() / 2]).unwrap_err();
            checked += 1;
        }
        assert!(checked >= 3, "{checked}");
    }

    #[test]
    fn a_binding_that_is_an_argument_twice_is_one_buffer_written_where_either_writes() {
        let signature = Signature::new([1; 3]).reads(3).writes(3).reads(0);
        let interface = interface_of(&Text::ptx_unchecked("", signature.clone()), &signature);
        let buffers: Vec<_> = interface.buffers.iter().map(|buffer| (buffer.binding, buffer.usage)).collect();
        assert_eq!(buffers, [(3, BufferUse::ReadWrite), (0, BufferUse::Read)]);
    }
}
