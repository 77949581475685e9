// Pieces before positions.wgsl: how a position is read, and what differs between the ways, as it names buffers that others have not.

//# position
// Position number e: its low and its high word.
fn position(e: u32) -> vec2<u32> {
    $coordinates
    let at = $at;
    let low = load_x(at);
    return vec2<u32>(low, $high);
}


//# parts
fn part(i: u32) -> u32 { return NONE; }
fn finish(part: u32, first: u32) { store_parts(part, first); }

//# whole
fn part(i: u32) -> u32 { return NONE; }
fn finish(part: u32, first: u32) { keep(first); }

//# close
fn part(i: u32) -> u32 { return load_parts(i); }
fn finish(part: u32, first: u32) { keep(first); }
