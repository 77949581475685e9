//! Users' kernels in PTX, machine code and CUDA C++: right results, and one typed error for whatever does not fit.
//!
//! PTX runs on the interpreted driver as on a card. Machine code needs a card, and CUDA C++ NVRTC: where there is none, that is said.

use crate::common::{bind, download, interpreted, is_child, on_card, on_interpreted, upload, usable};
use polywarp_core::{Backend, Binding, Clock, Device, Error, Kernel, Signature};
use polywarp_cuda::{CudaBackend, Options};

/// y[i] = a * x[i] + y[i] for i < n, in wrapping arithmetic of u32.
const AXPY: &str = "
.version 6.4
.target sm_70
.address_size 64
.visible .entry axpy(.param .u64 .ptr .global .align 4 y, .param .u64 x, .param .u32 a, .param .u64 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<10>;
    .reg .b64 %rd<10>;
    ld.param.u64 %rd1, [y];
    ld.param.u64 %rd2, [x];
    ld.param.u32 %r1, [a];
    ld.param.u64 %rd3, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    cvt.u64.u32 %rd4, %r5;
    setp.ge.u64 %p1, %rd4, %rd3;
    @%p1 bra DONE;
    shl.b64 %rd5, %rd4, 2;
    add.s64 %rd6, %rd1, %rd5;
    add.s64 %rd7, %rd2, %rd5;
    ld.global.u32 %r6, [%rd7];
    ld.global.u32 %r7, [%rd6];
    mad.lo.s32 %r8, %r6, %r1, %r7;
    st.global.u32 [%rd6], %r8;
DONE:
    ret;
}
.visible .entry other(.param .u64 y) .maxntid 32, 1, 1 { ret; }
.visible .entry fixed() .reqntid 64, 1, 1 { ret; }";

const AXPY_CPP: &str = "
    __global__ void axpy(unsigned *y, const unsigned *x, unsigned a, unsigned long long n) {
        unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = a * x[i] + y[i];
    }";

/// With the arguments of `axpy`.
fn signature(a: u32, n: i64) -> Signature {
    Signature::new([64, 1, 1]).writes(0).reads(1).value(a).value(n)
}

fn axpy(a: u32, n: i64) -> Kernel {
    Kernel::ptx_unchecked(AXPY, signature(a, n)).entry("axpy")
}

/// What a kernel with the arguments of `axpy` does to 100 elements; it may reach the first 90.
fn computes(backend: &CudaBackend, kernel: impl Fn(u32, i64) -> Kernel) {
    let (x, mut y): (Vec<u32>, Vec<u32>) = ((0..100).collect(), (0..100).map(|i| 1000 * i).collect());
    let (on_x, on_y) = (upload(backend, &x), upload(backend, &y));
    // One kernel, with other values at each launch.
    for a in [3u32, u32::MAX] {
        backend.launch(&kernel(a, 90), [2, 1, 1], &[bind(0, &on_y), bind(1, &on_x)]).unwrap();
        for i in 0..90 {
            y[i] = y[i].wrapping_add(a.wrapping_mul(x[i]));
        }
        assert_eq!(download(backend, &on_y), y);
    }
}

#[test]
fn ptx_computes_and_takes_its_values_anew_at_each_launch() {
    on_card(|backend| computes(backend, axpy));
}

#[test]
fn ptx_is_recorded_timed_and_profiled_like_wgsl() {
    on_card(|backend| {
        let (x, y) = (upload(backend, &[1; 64]), upload(backend, &[0; 64]));
        let bindings = [bind(0, &y), bind(1, &x)];
        backend.begin_recording().unwrap();
        backend.launch(&axpy(2, 64), [1, 1, 1], &bindings).unwrap();
        backend.launch(&axpy(5, 32), [1, 1, 1], &bindings).unwrap();
        let recorded = backend.end_recording().unwrap();
        assert_eq!(download(backend, &y), [0; 64], "recorded, not run");
        for _ in 0..3 {
            backend.replay(&recorded).unwrap();
        }
        let expected: Vec<u32> = (0..64).map(|i| if i < 32 { 21 } else { 6 }).collect();
        assert_eq!(download(backend, &y), expected);
        let elapsed = backend.timed(&mut || backend.launch(&axpy(1, 64), [1, 1, 1], &bindings)).unwrap();
        assert_eq!(elapsed.clock, Clock::Device);
        let (launched, _) = backend
            .profile(&mut || {
                backend.launch(&axpy(1, 64), [1, 1, 1], &bindings)?;
                backend.replay(&recorded)
            })
            .unwrap();
        let names: Vec<&str> = launched.iter().map(|launch| &*launch.kernel).collect();
        assert_eq!(names, ["axpy"; 3]);
    });
}

