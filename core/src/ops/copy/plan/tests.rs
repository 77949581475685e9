//! The normal form, the choice of kernel, and that every kernel's text validates without features.

use crate::{DType, TensorSpec};

use super::*;
use crate::wgsl::validate::Validated;

fn caps() -> Caps {
    Caps::webgpu_defaults("test")
}

fn dense(dims: &[u64]) -> Layout {
    Layout::contiguous(Shape::new(dims).unwrap())
}

fn copy(dtype: DType, from: Layout, to: Layout) -> Copy {
    Copy::new(TensorSpec::new(dtype, from), TensorSpec::new(dtype, to)).unwrap()
}

/// The algorithm chosen, after its text has been validated; `None` for the elementwise kernel.
fn chosen(dtype: DType, from: Layout, to: Layout) -> Option<Algorithm> {
    let launch = plan(&copy(dtype, from, to), &caps()).unwrap().launches.remove(0);
    Validated::default().check([&launch], &caps());
    launch.kernel.get::<super::Kernel>().map(|kernel| kernel.algorithm)
}

#[test]
fn bytes_that_lie_together_move_as_words() {
    let moved = Move::of(&copy(DType::U8, dense(&[3, 8]), dense(&[3, 8]))).unwrap();
    assert_eq!((moved.size_bytes, moved.elements(), moved.dims.len()), (4, 6, 1));
    let moved = Move::of(&copy(DType::U8, dense(&[3, 8]).with_offset(2), dense(&[3, 8]))).unwrap();
    assert_eq!((moved.size_bytes, moved.from), (2, 1));
    let moved = Move::of(&copy(DType::U8, dense(&[3, 7]), dense(&[3, 7]))).unwrap();
    assert_eq!((moved.size_bytes, moved.elements()), (1, 21));
    let moved = Move::of(&copy(DType::F64, dense(&[5]), dense(&[5]).slice(0, 0, 5, -1).unwrap())).unwrap();
    assert_eq!(moved.dims, [Dim { extent: 5, from: -2, to: 2 }, Dim { extent: 2, from: 1, to: 1 }]);
    assert_eq!((moved.size_bytes, moved.from, moved.to), (4, 8, 0));
}

#[test]
fn kernels_follow_layouts() {
    let flipped = |dims: [u64; 2]| dense(&dims).transpose(0, 1).unwrap();
    for dtype in DType::ALL {
        let size = dtype.size_bytes();
        let (wide, odd) =
            (chosen(dtype, flipped([32, 64]), dense(&[64, 32])), chosen(dtype, flipped([33, 65]), dense(&[65, 33])));
        match size {
            8 => assert_eq!((wide, odd), (None, None)),
            4 => {
                assert_eq!(wide, Some(Algorithm::TransposeQuads { side: 16 }));
                assert_eq!(odd, Some(Algorithm::TransposeScalar { side: 32 }));
            }
            _ => assert_eq!((wide, odd), (Some(Algorithm::TransposeQuads { side: 16 }), None)),
        }
        // 16 KiB of workgroup memory hold a large tile of bytes, not of halves.
        let large = chosen(dtype, flipped([2048, 2052]), dense(&[2052, 2048]));
        let side = if size == 1 { 32 } else { 16 };
        assert!(size == 8 || large == Some(Algorithm::TransposeQuads { side }), "{dtype}: {large:?}");
        assert_eq!(chosen(dtype, dense(&[7, 5]), dense(&[7, 5])), None);
        assert_eq!(chosen(dtype, flipped([5, 7]), dense(&[7, 5]).with_offset(3)), None);
        let gaps = dense(&[7, 10]).slice(1, 1, 10, 2).unwrap();
        assert_eq!(chosen(dtype, dense(&[7, 5]), gaps), Some(Algorithm::Scatter));
    }
}

#[test]
fn eight_dimensions_of_eight_bytes_still_have_a_kernel() {
    let shape = [3u64, 2, 2, 2, 2, 2, 2, 2];
    let order = [7, 1, 5, 3, 4, 2, 6, 0];
    let from = dense(&[2, 2, 2, 2, 2, 2, 2, 3]).permute(&order).unwrap();
    let launch = plan(&copy(DType::F64, from, dense(&shape)), &caps()).unwrap().launches.remove(0);
    Validated::default().check([&launch], &caps());
}

#[test]
fn too_many_words_are_refused() {
    let layout = dense(&[1 << 31]);
    let err = plan(&copy(DType::F64, layout, layout), &caps()).unwrap_err();
    assert!(matches!(err, crate::Error::IndexWidth { op: "copy", .. }), "{err}");
}
