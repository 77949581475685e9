//! Elements that go elsewhere: joins, padding, copies, by positions and by masks.

use super::{F64, add, dense};
use crate::DType;
use crate::case::{Case, LayoutKind, Values, output};
use crate::ops::{
    Cat, Copy, Gather, MaskedScatter, MaskedSelect, Missing, Pad, PadMode, Scatter, ScatterAdd, ScatterFn, Take,
};

pub(super) fn small(cases: &mut Vec<Case>) {
    let indices = || LayoutKind::Dense.spec(DType::I32, &[2, 5]);
    // Places that are no row would be NaN, which is no number's neighbour.
    for (padding, missing) in [(None, Missing::Zero), (Some(1), Missing::Zero)] {
        let op = || Take::new(dense(&[4, 3])?, indices()?, missing, padding);
        // The padding row has a gradient that is not that of the value: nothing names it here.
        let places = if padding.is_some() { Values::Integers(2, 5) } else { Values::Integers(-1, 5) };
        add(cases, "take", op(), &[Values::Normal, places]);
    }
    let op = || Take::new(LayoutKind::BroadcastOuter.spec(F64, &[4, 3])?, indices()?, Missing::Zero, None);
    add(cases, "take", op(), &[Values::Normal, Values::Integers(-1, 5)]);
    let none = || LayoutKind::Dense.spec(DType::I32, &[0]);
    let op = || Take::new(dense(&[4, 3])?, none()?, Missing::Zero, None);
    add(cases, "take", op(), &[Values::Normal, Values::Integers(-1, 5)]);
    let op = || Take::new(dense(&[0, 3])?, none()?, Missing::Zero, None);
    add(cases, "take", op(), &[Values::Normal, Values::Integers(-1, 5)]);
    let op = || ScatterAdd::new(dense(&[2, 5, 3])?, indices()?, 4);
    add(cases, "scatter_add", op(), &[Values::Normal, Values::Integers(-1, 5)]);
    let repeated = || LayoutKind::BroadcastOuter.spec(F64, &[5, 3]);
    let op = || ScatterAdd::new(repeated()?, LayoutKind::Dense.spec(DType::I32, &[5])?, 4);
    add(cases, "scatter_add", op(), &[Values::Normal, Values::Integers(-1, 5)]);
    let op = || ScatterAdd::new(dense(&[0, 3])?, none()?, 4);
    add(cases, "scatter_add", op(), &[Values::Normal, Values::Integers(-1, 5)]);
    let op = || Cat::new(vec![dense(&[2, 3])?, LayoutKind::Transposed.spec(F64, &[2, 1])?, dense(&[2, 4])?], 1);
    add(cases, "cat", op(), &[Values::Normal; 3]);
    let op = || Cat::new(vec![dense(&[2, 0])?, LayoutKind::BroadcastInner.spec(F64, &[2, 3])?, dense(&[2, 1])?], 1);
    add(cases, "cat", op(), &[Values::Normal; 3]);
    for mode in PadMode::ALL {
        for (n, before, to) in [(4, 1, 6), (4, -1, 2), (4, 9, 17), (1, 2, 4), (2, 3, 8), (3, 5, 4), (3, -7, 9)] {
            let op = || Pad::new(dense(&[2, n, 2])?, mode, vec![0, before, 0], &[2, to, 2], 0);
            add(cases, "pad", op(), &[Values::Normal]);
        }
        let op = || Pad::new(LayoutKind::BroadcastOuter.spec(F64, &[2, 3])?, mode, vec![1, 2], &[4, 3], 0);
        add(cases, "pad", op(), &[Values::Normal]);
        let op = || Pad::new(dense(&[0, 3])?, mode, vec![0, 2], &[0, 6], 0);
        add(cases, "pad", op(), &[Values::Normal]);
    }
    // Of nothing but the number around it.
    let op = || Pad::new(dense(&[0, 3])?, PadMode::Constant, vec![1, 0], &[2, 3], 0);
    add(cases, "pad", op(), &[Values::Normal]);
    // Positions that come twice, and that are none.
    for (axis, kind, at) in [
        (0, LayoutKind::Transposed, [5, 3, 2]),
        (1, LayoutKind::Transposed, [2, 7, 2]),
        (2, LayoutKind::Transposed, [2, 3, 4]),
        (1, LayoutKind::BroadcastOuter, [2, 7, 2]),
        (1, LayoutKind::Dense, [2, 0, 2]),
    ] {
        let indices = || LayoutKind::Dense.spec(DType::I32, &at);
        let places = Values::Integers(-1, 3);
        let x = || kind.spec(F64, &[2, 3, 2]);
        let op = || Gather::new(x()?, indices()?, axis, Missing::Zero);
        add(cases, "gather", op(), &[Values::Normal, places]);
        for function in ScatterFn::ALL.into_iter().filter(|&function| function != ScatterFn::Prod) {
            let op = || Scatter::new(function, x()?, indices()?, dense(&at)?, axis);
            add(cases, "scatter", op(), &[Values::Normal, places, Values::Normal]);
        }
    }
    for (dims, count) in [([4, 5], 3), ([4, 5], 20), ([4, 5], 0), ([0, 5], 3)] {
        let mask = || LayoutKind::Dense.spec(DType::Bool, &dims);
        let op = || MaskedSelect::new(dense(&dims)?, mask()?, Missing::Zero, count);
        add(cases, "masked", op(), &[Values::Normal, Values::RandomBits]);
        let op = || MaskedScatter::new(dense(&dims)?, mask()?, dense(&[count])?);
        add(cases, "masked", op(), &[Values::Normal, Values::RandomBits, Values::Normal]);
    }
    let op = || Gather::new(dense(&[0, 3])?, LayoutKind::Dense.spec(DType::I32, &[0, 2])?, 1, Missing::Zero);
    add(cases, "gather", op(), &[Values::Normal, Values::Integers(0, 2)]);
    let repeated = || LayoutKind::BroadcastInner.spec(DType::I32, &[3, 2]);
    let op = || Gather::new(LayoutKind::BroadcastOuter.spec(F64, &[4, 2])?, repeated()?, 0, Missing::Zero);
    add(cases, "gather", op(), &[Values::Normal, Values::Integers(0, 3)]);
    for kind in [LayoutKind::Transposed, LayoutKind::Reversed, LayoutKind::BroadcastInner] {
        let op = kind.spec(F64, &[3, 5]).and_then(|input| Copy::new(input, output(F64, &[3, 5])?));
        add(cases, "copy", op, &[Values::Normal]);
    }
    add(cases, "copy", dense(&[3, 0]).and_then(|input| Copy::new(input, output(F64, &[3, 0])?)), &[Values::Normal]);
}

