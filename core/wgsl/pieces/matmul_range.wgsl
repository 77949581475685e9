// Pieces: the extremes of an operand's magnitudes and the decision made of them: see core/src/ops/matmul/plan/coop/range.rs.

//# extremes of operand
@group(0) @binding(2) var<storage, read_write> found: array<vec2<u32>>;
var<workgroup> shared_words: array<vec2<u32>, THREADS>;

//# reduce: the largest and the smallest magnitude, as bits; for the smallest each is lowered by one, so that 0 wraps to the largest and never wins
fn reduce(thread: u32, own: vec2<u32>) -> vec2<u32> {
    var most = own.x;
    var least = own.y;
    shared_words[thread] = vec2<u32>(most, least);
    for (var reach = THREADS / 2u; reach > 0u; reach /= 2u) {
        workgroupBarrier();
        if thread < reach {
            let other = shared_words[thread + reach];
            most = max(most, other.x);
            least = min(least, other.y);
            shared_words[thread] = vec2<u32>(most, least);
        }
    }
    return vec2<u32>(most, least);
}

//# main of extremes: count is at most 2^32 - 2^16, but a step may be larger than 2^16: the sum must not wrap
@compute @workgroup_size($threads)
fn main(
    @builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32,
) {
    var own = vec2<u32>(0u, ~0u);
    let first = group.x * THREADS + thread;
    let step = THREADS * ${groups}u;
    var unit = first;
    loop {
        if unit >= params.count { break; }
        $takes
        if params.count - unit <= step { break; }
        unit += step;
    }
    let all = reduce(thread, own);
    if thread == 0u { found[params.target_base + group.x] = all; }
}

//# take quad
        let bits = bitcast<vec4<u32>>(load4_x(place_of(unit) / 4u)) & vec4<u32>(0x7fffffffu);
        let more = max(bits.xy, bits.zw);
        own.x = max(own.x, max(more.x, more.y));
        let low = bits - vec4<u32>(1u);
        let less = min(low.xy, low.zw);
        own.y = min(own.y, min(less.x, less.y));

//# take one
        let bits = bitcast<u32>(load_x(place_of(unit))) & 0x7fffffffu;
        own.x = max(own.x, bits);
        own.y = min(own.y, bits - 1u);

//# params of decision
struct Params { least: i32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> found: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> info: array<u32>;
const THREADS = ${threads}u;
var<workgroup> shared_words: array<vec2<u32>, THREADS>;

//# main of decision
@compute @workgroup_size($threads)
fn main(@builtin(local_invocation_index) thread: u32) {
    let of_a = reduce(thread, $of_a);
    workgroupBarrier();
    let of_b = reduce(thread, $of_b);
    if thread == 0u { decide(of_a, of_b); }
}
