//! Kernels: WGSL to PTX to machine code, each once; loaded, and found again without a search of text.
//!
//! The way of a kernel: its WGSL is parsed and compiled by naga-ptx, the driver assembles the PTX for its own card, and
//! the result goes to the cache on disk, from which the next process loads it without compiling anything. Everyday kernels
//! of the library were compiled before (`prepared.rs`) and are only loaded. The library's own kernels are known by their
//! [`KernelKey`], users' by their text (`launch.rs`). Two threads that need the same new kernel compile it once; threads that
//! need different ones do not wait for each other.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use naga::valid::ModuleInfo;
use naga_ptx::{Options, Ptx, Target, Uniforms};
use polywarp_core::plan::{KernelKey, Source};
use polywarp_core::{Error, Result};
use polywarp_shaders::wgsl::{ReadKernel, guarded, parse_and_validate, place};

use crate::cache::{DiskCache, Entry, Key};
use crate::driver::one_line;
use crate::fault::lock;
use crate::native::{self, Context, Function, Start};
use crate::options::{CAPABILITIES, own_options};
use crate::params::Metadata;
use crate::prepared::Prepared;
use crate::status::{Code, code};

/// The state of the compiler, as `build.rs` found it.
pub(crate) const COMPILER: &str = env!("POLYWARP_COMPILER");

/// A kernel ready to run.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) function: Function,
    pub(crate) metadata: Metadata,
    /// Where each parameter starts in a launch's block, when the driver is to place them; none where the block is laid out
    /// as the machine code has it.
    pub(crate) offsets: Vec<usize>,
    pub(crate) start: Start,
}

/// Compiles kernels for one card.
#[derive(Debug)]
pub(crate) struct Compiler {
    pub(crate) context: Arc<Context>,
    pub(crate) target: Target,
    pub(crate) prepared: Prepared,
    pub(crate) disk: DiskCache,
}

