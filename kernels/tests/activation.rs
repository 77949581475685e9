//! `cuda/activation.cuh` on the host: its steps with its constants, and with approximations as far off as PTX allows, stay within
//! what core promises of each function.
//!
//! Inputs: every 4096th f32 (2^20 of them), every f16 and every bf16. What is not shown here: that the compiler keeps these
//! steps; the native tests of `polywarp-cuda` run the kernels.

use polywarp_core::harness::Part;
use polywarp_core::oracle::{Span, Subnormals};
use polywarp_core::{DType, Scalar, UnaryFn};

const SOURCE: &str = include_str!("../cuda/activation.cuh");

/// The number behind `name = ` in the source.
fn constant(name: &str) -> f32 {
    let at = SOURCE.find(&format!("{name} = ")).unwrap_or_else(|| panic!("{name} is gone")) + name.len() + 3;
    number(&SOURCE[at..])
}

fn number(text: &str) -> f32 {
    let end = text.find('f').expect("a float");
    text[..end].trim().parse().unwrap_or_else(|e| panic!("{:?}: {e}", &text[..end]))
}

/// The polynomial `P` of the function that starts with `head`.
fn polynomial(head: &str) -> Vec<f32> {
    let body = &SOURCE[SOURCE.find(head).unwrap_or_else(|| panic!("{head} is gone"))..];
    let list = &body[body.find("P[] = {").expect("its polynomial") + 7..];
    list[..list.find('}').expect("its end")].split(',').map(number).collect()
}

/// The constants, and how far off this machine's approximations are: units in the last place of ex2 and rcp.
struct Machine {
    log2_e: [f32; 2],
    half_log2_e: [f32; 2],
    ln_2: f32,
    gelu: Vec<f32>,
    gelu_shift: f32,
    gelu_most: f32,
    gelu_linear: f32,
    tanh: Vec<f32>,
    tanh_small: f32,
    off: [f64; 2],
}

impl Machine {
    fn new(off: [f64; 2]) -> Machine {
        Machine {
            log2_e: [constant("float LOG2_E"), constant(", LOG2_E_LOW")],
            half_log2_e: [constant("HALF_LOG2_E"), constant("HALF_LOG2_E_LOW")],
            ln_2: constant("LN_2"),
            gelu: polynomial("float gelu(float x)"),
            gelu_shift: constant("GELU_SHIFT"),
            gelu_most: constant("GELU_MOST"),
            gelu_linear: constant("GELU_LINEAR"),
            tanh: polynomial("float tanh(float x)"),
            tanh_small: constant("TANH_SMALL"),
            off,
        }
    }

    fn exp2(&self, x: f32) -> f32 {
        let y = (f64::from(x).exp2() * (1.0 + self.off[0] * (-23f64).exp2())) as f32;
        if y < f32::MIN_POSITIVE { 0.0 } else { y }
    }

    fn reciprocal(&self, x: f32) -> f32 {
        let y = ((1.0 + self.off[1] * (-23f64).exp2()) / f64::from(x)) as f32;
        if y < f32::MIN_POSITIVE { 0.0 } else { y }
    }

    fn corrected(&self, power: f32, rest: f32) -> f32 {
        power.mul_add(rest * self.ln_2, power)
    }

    fn exp_of_minus(&self, t: f32, exact: bool, flushing: bool) -> f32 {
        let [high, low] = self.log2_e;
        let x = -t * high;
        let tiny = !flushing && x < -100.0;
        let mut power = self.exp2(if tiny { x + 64.0 } else { x });
        if exact {
            let rest = (-t).mul_add(low, (-t).mul_add(high, -x));
            power = if t < 256.0 { self.corrected(power, rest) } else { power };
        }
        if tiny { power * (-64f32).exp2() } else { power }
    }

    fn gelu(&self, x: f32, exact: bool) -> f32 {
        let [high, low] = self.half_log2_e;
        // fminf: the number, where the other is NaN.
        let t = x.abs().min(self.gelu_most);
        let q = self.reciprocal(t + self.gelu_shift);
        let square = t * t;
        let exponent = -square * high;
        let mut power = self.exp2(exponent);
        if exact {
            let rest = (-square).mul_add(low, (-square).mul_add(high, -exponent));
            let rest = (-t.mul_add(t, -square)).mul_add(high, rest);
            power = self.corrected(power, rest);
        }
        let p = self.gelu.iter().rev().copied().reduce(|p, c| p.mul_add(q, c)).expect("a polynomial");
        let y = (-(t * q * power)).mul_add(p, max_or_nan(x, -0.0));
        if exact && t < self.gelu_linear { 0.5 * x } else { y }
    }

