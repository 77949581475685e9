// Loops that do not end by themselves, or end sooner than they are made to: `n[0]` counts rounds, `n[1]` those of a loop
// inside or of what goes on at a loop's end, `n[2]` is set after the loop. `tests/suite/loops.rs` knows how many there must be.
@group(0) @binding(0) var<storage, read_write> n: array<u32, 4>;

@compute @workgroup_size(1)
fn empty() {
  loop { }
}

@compute @workgroup_size(1)
fn forever() {
  loop { n[0] += 1u; }
}

@compute @workgroup_size(1)
fn while_true() {
  while true { n[0] += 1u; }
  n[2] = 7u;
}

@compute @workgroup_size(1)
fn break_if_false() {
  loop {
    n[0] += 1u;
    continuing {
      n[1] += 1u;
      break if false;
    }
  }
  n[2] = 7u;
}

@compute @workgroup_size(1)
fn always_continued() {
  for (var i = 0u; ; i++) {
    n[0] += 1u;
    switch n[3] {
      case 0u: { continue; }
      default: { }
    }
    n[1] += 1u;
  }
  n[2] = 7u;
}

@compute @workgroup_size(1)
fn nested() {
  loop {
    n[0] += 1u;
    while n[3] == 0u { n[1] += 1u; }
    if n[3] != 0u { break; }
  }
  n[2] = 7u;
}

fn endless() {
  loop {
    n[0] += 1u;
    if n[3] != 0u { return; }
  }
}

@compute @workgroup_size(1)
fn called_twice() {
  endless();
  endless();
  n[2] = 7u;
}

// Written out.
@compute @workgroup_size(1)
fn five() {
  for (var i = 0u; i < 5u; i++) { n[0] += 1u; }
  n[2] = 7u;
}

// Not written out: the rounds are not known.
@compute @workgroup_size(1)
fn five_unknown() {
  for (var i = n[3]; i < 5u; i++) { n[0] += 1u; }
  n[2] = 7u;
}

// Lanes that go on for ever beside others that end: all meet at the barrier, and the workgroup ends.
var<workgroup> rounds: atomic<u32>;
@compute @workgroup_size(64)
fn divergent(@builtin(local_invocation_index) i: u32) {
  for (var k = 0u; k < i || i % 2u == 1u; k++) { atomicAdd(&rounds, 1u); }
  workgroupBarrier();
  if i == 0u {
    n[0] = atomicLoad(&rounds);
    n[2] = 7u;
  }
}
