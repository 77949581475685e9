//! A user's own kernel: its code in one of five forms, and how it is launched.
//!
//! Plain data. WGSL and SPIR-V say of themselves what they bind, and backends check all of it. CUDA's forms say little or
//! nothing, so the caller gives a [`Signature`] and vouches for it, in the name of the constructor (`_unchecked`). What a
//! launch binds is a [`crate::Binding`] in every form. Who runs which form: [`crate::Backend::launch`].

use std::sync::Arc;

use crate::{Element, Error, Result};

/// A user's own compute kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// The code.
    pub code: Code,
    /// Entry point; may be left out when there is one.
    pub entry: Option<String>,
    /// Values for `override` declarations (SPIR-V: specialisation constants), by name or number; for CUDA C++ macros.
    pub defines: Vec<(String, f64)>,
}

/// The code of a [`Kernel`].
#[derive(Clone, Debug, PartialEq)]
pub enum Code {
    /// WGSL source.
    Wgsl(String),
    /// A SPIR-V module: words of four bytes, in either order.
    SpirV(Arc<[u8]>),
    /// What only CUDA devices run.
    Cuda {
        /// The code.
        code: CudaCode,
        /// What it takes; the caller's word.
        signature: Signature,
    },
}

/// Code for CUDA devices alone.
#[derive(Clone, Debug, PartialEq)]
pub enum CudaCode {
    /// PTX text, assembled by the driver.
    Ptx(Arc<str>),
    /// Machine code: a cubin, or a fatbin that has one for the card.
    Cubin(Arc<[u8]>),
    /// CUDA C++, compiled by NVRTC where that is found at run time.
    Cpp(Arc<str>),
}

/// What a kernel for CUDA takes: threads of a block, dynamic shared memory, and its arguments in their order.
///
/// ```
/// use polywarp_core::Signature;
///
/// // __global__ void scale(float *y, const float *x, float factor, unsigned n)
/// let signature = Signature::new([256, 1, 1]).writes(1).reads(0).value(2.5f32).value(1000u32);
/// assert_eq!(signature.arguments().len(), 4);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    block: [u32; 3],
    dynamic_shared_bytes: u32,
    arguments: Vec<Argument>,
}

/// One argument of a kernel for CUDA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// The address of the buffer at this binding of group 0, which the kernel only reads.
    Read(u32),
    /// The address of the buffer at this binding of group 0, which the kernel writes or updates.
    Write(u32),
    /// A value: its bytes as the kernel has them in memory, and their alignment in bytes.
    Value(Vec<u8>, usize),
}

impl Signature {
    /// A kernel without arguments, of `block` threads along x, y, z.
    pub fn new(block: [u32; 3]) -> Signature {
        Signature { block, dynamic_shared_bytes: 0, arguments: Vec::new() }
    }

    /// With so many bytes of dynamic shared memory (`extern __shared__`), beyond what the kernel declares itself.
    pub fn dynamic_shared_bytes(mut self, bytes: u32) -> Signature {
        self.dynamic_shared_bytes = bytes;
        self
    }

    /// The next argument: the address of the buffer bound at `binding` of group 0, which the kernel only reads.
    pub fn reads(self, binding: u32) -> Signature {
        self.argument(Argument::Read(binding))
    }

    /// The next argument: the address of the buffer bound at `binding` of group 0, which the kernel writes or updates.
    pub fn writes(self, binding: u32) -> Signature {
        self.argument(Argument::Write(binding))
    }

    /// The next argument: a number by value, `unsigned` for u32 and so on.
    pub fn value<T: Element>(self, value: T) -> Signature {
        self.argument(Argument::Value(T::as_bytes(&[value]).to_vec(), size_of::<T>()))
    }

    /// The next argument: anything else by value, such as a struct or a pointer's bits, aligned to `align` bytes.
    pub fn bytes(self, bytes: &[u8], align: usize) -> Signature {
        self.argument(Argument::Value(bytes.to_vec(), align))
    }

    /// The next argument.
    pub fn argument(mut self, argument: Argument) -> Signature {
        self.arguments.push(argument);
        self
    }

    /// Threads of a block along x, y, z.
    pub fn block(&self) -> [u32; 3] {
        self.block
    }

    /// Bytes of dynamic shared memory.
    pub fn shared_bytes(&self) -> u32 {
        self.dynamic_shared_bytes
    }

    /// The arguments, in their order.
    pub fn arguments(&self) -> &[Argument] {
        &self.arguments
    }

    /// The same without arguments: what code is compiled and loaded for.
    pub fn without_arguments(&self) -> Signature {
        Signature { arguments: Vec::new(), ..*self }
    }
}

impl Kernel {
    /// A kernel from WGSL source with one entry point.
    ///
    /// Floats that may be NaN: on Vulkan `a != b` is false where one of them is (naga 30 writes an ordered comparison); `!(a == b)`
    /// is right everywhere.
    pub fn wgsl(source: impl Into<String>) -> Kernel {
        Kernel::of(Code::Wgsl(source.into()))
    }

    /// A kernel from a SPIR-V module, as `glslc`, DXC or `polywarp compile --target spirv` write it. It is read as WGSL is,
    /// with the same checks, and runs on every GPU that runs WGSL, CUDA included; what the reader does not know it names in
    /// an [`Error::Shader`].
    pub fn spirv(module: impl Into<Arc<[u8]>>) -> Kernel {
        Kernel::of(Code::SpirV(module.into()))
    }