#[test]
fn range_of_a_binding_is_where_its_address_points() {
    on_card(|backend| {
        let (x, y) = (upload(backend, &[1; 8]), upload(backend, &[0; 8]));
        let part = Binding { range: 16..32, ..bind(0, &y) };
        backend.launch(&axpy(7, 4), [1, 1, 1], &[part, bind(1, &x)]).unwrap();
        assert_eq!(download(backend, &y), [0, 0, 0, 0, 7, 7, 7, 7]);
    });
}

#[test]
fn grid_of_nothing_is_nothing_and_one_too_large_is_refused() {
    on_card(|backend| {
        let (x, y) = (upload(backend, &[1; 8]), upload(backend, &[5; 8]));
        let bindings = [bind(0, &y), bind(1, &x)];
        backend.launch(&axpy(7, 4), [1, 0, 1], &bindings).unwrap();
        let refused = backend.launch(&axpy(7, 4), [1, 1 << 20, 1], &bindings);
        assert!(matches!(refused, Err(Error::DispatchTooLarge { .. })), "{refused:?}");
        assert_eq!(download(backend, &y), [5; 8]);
    });
}

#[test]
fn bindings_that_do_not_fit_are_refused_like_those_of_wgsl() {
    on_card(|backend| {
        let (x, y) = (upload(backend, &[1; 64]), upload(backend, &[5; 64]));
        let refused = |bindings: &[Binding]| match backend.launch(&axpy(1, 64), [1, 1, 1], bindings) {
            Err(Error::Binding { binding, reason, .. }) => (binding, reason),
            other => panic!("{other:?}"),
        };
        let (at, why) = refused(&[bind(0, &y)]);
        assert!(at == 1 && why.contains("`argument 1`") && why.contains("nothing is bound"), "{why}");
        assert!(refused(&[bind(0, &y), bind(1, &x), bind(2, &x)]).1.contains("declares nothing"));
        assert!(refused(&[bind(0, &y), bind(1, &y)]).1.contains("one of both is written"));
        assert!(refused(&[Binding { range: 4..8, ..bind(0, &y) }, bind(1, &x)]).1.contains("multiples of 16"));
        assert!(refused(&[Binding { range: 0..999, ..bind(0, &y) }, bind(1, &x)]).1.contains("not in a buffer"));
        let elsewhere = Device::cpu();
        let foreign = bind(0, &elsewhere.backend().alloc(256).unwrap());
        let refused = backend.launch(&axpy(1, 64), [1, 1, 1], &[foreign, bind(1, &x)]);
        assert!(matches!(refused, Err(Error::DeviceMismatch { .. })), "{refused:?}");
        assert_eq!(download(backend, &y), [5; 64]);
    });
}

