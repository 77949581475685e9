//! Products of a few rows or columns of narrow operands, without widening a whole operand (`gemm/few.rs`).

use half::{bf16, f16};

use super::{Part, for_each_part, matrix};
use crate::cpu::elements::typed;
use crate::cpu::gemm::{self, Mat, MatMut, few};
use crate::cpu::reduce::Widen;
use crate::cpu::scratch::{Done, Short};
use crate::ops::{Matmul, MatmulDims};
use crate::{DType, F8E4M3, F8E5M2};

/// The dimension of which a product has few indices. The operand without that dimension is read as it lies, each element once.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Rows,
    Columns,
}

impl Side {
    /// The choice holds for all products of a batch, and for parts of K.
    pub(super) fn of(op: &Matmul) -> Option<Side> {
        let MatmulDims { m, n, .. } = op.dims();
        let suits = |few: u64, other: gemm::Layout| {
            few::suits(usize::try_from(few).unwrap_or(usize::MAX), &other, few::FEW_NARROW)
        };
        if suits(m, matrix(&op.b.layout, 0)) {
            Some(Side::Rows)
        } else if suits(n, matrix(&op.a.layout, 0).transposed()) {
            Some(Side::Columns)
        } else {
            None
        }
    }
}

/// The sums of products of 8- and 16-bit floats, without an epilogue, into `out`.
pub(super) fn narrow(op: &Matmul, side: Side, inputs: &[&[u8]], out: &mut [f32]) -> Done {
    each(
        op,
        side,
        inputs,
        out,
        |dtype, bytes, layout| match dtype {
            DType::F8E4M3 => rows::<F8E4M3>(bytes, layout),
            DType::F8E5M2 => rows::<F8E5M2>(bytes, layout),
            DType::F16 => rows::<f16>(bytes, layout),
            _ => rows::<bf16>(bytes, layout),
        },
        |rows, dtype, bytes, layout, c| match dtype {
            DType::F8E4M3 => times::<F8E4M3>(rows, bytes, layout, c),
            DType::F8E5M2 => times::<F8E5M2>(rows, bytes, layout, c),
            DType::F16 => times::<f16>(rows, bytes, layout, c),
            _ => times::<bf16>(rows, bytes, layout, c),
        },
    )
}

/// The same for 8-bit integers.
pub(super) fn integer<I>(op: &Matmul, side: Side, inputs: &[&[u8]], out: &mut [i32]) -> Done
where
    I: bytemuck::Pod + Send + Sync + Into<i32>,
{
    each(
        op,
        side,
        inputs,
        out,
        |_, bytes, layout| few::rows(Mat::new(typed::<I>(bytes), layout), I::into),
        |rows, _, bytes, layout, c| few::product(rows, Mat::new(typed::<I>(bytes), layout), c, |x: I| x.into()),
    )
}

