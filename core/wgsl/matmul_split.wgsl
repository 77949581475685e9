// What both kernels that split matrices of f32 begin with (`matmul/coop/split.rs`). A unit is four neighbours of a line; the
// units of a matrix are numbered line by line, with what pads its parts.

const LARGEST_FINITE = 0x7f7fffffu;

// A workgroup's place: its operand, the product whose matrix it is, and its turn among those that share the matrix.
struct Work {
    of_a: bool,
    matrix: u32,
    block: u32,
    // Of the matrix; none where the first product's workgroups do it for all.
    units: u32,
}

fn work_of(id: u32) -> Work {
    let layer = id / params.blocks;
    let of_a = layer < params.batches;
    let matrix = select(layer - params.batches, layer, of_a);
    let matrices = select(params.b.matrices, params.a.matrices, of_a);
    let units = select(params.b.all, params.a.all, of_a);
    return Work(of_a, matrix, id % params.blocks, select(0u, units, matrix < matrices));
}

// Unit `unit` of a matrix; zeros beyond its lines and their ends.
fn unit_of(work: Work, unit: u32) -> vec4<f32> {
    if work.of_a {
        let line = unit / params.a.units;
        let column = (unit - line * params.a.units) * 4u;
        if line < params.a.lines && column < params.a.length { return quad_a(work.matrix, line, column); }
    } else {
        let line = unit / params.b.units;
        let column = (unit - line * params.b.units) * 4u;
        if line < params.b.lines && column < params.b.length { return quad_b(work.matrix, line, column); }
    }
    return vec4<f32>();
}

var<workgroup> of_threads: array<vec2<u32>, THREADS>;

// The largest of all threads' values, in every thread.
fn largest_of_all(thread: u32, own: vec2<u32>) -> vec2<u32> {
    of_threads[thread] = own;
    for (var reach = THREADS / 2u; reach > 0u; reach /= 2u) {
        workgroupBarrier(); // those of the round before are complete
        if thread < reach {
            of_threads[thread] = max(of_threads[thread], of_threads[thread + reach]);
        }
    }
    workgroupBarrier(); // the last one is complete
    return of_threads[0];
}
