//! How fast an optimised CPU library is on the same product: OpenBLAS, where it is installed, opened at run time.
//!
//! Only for the tables: a CPU figure that is compared with GPUs must say how good it is. The one file of the facade with
//! `unsafe`.

use std::time::Instant;

use libloading::Library;
use polywarp_core::{DType, Op};

/// `cblas_sgemm`: order, transposes, extents, alpha, A, lda, B, ldb, beta, C, ldc.
type Sgemm =
    unsafe extern "C" fn(i32, i32, i32, i32, i32, i32, f32, *const f32, i32, *const f32, i32, f32, *mut f32, i32);
/// `cblas_dgemm`: as [`Sgemm`].
type Dgemm =
    unsafe extern "C" fn(i32, i32, i32, i32, i32, i32, f64, *const f64, i32, *const f64, i32, f64, *mut f64, i32);

const ROW_MAJOR: i32 = 101;
const NO_TRANSPOSE: i32 = 111;

/// OpenBLAS's rate on a single dense f32 or f64 product in TFLOP/s; `None` for other ops or where it is not installed.
pub(super) fn rate_of(op: &Op) -> Option<f64> {
    let Op::Matmul(matmul) = op else { return None };
    let dims = matmul.dims();
    let plain = dims.batch == 1 && matmul.a.layout.is_contiguous() && matmul.b.layout.is_contiguous();
    if !plain || matmul.c.is_some() || matmul.bias.is_some() || matmul.activation.is_some() {
        return None;
    }
    let [m, n, k] = [dims.m, dims.n, dims.k].map(|d| i32::try_from(d).ok().filter(|&d| d > 0));
    let (m, n, k) = (m?, n?, k?);
    let library = open()?;
    let seconds = match matmul.a.dtype {
        DType::F32 => {
            let (a, b, mut c) = (noise(m * k), noise(k * n), vec![0f32; (m * n) as usize]);
            // SAFETY: the symbol has this signature in every CBLAS; the library outlives the call below.
            let gemm = unsafe { library.get::<Sgemm>(b"cblas_sgemm\0").ok()? };
            median_of_five(|| {
                // SAFETY: row-major A [m, k], B [k, n], C [m, n] with leading dimensions k, n, n fill their vectors
                // exactly; all three live until the call returns, and the call is synchronous.
                unsafe {
                    gemm(
                        ROW_MAJOR,
                        NO_TRANSPOSE,
                        NO_TRANSPOSE,
                        m,
                        n,
                        k,
                        1.0,
                        a.as_ptr(),
                        k,
                        b.as_ptr(),
                        n,
                        0.0,
                        c.as_mut_ptr(),
                        n,
                    );
                }
            })
        }
        DType::F64 => {
            let wide = |x: Vec<f32>| x.into_iter().map(f64::from).collect::<Vec<_>>();
            let (a, b, mut c) = (wide(noise(m * k)), wide(noise(k * n)), vec![0f64; (m * n) as usize]);
            // SAFETY: as above.
            let gemm = unsafe { library.get::<Dgemm>(b"cblas_dgemm\0").ok()? };
            median_of_five(|| {
                // SAFETY: as above.
                unsafe {
                    gemm(
                        ROW_MAJOR,
                        NO_TRANSPOSE,
                        NO_TRANSPOSE,
                        m,
                        n,
                        k,
                        1.0,
                        a.as_ptr(),
                        k,
                        b.as_ptr(),
                        n,
                        0.0,
                        c.as_mut_ptr(),
                        n,
                    );
                }
            })
        }
        _ => return None,
    };
    Some(op.cost().flops as f64 / seconds / 1e12)
}

fn open() -> Option<Library> {
    const NAMES: [&str; 2] = ["libopenblas.so.0", "libopenblas.so"];
    // SAFETY: loading runs OpenBLAS's own initialisers, which set up its threads and nothing else.
    NAMES.iter().find_map(|name| unsafe { Library::new(name) }.ok())
}

/// Values in [-1, 1): never zeros, which some processors multiply faster.
fn noise(n: i32) -> Vec<f32> {
    (0..n as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0).collect()
}

fn median_of_five(mut work: impl FnMut()) -> f64 {
    work();
    let once = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    let mut times: Vec<f64> = (0..5).map(|_| once(&mut work)).collect();
    times.sort_by(f64::total_cmp);
    times[2]
}
