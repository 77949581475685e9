// Pieces around elements.wgsl: stores of quads, and for each operation what an element of its result is (core/src/ops/elements.rs).

//# put quads
fn put_quad(q: u32, v: vec4<Value>) { store4_y(params.y_offset / 4u + q, v); }
fn put_tail(q: u32, v: vec4<Value>, count: u32) { store_tail_y(params.y_offset / 4u + q, v, count); }


//# put elements
fn put_tail(q: u32, v: vec4<Value>, count: u32) {
    let i = params.y_offset + 4u * q;
    store_y(i, v.x);
    if count > 1u { store_y(i + 1u, v.y); }
    if count > 2u { store_y(i + 2u, v.z); }
    if count > 3u { store_y(i + 3u, v.w); }
}
fn put_quad(q: u32, v: vec4<Value>) { put_tail(q, v, 4u); }


//# join: the first operand whose end lies behind the element
fn element_at(i: u32) -> Value {
    let e = $element;
    $coordinates
    $choices
    return $last;
}

//# choice
    if e$axis < params.end$operand { return $value; }

//# gather
fn element_at(i: u32) -> Value {
    let e = $element;
    $coordinates
    // A negative position is a large number, and none of the axis.
    let at = load_at($at);
    var value = $outside;
    if at < params.n { value = load_x($x + at * params.x_step$half); }
    return value;
}

//# pad
fn element_at(i: u32) -> Value {
    let e = $element;
    $coordinates
    var x = params.x_offset;
    $places
    $value
}

//# constant place: what lies before wraps to a number beyond them, as all end within the result
    let t$dim = e$dim - params.first$dim;
    x += (t$dim + params.skip$dim) * params.x_s$dim;

//# edge place
    let t$dim = min(max(e$dim, params.first$dim) - params.first$dim, params.n$dim - 1u);
    x += (t$dim + params.skip$dim) * params.x_s$dim;

//# periodic place: no sum exceeds 32 bits
    let is_behind$dim = e$dim >= params.first$dim;
    let t$dim = select(e$dim + params.skip$dim, e$dim - params.first$dim, is_behind$dim) % params.n$dim;
    x += ($place) * params.x_s$dim;

//# value
    return $value;

//# value or number
    var value = $outside;
    if $is_inside { value = $value; }
    return value;

//# search
fn element_at(e: u32) -> Value {
    $coordinates
    let value = load_v($v);
    let first = $x;
    var low = 0u;
    var high = params.n;
    while low < high {
        let middle = low + (high - low) / 2u;
        let m = load_x(first + middle * params.x_step);
        if $goes_on { low = middle + 1u; } else { high = middle; }
    }
    return low;
}
