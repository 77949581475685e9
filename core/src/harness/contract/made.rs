//! Tensors that are made: numbers drawn, whose bits are the same on every device, and shapes that calls of several steps give.

use super::{Answer, Test, demand};
use crate::ops::ScatterFn;
use crate::{DType, Device, Generator, MeshOrder, Result, Tensor};

pub(super) const ROWS: &[(&str, Test)] = &[
    ("whole and uniform numbers are drawn with the same bits everywhere", draws),
    ("triangles, diagonals, grids and windows hold what they are named after", shapes),
    ("sums of rows of integers wrap", sums),
];

/// Of what [`draws`] draws.
const DRAWN: [u64; 6] = [
    0x3b70_55c8_c709_7d6b,
    0xc89d_6a79_5c76_c894,
    0xe35d_38e5_076a_f2b7,
    0x51be_4654_bc25_d78c,
    0x28b6_ce5c_2883_533b,
    0x7e99_bafe_82b7_6695,
];

/// FNV-1a, of 64 bits.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn draws(device: &Device) -> Result<Answer> {
    const N: u64 = 1000;
    let generator = Generator::new(device, 2026)?;
    let drawn = [
        generator.uniform(DType::F32, [N], 0.0, 1.0)?,
        generator.uniform(DType::F16, [N], 0.0, 1.0)?,
        generator.randint(DType::I32, [N], -5, 1_000_000)?,
        generator.randint(DType::U32, [N], 0, 1 << 32)?,
        generator.bernoulli([N], 0.3)?,
        generator.permutation(N)?,
    ];
    let found = drawn.iter().map(|numbers| Ok(digest(&numbers.to_bytes()?))).collect::<Result<Vec<u64>>>()?;
    demand!(found == DRAWN, "digests {found:#x?}, not {DRAWN:#x?}");
    Ok(Ok(()))
}

fn shapes(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[1i32, 2, 3, 4, 5, 6], [2, 3])?;
    let is = |found: Tensor, dims: &[u64], want: &[i32]| {
        Ok::<_, crate::Error>(found.dims() == dims && found.to_vec::<i32>()? == want)
    };
    demand!(is(x.tril(0)?, &[2, 3], &[1, 0, 0, 4, 5, 0])?, "tril");
    demand!(is(x.triu(1)?, &[2, 3], &[0, 2, 3, 0, 0, 6])?, "triu");
    demand!(is(Tensor::eye(device, DType::I32, 2, 3, 1)?, &[2, 3], &[0, 1, 0, 0, 0, 1])?, "eye");
    demand!(is(x.diagonal(1, 0, 1)?, &[2], &[2, 6])?, "diagonal");
    let ends = Tensor::from_slice(device, &[7i32, 8], [2])?;
    demand!(is(ends.diag(-1)?, &[3, 3], &[0, 0, 0, 7, 0, 0, 0, 8, 0])?, "diag");
    let grid = Tensor::meshgrid(&[&ends, &x.select(0, 0)?], MeshOrder::Matrix)?;
    demand!(is(grid[0].clone(), &[2, 3], &[7, 7, 7, 8, 8, 8])?, "rows of a grid");
    demand!(is(grid[1].clone(), &[2, 3], &[1, 2, 3, 1, 2, 3])?, "columns of a grid");
    demand!(is(x.sliding_windows(2, 1, 1)?, &[2, 2, 2], &[1, 2, 2, 3, 4, 5, 5, 6])?, "windows");
    demand!(is(x.masked_fill(&x.gt(4)?, -1)?, &[2, 3], &[1, 2, 3, 4, -1, -1])?, "masked_fill");
    demand!(is(ends.sub_scalar(6)?.one_hot(4, DType::I32)?, &[2, 4], &[0, 1, 0, 0, 0, 0, 1, 0])?, "one_hot");
    demand!(is(x.roll(&[1], 1)?, &[2, 3], &[3, 1, 2, 6, 4, 5])?, "roll");
    let steps = Tensor::linspace(device, DType::F32, 1.0, 2.0, 5)?.to_vec::<f32>()?;
    demand!(steps == [1.0, 1.25, 1.5, 1.75, 2.0], "linspace: {steps:?}");
    Ok(Ok(()))
}

fn sums(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[i32::MAX, 1, 1, 2, 5, 6], [3, 2])?;
    let at = Tensor::from_slice(device, &[2u32, 2, 0], [3])?;
    let found = x.scatter_add(&at, 4)?;
    demand!(found.dims() == [4, 2], "of shape {:?}", found.dims());
    demand!(found.to_vec::<i32>()? == [5, 6, 0, 0, i32::MIN, 3, 0, 0], "sums of i32");
    let small = Tensor::from_slice(device, &[100u8, 200], [2])?;
    let found = small.scatter_add_within(&Tensor::from_slice(device, &[0i32, 9], [2])?, 1)?;
    demand!(found.to_vec::<u8>()? == [100], "what names no row is left out");
    let same = Tensor::zeros(device, DType::I32, [4, 2])?;
    let rows = Tensor::from_slice(device, &[2u32, 2, 0], [3, 1])?;
    demand!(same.scatter(&rows, &x, 0, ScatterFn::Sum)?.to_vec::<i32>()?[4] == i32::MIN, "element by element");
    Ok(Ok(()))
}
