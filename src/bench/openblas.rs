//! The rate of an optimised CPU library in the same product: OpenBLAS, where it is installed, opened at run time.
//!
//! Only for the tables: a CPU figure that is compared with GPUs must say how good it is.

use std::time::Instant;

use libloading::Library;
use polywarp_core::ops::Matmul;
use polywarp_core::{DType, Op};

/// `cblas_sgemm` or `cblas_dgemm`: order, transposes, extents, alpha, A, lda, B, ldb, beta, C, ldc.
type Gemm<T> = unsafe extern "C" fn(i32, i32, i32, i32, i32, i32, T, *const T, i32, *const T, i32, T, *mut T, i32);

const ROW_MAJOR: i32 = 101;
const NO_TRANSPOSE: i32 = 111;

/// OpenBLAS's rate on a single dense f32 or f64 product in TFLOP/s; `None` for other ops or where it is not installed.
pub(super) fn rate_of(op: &Op) -> Option<f64> {
    let matmul = op.get::<Matmul>()?;
    let dims = matmul.dims();
    let plain = dims.batch == 1 && matmul.a.layout.is_contiguous() && matmul.b.layout.is_contiguous();
    if !plain || matmul.c.is_some() || matmul.bias.is_some() || matmul.activation.is_some() {
        return None;
    }
    let [m, n, k] = [dims.m, dims.n, dims.k].map(|d| i32::try_from(d).ok().filter(|&d| d > 0));
    let (m, n, k) = (m?, n?, k?);
    let library = open()?;
    let seconds = match matmul.a.dtype {
        // SAFETY: these symbols have these signatures in every CBLAS with 32-bit integers, which the names opened are.
        DType::F32 => unsafe { seconds_of::<f32>(&library, b"cblas_sgemm\0", [m, n, k])? },
        // SAFETY: as above.
        DType::F64 => unsafe { seconds_of::<f64>(&library, b"cblas_dgemm\0", [m, n, k])? },
        _ => return None,
    };
    Some(op.cost().flops as f64 / seconds / 1e12)
}

/// Median seconds of one product of dense random matrices; `None` without the symbol.
///
/// # Safety
/// In `library`, `symbol` must be the name of a [`Gemm`] of `T`.
unsafe fn seconds_of<T: Copy + From<f32>>(library: &Library, symbol: &[u8], [m, n, k]: [i32; 3]) -> Option<f64> {
    let [zero, one] = [0.0, 1.0].map(T::from);
    let (a, b, mut c) = (noise::<T>(m, k)?, noise::<T>(k, n)?, vec![zero; usize::try_from(m.checked_mul(n)?).ok()?]);
    // SAFETY: the caller's promise; the symbol borrows the library, which so outlives the calls below.
    let gemm = unsafe { library.get::<Gemm<T>>(symbol).ok()? };
    Some(median_of_five(|| {
        let (plain, a, b, c) = (NO_TRANSPOSE, a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
        // SAFETY: row-major A [m, k], B [k, n], C [m, n] with leading dimensions k, n, n fill their vectors exactly; all
        // three live until the call returns, and the call is synchronous.
        unsafe { gemm(ROW_MAJOR, plain, plain, m, n, k, one, a, k, b, n, zero, c, n) }
    }))
}

/// The library with as many threads as the CPU backend has; `None` where it cannot have them, because a comparison
/// would then flatter this library.
fn open() -> Option<Library> {
    const NAMES: [&str; 2] = ["libopenblas.so.0", "libopenblas.so"];
    // SAFETY: loading runs OpenBLAS's own initialisers, which set up its threads and nothing else.
    let library = NAMES.iter().find_map(|name| unsafe { Library::new(name) }.ok())?;
    let wanted = std::thread::available_parallelism().map_or(1, usize::from);
    // SAFETY: these symbols have these signatures in every OpenBLAS.
    let threads = unsafe {
        let set = library.get::<unsafe extern "C" fn(i32)>(b"openblas_set_num_threads\0").ok()?;
        set(i32::try_from(wanted).ok()?);
        library.get::<unsafe extern "C" fn() -> i32>(b"openblas_get_num_threads\0").ok()?()
    };
    if usize::try_from(threads).is_ok_and(|threads| threads >= wanted) {
        return Some(library);
    }
    static TOLD: std::sync::Once = std::sync::Once::new();
    TOLD.call_once(|| log::warn!("OpenBLAS computes on {threads} threads of {wanted}: not compared with"));
    None
}

/// A matrix of values in [-1, 1), never zeros, which some processors multiply faster. `None` where it is larger than
/// those of any table.
fn noise<T: From<f32>>(rows: i32, cols: i32) -> Option<Vec<T>> {
    let elements = u32::try_from(rows.checked_mul(cols)?).ok()?;
    let value = |i: u32| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0;
    Some((0..elements).map(|i| value(i).into()).collect())
}

fn median_of_five(mut work: impl FnMut()) -> f64 {
    work();
    let once = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    let mut times: Vec<f64> = (0..5).map(|_| once(&mut work)).collect();
    times.sort_unstable_by(f64::total_cmp);
    times[2]
}
