// Which inputs a window reads, and which windows read an input, on each axis.
//
// Requires: prelude: alias Acc; Params; const ADAPTIVE, PADDED.

// An axis: extents of input and output, most taps of a window, and how windows move.
struct Line {
    input: u32,
    output: u32,
    taps: u32,
    stride: u32,
    dilation: u32,
    before: u32,
}

fn line_x() -> Line {
    return Line(params.in_x, params.out_x, params.taps_x, params.stride_x, params.dilation_x, params.before_x);
}

fn line_y() -> Line {
    return Line(params.in_y, params.out_y, params.taps_y, params.stride_y, params.dilation_y, params.before_y);
}

fn line_z() -> Line {
    return Line(params.in_z, params.out_z, params.taps_z, params.stride_z, params.dilation_z, params.before_z);
}

const NOWHERE = 0xffffffffu;

// The input under a tap of a window; NOWHERE in the padding and behind the window. Negative positions are large numbers.
fn source(line: Line, output: u32, tap: u32) -> u32 {
    var at = output * line.stride + tap * line.dilation - line.before;
    var live = (tap < line.taps) & (at < line.input);
    if ADAPTIVE {
        at = output * line.input / line.output + tap;
        live = at < ((output + 1u) * line.input + line.output - 1u) / line.output;
    }
    return select(NOWHERE, at, live);
}

// The first and the number of the windows that may read an input.
fn targets(line: Line, input: u32) -> vec2<u32> {
    if ADAPTIVE {
        let first = input * line.output / line.input;
        return vec2<u32>(first, ((input + 1u) * line.output + line.input - 1u) / line.input - first);
    }
    let at = input + line.before;
    let reach = line.dilation * (line.taps - 1u);
    let first = (select(0u, at - reach, at > reach) + line.stride - 1u) / line.stride;
    let end = min(at / line.stride + 1u, line.output);
    return vec2<u32>(first, select(0u, end - first, end > first));
}

// The tap of a window that lies on an input; NOWHERE where none does.
fn tap_on(line: Line, output: u32, input: u32) -> u32 {
    if ADAPTIVE {
        let tap = input - output * line.input / line.output;
        return select(NOWHERE, tap, source(line, output, tap) == input);
    }
    let away = input + line.before - output * line.stride;
    let tap = away / line.dilation;
    return select(NOWHERE, tap, (tap * line.dilation == away) & (tap < line.taps));
}

// How many taps of a window an average counts: those in the input, or before the end of the padding.
fn counted(line: Line, padded: u32, output: u32) -> u32 {
    if PADDED { return min((padded - output * line.stride + line.dilation - 1u) / line.dilation, line.taps); }
    var count = 0u;
    for (var tap = 0u; tap < line.taps; tap++) { count += select(0u, 1u, source(line, output, tap) != NOWHERE); }
    return count;
}

fn divisor_of(output: vec3<u32>) -> Acc {
    if params.number > 0u { return Acc(params.number); }
    let x = counted(line_x(), params.padded_x, output.x);
    let y = counted(line_y(), params.padded_y, output.y);
    let z = counted(line_z(), params.padded_z, output.z);
    return Acc(x * y * z);
}

// The indices of `number` in `extents`, row-major; what is left over as the fourth number.
fn indices(number: u32, extents: vec3<u32>) -> vec4<u32> {
    let y = number / extents.z;
    let x = y / extents.y;
    let rest = x / extents.x;
    return vec4<u32>(x - rest * extents.x, y - x * extents.y, number - y * extents.z, rest);
}

// Where the channel of a pixel of x lies.
fn at_x(image: u32, x: u32, y: u32, z: u32, channel: u32) -> u32 {
    return params.x_base + (((image * params.in_x + x) * params.in_y + y) * params.in_z + z) * params.x_pitch + channel;
}

// The number of a pixel of y.
fn number_of(image: u32, x: u32, y: u32, z: u32) -> u32 {
    return ((image * params.out_x + x) * params.out_y + y) * params.out_z + z;
}