/// What a kernel is made of: a module in WGSL's own terms, or its text.
enum Input<'a> {
    Text(&'a str),
    /// The text is where places in errors are looked up.
    Module(&'a naga::Module, &'a ModuleInfo, &'a str),
}

impl Compiler {
    pub(crate) fn new(context: &Arc<Context>, target: Target) -> Compiler {
        let (prepared, disk) = (Prepared::new(target), DiskCache::from_env());
        Compiler { context: Arc::clone(context), target, prepared, disk }
    }

    /// Whether the kernel `key` would only be loaded.
    fn is_compiled(&self, key: &KernelKey) -> bool {
        let source = key.source();
        if !key.is_own() {
            return self.disk.has(&self.key(&source.wgsl, &self.brought_options()));
        }
        self.prepared.has(&source.wgsl) || self.disk.has(&self.key(&source.wgsl, &own_options(self.target)))
    }

    /// How what others wrote is compiled: with every check.
    fn checked(&self, entry: &str) -> Options {
        Options {
            target: self.target,
            entry_point: Some(entry.to_owned()),
            // More rounds than any loop that is meant to end needs, few enough to end within minutes.
            loop_limit: Some(u32::MAX),
            ..Options::default()
        }
    }

    /// The same for what an operation of another crate brings, which has its `Params` as plans hand them over.
    fn brought_options(&self) -> Options {
        Options { uniforms: Uniforms::Parameters, ..self.checked("main") }
    }

    /// A kernel that an operation of another crate brings: trusted with nothing.
    fn brought(&self, source: &Source) -> Result<Kernel> {
        self.make(&source.name, &source.wgsl, Input::Text(&source.wgsl), &self.brought_options())
    }

    /// What the kernel made of `identity` is known by on disk.
    fn key(&self, identity: &str, options: &Options) -> Key {
        key(identity, options, COMPILER, self.target, &self.context.api.identity())
    }

    /// One of the library's own kernels.
    pub(crate) fn own(&self, source: &Source) -> Result<Kernel> {
        if let Some(entry) = self.prepared.get(&source.wgsl) {
            match self.load(&source.name, &entry)? {
                Ok(kernel) => {
                    self.prepared.taken();
                    return Ok(kernel);
                }
                Err(failed) => {
                    // Such as by a driver older than the assembler that made it: compiled here, it will do.
                    log::info!("prepared kernel `{}` is not used: {}", source.name, self.context.api.words(failed));
                    self.prepared.refused(failed);
                }
            }
        }
        let options = own_options(self.target);
        let made = self.make(&source.name, &source.wgsl, Input::Text(&source.wgsl), &options);
        made.map_err(|error| {
            // What no user wrote no user can put right.
            let bug = |message: &str| {
                let name = &source.name;
                log::debug!("kernel {name} was refused; its source:\n{}", source.wgsl);
                let words = format!("kernel `{name}` does not compile, which is a bug of polywarp, please report it");
                Error::Shader { line: 0, column: 0, message: format!("{words}: {message}") }
            };
            match error {
                Error::Shader { message, .. } => bug(&message),
                Error::Unsupported { what, reason, .. } => bug(&format!("{what}: {reason}")),
                Error::ShaderTooComplex { .. } | Error::InvalidArgument { .. } => bug(&error.to_string()),
                other => other,
            }
        })
    }

    /// A user's kernel, read from `text`; `identity` is all that decided what it is.
    pub(crate) fn users(&self, read: &ReadKernel, text: &str, identity: &str) -> Result<Kernel> {
        let entry = &read.interface.entry;
        self.make(entry, identity, Input::Module(&read.module, &read.info, text), &self.checked(entry))
    }

    fn make(&self, name: &str, identity: &str, input: Input<'_>, options: &Options) -> Result<Kernel> {
        let api = self.context.api;
        let key = self.key(identity, options);
        if let Some(entry) = self.disk.get(&key) {
            match self.load(name, &entry)? {
                Ok(kernel) => return Ok(kernel),
                Err(failed) => log::info!("cached kernel `{name}` is not used: {}", api.words(failed)),
            }
        }
        let ptx = match input {
            Input::Text(text) => {
                let (module, info) = parse_and_validate(text, CAPABILITIES)?;
                self.compile(&module, &info, text, options)?
            }
            Input::Module(module, info, text) => self.compile(module, info, text, options)?,
        };
        let Some(metadata) = ptx.entry_points.first().and_then(Metadata::of) else {
            let reason = "its parameters cannot be passed by this backend".to_owned();
            return Err(self.unsupported(format!("kernel `{name}`"), reason));
        };
        let cubin = match native::link(&self.context, &ptx.text)? {
            Ok(cubin) => cubin,
            Err(failed) if failed.code == code::OUT_OF_MEMORY => {
                return Err(self.context.error_for(&format!("compiling kernel `{name}`"), failed.code, ptx.text.len()));
            }
            Err(failed) => {
                log::debug!("the PTX of kernel `{name}` was refused:\n{}", ptx.text);
                return Err(native::not_linked(&self.context, name, &ptx.version.to_string(), failed));
            }
        };
        let entry = Entry { metadata, cubin };
        match self.load(name, &entry)? {
            Ok(kernel) => {
                self.disk.put(&key, &entry);
                Ok(kernel)
            }
            Err(failed) => Err(self.context.error(&format!("loading kernel `{name}`"), failed)),
        }
    }

    /// naga's module, made of `text`, as PTX. On a stack that is deep enough for whatever naga accepts.
    fn compile(&self, module: &naga::Module, info: &ModuleInfo, text: &str, options: &Options) -> Result<Ptx> {
        let compiled = guarded(|| Ok(naga_ptx::compile(module, info, options)))?;
        compiled.map_err(|error| match error {
            naga_ptx::Error::Unsupported { construct, reason, span } => {
                let at = span.and_then(|span| place(text, span.to_range()?.start));
                let at = at.map(|(line, column)| format!(" (line {line}, column {column} of the kernel)"));
                self.unsupported(construct + &at.unwrap_or_default(), reason)
            }
            naga_ptx::Error::TooComplex { what, limit } => {
                Error::ShaderTooComplex { what, found: limit.saturating_add(1), limit }
            }
            other => Error::Shader { line: 0, column: 0, message: one_line(&other.to_string()) },
        })
    }

    fn load(&self, name: &str, entry: &Entry) -> Result<Result<Kernel, Code>> {
        let metadata = &entry.metadata;
        let loaded = native::load(&self.context, &entry.cubin, &metadata.symbol, metadata.dynamic_shared_bytes)?;
        if let (Ok(function), true) = (&loaded, log::log_enabled!(log::Level::Debug)) {
            let (registers, local) = function.usage()?;
            log::debug!("kernel {name}: {registers} registers, {local} bytes of local memory");
        }
        Ok(loaded.map(|function| Kernel {
            name: name.to_owned(),
            function,
            metadata: metadata.clone(),
            offsets: Vec::new(),
            start: Start::InTurn,
        }))
    }

    fn unsupported(&self, what: String, reason: String) -> Error {
        Error::Unsupported { device: self.context.fault.device().to_owned(), what, reason }
    }
}

/// The key of all that machine code depends on: what it is made of, by what, and for which card and driver.
fn key(identity: &str, options: &Options, compiler: &str, target: Target, driver: &str) -> Key {
    Key::of(&[identity, &format!("{options:?}"), compiler, &target.to_string(), driver])
}

#[derive(Debug, Default)]
struct Slot {
    ready: OnceLock<Arc<Kernel>>,
    making: Mutex<()>,
}

/// The library's own kernels that are loaded.
#[derive(Debug)]
pub(crate) struct Kernels {
    pub(crate) compiler: Compiler,
    slots: RwLock<HashMap<KernelKey, Arc<Slot>, BuildHasherDefault<Mix>>>,
}

impl Kernels {
    pub(crate) fn new(compiler: Compiler) -> Kernels {
        Kernels { compiler, slots: RwLock::default() }
    }

    /// The kernel for `key`.
    pub(crate) fn get(&self, key: &KernelKey) -> Result<Arc<Kernel>> {
        let slot = self.slot(key);
        if let Some(kernel) = slot.ready.get() {
            return Ok(Arc::clone(kernel));
        }
        let _making = lock(&slot.making);
        if let Some(kernel) = slot.ready.get() {
            return Ok(Arc::clone(kernel));
        }
        let (start, source) = (Instant::now(), key.source());
        let own = key.is_own();
        let kernel = Arc::new(if own { self.compiler.own(&source)? } else { self.compiler.brought(&source)? });
        log::debug!("kernel {}: ready in {:?}", source.name, start.elapsed());
        Ok(Arc::clone(slot.ready.get_or_init(|| kernel)))
    }

    /// Whether the kernel for `key` is loaded, or can be without compiling anything.
    pub(crate) fn is_compiled(&self, key: &KernelKey) -> bool {
        self.slot(key).ready.get().is_some() || self.compiler.is_compiled(key)
    }

    /// Kernels loaded so far.
    pub(crate) fn loaded(&self) -> usize {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.values().filter(|slot| slot.ready.get().is_some()).count()
    }

    fn slot(&self, key: &KernelKey) -> Arc<Slot> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(key) {
            return Arc::clone(slot);
        }
        drop(slots);
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(key.clone()).or_default())
    }
}