/// Runs each product of the batch: `rows` makes the few rows of an operand (from its dtype, storage and layout),
/// `times` multiplies them.
fn each<T: few::Sum>(
    op: &Matmul,
    side: Side,
    inputs: &[&[u8]],
    out: &mut [T],
    rows: impl Fn(DType, &[u8], gemm::Layout) -> Result<Vec<T>, Short> + Sync,
    times: impl Fn(&[T], DType, &[u8], gemm::Layout, MatMut<'_, T>) -> Done + Sync,
) -> Done {
    let MatmulDims { m, n, .. } = op.dims();
    for_each_part(op, out, |Part { batch, .. }, out| {
        let (a, b) = (matrix(&op.a.layout, batch), matrix(&op.b.layout, batch));
        let c = gemm::Layout::row_major(m as usize, n as usize);
        match side {
            Side::Rows => {
                let rows = rows(op.a.dtype, inputs[0], a)?;
                times(&rows, op.b.dtype, inputs[1], b, MatMut::new(out, c))
            }
            Side::Columns => {
                let rows = rows(op.b.dtype, inputs[1], b.transposed())?;
                times(&rows, op.a.dtype, inputs[0], a.transposed(), MatMut::new(out, c.transposed()))
            }
        }
    })
}

fn rows<I: Widen<Acc = f32> + bytemuck::Pod>(bytes: &[u8], layout: gemm::Layout) -> Result<Vec<f32>, Short> {
    few::rows(Mat::new(typed::<I>(bytes), layout), I::widen)
}

fn times<I: Widen<Acc = f32> + bytemuck::Pod>(
    rows: &[f32],
    bytes: &[u8],
    layout: gemm::Layout,
    c: MatMut<'_, f32>,
) -> Done {
    few::product(rows, Mat::new(typed::<I>(bytes), layout), c, |x: I| x.widen())
}

#[cfg(test)]
mod tests {
    use crate::cpu::gemm;
    use crate::ops::Matmul;
    use crate::ops::matmul::host::execute;
    use crate::{DType, Layout, Scalar, Shape, TensorSpec};

    fn dense(dtype: DType, dims: &[u64], transposed: bool) -> TensorSpec {
        let layout = Layout::contiguous(Shape::new(dims).unwrap());
        TensorSpec::new(dtype, if transposed { layout.transpose(1, 2).unwrap() } else { layout })
    }

    /// Small integers in every narrow dtype, few rows or columns, the other operand dense along either dimension: exact, on one
    /// thread and on several.
    #[test]
    fn few_rows_and_columns_of_narrow_operands_are_exact() {
        const BATCH: u64 = 3;
        for dtype in [DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2, DType::I8, DType::U8] {
            for (m, n, k) in
                [(1, 300, 600), (gemm::few::FEW_NARROW as u64, 67, 33), (600, 1, 300), (67, 3, 40), (5, 33, 3000)]
            {
                for (a_transposed, b_transposed) in [(false, false), (false, true), (true, false)] {
                    let of = |rows, columns, transposed| {
                        let dims = if transposed { [BATCH, columns, rows] } else { [BATCH, rows, columns] };
                        dense(dtype, &dims, transposed)
                    };
                    let (a, b) = (of(m, k, a_transposed), of(k, n, b_transposed));
                    let to = Matmul::output_dtype(dtype).unwrap();
                    let wide = if to.is_float() { DType::F32 } else { to };
                    let op = Matmul::product(a, b, dense(wide, &[BATCH, m, n], false)).check().unwrap();
                    let value = |seed: u64, i: u64| (i * 7 + i / 13 + seed) % 4;
                    let storage = |spec: &TensorSpec, seed: u64| -> Vec<u8> {
                        let bytes = |i| Scalar::I(value(seed, i) as i64).to_le_bytes(spec.dtype);
                        (0..spec.layout.elements()).flat_map(bytes).collect()
                    };
                    let (x, y) = (storage(&a, 0), storage(&b, 1));
                    let at = |spec: &TensorSpec, seed: u64, batch: u64, i: u64, j: u64| {
                        let strides = spec.layout.strides();
                        let place = batch as i64 * strides[0] + i as i64 * strides[1] + j as i64 * strides[2];
                        value(seed, place as u64)
                    };
                    for threads in [1, 3] {
                        let mut out = vec![0u8; (BATCH * m * n * 4) as usize];
                        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                        pool.install(|| execute(&op, &[&x, &y], &mut out)).unwrap();
                        for e in (0..BATCH * m * n).step_by(5) {
                            let (batch, i, j) = (e / (m * n), e / n % m, e % n);
                            let sum: u64 = (0..k).map(|p| at(&a, 0, batch, i, p) * at(&b, 1, batch, p, j)).sum();
                            let got = Scalar::from_le_bytes(&out[e as usize * 4..], wide).as_f64();
                            assert_eq!(got, sum as f64, "{dtype} {m}x{n}x{k} {a_transposed} {b_transposed} at {e}");
                        }
                    }
                }
            }
        }
    }
}
