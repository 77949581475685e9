//! The gradient of attention: for one group of heads after the other, by blocks of keys and of queries.
//!
//! Of each pair of blocks the probabilities are made again from lse, then the gradients of the scores; three products are added to dq, dk and
//! dv of the group. The decision to know: a task is a group, whose gradients no other task adds to, so sums have one order.

use super::{Block, COLUMNS, Heads, Pairs, ROWS, Real, Stored, sum_of};
use crate::cpu::elements::{dense_mut, typed};
use crate::cpu::gemm::{self, Float, Mat, MatMut};
use crate::cpu::scratch::{self, Done, Short};
use crate::cpu::{parallel, reduce::Widen};
use crate::ops::AttentionGradient;

/// What it reads beside what the forward operation reads.
struct Beside<'a, A: Clone> {
    dout: Heads<'a, A>,
    lse: &'a [A],
    /// delta - dlse of each query, [batch, heads, queries].
    delta: Vec<A>,
}

pub(super) fn of<T: Stored<Acc: Real>>(op: &AttentionGradient, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Done {
    let [dq, dk, dv] = outputs else { return Err(Short::NoRoutine) };
    let pairs = Pairs::new::<T>(&op.forward, inputs)?;
    let dims = pairs.dims;
    let [batch, heads, groups] = [dims.batch, dims.heads, dims.groups].map(|n| n as usize);
    let [queries, keys, size, width] = [dims.queries, dims.keys, dims.size, dims.width].map(|n| n as usize);
    let shared = dims.shared() as usize;
    let beside = beside::<T>(op, inputs)?;
    // Of each group: dq of its heads, dk, dv.
    let (of_q, of_k, of_v) = (shared * queries * size, keys * size, keys * width);
    let part = of_q + of_k + of_v;
    let mut parts: Vec<T::Acc> = scratch::zeroed(batch * groups * part)?;
    if part > 0 && !parts.is_empty() {
        parallel::try_chunks(&mut parts, part, |number, part| {
            let (dq, rest) = part.split_at_mut(of_q);
            let (dk, dv) = rest.split_at_mut(of_k);
            group(&pairs, &beside, [number / groups, number % groups], [dq, dk, dv])
        })?;
    }
    let dq = dense_mut::<T>(&op.dq, dq);
    parallel::chunks(dq, (heads * size).max(1), |row, dq| {
        for (h, dq) in dq.chunks_exact_mut(size.max(1)).enumerate() {
            let start =
                ((row / queries) * groups + h / shared) * part + ((h % shared) * queries + row % queries) * size;
            dq.iter_mut().zip(&parts[start..start + size]).for_each(|(dq, &x)| *dq = T::narrow(x));
        }
    });
    for (output, spec, n, before) in [(dk, &op.dk, size, of_q), (dv, &op.dv, width, of_q + of_k)] {
        let output = dense_mut::<T>(spec, output);
        parallel::chunks(output, (groups * n).max(1), |row, output| {
            for (g, output) in output.chunks_exact_mut(n.max(1)).enumerate() {
                let start = ((row / keys) * groups + g) * part + before + row % keys * n;
                output.iter_mut().zip(&parts[start..start + n]).for_each(|(y, &x)| *y = T::narrow(x));
            }
        });
    }
    Ok(())
}

fn beside<'a, T: Stored<Acc: Real>>(
    op: &AttentionGradient,
    inputs: &[&'a [u8]],
) -> Result<Beside<'a, <T as Widen>::Acc>, Short> {
    let first = op.place_of_out();
    let numbers = |bytes: &'a [u8], spec: &crate::TensorSpec| {
        let start = spec.layout.offset() as usize;
        &typed::<T::Acc>(bytes)[start..start + spec.layout.elements() as usize]
    };
    let lse = numbers(inputs[first + 1], &op.forward.lse);
    let dlse = op.dlse.map(|dlse| numbers(inputs[first + 3], &dlse));
    let out = Heads::new::<T>(&op.forward.out, inputs[first])?;
    let dout = Heads::new::<T>(&op.dout, inputs[first + 2])?;
    let [heads, queries] = [op.forward.dims().heads, op.forward.dims().queries].map(|n| n as usize);
    let mut delta: Vec<T::Acc> = scratch::zeroed(lse.len())?;
    parallel::chunks(&mut delta, queries.max(1), |number, delta| {
        let (b, h) = (number / heads, number % heads);
        let [out_at, dout_at] = [&out, &dout].map(|x| x.place(b, h, 0, queries));
        let mut terms = vec![T::Acc::ZERO; out_at.cols];
        for (i, delta) in delta.iter_mut().enumerate() {
            let both = out.row(out_at, i).iter().zip(dout.row(dout_at, i));
            terms.iter_mut().zip(both).for_each(|(term, (&a, &b))| *term = a * b);
            *delta = sum_of(&terms);
            if let Some(dlse) = dlse {
                *delta = *delta - dlse[number * queries + i];
            }
        }
    });
    Ok(Beside { dout, lse, delta })
}

