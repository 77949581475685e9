// Pieces before pool*.wgsl: of a unit, which is a channel or four neighbours, and of one element of it.

//# unit
alias Value = $value;
fn get_x(unit: u32) -> Value { return load${digit}_x(unit); }
fn put_y(unit: u32, value: Value) { store${digit}_y(unit, value); }


//# largest
// The tap is that of all channels until the first window's is absorbed; NOWHERE means that none was.
struct Held { value: Value, taps: $number, tap: u32 }
fn begin() -> Held { return Held(Value(), $number(), NOWHERE); }
fn wins(held: Acc, tap: u32, value: Acc) -> bool {
    let is_number = $is_number;
    let was_number = $was_number;
    return (tap == NOWHERE) | ($larger) | (!is_number & was_number);
}
fn absorb(held: Held, value: Value, tap: u32) -> Held {
    let wins = $taps($wins);
    return Held(select(held.value, value, wins), select(held.taps, $number(tap), wins), tap);
}
fn end(unit: u32, held: Held, output: vec3<u32>) {
    put_y(params.y_base + unit, held.value);
    store${digit}_place(params.place_base + unit, held.taps);
}

//# average
struct Held { sum: Value }
fn begin() -> Held { return Held(Value()); }
fn absorb(held: Held, value: Value, tap: u32) -> Held { return Held(held.sum + value); }
fn end(unit: u32, held: Held, output: vec3<u32>) {
    put_y(params.y_base + unit, held.sum / divisor_of(output));
}

//# share of largest
fn share(pixel: u32, channel: u32, tap: u32, output: vec3<u32>) -> Value {
    let chosen = load${digit}_at(params.at_base + pixel * params.channels + channel) == $number(tap);
    return select(Value(), get_x(params.x_base + pixel * params.x_pitch + channel), chosen);
}

//# share of average
fn share(pixel: u32, channel: u32, tap: u32, output: vec3<u32>) -> Value {
    return get_x(params.x_base + pixel * params.x_pitch + channel) / divisor_of(output);
}
