//! Buffers of 32-bit words, two small kernels, and waiting for a read: what tests of backends are made of, here and in their
//! own crates.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::{Backend, Binding, Buffer, Kernel, Result};

/// Adds `by` to every word at binding 0.
pub fn add_kernel(by: u32) -> Kernel {
    Kernel::wgsl(format!(
        "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
            if id.x < arrayLength(&x) {{ x[id.x] = x[id.x] + {by}u; }}
        }}"
    ))
}

/// Every word at binding 0, plus one, to binding 1.
pub fn copy_add_kernel() -> Kernel {
    Kernel::wgsl(
        "@group(0) @binding(0) var<storage, read> x: array<u32>;
        @group(0) @binding(1) var<storage, read_write> y: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            if id.x < arrayLength(&y) { y[id.x] = x[id.x] + 1u; }
        }",
    )
}

/// The whole of `buffer` at `@group(0) @binding(binding)`.
pub fn bind(binding: u32, buffer: &Buffer) -> Binding {
    Binding { group: 0, binding, buffer: buffer.clone(), range: 0..buffer.size_bytes() }
}

/// [`Backend::launch`] with enough workgroups of 64 for a hundred words.
///
/// # Errors
/// As [`Backend::launch`].
pub fn launch(backend: &dyn Backend, kernel: &Kernel, bindings: &[Binding]) -> Result<()> {
    backend.launch(kernel, [2, 1, 1], bindings)
}

/// Little-endian.
pub fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// What [`bytes`] was given.
pub fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}

/// A buffer holding `words`.
///
/// # Errors
/// As [`Backend::alloc`] and [`Backend::write`].
pub fn upload(backend: &dyn Backend, words: &[u32]) -> Result<Buffer> {
    let buffer = backend.alloc(4 * words.len() as u64)?;
    backend.write(&buffer, 0, &bytes(words))?;
    Ok(buffer)
}

/// The first `len` words of a buffer, which may have more than were asked for.
///
/// # Errors
/// As [`Backend::read_blocking`].
pub fn download(backend: &dyn Backend, buffer: &Buffer, len: usize) -> Result<Vec<u32>> {
    Ok(words(&backend.read_blocking(buffer, 0..4 * len as u64)?))
}

/// The value of `future`, with this thread asleep meanwhile.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
