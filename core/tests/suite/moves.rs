//! Joining, padding and indexing as a user meets them: views, results and gradients of the methods, against numbers from their
//! definitions. Every operation by itself, on every device, is the harness's.

use polywarp_core::ops::{PadMode, ScatterFn};
use polywarp_core::{DType, Device, Result, Tape, Tensor};

fn vector(device: &Device, x: &[f32]) -> Tensor {
    Tensor::from_slice(device, x, [x.len() as u64]).unwrap()
}

/// The gradient of the sum of what `f` gives, each element times its number from 1.
fn gradient(device: &Device, x: &[f32], dims: &[u64], f: impl Fn(&Tensor) -> Result<Tensor>) -> Vec<f32> {
    let tape = Tape::new();
    let watched = tape.watch(&Tensor::from_slice(device, x, dims).unwrap()).unwrap();
    let y = f(&watched).unwrap();
    let weights: Vec<f32> = (1..=y.elements()).map(|i| i as f32).collect();
    let weights = Tensor::from_slice(device, &weights, *y.shape()).unwrap();
    let loss = y.mul(&weights).unwrap().sum(..).unwrap();
    let gradients = tape.backward(&loss).unwrap();
    gradients.of(&watched).unwrap().to_vec().unwrap()
}

#[test]
fn gradients_of_views_and_moves_add_up_by_element() {
    let (device, x) = (Device::cpu(), [1.0, 2.0, 3.0, 4.0]);
    let of = |f: &dyn Fn(&Tensor) -> Result<Tensor>| gradient(&device, &x, &[4], f);
    // Windows [0, 1, 2] and [1, 2, 3] share two elements.
    assert_eq!(of(&|x| x.sliding_windows(3, 1, 0)), [1.0, 6.0, 8.0, 6.0]);
    assert_eq!(of(&|x| Tensor::cat(&[x, x], 0)), [6.0, 8.0, 10.0, 12.0]);
    assert_eq!(of(&|x| Tensor::stack(&[x, &x.flip(0)?], 1)), [9.0, 9.0, 9.0, 9.0]);
    assert_eq!(of(&|x| x.tile(&[2])), [6.0, 8.0, 10.0, 12.0]);
    assert_eq!(of(&|x| x.repeat(2, 0)), [3.0, 7.0, 11.0, 15.0]);
    assert_eq!(of(&|x| x.roll(&[1], [0])), [2.0, 3.0, 4.0, 1.0]);
    // Positions 1 to 7 hold elements 1, 0, 1, 2, 3, 2, 1.
    assert_eq!(of(&|x| x.pad(&[(1, 2)], PadMode::Reflect)), [2.0, 11.0, 10.0, 5.0]);
    assert_eq!(of(&|x| x.diag(1)), [2.0, 8.0, 14.0, 20.0]);
    let of_matrix = |f: &dyn Fn(&Tensor) -> Result<Tensor>| gradient(&device, &x, &[2, 2], f);
    assert_eq!(of_matrix(&|x| x.tril(0)), [1.0, 0.0, 3.0, 4.0]);
    assert_eq!(of_matrix(&|x| x.diagonal(0, 0, 1)), [1.0, 0.0, 0.0, 2.0]);
    assert_eq!(of_matrix(&|x| x.sliding_windows(2, 1, 1)), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn gradients_of_indexing_go_where_elements_came_from() {
    let x = [1.0, 2.0, 3.0, 4.0];
    let device = Device::cpu();
    let mask = Tensor::from_slice(&device, &[true, false, true, true], [4]).unwrap();
    assert_eq!(gradient(&device, &x, &[4], |x| x.masked_select(&mask)), [1.0, 0.0, 2.0, 3.0]);
    assert_eq!(gradient(&device, &x, &[4], |x| x.masked_fill(&mask, 9.0)), [0.0, 2.0, 0.0, 0.0]);
    let at = Tensor::from_slice(&device, &[1i32, 1, 0], [3]).unwrap();
    assert_eq!(gradient(&device, &x, &[2, 2], |x| x.index_select(&at, 1)), [3.0, 3.0, 6.0, 9.0]);
    // Rows 1 and 1 put: the second stays.
    let zeros = Tensor::zeros(&device, DType::F32, [3, 2]).unwrap();
    let rows = Tensor::from_slice(&device, &[1i32, 1], [2]).unwrap();
    assert_eq!(gradient(&device, &x, &[2, 2], |x| zeros.index_put(&[&rows], x, ScatterFn::Set)), [0.0, 0.0, 3.0, 4.0]);
    assert_eq!(gradient(&device, &x, &[2, 2], |x| zeros.index_put(&[&rows], x, ScatterFn::Sum)), [3.0, 4.0, 3.0, 4.0]);
}

#[test]
fn products_at_positions_have_no_gradient_and_say_why() {
    let device = Device::cpu();
    let x = Tape::new();
    let watched = x.watch(&vector(&device, &[1.0, 2.0])).unwrap();
    let at = Tensor::from_slice(&device, &[0i32, 0], [2]).unwrap();
    let error = watched.scatter(&at, &vector(&device, &[3.0, 4.0]), 0, ScatterFn::Prod).unwrap_err();
    assert!(error.to_string().contains("scatter_prod") && error.to_string().contains("gather"), "{error}");
    assert!(watched.view_as(DType::U32).is_err());
}

#[test]
fn windows_and_diagonals_are_views_of_the_same_memory() {
    let device = Device::cpu();
    let x = Tensor::arange(&device, DType::I32, 0, 1, 24).unwrap().reshape([2, 3, 4]).unwrap();
    let windows = x.sliding_windows(2, 1, 1).unwrap();
    assert!(windows.buffer().same(x.buffer()));
    assert_eq!(windows.dims(), [2, 2, 4, 2]);
    assert_eq!(windows.to_vec::<i32>().unwrap()[..8], [0, 4, 1, 5, 2, 6, 3, 7]);
    let diagonal = x.diagonal(-1, 1, 2).unwrap();
    assert!(diagonal.buffer().same(x.buffer()));
    assert_eq!(diagonal.to_vec::<i32>().unwrap(), [4, 9, 16, 21]);
    let back = x.flip(1).unwrap().diagonal(1, 2, 1).unwrap();
    assert_eq!(back.to_vec::<i32>().unwrap(), [4, 1, 16, 13]);
    assert_eq!(x.chunk(5, 2).unwrap().len(), 4);
    assert_eq!(x.slice(2, 0..0).unwrap().chunk(3, 2).unwrap().len(), 1);
}

#[test]
fn bits_are_seen_as_other_dtypes_where_they_fit() {
    let device = Device::cpu();
    let x = Tensor::from_slice(&device, &[1u8, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], [3, 4]).unwrap();
    assert_eq!(x.view_as(DType::U32).unwrap().to_vec::<u32>().unwrap(), [0x0403_0201, 0x0807_0605, 0x0c0b_0a09]);
    assert_eq!(x.slice(1, 2..4).unwrap().view_as(DType::F16).unwrap().dims(), [3, 1]);
    assert!(x.slice(1, 1..3).unwrap().view_as(DType::F16).is_err());
    let wide = Tensor::from_slice(&device, &[1i64, -1], [2]).unwrap().flip(0).unwrap();
    assert!(wide.view_as(DType::I32).is_err());
    assert_eq!(
        wide.unsqueeze(1).unwrap().contiguous().unwrap().view_as(DType::I32).unwrap().to_vec::<i32>().unwrap(),
        [-1, -1, 1, 0]
    );
}

/// In f32 the ends are exact and the numbers never fall, whatever the step.
#[test]
fn linspace_meets_both_ends() {
    let device = Device::cpu();
    for (start, end, count) in
        [(0.1, 0.7, 11), (-3.0, 5.5, 1001), (f32::MIN, f32::MAX, 5), (2.0, 2.0, 3), (1.0, 9.0, 1), (1.0, 2.0, 0)]
    {
        let x = Tensor::linspace(&device, DType::F32, f64::from(start), f64::from(end), count).unwrap();
        let x: Vec<f32> = x.to_vec().unwrap();
        assert_eq!(x.len() as u64, count);
        assert!(x.windows(2).all(|pair| pair[0] <= pair[1]), "{x:?}");
        if count > 0 {
            assert_eq!(x[0], start);
        }
        if count > 1 {
            assert_eq!(x[x.len() - 1], end);
        }
    }
}

#[test]
fn nonzero_of_every_rank_names_indices() {
    let device = Device::cpu();
    let of = |x: &[f32], dims: &[u64]| {
        let found = Tensor::from_slice(&device, x, dims).unwrap().nonzero().unwrap();
        (found.dims().to_vec(), found.to_vec::<u32>().unwrap())
    };
    assert_eq!(of(&[0.0, 1.0, 0.0, f32::NAN], &[4]), (vec![2, 1], vec![1, 3]));
    assert_eq!(of(&[0.0, 1.0, 2.0, 0.0, 0.0, 3.0], &[1, 2, 3]), (vec![3, 3], vec![0, 0, 1, 0, 0, 2, 0, 1, 2]));
    assert_eq!(of(&[2.0], &[]), (vec![1, 0], vec![]));
    assert_eq!(of(&[0.0; 6], &[2, 3]), (vec![0, 2], vec![]));
    assert_eq!(of(&[], &[2, 0]), (vec![0, 2], vec![]));
}

#[test]
fn of_equal_positions_the_last_is_set() {
    let device = Device::cpu();
    let x = Tensor::zeros(&device, DType::F32, [3, 2, 2]).unwrap();
    let [i, j] = [[0i32, 2, 0, -1], [1, 0, 1, 0]].map(|at| Tensor::from_slice(&device, &at, [4]).unwrap());
    let values = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0], [4, 1]).unwrap();
    let y = x.index_put_within(&[&i, &j], &values, ScatterFn::Set).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [0.0, 0.0, 3.0, 3.0, 0.0, 0.0, 0.0, 0.0, 2.0, 2.0, 0.0, 0.0]);
    // The pair of -1 and 0 is no place of the matrix, though place -1 * 2 + 2 of another would be.
    let wrong = Tensor::from_slice(&device, &[-1i32], [1]).unwrap();
    let two = Tensor::from_slice(&device, &[3i32], [1]).unwrap();
    let same =
        x.index_put_within(&[&wrong, &two], &vector(&device, &[5.0]).unsqueeze(1).unwrap(), ScatterFn::Set).unwrap();
    assert_eq!(same.to_vec::<f32>().unwrap(), [0.0; 12]);
}