pub(super) fn larger(cases: &mut Vec<Case>) {
    let normal = [Values::Normal; 4];
    let places = Values::Integers(-1, 41);
    let at = |dims: &[u64]| LayoutKind::Dense.spec(DType::I32, dims);
    add(
        cases,
        "take",
        at(&[150]).and_then(|at| Take::new(dense(&[41, 33])?, at, Missing::Zero, None)),
        &[Values::Normal, places],
    );
    add(
        cases,
        "scatter_add",
        at(&[150]).and_then(|at| ScatterAdd::new(dense(&[150, 33])?, at, 41)),
        &[Values::Normal, places],
    );
    let op = || Gather::new(dense(&[41, 33])?, at(&[150, 33])?, 0, Missing::Zero);
    add(cases, "gather", op(), &[Values::Normal, places]);
    for function in ScatterFn::ALL.into_iter().filter(|&function| function != ScatterFn::Prod) {
        let op = || Scatter::new(function, dense(&[41, 33])?, at(&[150, 33])?, dense(&[150, 33])?, 0);
        add(cases, "scatter", op(), &[Values::Normal, places, Values::Normal]);
    }
    for mode in PadMode::ALL {
        let op = dense(&[6, 50, 3]).and_then(|input| Pad::new(input, mode, vec![1, 70, 0], &[8, 230, 3], 0));
        add(cases, "pad", op, &normal[..1]);
    }
    let op = || Cat::new(vec![dense(&[7, 130])?, dense(&[7, 1])?, dense(&[7, 260])?], 1);
    add(cases, "cat", op(), &normal[..3]);
    for kind in [LayoutKind::Transposed, LayoutKind::Reversed, LayoutKind::BroadcastInner] {
        let op = kind.spec(F64, &[67, 129]).and_then(|input| Copy::new(input, output(F64, &[67, 129])?));
        add(cases, "copy", op, &[Values::Normal]);
    }
    let mask = || LayoutKind::Dense.spec(DType::Bool, &[67, 129]);
    // About half of 8,643 are chosen: more than there is room for, and fewer.
    for count in [2000, 6000] {
        let op = || MaskedSelect::new(dense(&[67, 129])?, mask()?, Missing::Zero, count);
        add(cases, "masked", op(), &[Values::Normal, Values::RandomBits]);
        let op = || MaskedScatter::new(dense(&[67, 129])?, mask()?, dense(&[count])?);
        add(cases, "masked", op(), &[Values::Normal, Values::RandomBits, Values::Normal]);
    }
}