    /// A kernel from PTX text, for CUDA devices.
    ///
    /// The number and sizes of the arguments are compared with the text. *Unchecked*, and vouched for by the caller: that
    /// the kernel stays inside the buffers it is given, writes none that `signature` only reads, and means by its arguments
    /// what the caller does. A kernel that breaks this can spoil other memory of the process's device, or end its context
    /// ([`Error::DevicePoisoned`]).
    pub fn ptx_unchecked(text: impl Into<Arc<str>>, signature: Signature) -> Kernel {
        Kernel::cuda(CudaCode::Ptx(text.into()), signature)
    }

    /// A kernel from machine code, a cubin or fatbin, for CUDA devices. It needs its entry point's name: [`Kernel::entry`].
    ///
    /// The number and sizes of the arguments are compared with the code where the driver tells them (CUDA 12.4 and newer).
    /// *Unchecked*: that too before, all that [`Kernel::ptx_unchecked`] lists, and that the code is as its compiler made it.
    pub fn cubin_unchecked(code: impl Into<Arc<[u8]>>, signature: Signature) -> Kernel {
        Kernel::cuda(CudaCode::Cubin(code.into()), signature)
    }

    /// A kernel from CUDA C++, for CUDA devices on machines with NVRTC, CUDA's library that compiles at run time. The entry
    /// point is named as in the source (`multiply_them`, `scale<float>`); [`Kernel::define`] sets macros.
    ///
    /// *Unchecked*: all that [`Kernel::ptx_unchecked`] lists.
    pub fn cuda_cpp_unchecked(source: impl Into<Arc<str>>, signature: Signature) -> Kernel {
        Kernel::cuda(CudaCode::Cpp(source.into()), signature)
    }

    fn cuda(code: CudaCode, signature: Signature) -> Kernel {
        Kernel::of(Code::Cuda { code, signature })
    }

    fn of(code: Code) -> Kernel {
        Kernel { code, entry: None, defines: Vec::new() }
    }

    /// The entry point to run.
    pub fn entry(mut self, name: impl Into<String>) -> Kernel {
        self.entry = Some(name.into());
        self
    }

    /// Sets an `override` declaration; in CUDA C++ a macro.
    pub fn define(mut self, name: impl Into<String>, value: f64) -> Kernel {
        self.defines.push((name.into(), value));
        self
    }

    /// The WGSL text, for places in errors; empty in the other forms.
    pub fn wgsl_text(&self) -> &str {
        match &self.code {
            Code::Wgsl(text) => text,
            Code::SpirV(_) | Code::Cuda { .. } => "",
        }
    }

    /// What the form of the code is called: `WGSL`, `SPIR-V`, `PTX`, `machine code for CUDA`, `CUDA C++`.
    pub fn form(&self) -> &'static str {
        match &self.code {
            Code::Wgsl(_) => "WGSL",
            Code::SpirV(_) => "SPIR-V",
            Code::Cuda { code: CudaCode::Ptx(_), .. } => "PTX",
            Code::Cuda { code: CudaCode::Cubin(_), .. } => "machine code for CUDA",
            Code::Cuda { code: CudaCode::Cpp(_), .. } => "CUDA C++",
        }
    }

    /// Refuses what only CUDA devices run, for a `device` that is none.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn refuse_cuda(&self, device: &str) -> Result<()> {
        match &self.code {
            Code::Wgsl(_) | Code::SpirV(_) => Ok(()),
            Code::Cuda { .. } => Err(Error::Unsupported {
                device: device.to_owned(),
                what: format!("{} in a kernel of your own", self.form()),
                reason: "cuda devices alone run it; WGSL and SPIR-V run on wgpu devices too".to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_keeps_arguments_in_order_with_their_bytes() {
        let signature = Signature::new([8, 4, 1]).dynamic_shared_bytes(64).writes(2).value(-2i32).reads(0).value(true);
        let expected = [
            Argument::Write(2),
            Argument::Value(vec![0xfe, 0xff, 0xff, 0xff], 4),
            Argument::Read(0),
            Argument::Value(vec![1], 1),
        ];
        assert_eq!(signature.arguments(), expected);
        assert_eq!(signature.without_arguments(), Signature::new([8, 4, 1]).dynamic_shared_bytes(64));
    }

    #[test]
    fn kernels_that_only_cuda_runs_are_refused_by_form() {
        let none = || Signature::new([1, 1, 1]);
        let (ptx, cubin, cpp) = ("", vec![], "");
        for (kernel, form) in [
            (Kernel::ptx_unchecked(ptx, none()), "PTX"),
            (Kernel::cubin_unchecked(cubin, none()), "machine code for CUDA"),
            (Kernel::cuda_cpp_unchecked(cpp, none()), "CUDA C++"),
        ] {
            match kernel.refuse_cuda("wgpu:0") {
                Err(Error::Unsupported { device, what, reason }) => {
                    assert_eq!((device.as_str(), what), ("wgpu:0", format!("{form} in a kernel of your own")));
                    assert!(reason.contains("cuda"), "{reason}");
                }
                other => panic!("{other:?}"),
            }
        }
        Kernel::wgsl("").refuse_cuda("x").unwrap();
        Kernel::spirv(vec![]).refuse_cuda("x").unwrap();
    }
}