/// The gradients of one group.
fn group<A: Real>(
    pairs: &Pairs<'_, A>,
    beside: &Beside<'_, A>,
    [b, g]: [usize; 2],
    [dq, dk, dv]: [&mut [A]; 3],
) -> Done {
    let dims = pairs.dims;
    let [queries, keys, size, width] = [dims.queries, dims.keys, dims.size, dims.width].map(|n| n as usize);
    let (heads, shared) = (dims.heads as usize, dims.shared() as usize);
    let [mut p, mut ds]: [Vec<A>; 2] = [scratch::zeroed(ROWS * COLUMNS)?, scratch::zeroed(ROWS * COLUMNS)?];
    let mut product: Vec<A> = scratch::zeroed(ROWS.max(COLUMNS) * size.max(width))?;
    let mut seen: Vec<u8> = scratch::zeroed(COLUMNS)?;
    for column in (0..keys).step_by(COLUMNS) {
        for (of_head, row) in (0..shared).flat_map(|head| (0..queries).step_by(ROWS).map(move |row| (head, row))) {
            let rows = ROWS.min(queries - row);
            let reach = pairs.reach(row, rows);
            if reach <= column {
                continue;
            }
            let head = g * shared + of_head;
            let at = Block { b, head, row, rows, column, columns: COLUMNS.min(reach - column) };
            let (p, ds) = (&mut p[..rows * at.columns], &mut ds[..rows * at.columns]);
            let plane = gemm::Layout::row_major(rows, at.columns);
            pairs.scores(at, &mut seen, p)?;
            let first = (b * heads + head) * queries + row;
            for (i, p) in p.chunks_exact_mut(at.columns).enumerate() {
                let lse = beside.lse[first + i];
                let shift = |s: A| if s == A::LOWEST || lse == A::LOWEST { A::LOWEST } else { s - lse };
                p.iter_mut().for_each(|s| *s = shift(*s));
                A::exp_all(p);
            }
            let dout = beside.dout.place(b, head, row, rows);
            let values = pairs.v.place(b, g, column, at.columns);
            let v = Mat::new(&pairs.v.data, values.transposed());
            gemm::gemm(beside.dout.matrix(dout), v, MatMut::new(ds, plane))?;
            pairs.drop_pairs(at, ds);
            for (i, (ds, p)) in ds.chunks_exact_mut(at.columns).zip(p.chunks_exact(at.columns)).enumerate() {
                let delta = beside.delta[first + i];
                let slope = |p: A, slope: A| if p == A::ZERO { A::ZERO } else { p * (slope - delta) };
                ds.iter_mut().zip(p).for_each(|(ds, &p)| *ds = slope(p, *ds));
            }
            pairs.drop_pairs(at, p);
            let across = plane.transposed();
            let dv = &mut dv[column * width..][..at.columns * width];
            pairs.add_product((p, across), (&beside.dout, dout), &mut product, dv)?;
            let of_queries = pairs.q.place(b, head, row, rows);
            let dk = &mut dk[column * size..][..at.columns * size];
            pairs.add_product((ds, across), (&pairs.q, of_queries), &mut product, dk)?;
            let of_keys = pairs.k.place(b, g, column, at.columns);
            let dq = &mut dq[(of_head * queries + row) * size..][..rows * size];
            pairs.add_product((ds, plane), (&pairs.k, of_keys), &mut product, dq)?;
        }
    }
    let scale = A::of(pairs.op.scale);
    dq.iter_mut().chain(dk).for_each(|x| *x *= scale);
    Ok(())
}
