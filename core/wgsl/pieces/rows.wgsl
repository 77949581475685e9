// Pieces of a row kernel: see core/src/ops/graphs/rows/plan/text.rs, which writes programs and what is done with each value.

//# place
const WIDTH = ${width}u;
const LANES = ${lanes}u;
const THREADS = ${threads}u;
const ITEMS = ${items}u;
// Vector number i of a lane, in a row.
fn place(lane: u32, i: u32) -> u32 { return $at; }


//# base: where a row of an operand begins
fn base_x$number(row: u32) -> u32 {
    var at = params.x${number}_offset;
    var rest = row;
    $steps
    return at;
}

//# results: of a program with several
struct R$number {
    $members
}

//# program
fn m$number($parameters) -> $result {
    $steps
    return $value;
}


//# folds
struct Folds_$stage {
    $members
}
fn combine_$stage(a: Folds_$stage, b: Folds_$stage) -> Folds_$stage {
    return Folds_$stage($combined);
}

//# main
@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let group = workgroup.y * workgroups.x + workgroup.x;
    let lane = thread % LANES;
    $variables
    for (var round = 0u; round < params.rounds; round++) {
        let asked = (round * params.groups + group) * ROWS + thread / LANES;
        // A row past the end stores nothing but still meets the barriers.
        let live = group < params.groups && asked < params.rows;
        let row = min(asked, params.rows - 1u);
        let units = select(0u, params.units, live);
        $walks
    }
    $downs
}


//# downs: the sums down the columns
    for (var i = 0u; i < ITEMS; i++) {
        let at = place(lane, i);
        $totals
    }

//# down
        var total$number = d$number[i];
        $joined
        if thread < LANES && group < params.groups && at < params.units {
            p$number[group * params.units + at] = total$number;
        }

//# joined: the sums of the rows of a workgroup become one
        down[thread] = total$number;
        for (var count = ROWS; count > 1u; count = (count + 1u) / 2u) {
            let half = (count + 1u) / 2u;
            workgroupBarrier(); // the sums of `count` rows are there
            if thread / LANES + half < count { down[thread] += down[thread + half * LANES]; }
        }
        workgroupBarrier(); // the first row has all
        total$number = down[thread];
        workgroupBarrier(); // it has been read

//# loads: behind the end the last vector again; with no condition in between, every load is under way before a result
        for (var i = 0u; i < ITEMS; i++) {
            let at = min(${first}place(lane, i), params.units - 1u);
            $loads
        }

//# load
            h$number[i] = load${suffix}_x$number(b$number + at);

//# paired loads
        for (var i = 0u; i < ITEMS; i += 2u) {
            let at = min((${first}place(lane, i)) / 2u, params.units / 2u - 1u);
            $loads
        }

//# paired load
            let w$number = words_x$number(b$number / 2u + at);
            h$number[i] = unpack4_x$number(w$number.xy);
            h$number[i + 1u] = unpack4_x$number(w$number.zw);
