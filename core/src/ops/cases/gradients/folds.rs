//! What goes along axes: reductions, softmax, scans, moments, sorting.

use super::{F64, add, dense};
use crate::case::{Case, LayoutKind, Values, output};
use crate::ops::{
    LogSumExp, Moments, Reduce, ReduceFn, Scan, ScanFn, ScanOptions, ScanStart, Softmax, SoftmaxFn, Sort, SortOrder,
};

pub(super) fn small(cases: &mut Vec<Case>) {
    for f in [ReduceFn::Sum, ReduceFn::Mean, ReduceFn::Max, ReduceFn::Min, ReduceFn::AbsMax, ReduceFn::Prod] {
        for axes in [&[0][..], &[1], &[0, 2], &[0, 1, 2]] {
            for kind in [LayoutKind::Dense, LayoutKind::Transposed, LayoutKind::BroadcastOuter] {
                let dims = [3, 4, 2];
                let kept: Vec<u64> = (0..3).filter(|axis| !axes.contains(axis)).map(|axis| dims[axis]).collect();
                let op = kind.spec(F64, &dims).and_then(|input| Reduce::new(f, input, axes, output(F64, &kept)?));
                add(cases, "reduce", op, &[Values::Normal]);
            }
        }
        let op = dense(&[0, 3]).and_then(|input| Reduce::new(f, input, &[1], output(F64, &[0])?));
        add(cases, "reduce", op, &[Values::Normal]);
    }
    for f in [ReduceFn::Sum, ReduceFn::Prod] {
        let op = dense(&[0, 3]).and_then(|input| Reduce::new(f, input, &[0], output(F64, &[3])?));
        add(cases, "reduce", op, &[Values::Normal]);
    }
    for f in SoftmaxFn::ALL {
        for (axis, kind) in [(0, LayoutKind::Dense), (1, LayoutKind::Transposed), (1, LayoutKind::BroadcastOuter)] {
            let op = kind.spec(F64, &[4, 7]).and_then(|input| Softmax::new(f, input, axis, output(F64, &[4, 7])?));
            add(cases, "softmax", op, &[Values::Normal]);
        }
        for (axis, dims) in [(1, [0, 7]), (1, [4, 0])] {
            let op = dense(&dims).and_then(|input| Softmax::new(f, input, axis, output(F64, &dims)?));
            add(cases, "softmax", op, &[Values::Normal]);
        }
    }
    for (axis, kind) in [(0, LayoutKind::Dense), (1, LayoutKind::Transposed), (1, LayoutKind::BroadcastOuter)] {
        let op = kind.spec(F64, &[4, 6]).and_then(|input| LogSumExp::new(input, axis));
        add(cases, "logsumexp", op, &[Values::Normal]);
    }
    add(cases, "logsumexp", dense(&[0, 6]).and_then(|input| LogSumExp::new(input, 1)), &[Values::Normal]);
    for order in SortOrder::ALL {
        for (kind, axis, dims) in [
            (LayoutKind::Transposed, 0, &[7][..]),
            (LayoutKind::Transposed, 1, &[3, 5, 2]),
            (LayoutKind::BroadcastOuter, 1, &[3, 5, 2]),
            (LayoutKind::Dense, 1, &[0, 5, 2]),
        ] {
            let op = kind.spec(F64, dims).and_then(|input| Sort::new(order, input, axis));
            add(cases, "sort", op, &[Values::Normal]);
            let first = kind.spec(F64, dims).and_then(|input| Sort::first(order, input, axis, 2));
            add(cases, "sort", first, &[Values::Normal]);
        }
        let op = dense(&[3, 0]).and_then(|input| Sort::new(order, input, 1));
        add(cases, "sort", op, &[Values::Normal]);
    }
    let plain = ScanOptions::default();
    for options in [plain, plain.exclusive(), plain.reversed(), plain.exclusive().reversed()] {
        for f in [ScanFn::Sum, ScanFn::Prod, ScanFn::LogSumExp] {
            for (axis, kind) in [(0, LayoutKind::Dense), (1, LayoutKind::Transposed), (1, LayoutKind::BroadcastOuter)] {
                // The first one is -inf, and no number's neighbour.
                if f == ScanFn::LogSumExp && options.start == ScanStart::Exclusive {
                    continue;
                }
                let op = kind.spec(F64, &[4, 5]).and_then(|input| Scan::new(f, input, axis, options));
                add(cases, "scan", op, &[Values::Normal]);
            }
        }
    }
    for f in ScanFn::ALL {
        for (axis, dims) in [(1, [0, 5]), (1, [4, 0])] {
            let op = dense(&dims).and_then(|input| Scan::new(f, input, axis, plain));
            add(cases, "scan", op, &[Values::Normal]);
        }
    }
    for (f, options) in [(ScanFn::Max, plain), (ScanFn::Min, plain.reversed())] {
        for kind in [LayoutKind::Transposed, LayoutKind::BroadcastOuter] {
            let op = kind.spec(F64, &[4, 5]).and_then(|input| Scan::new(f, input, 1, options));
            add(cases, "scan", op, &[Values::Normal]);
        }
    }
    for axes in [&[0][..], &[1], &[0, 2], &[0, 1, 2]] {
        for kind in [LayoutKind::Transposed, LayoutKind::BroadcastOuter] {
            let op = kind.spec(F64, &[4, 2, 3]).and_then(|input| Moments::new(input, axes));
            add(cases, "moments", op, &[Values::Normal]);
        }
    }
    add(cases, "moments", dense(&[0, 3]).and_then(|input| Moments::new(input, &[1])), &[Values::Normal]);
}

