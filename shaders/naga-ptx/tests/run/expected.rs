//! What `semantics.wgsl` must leave in its buffers, for tests of interpreted PTX and of devices.

/// Words of `out` for each of the 64 invocations.
pub const PLACES: usize = 64;
/// Bytes of each binding, which start as zeros.
pub const SIZES: [usize; 4] = [64 * PLACES * 4, 16, 352, 32];

pub fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

/// What is wrong with `out` after `main`, in words; nothing when all is right.
pub fn wrong(out: &[u32]) -> Vec<String> {
    let mut wrong = Vec::new();
    for i in 0..64 {
        for (place, value) in expected(i) {
            let got = out[i as usize * PLACES + place];
            // Zeros of either sign are equal where floats are.
            let zeros = (43..=52).contains(&place) && (got | value) << 1 == 0;
            // A product and a sum may be one operation, rounded once.
            let fused = place == 51 && got == (i as f32).mul_add(0.3, -8.0).trunc().to_bits();
            if got != value && !zeros && !fused {
                wrong.push(format!("r[{place}] of {i}: {got:#x}, not {value:#x}"));
            }
        }
    }
    wrong
}

/// The words of `placed` after `main`: a structure of every kind of member, where WGSL puts them.
pub fn layout() -> Vec<u32> {
    let f = f32::to_bits;
    let mut expected = vec![0; 88];
    let mut put = |at: usize, values: &[u32]| expected[at / 4..at / 4 + values.len()].copy_from_slice(values);
    put(0, &[1]);
    put(16, &[f(2.0), f(3.0), f(4.0), f(5.0)]);
    put(48, &[6, 7, 8]);
    put(64, &[f(1.0), f(2.0), f(3.0), 0, f(4.0), f(5.0), f(6.0), 0, f(7.0), f(8.0), f(9.0)]);
    put(112, &[9, 10]);
    put(128, &[11, 0, 0, 0, f(12.0), f(13.0), f(14.0), f(15.0)]);
    put(192, &[16, 0, 0, 0, f(17.0), f(18.0), f(19.0), f(20.0)]);
    put(224, &[21]);
    expected
}

