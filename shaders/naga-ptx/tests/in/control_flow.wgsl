// Loops with continuing and break if, switch with shared and default cases, early return, nested loops.
@group(0) @binding(0) var<storage, read_write> data: array<i32>;
fn collatz(start: i32) -> i32 {
  var n = start;
  var steps = 0;
  loop {
    if (n <= 1) { break; }
    if (n % 2 == 0) { n = n / 2; continue; }
    n = 3 * n + 1;
    continuing {
      steps += 1;
      break if (steps >= 1000);
    }
  }
  return steps;
}
fn classify(n: i32) -> i32 {
  switch (n % 7) {
    case 0, 1: { return 10; }
    case 2: { if (n > 100) { break; } return 20; }
    default: { }
    case 5: { return 50; }
  }
  return -1;
}
@compute @workgroup_size(128)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x;
  if (i >= arrayLength(&data)) { return; }
  var sum = 0;
  for (var a = 0; a < data[i]; a++) {
    for (var b = a; b > 0; b -= 2) {
      if (b == 3) { continue; }
      sum += b;
      if (sum > 1000) { break; }
    }
    while (sum > 500) { sum -= 7; }
  }
  data[i] = sum + collatz(data[i]) + classify(data[i]);
}
