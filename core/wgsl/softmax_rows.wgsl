// Computes      the largest element and the sum of exp(x - largest) of every row of a source, or of one slab of it; with TOTAL the sum of
//               the elements as well.
// Algorithm     The online normaliser of Milakov and Gimelshein (arXiv 1805.02867), a block at a time. 1. LANES threads walk a row, BLOCK
//               units each: the largest of the block first, then the sum so far is scaled to it once, then the block's exponentials are
//               added; 2. the threads of a row join their states in workgroup memory.
// Tiling        THREADS / LANES rows a workgroup; slabs of params.slab elements. A unit is PER neighbours, 16 bytes, and starts at a multiple
//               of them whatever the row does: what lies before the first and behind the last whole unit is taken element by element.
//               Where elements are no neighbours a unit is one of them.
// Mapping       row = workgroup / slabs * ROWS + thread / LANES; thread t owns units t % LANES + i * LANES of its slab.
// Shared memory (THREADS + ROWS * HEADS) * sizeof(Folds).
// Traffic       every element read once: memory bound.
// Numerics      f32 (f64 for f64); a chain of about units / LANES + FAN + HEADS additions, and an exponential's error for each time the
//               largest grows, always in the same order. NaN is seen by its bits. Differences end at FLOOR, whose exponential is 0, so
//               that no infinite one counts.
// Requires      prelude: S, U, V, K; LANES, THREADS, BLOCK, PER, PAIRED (whether a unit is two V), RUN (whether elements are neighbours),
//               TOTAL, FLOOR, LOWEST; Raw, load_raw(at), low_of(raw), high_of(raw), load_one(at), lone(x, rest); higher, higher_s,
//               highest_of, sum_of; softmax_scalar.wgsl, softmax_stats.wgsl; Folds, joined; ROWS, fold_row (pieces/workgroup_fold.wgsl); end_row; struct Params.
// Measured      not measured.
// What a thread holds of its row: the largest number, the sums scaled to it, the largest bits without a sign, the sums of elements.
struct Lane { highest: S, sum: V, sizes: K, total: V }

fn exp_below(x: V) -> V {
    return exp_v(higher(x, V(FLOOR)));
}

fn shrunk(held: Lane, highest: S) -> V {
    return held.sum * exp_s(higher_s(held.highest - highest, FLOOR));
}

// `held` and the first `live` units of a block.
fn absorb(held: Lane, taken: array<Raw, BLOCK>, live: u32, nothing: V) -> Lane {
    var units = taken;
    var top = nothing;
    var lane = held;
    for (var i = 0u; i < BLOCK; i++) {
        let low = select(nothing, low_of(units[i]), i < live);
        top = higher(top, low);
        lane.sizes = max(lane.sizes, bitcast<K>(low) & K(MAGNITUDE));
        if TOTAL { lane.total += select(V(), low, i < live); }
        if PAIRED {
            let high = select(nothing, high_of(units[i]), i < live);
            top = higher(top, high);
            lane.sizes = max(lane.sizes, bitcast<K>(high) & K(MAGNITUDE));
            if TOTAL { lane.total += select(V(), high, i < live); }
        }
    }
    lane.highest = higher_s(held.highest, top_of(top));
    lane.sum = shrunk(held, lane.highest);
    let anchor = V(lane.highest);
    for (var i = 0u; i < BLOCK; i++) {
        lane.sum += exp_below(select(nothing, low_of(units[i]), i < live) - anchor);
        if PAIRED { lane.sum += exp_below(select(nothing, high_of(units[i]), i < live) - anchor); }
    }
    return lane;
}

fn absorb_one(held: Lane, x: S, nothing: S) -> Lane {
    let one = lone(x, nothing);
    let highest = higher_s(held.highest, x);
    let sizes = max(held.sizes, bitcast<K>(one) & K(MAGNITUDE));
    let sum = shrunk(held, highest) + exp_below(one - V(highest));
    return Lane(highest, sum, sizes, held.total + lone(x, S()));
}

// The state of a thread: of nothing but -inf, or of nothing at all, that of -inf.
fn state_of(held: Lane, nothing: S) -> State {
    let sum = sum_of(held.sum);
    let is_empty = held.highest <= LOWEST && sum < S(0.5);
    let key = key_of_one(select(held.highest, nothing, is_empty));
    return State(select(key, NAN_KEY, highest_of(held.sizes) > INFINITY), select(sum, S(), is_empty));
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = group.y * groups.x + group.x;
    let row = id / params.slabs * ROWS + thread / LANES;
    let slab = id % params.slabs;
    let lane = thread % LANES;
    let nothing = S(bitcast<f32>(params.lowest));
    // Everything is larger than -inf, but bits without a sign are not: nothing has been seen yet.
    var held = Lane(LOWEST, V(), K(), V());
    // A row past the end reads nothing but still meets the barriers.
    if row < params.outputs {
        let first = slab * params.slab;
        let length = min(params.slab, params.count - first);
        let start = base_of(row) + first * params.stride;
        let head = select(0u, min((PER - start % PER) % PER, length), RUN);
        let units = (length - head) / PER;
        let rest = length - units * PER;
        for (var i = lane; i < rest; i += LANES) {
            held = absorb_one(held, load_one(start + select(i + units * PER, i, i < head)), nothing);
        }
        let origin = select(start, (start + head) / PER, RUN);
        let step = select(params.stride, 1u, RUN);
        var at = lane;
        var taken: array<Raw, BLOCK>;
        while at + (BLOCK - 1u) * LANES < units {
            // All loads first.
            for (var i = 0u; i < BLOCK; i++) { taken[i] = load_raw(origin + (at + i * LANES) * step); }
            held = absorb(held, taken, BLOCK, V(nothing));
            at += BLOCK * LANES;
        }
        if at < units {
            // Behind the end the last unit again, which counts as nothing.
            for (var i = 0u; i < BLOCK; i++) { taken[i] = load_raw(origin + min(at + i * LANES, units - 1u) * step); }
            held = absorb(held, taken, (units - at + LANES - 1u) / LANES, V(nothing));
        }
    }
    let all = fold_row(joined(state_of(held, nothing), sum_of(held.total)), thread);
    if row < params.outputs && lane == 0u { end_row(row * params.slabs + slab, all); }
}
