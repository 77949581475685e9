//! Users' kernels that were compiled before, for backends.
//!
//! Looked up by a hash of text, entry point and defines, and then told apart by the kernel itself: equal hashes may be
//! made by a stranger. A kernel is a user's text and may be one of endlessly many, so the number kept is bounded.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polywarp_core::{Code, CudaCode, Kernel};

/// Compiled kernels kept at most.
const MOST_KERNELS: usize = 512;

/// Compiled kernels `T` by what they were compiled from.
#[derive(Debug)]
pub struct KnownKernels<T>(Mutex<HashMap<u64, Vec<Known<T>>>>);

type Known<T> = (Kernel, Arc<T>);

impl<T> Default for KnownKernels<T> {
    fn default() -> KnownKernels<T> {
        KnownKernels(Mutex::default())
    }
}

impl<T> KnownKernels<T> {
    /// What `kernel` was compiled to.
    pub fn get(&self, kernel: &Kernel) -> Option<Arc<T>> {
        let known = self.lock();
        let found = known.get(&hash_of(kernel))?.iter().find(|(text, _)| text == kernel);
        found.map(|(_, compiled)| Arc::clone(compiled))
    }

    /// Keeps what `kernel` was compiled to.
    pub fn insert(&self, kernel: &Kernel, compiled: T) -> Arc<T> {
        let compiled = Arc::new(compiled);
        let mut known = self.lock();
        // A program that compiles ever new kernels gains nothing from old ones; starting over is cheap and rare.
        if known.values().map(Vec::len).sum::<usize>() >= MOST_KERNELS {
            known.clear();
        }
        let same_hash = known.entry(hash_of(kernel)).or_default();
        same_hash.retain(|(text, _)| text != kernel);
        same_hash.push((kernel.clone(), Arc::clone(&compiled)));
        compiled
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Vec<Known<T>>>> {
        // Every statement leaves the map valid, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash_of(kernel: &Kernel) -> u64 {
    let mut hasher = DefaultHasher::new();
    match &kernel.code {
        Code::Wgsl(text) => text.hash(&mut hasher),
        Code::SpirV(module) => module.hash(&mut hasher),
        Code::Cuda { code: CudaCode::Ptx(text) | CudaCode::Cpp(text), .. } => text.hash(&mut hasher),
        Code::Cuda { code: CudaCode::Cubin(code), .. } => code.hash(&mut hasher),
    }
    kernel.entry.hash(&mut hasher);
    for (name, value) in &kernel.defines {
        name.hash(&mut hasher);
        value.to_bits().hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_told_apart_by_text_entry_and_defines() {
        let known = KnownKernels::default();
        let kernels = [
            Kernel::wgsl("a"),
            Kernel::wgsl("b"),
            Kernel::wgsl("a").entry("main"),
            Kernel::wgsl("a").define("N", 1.0),
            Kernel::wgsl("a").define("N", 2.0),
            Kernel::wgsl("a").define("M", 1.0),
        ];
        for (number, kernel) in kernels.iter().enumerate() {
            assert_eq!(known.get(kernel), None);
            known.insert(kernel, number);
        }
        for (number, kernel) in kernels.iter().enumerate() {
            assert_eq!(known.get(kernel).as_deref(), Some(&number));
        }
        known.insert(&kernels[1], 7);
        assert_eq!(known.get(&kernels[1]).as_deref(), Some(&7));
    }

    #[test]
    fn number_kept_is_bounded() {
        let known = KnownKernels::default();
        for number in 0..3 * MOST_KERNELS {
            known.insert(&Kernel::wgsl(number.to_string()), number);
            assert!(known.lock().values().map(Vec::len).sum::<usize>() <= MOST_KERNELS);
        }
        let last = Kernel::wgsl((3 * MOST_KERNELS - 1).to_string());
        assert_eq!(known.get(&last).as_deref(), Some(&(3 * MOST_KERNELS - 1)));
    }
}