/// A quick hash for keys that no stranger chooses: multiply and rotate per word.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mix(u64);

impl Mix {
    fn word(&mut self, word: u64) {
        // An odd number near 2^64 / golden ratio spreads neighbouring words over all bits.
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        // The table takes its bucket from the low bits and a tag from the high ones.
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.word(u64::from_le_bytes(chunk.try_into().unwrap_or_default()));
        }
        let rest = chunks.remainder();
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.word(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.word(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.word(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.word(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.word(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.word(value as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_changes_with_each_of_its_parts() {
        let (old, new) = (Target::new(8, 0), Target::new(9, 0));
        let options = Options { target: old, ..Options::default() };
        let changed = [
            Options { loop_limit: Some(7), ..options.clone() },
            Options { entry_point: Some("other".to_owned()), ..options.clone() },
            Options { target: new, ..options.clone() },
            Options::trusted(old),
        ];
        let mut keys = vec![
            key("text", &options, COMPILER, old, "CUDA 12.8"),
            key("text ", &options, COMPILER, old, "CUDA 12.8"),
            key("text", &options, "0.1.0-0", old, "CUDA 12.8"),
            key("text", &options, COMPILER, new, "CUDA 12.8"),
            key("text", &options, COMPILER, old, "CUDA 13.0"),
        ];
        keys.extend(changed.iter().map(|options| key("text", options, COMPILER, old, "CUDA 12.8")));
        for (i, one) in keys.iter().enumerate() {
            assert!(!keys[i + 1..].contains(one), "key {i} is another's too");
        }
        assert_eq!(keys[0], key("text", &options, COMPILER, old, "CUDA 12.8"));
    }

    #[test]
    fn mix_tells_neighbours_apart() {
        let hash = |words: &[u64]| {
            let mut mix = Mix::default();
            words.iter().for_each(|&word| mix.write_u64(word));
            mix.finish()
        };
        let mut low: Vec<u64> = (0..4096u64).map(|i| hash(&[i % 64, i / 64]) % 4096).collect();
        low.sort_unstable();
        low.dedup();
        // 4096 random numbers below 4096 hit about 63 % of them.
        assert!(low.len() > 2200, "{}", low.len());
        assert_ne!(hash(&[1, 2]), hash(&[2, 1]));
    }
}
