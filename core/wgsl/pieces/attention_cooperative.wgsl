// Pieces that fill the holes of attention_cooperative.wgsl and attention_cooperative_gradient.wgsl, indented as they stand there. What is unrolled
// over matrices and quads is written by core/src/ops/attention/plan/cooperative.rs and cooperative/gradient.rs.

//# scores where seen: quad n of a row
                score_$n = select(nothing, score_$n, seen(b, h, i, key0 + 4u * half + ${first}u));

//# seen: unless every query sees all of these keys
            // Whether every query sees all of these keys.
            if !($whole) {
                $scores
            }

//# mark: the largest score of a row, and where the mark follows it
            let high = $high;
            var peak = max(max(high.x, high.y), max(high.z, high.w)) * scale;
            peak = max(peak, subgroupShuffleXor(peak, 1u));
            if peak > mark + RAISE {
                if mark > -LARGEST {
                    shrink = exp2(mark - peak);
                    atomicStore(&flags[RAISED], 1u);
                }
                mark = peak;
            }
            let anchor = vec4<f32>(select(BIAS - mark, 0f, mark <= -LARGEST));

//# share: quad n of a row
            let share_$n = exp2(fma(score_$n, vec4<f32>(scale), anchor));
            shares[at + ${at}u] = V(share_$n);

//# total
            let whole = $whole;
            total = total * shrink + ((whole.x + whole.y) + (whole.z + whole.w));

//# store quad
            ${inside}{
                let sum = scores[at + ${at}u];
                $target[$place + $column] = V(sum$times);
                is_strange = is_strange || any(is_wild(sum));
            }

//# wild: what a row of shares gives of staged elements that are not finite
fn wild_$name(row: u32, at: u32, first: u32, column: u32) -> vec4<f32> {
    var sum = vec4<f32>();
    for (var n = 0u; n < STREAMED; n++) {
        let p = f32(shares[row * PITCH + ${shares}u + n / 4u][n % 4u]);
        let x = vec4<f32>($load(at, first + n, column));
        if !(p == 0.0) { sum += select(vec4<f32>(), p * x, is_wild(x)); }
    }
    return sum;
}


//# sees
// Whether the queries i .. i + 3 of head h see key j.
fn seen_by(b: u32, h: u32, i: u32, j: u32) -> vec4<bool> {
    return vec4<bool>(sees(b, h, i, j), sees(b, h, i + 1u, j), sees(b, h, i + 2u, j), sees(b, h, i + 3u, j));
}

fn sees(b: u32, h: u32, i: u32, j: u32) -> bool {
    if i >= params.queries || j >= params.keys { return false; }
    if CAUSAL && i32(j) > i32(i) + params.shift { return false; }
    if MASKED { return is_shown(b, h, i, j); }
    return true;
}


//# place
    let ${name}_at = (params.${name}_offset + b * params.${name}_batch + $head * params.${name}_head) / 4u;

//# place of queries
    // The last queries first: where attention is causal they see most.
    let row0 = (params.blocks - 1u - number % params.blocks) * ROWS;
    let head = number / params.blocks;
    let b = head / params.heads;
    let h = head - b * params.heads;
    let group = h / params.shared_heads;
    $places
    let i = row0 + row;
    let begin = 0u;
    var reach = params.keys;
    $causal
    let stat = stats[4u + head * params.queries + min(i, params.queries - 1u)];
    let lse = vec4<f32>(stat.x);
    let delta = vec4<f32>(stat.y);
    let shows = vec4<bool>(!(bitcast<u32>(stat.x) == params.lowest));

//# causal reach
    let last = i32(min(row0 + ROWS, params.queries)) + params.shift;
    reach = min(reach, u32(max(last, 0)));

//# place of keys
    // The first keys first: where attention is causal most queries see them.
    let row0 = number % params.blocks * ROWS;
    let rest = number / params.blocks;
    let groups = params.heads / params.shared_heads;
    let b = rest / groups;
    let group = rest - b * groups;
    $places
    let j = row0 + row;
    let reach = params.queries;
    var begin = 0u;
    $causal

//# causal begin
    begin = u32(max(i32(row0) - params.shift, 0));

//# heads of group
        for (var h = group * params.shared_heads; h < (group + 1u) * params.shared_heads; h++) {
        let head = b * params.heads + h;
        let q_at = (params.q_offset + b * params.q_batch + h * params.q_head) / 4u;
        let d_at = (params.d_offset + b * params.d_batch + h * params.d_head) / 4u;

//# end of heads
        }

//# pair of keys: lse and delta of four queries
            let stat${n}_0 = stats[4u + head * params.queries + min($column + 0u, params.queries - 1u)];
            let stat${n}_1 = stats[4u + head * params.queries + min($column + 1u, params.queries - 1u)];
            let stat${n}_2 = stats[4u + head * params.queries + min($column + 2u, params.queries - 1u)];
            let stat${n}_3 = stats[4u + head * params.queries + min($column + 3u, params.queries - 1u)];
            let lse$n = vec4<f32>(stat${n}_0.x, stat${n}_1.x, stat${n}_2.x, stat${n}_3.x);
            let delta$n = vec4<f32>(stat${n}_0.y, stat${n}_1.y, stat${n}_2.y, stat${n}_3.y);
            var shown$n = bitcast<vec4<u32>>(lse$n) != vec4<u32>(params.lowest);
            if !($whole) { shown$n = shown$n & seen_by(b, h, $column, j); }
            let share$n = share_of(scores[$place], lse$n, shown$n);
            shares[$place] = V(share$n);
            shares[$place + 4u] = V(select(share$n * (scores[$place + 4u] - delta$n), vec4<f32>(), share$n == vec4<f32>()));

//# pair of queries
            var shown$n = shows;
            if !($whole) { shown$n = shown$n & seen(b, h, i, $column); }
            let share$n = share_of(scores[$place], lse, shown$n);
            shares[$place + 4u] = V(select(share$n * (scores[$place + 4u] - delta), vec4<f32>(), share$n == vec4<f32>()));