/// The reason for which `kernel` is refused as an argument called `what`.
fn refused_argument(backend: &CudaBackend, kernel: &Kernel, of: &str) -> String {
    let (x, y) = (upload(backend, &[1; 64]), upload(backend, &[5; 64]));
    match backend.launch(kernel, [1, 1, 1], &[bind(0, &y), bind(1, &x)]) {
        Err(Error::InvalidArgument { what, reason }) if what == of => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn signatures_that_do_not_fit_the_text_are_refused() {
    on_card(|backend| {
        let refused = |signature: Signature, of| {
            refused_argument(backend, &Kernel::ptx_unchecked(AXPY, signature).entry("axpy"), of)
        };
        let arguments = "arguments of the kernel";
        let block = || Signature::new([64, 1, 1]).writes(0).reads(1);
        assert_eq!(refused(block().value(1u32), arguments), "`axpy` takes 4, the signature has 3");
        let why = refused(block().value(1u32).value(64u32), arguments);
        assert_eq!(why, "argument 3 (`n`) of `axpy` has 8 bytes, the value given has 4");
        let why = refused(block().reads(1).value(64i64), arguments);
        assert_eq!(why, "argument 2 (`a`) of `axpy` has 4 bytes, a buffer's address has 8");
        let by_name = |name: &str, block| Kernel::ptx_unchecked(AXPY, Signature::new(block).writes(0)).entry(name);
        assert!(refused_argument(backend, &by_name("other", [33, 1, 1]), "block").contains("at most 32"));
        assert!(refused_argument(backend, &by_name("fixed", [32, 1, 1]), "block").contains("[64, 1, 1]"));
        assert!(refused_argument(backend, &by_name("other", [0, 1, 1]), "block").contains("no threads"));
        let why = refused_argument(backend, &by_name("none", [1, 1, 1]), "entry point");
        assert!(why.contains("`axpy`, `other`, `fixed`"), "{why}");
        let why = refused_argument(backend, &Kernel::ptx_unchecked(AXPY, block()), "entry point");
        assert!(why.contains("choose one"), "{why}");
        let why = refused_argument(backend, &axpy(1, 1).define("N", 1.0), "define");
        assert!(why.contains("PTX"), "{why}");
    });
}

#[test]
fn blocks_and_shared_memory_beyond_the_card_are_refused() {
    on_card(|backend| {
        let (x, y) = (upload(backend, &[1; 64]), upload(backend, &[5; 64]));
        let refused = |signature: Signature| {
            let kernel =
                Kernel::ptx_unchecked(AXPY, signature.writes(0).reads(1).value(1u32).value(64i64)).entry("axpy");
            match backend.launch(&kernel, [1, 1, 1], &[bind(0, &y), bind(1, &x)]) {
                Err(Error::ResourceLimit { kind, requested, max, .. }) if requested > max => kind,
                other => panic!("{other:?}"),
            }
        };
        assert!(refused(Signature::new([1025, 1, 1])).contains("along x"));
        assert!(refused(Signature::new([1, 1, 65])).contains("along z"));
        assert!(refused(Signature::new([64, 32, 1])).ends_with("workgroup"));
        assert!(refused(Signature::new([1, 1, 1]).dynamic_shared_bytes(1 << 20)).contains("workgroup memory"));
    });
}

#[test]
fn dynamic_shared_memory_beyond_48_kib_is_there() {
    on_card(|backend| {
        let bytes = backend.info().limits.max_workgroup_bytes;
        assert!(bytes > 48 << 10, "{bytes}");
        let text = "
            .version 6.4
            .target sm_70
            .address_size 64
            .extern .shared .align 16 .b8 room[];
            .visible .entry last(.param .u64 y, .param .u32 at) {
                .reg .b32 %r<6>;
                .reg .b64 %rd<3>;
                ld.param.u64 %rd1, [y];
                ld.param.u32 %r1, [at];
                mov.u32 %r2, room;
                add.s32 %r3, %r2, %r1;
                mov.u32 %r4, 77;
                st.shared.u32 [%r3], %r4;
                ld.shared.u32 %r5, [%r3];
                st.global.u32 [%rd1], %r5;
                ret;
            }";
        let y = upload(backend, &[0; 4]);
        let signature = Signature::new([1, 1, 1]).dynamic_shared_bytes(bytes).writes(0).value(bytes - 4);
        backend.launch(&Kernel::ptx_unchecked(text, signature), [1, 1, 1], &[bind(0, &y)]).unwrap();
        assert_eq!(download(backend, &y), [77, 0, 0, 0]);
    });
}

#[test]
fn text_that_is_no_ptx_is_refused_with_the_assemblers_words() {
    on_card(|backend| {
        let text = AXPY.replace("mad.lo.s32 %r5", "mad.low.s32 %r5");
        let (x, y) = (upload(backend, &[1; 64]), upload(backend, &[5; 64]));
        let kernel = Kernel::ptx_unchecked(text, signature(1, 64)).entry("axpy");
        match backend.launch(&kernel, [1, 1, 1], &[bind(0, &y), bind(1, &x)]) {
            Err(Error::Shader { message, .. }) => {
                assert!(message.starts_with("the driver refuses the PTX: "), "{message}")
            }
            other => panic!("{other:?}"),
        }
        let why = refused_argument(backend, &Kernel::ptx_unchecked("int main() {}", signature(1, 1)), "entry point");
        assert!(why.contains("no .entry"), "{why}");
    });
}

#[test]
fn ptx_newer_than_the_driver_says_which_driver_reads_it() {
    const NAME: &str = "ptx_newer_than_the_driver_says_which_driver_reads_it";
    if !is_child(NAME) {
        on_interpreted(NAME, &[("INTERPRETED_VERSION", "11040"), ("INTERPRETED_PTX", "74"), ("POLYWARP_CACHE", "off")]);
        return;
    }
    assert!(interpreted());
    let backend = usable()[0].open(Options::default()).unwrap();
    let (x, y) = (upload(&backend, &[1; 64]), upload(&backend, &[5; 64]));
    let kernel = Kernel::ptx_unchecked(AXPY.replace("6.4", "8.3"), signature(1, 64)).entry("axpy");
    match backend.launch(&kernel, [1, 1, 1], &[bind(0, &y), bind(1, &x)]) {
        Err(Error::DriverTooOld { what, needed, .. }) => {
            assert_eq!((what.as_str(), needed.as_str()), ("kernel `axpy` (PTX 8.3)", "545 (CUDA 12.3)"));
        }
        other => panic!("{other:?}"),
    }
    println!("SURVIVED");
}

#[test]
fn kernel_that_breaks_its_word_is_a_poisoned_device_not_a_crash() {
    const NAME: &str = "kernel_that_breaks_its_word_is_a_poisoned_device_not_a_crash";
    if !is_child(NAME) {
        on_interpreted(NAME, &[("POLYWARP_CACHE", "off")]);
        return;
    }
    assert!(interpreted());
    let backend = usable()[0].open(Options::default()).unwrap();
    let (x, y) = (upload(&backend, &[1; 4]), upload(&backend, &[5; 4]));
    // Vouched for: 64 elements of a buffer of 4, a launch far behind its end.
    let sent = backend.launch(&axpy(1, i64::MAX), [1 << 20, 1, 1], &[bind(0, &y), bind(1, &x)]);
    let told = sent.and_then(|()| backend.synchronize());
    assert!(matches!(told, Err(Error::DevicePoisoned { .. })), "{told:?}");
    println!("SURVIVED");
}

#[test]
fn bytes_that_are_no_machine_code_are_refused() {
    on_card(|backend| {
        let (x, y) = (upload(backend, &[1; 64]), upload(backend, &[5; 64]));
        let refused = |code: Vec<u8>| match backend.launch(
            &Kernel::cubin_unchecked(code, signature(1, 64)).entry("axpy"),
            [1, 1, 1],
            &[bind(0, &y), bind(1, &x)],
        ) {
            Err(Error::Shader { message, .. }) => message,
            other => panic!("{other:?}"),
        };
        assert!(refused(Vec::new()).contains("neither a cubin"));
        assert!(refused(AXPY.as_bytes().to_vec()).contains("neither a cubin"));
        // An ELF file for CUDA without anything in it, which the driver looks at.
        let mut empty = vec![0; 64];
        empty[..6].copy_from_slice(b"\x7fELF\x02\x01");
        empty[18] = 190;
        assert!(refused(empty.clone()).contains("the driver refuses"));
        empty[60] = 9;
        empty[58] = 64;
        assert!(refused(empty).contains("cut short"));
        let unnamed = Kernel::cubin_unchecked(vec![0; 64], signature(1, 64));
        let refused = backend.launch(&unnamed, [1, 1, 1], &[bind(0, &y), bind(1, &x)]);
        assert!(matches!(refused, Err(Error::Shader { .. } | Error::InvalidArgument { .. })), "{refused:?}");
    });
}

/// Whether NVRTC is missing, which is a typed error that says what to install; said here.
fn is_without_nvrtc(launched: &polywarp_core::Result<()>) -> bool {
    match launched {
        Err(Error::BackendUnavailable { backend: "NVRTC", reason }) => {
            assert!(reason.contains("install"), "{reason}");
            println!("NOT RUN: {reason}");
            true
        }
        _ => false,
    }
}

#[test]
fn cuda_cpp_computes_where_nvrtc_is() {
    on_card(|backend| {
        let cpp = |a, n| Kernel::cuda_cpp_unchecked(AXPY_CPP, signature(a, n)).entry("axpy");
        let (x, y) = (upload(backend, &[1; 64]), upload(backend, &[5; 64]));
        let bindings = [bind(0, &y), bind(1, &x)];
        let launched = backend.launch(&cpp(1, 64), [1, 1, 1], &bindings);
        if is_without_nvrtc(&launched) {
            return;
        }
        launched.unwrap();
        assert_eq!(download(backend, &y), [6; 64]);
        computes(backend, cpp);
        // Only one kernel: it needs no name. Templates and macros: as C++ has them.
        computes(backend, |a, n| Kernel::cuda_cpp_unchecked(AXPY_CPP, signature(a, n)));
        let text = AXPY_CPP
            .replace("__global__", "template <typename T> __global__")
            .replace("unsigned *", "T *")
            .replace("a * x", "FACTOR * a * x");
        computes(backend, |a, n| {
            Kernel::cuda_cpp_unchecked(text.as_str(), signature(a, n)).entry("axpy<unsigned>").define("FACTOR", 1.0)
        });
        let faulty = Kernel::cuda_cpp_unchecked(AXPY_CPP.replace("if (i", "if i"), signature(1, 64)).entry("axpy");
        match backend.launch(&faulty, [1, 1, 1], &bindings) {
            Err(Error::Shader { line: 4, message, .. }) => assert!(message.contains("expected a \"(\""), "{message}"),
            other => panic!("{other:?}"),
        }
        let by_code = Kernel::cuda_cpp_unchecked(AXPY_CPP, signature(1, 64)).entry("_Z4axpyPjPKjjy");
        backend.launch(&by_code, [1, 1, 1], &bindings).unwrap();
        let none = Kernel::cuda_cpp_unchecked(AXPY_CPP, signature(1, 64)).entry("nobody");
        assert!(refused_argument(backend, &none, "entry point").contains("`nobody`"));
        let short = Kernel::cuda_cpp_unchecked(AXPY_CPP, Signature::new([64, 1, 1]).writes(0).reads(1)).entry("axpy");
        assert!(refused_argument(backend, &short, "arguments of the kernel").contains("takes 4"));
    });
}

#[test]
fn machine_code_computes_on_a_card() {
    on_card(|backend| {
        if interpreted() {
            println!("NOT RUN: machine code needs a card");
            return;
        }
        let Some(code) = cubin() else { return };
        let kernel = |code: Vec<u8>, signature| Kernel::cubin_unchecked(code, signature).entry("axpy");
        computes(backend, |a, n| kernel(code.clone(), signature(a, n)));
        let none = Kernel::cubin_unchecked(code.clone(), signature(1, 1)).entry("nobody");
        assert!(refused_argument(backend, &none, "entry point").contains("`nobody`"));
        let none = Kernel::cubin_unchecked(code.clone(), signature(1, 1));
        assert!(refused_argument(backend, &none, "entry point").contains("needs its name"));
        let driver = &backend.info().driver;
        if !driver.contains("CUDA 11.") && !["12.0", "12.1", "12.2", "12.3"].iter().any(|old| driver.contains(old)) {
            let short = kernel(code, Signature::new([64, 1, 1]).writes(0).reads(1));
            assert!(refused_argument(backend, &short, "arguments of the kernel").contains("takes 4"));
        }
    });
}

/// The machine code of [`AXPY`] for this card, by `ptxas`, where there is one.
fn cubin() -> Option<Vec<u8>> {
    let folder = std::env::temp_dir().join(format!("polywarp-foreign-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (ptx, cubin) = (folder.join("axpy.ptx"), folder.join("axpy.cubin"));
    std::fs::write(&ptx, AXPY).unwrap();
    let (major, minor) = usable()[0].compute_capability;
    let assembler = std::env::var("PTXAS").unwrap_or_else(|_| "ptxas".to_owned());
    let ran = std::process::Command::new(assembler)
        .arg(format!("-arch=sm_{major}{minor}"))
        .arg(&ptx)
        .arg("-o")
        .arg(&cubin)
        .status();
    let code = match ran {
        Ok(status) if status.success() => Some(std::fs::read(&cubin).unwrap()),
        other => {
            println!("NOT RUN: no ptxas ({other:?})");
            None
        }
    };
    std::fs::remove_dir_all(&folder).unwrap();
    code
}