/// What invocation `i` must leave at each place.
fn expected(i: u32) -> Vec<(usize, u32)> {
    let f = i as f32;
    let mut out = vec![
        (0, 7 + i),
        (1, 0),
        (2, 0x8000_0000),
        (3, 0),
        (4, (-3_i32) as u32),
        (5, (-3_i32) as u32),
        (6, 1 << (i % 32)),
        (7, (-1024_i32 >> (i % 8)) as u32),
        (8, 0xf000_000f >> (i % 32)),
        (9, 0),
        (10, (-1_i32) as u32),
        (11, (f * 1.25) as u32),
        (12, (f - 32.0).to_bits()),
        (13, 11 + i % 4),
        (14, 50 - (11 + (i * 7) % 4) + 99),
        (15, 10 * (i % 5 + 1)),
    ];
    let mut v = [1, 2, 3, 4];
    v[i as usize % 4] += 10;
    out.push((16, v[0] * 1000 + v[1] * 100 + v[2] * 10 + v[3]));
    v.reverse();
    out.push((17, v[(i as usize + 1) % 4]));
    let mut m = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]];
    m[i as usize % 3][i as usize % 2] = 50.0_f32;
    let mv = |row: usize| m[0][row] + 2.0 * m[1][row] + 3.0 * m[2][row];
    out.extend([(18, mv(0) as u32), (19, mv(1) as u32), (20, 4 + 8)]);
    let mut counter = 4;
    out.push((21, 2 * i + counter + 2 * i));
    if i.is_multiple_of(2) {
        counter += 5;
    }
    out.extend([(22, u32::from(i.is_multiple_of(2))), (23, counter)]);
    if !i.is_multiple_of(3) {
        counter += 7;
    }
    out.extend([(24, 1), (25, counter)]);
    let found = matches!(i % 10, 1 | 2) && i / 10 < 6;
    out.push((26, if found { i / 10 * 100 + i % 10 } else { 9999 }));
    out.push((
        27,
        match i {
            0 => 5,
            3 | 4 => 7 + i,
            5 => 55,
            1..=6 => 101 + i,
            _ => 1 + i,
        },
    ));
    let (mut sum, mut k) = (0, 0);
    loop {
        if k % 3 != 1 {
            if k > i {
                break;
            }
            sum += k;
        }
        k += 1;
        if k == 20 {
            break;
        }
    }
    out.push((28, sum * 100 + k));
    let (mut n, mut steps) = (i + 1, 0);
    while n != 1 {
        n = if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
        steps += 1;
    }
    out.extend([(29, steps), (30, (63 - i) * (63 - i)), (31, 21 * 21 + 37 * 37)]);
    out.push((32, (3.0 * 10000.0 + (2.0 + f) * 100.0 + f) as u32 + i));
    out.push((33, 2 * (i % 3 + 1) * 1000 + 12 - 2 * (i % 3 + 1) + 100));
    out.push((34, i.count_ones() * 100 + i.leading_zeros() + i.trailing_zeros()));
    let first = |found: u32| if i == 0 { u32::MAX } else { found };
    out.push((35, first(31_u32.wrapping_sub(i.leading_zeros())).wrapping_add(first(i.trailing_zeros()))));
    out.push((36, first(31_u32.wrapping_sub(i.leading_zeros()))));
    let field = |from: u32, count: u32| {
        let from = from.min(32);
        (u64::from(from), u64::from(count.min(32 - from)))
    };
    let (from, count) = field(i % 40, 7);
    out.push((37, ((0x1234_5678_u64 >> from) & ((1 << count) - 1)) as u32));
    let (from, count) = field(i % 33, i % 9);
    let bits = (0x9234_5678_u64 >> from) & ((1 << count) - 1);
    let negative = count > 0 && bits >> (count - 1) & 1 == 1;
    out.push((38, if negative { (bits | !((1 << count) - 1)) as u32 } else { bits as u32 }));
    let (from, count) = field(i % 33, (i * 5) % 34);
    let mask = ((1_u64 << count) - 1) << from;
    out.push((39, ((0xffff_ffff & !mask) | (u64::from(i) << from & mask)) as u32));
    out.push((40, i.reverse_bits()));
    let bytes = (0x0102_0304 + i).to_le_bytes();
    out.push((41, bytes.iter().zip([8, 7, 6, 5]).map(|(&a, b)| u32::from(a) * b).sum()));
    out.push((42, u32::from_le_bytes([i as u8, i as u8 + 1, 44, 4])));
    out.push((43, (f * 0.5).round_ties_even().to_bits()));
    let x = f * 0.25 - 3.0;
    out.push((44, (x - x.floor()).to_bits()));
    out.push((45, (f - 32.0).clamp(-5.0, 7.0).to_bits()));
    out.push((46, if i == 32 { 0 } else { (f - 32.0).signum().to_bits() }));
    let x = f * 0.75 - 10.0;
    out.extend([(47, x.trunc().to_bits()), (48, (x - x.trunc()).to_bits()), (49, (f * 3.0).to_bits())]);
    out.push((50, ((f - 20.5) % 3.0).to_bits()));
    out.push((51, (f * 0.3 - 8.0).trunc().to_bits()));
    let step = f32::from(u8::from(f >= 10.0));
    out.push((52, (step + (f * -0.5).floor() + (f * 0.5).ceil()).to_bits()));
    let s = i as i32;
    out.push((53, ((s - 40).abs() + (s - 40).max(-3) + s.min(9) + 3) as u32));
    out.push((54, if [3, 5, 7].contains(&i) { 2 } else { 1 } + if i < 9 { 4 } else { 0 }));
    out.extend([(55, i + 4 * i), (56, 2 * i + 11)]);
    out.push((58, i));
    let factor = i * 0x0123_4567;
    out.push((59, ((0xffff_fff0_u64 * u64::from(factor)) >> 32) as u32));
    out.push((60, ((-0x7fff_fff0_i64 * i64::from(factor as i32)) >> 32) as u32));
    out
}