pub(super) fn larger(cases: &mut Vec<Case>) {
    let normal = [Values::Normal; 4];
    // Products of hundreds of numbers round 1.
    let near_one = [Values::Uniform(0.95, 1.05)];
    for f in SoftmaxFn::ALL {
        let op = dense(&[33, 257]).and_then(|input| Softmax::new(f, input, 1, output(F64, &[33, 257])?));
        add(cases, "softmax", op, &normal[..1]);
    }
    add(cases, "logsumexp", dense(&[257, 33]).and_then(|input| LogSumExp::new(input, 0)), &normal[..1]);
    for f in [ReduceFn::Sum, ReduceFn::Mean, ReduceFn::Max, ReduceFn::Min, ReduceFn::AbsMax, ReduceFn::Prod] {
        let op = dense(&[13, 300]).and_then(|input| Reduce::new(f, input, &[1], output(F64, &[13])?));
        add(cases, "reduce", op, if f == ReduceFn::Prod { &near_one } else { &normal[..1] });
    }
    for (f, options) in [(ScanFn::Max, ScanOptions::default()), (ScanFn::Min, ScanOptions::default().reversed())] {
        let op = dense(&[300, 7]).and_then(|input| Scan::new(f, input, 0, options));
        add(cases, "scan", op, &normal[..1]);
    }
    let op = dense(&[3, 9, 11, 19]).and_then(|input| Moments::new(input, &[0, 1, 2]));
    add(cases, "moments", op, &normal[..1]);
    for f in [ScanFn::Sum, ScanFn::Prod, ScanFn::LogSumExp] {
        let plain = ScanOptions::default();
        for options in [plain, plain.exclusive(), plain.reversed(), plain.exclusive().reversed()] {
            // The first one is -inf, and no number's neighbour.
            if f == ScanFn::LogSumExp && options.start == ScanStart::Exclusive {
                continue;
            }
            let op = dense(&[300, 7]).and_then(|input| Scan::new(f, input, 0, options));
            add(cases, "scan", op, if f == ScanFn::Prod { &near_one } else { &normal[..1] });
        }
    }
    let op = dense(&[7, 300]).and_then(|input| Sort::new(SortOrder::Descending, input, 1));
    add(cases, "sort", op, &normal[..1]);
}