    fn sigmoid(&self, x: f32, exact: bool, flushing: bool) -> f32 {
        let e = self.exp_of_minus(x.abs(), exact, flushing);
        self.reciprocal(1.0 + e) * if x < 0.0 { e } else { 1.0 }
    }

    fn silu(&self, x: f32, exact: bool) -> f32 {
        max_or_nan(x, -150.0) * self.sigmoid(x, exact, true)
    }

    fn tanh(&self, x: f32) -> f32 {
        let (t, square) = (x.abs(), x * x);
        let e = self.exp2(t * (2.0 * self.log2_e[0]));
        let large = (-2.0f32).mul_add(self.reciprocal(e + 1.0), 1.0);
        let p = self.tanh.iter().rev().copied().reduce(|p, c| p.mul_add(square, c)).expect("a polynomial");
        if t < self.tanh_small { t.mul_add(square * p, t) } else { large }.copysign(x)
    }

    /// What kernels give before rounding to `dtype`.
    fn value(&self, f: UnaryFn, x: f32, dtype: DType) -> f32 {
        let exact = dtype == DType::F32;
        match f {
            UnaryFn::Gelu => self.gelu(x, exact),
            UnaryFn::Silu => self.silu(x, exact),
            UnaryFn::Tanh => self.tanh(x),
            _ => self.sigmoid(x, exact, dtype == DType::F16),
        }
    }
}

fn max_or_nan(x: f32, y: f32) -> f32 {
    // -0 below +0, as max.NaN has it.
    if x.is_nan() || y.is_nan() {
        f32::NAN
    } else if x > y || (x == y && y.is_sign_negative()) {
        x
    } else {
        y
    }
}

/// Every input whose results break the promise, with what came out.
fn wrong(
    machine: &Machine,
    f: UnaryFn,
    dtype: DType,
    inputs: impl Iterator<Item = f32>,
) -> (usize, Vec<(f32, f64, f64)>) {
    let (mut count, mut wrong) = (0, Vec::new());
    for x in inputs {
        let exact = Span::exact(Scalar::F(f64::from(x)));
        let expected = exact.unary(f, dtype).round_to(dtype).into_expected(dtype);
        let y = Scalar::F(f64::from(machine.value(f, x, dtype))).cast(dtype);
        count += 1;
        if !expected.accepts(y, dtype, Subnormals::Kept) {
            wrong.push((x, y.as_f64(), expected.value.as_f64()));
        }
    }
    (count, wrong)
}

const FUNCTIONS: [UnaryFn; 4] = [UnaryFn::Gelu, UnaryFn::Silu, UnaryFn::Tanh, UnaryFn::Sigmoid];
/// ex2.approx: 2 units in the last place; rcp.approx: 1 (PTX ISA).
const OFF: [[f64; 2]; 5] = [[0.0, 0.0], [2.0, 1.0], [2.0, -1.0], [-2.0, 1.0], [-2.0, -1.0]];

#[test]
fn activations_keep_what_core_promises() {
    // Each distance from the approximations takes seconds: 0 every day, and one of the others.
    let today = Part::today(4);
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for f in FUNCTIONS {
            for (_, off) in (0..).zip(OFF).filter(|&(at, _)| at == 0 || today.is_turn_of(at)) {
                let spread = (0..1u32 << 20).map(|i| f32::from_bits(i << 12));
                let halves = (0..=u16::MAX).map(|bits| Scalar::from_le_bytes(&bits.to_le_bytes(), DType::F16).as_f64());
                let brains = (0..=u16::MAX).map(|bits| f32::from_bits(u32::from(bits) << 16));
                let inputs = spread.chain(halves.map(|x| x as f32)).chain(brains);
                let (count, wrong) = wrong(&Machine::new(off), f, dtype, inputs);
                assert_eq!(count, (1 << 20) + (2 << 16));
                let (name, some) = (f.name(), &wrong[..wrong.len().min(9)]);
                assert!(wrong.is_empty(), "{name} to {dtype}, {off:?} off: {} wrong, {some:?}", wrong.len());
            }
        }
    }
}

/// A coefficient that is a little off, and a tail without correction, are caught.
#[test]
fn worse_approximations_are_caught() {
    let spread = || (0..1u32 << 20).map(|i| f32::from_bits(i << 12));
    let mut machine = Machine::new([0.0, 0.0]);
    machine.gelu[1] *= 1.00001;
    assert!(!wrong(&machine, UnaryFn::Gelu, DType::F32, spread()).1.is_empty());
    let mut machine = Machine::new([0.0, 0.0]);
    machine.half_log2_e[1] = 0.0;
    assert!(!wrong(&machine, UnaryFn::Gelu, DType::F32, spread()).1.is_empty());
}
