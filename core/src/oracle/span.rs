//! Interval arithmetic for composed steps: which results a backend may have, one step at a time.
//!
//! Near overflow, underflow and poles one number and its error do not say enough: of `(x + y) - (x + y)` with a sum that one
//! rounding takes to infinity and another does not, 0 and NaN are right and 1 is not. So a step gives an interval, its ends
//! included, and whether NaN is possible. Steps are computed in a dtype's compute type and not rounded in between
//! ([`DType::compute`]).
//!
//! R. E. Moore, Interval Analysis (1966): a function that is monotonic between some points takes its least and largest
//! value at those points and the ends.

use super::{Approx, Expected};
use crate::{BinaryFn, CompareFn, DType, Scalar, UnaryFn};

/// What backends may have for a value whose reference is `value`.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    value: Scalar,
    reach: Reach,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Reach {
    /// The reference and nothing else.
    Exact,
    /// Any number from `low` to `high`, zeros of either sign, or NaN if `nan`.
    Within { low: f64, high: f64, nan: bool },
    /// Whatever there is.
    Any,
}

impl From<Approx> for Span {
    fn from(x: Approx) -> Span {
        let at = x.value.as_f64();
        if x.error == 0.0 || (!at.is_finite() && x.error.is_finite()) {
            return Span::exact(x.value);
        }
        if x.error.is_finite() {
            return Span::new(x.value, Hull { low: at - x.error, high: at + x.error, nan: false });
        }
        Span::any(x.value)
    }
}

impl Span {
    /// A value that every backend has exactly.
    pub fn exact(value: Scalar) -> Span {
        Span { value, reach: Reach::Exact }
    }

    fn any(value: Scalar) -> Span {
        Span { value, reach: Reach::Any }
    }

    fn new(value: Scalar, hull: Hull) -> Span {
        let Hull { low, high, nan } = hull;
        if low > high {
            return Span::exact(Scalar::F(f64::NAN));
        }
        if low == high && !nan && low != 0.0 {
            return Span::exact(if matches!(value, Scalar::F(_)) { Scalar::F(low) } else { value });
        }
        Span { value, reach: Reach::Within { low, high, nan } }
    }

    /// Whether every backend has the reference.
    pub fn is_exact(self) -> bool {
        self.reach == Reach::Exact
    }

    /// The numbers it may be, and NaN; nothing where it may be anything.
    fn hull(self) -> Option<Hull> {
        match self.reach {
            Reach::Exact => Some(Hull::of(self.value.as_f64())),
            Reach::Within { low, high, nan } => Some(Hull { low, high, nan }),
            Reach::Any => None,
        }
    }

    /// `f` of it, for `dtype`.
    pub fn unary(self, f: UnaryFn, dtype: DType) -> Span {
        let value = f.eval(self.value, dtype);
        let (Scalar::F(_), Scalar::F(_)) = (self.value, value) else {
            return if self.is_exact() { Span::exact(value) } else { Span::any(value) };
        };
        let Some(of) = self.hull() else { return Span::any(value) };
        let compute = dtype.compute();
        if let (true, Scalar::F(x), Scalar::F(y)) = (self.is_exact(), self.value, value) {
            let own = if y.is_finite() { f.error(x, y, compute) } else { 0.0 };
            return Span::near(value, own, compute);
        }
        let mut hull = match f {
            UnaryFn::Tan if of.has_pole_of_tan() => return Span::any(value),
            // A pole at every whole number from 0 down.
            UnaryFn::Lgamma if of.low <= 0.0 => return Span::any(value),
            UnaryFn::Sin | UnaryFn::Cos => wave(f, of, compute),
            _ => between(f, of, compute),
        };
        hull.nan |= of.nan;
        Span::new(value, hull.settled(compute))
    }

    /// `f` of two, for `dtype`.
    pub fn binary(self, f: BinaryFn, other: Span, dtype: DType) -> Span {
        let value = f.eval(self.value, other.value, dtype);
        let both_exact = self.is_exact() && other.is_exact();
        let (Scalar::F(x), Scalar::F(y), Scalar::F(z)) = (self.value, other.value, value) else {
            return if both_exact { Span::exact(value) } else { Span::any(value) };
        };
        let (Some(a), Some(b)) = (self.hull(), other.hull()) else { return Span::any(value) };
        let compute = dtype.compute();
        // These jump: wherever the quotient is a whole number, and from number to number.
        let jumps = matches!(f, BinaryFn::FloorDivide | BinaryFn::Nextafter | BinaryFn::Rem | BinaryFn::Remainder);
        if jumps && !both_exact {
            return Span::any(value);
        }
        if both_exact {
            let own = if z.is_finite() && !is_exact(f, x, y, z, compute) { f.error(x, y, z, compute) } else { 0.0 };
            return Span::near(value, own, compute);
        }
        // The logarithm of what may be 0 or less; angles around -pi and pi.
        if (f == BinaryFn::Pow && a.low <= 0.0) || (f == BinaryFn::Atan2 && a.contains(0.0) && b.low <= 0.0) {
            return Span::any(value);
        }
        let mut hull = Hull { nan: a.nan || b.nan, ..Hull::EMPTY };
        let mut own = 0.0f64;
        // Every function here is monotonic in each operand, so the corners say it all; zero against infinity is one, too.
        for &x in &a.points(&[0.0]) {
            for &y in &b.points(&[0.0]) {
                let z = f.eval(Scalar::F(x), Scalar::F(y), dtype).as_f64();
                hull.take(z);
                if z.is_finite() {
                    own = own.max(f.error(x, y, z, compute));
                }
            }
        }
        if f == BinaryFn::Div && b.contains(0.0) {
            (hull.low, hull.high) = (f64::NEG_INFINITY, f64::INFINITY);
        }
        if !f.chooses() {
            hull = hull.widened(own + least(compute));
        }
        Span::new(value, hull.settled(compute))
    }

    /// `f` of four integers, the bits of u32; anything where one of them is open.
    pub fn of_words(words: [Span; 4], f: impl Fn([u32; 4]) -> u32) -> Span {
        let value = Scalar::I(f(words.map(|word| word.value.as_i64() as u32)).into());
        if words.iter().all(|word| word.is_exact()) { Span::exact(value) } else { Span::any(value) }
    }

    /// A comparison: decided where every pair of numbers that there may be agrees.
    pub fn compare(self, f: CompareFn, other: Span) -> Span {
        let value = Scalar::from(f.eval(self.value, other.value));
        if self.is_exact() && other.is_exact() {
            return Span::exact(value);
        }
        let (Some(a), Some(b)) = (self.hull(), other.hull()) else { return Span::any(value) };
        let outcomes = [
            (a.low < b.high, 0.0, 1.0),
            (a.high > b.low, 1.0, 0.0),
            (a.low <= b.high && b.low <= a.high, 0.0, 0.0),
            (a.nan || b.nan, f64::NAN, 0.0),
        ];
        let differs = |&(_, a, b): &(bool, f64, f64)| Scalar::from(f.eval(Scalar::F(a), Scalar::F(b))) != value;
        let open = outcomes.iter().filter(|(possible, ..)| *possible).any(differs);
        if open { Span::any(value) } else { Span::exact(value) }
    }

    /// `yes` or `no`, by a condition, which where it is open allows either.
    pub fn select(self, yes: Span, no: Span) -> Span {
        let taken = if self.value.as_i64() != 0 { yes } else { no };
        if self.is_exact() { taken } else { yes.or(no).with_value(taken.value) }
    }

    /// Either of two.
    pub fn or(self, other: Span) -> Span {
        let same = |x: Scalar, y: Scalar| x == y && x.as_f64().is_sign_positive() == y.as_f64().is_sign_positive();
        if self.is_exact() && other.is_exact() && same(self.value, other.value) {
            return self;
        }
        match (self.hull(), other.hull()) {
            (Some(a), Some(b)) => Span::new(self.value, a.or(b)),
            _ => Span::any(self.value),
        }
    }

    fn with_value(self, value: Scalar) -> Span {
        if self.is_exact() { self } else { Span { value, ..self } }
    }

    /// What is computed in `dtype`'s compute type, stored in `dtype`. f32 and f64 are their own compute types: what was computed
    /// in them is already rounded. An exact value is rounded to nearest even, exactly.
    pub fn round_to(self, dtype: DType) -> Span {
        let Scalar::F(_) = self.value else { return self };
        if self.is_exact() {
            return Span::exact(self.value.cast(dtype));
        }
        if dtype == dtype.compute() { self.settled_in(dtype) } else { self.rounded(dtype) }
    }

    /// Converted to `dtype`; an inexact value near a boundary may land on either side.
    pub fn cast(self, dtype: DType) -> Span {
        let value = self.value.cast(dtype);
        if self.is_exact() {
            return Span::exact(value);
        }
        let (Scalar::F(_), Some(of)) = (self.value, self.hull()) else { return Span::any(value) };
        if dtype.is_float() {
            return self.rounded(dtype);
        }
        if dtype == DType::Bool {
            return if of.contains(0.0) { Span::any(value) } else { Span::exact(value) };
        }
        let mut hull = Hull::EMPTY;
        let ends = [of.low, of.high].into_iter().chain(of.nan.then_some(f64::NAN));
        ends.for_each(|x| hull.take(Scalar::F(x).cast(dtype).as_f64()));
        let one = hull.low == hull.high;
        if one { Span::exact(value) } else { Span::new(value, hull) }
    }

    /// An intermediate result that a device may take for 0, as WGSL allows of subnormal numbers.
    pub fn flushable(self, compute: DType) -> Span {
        let (Scalar::F(_), Some(hull)) = (self.value, self.hull()) else { return self };
        let tiny = 2.0 * compute.min_normal();
        let (low, high) = (hull.low, hull.high);
        if low > 0.0 && low < tiny {
            return Span::new(self.value, Hull { low: 0.0, ..hull });
        }
        if high < 0.0 && high > -tiny {
            return Span::new(self.value, Hull { high: 0.0, ..hull });
        }
        self
    }

    /// As a tensor of `dtype` may hold it.
    pub fn into_expected(self, dtype: DType) -> Expected {
        let Reach::Within { low, high, nan: nan_allowed } = self.reach else {
            let error = if self.is_exact() { 0.0 } else { f64::INFINITY };
            return Expected { value: self.value, error, nan_allowed: false };
        };
        let at = self.value.as_f64();
        let max = dtype.max_finite();
        let (value, error) = match (low == f64::NEG_INFINITY, high == f64::INFINITY) {
            (true, true) if low < high => (self.value, f64::INFINITY),
            (true, true) | (false, false) => {
                // The reference itself, which a device may be, and one error for both sides of it.
                let value = if low <= at && at <= high { self.value } else { Scalar::F(low / 2.0 + high / 2.0) };
                let x = value.as_f64();
                (value, (high - x).max(x - low).max(f64::MIN_POSITIVE))
            }
            // An infinity is reached by an error that goes beyond the largest number.
            (below, _) => {
                let (sign, inner) = if below { (-1.0, -high) } else { (1.0, low) };
                let x = sign * at;
                let x = if x > 0.0 && x.is_finite() && x >= inner { x } else { (inner / 2.0 + max / 2.0).min(max) };
                let ulp = 2.0 * dtype.unit_roundoff() * max;
                (Scalar::F(sign * x), (x - inner).max(max - x + ulp))
            }
        };
        Expected { value, error, nan_allowed }
    }

    /// As one number and an error, where those say it.
    pub fn into_approx(self, dtype: DType) -> Approx {
        let Expected { value, error, nan_allowed } = self.into_expected(dtype);
        Approx { value, error: if nan_allowed { f64::INFINITY } else { error } }
    }

    /// `value` give or take `own`, which is 0 where it is exact, in `compute`.
    fn near(value: Scalar, own: f64, compute: DType) -> Span {
        if own == 0.0 {
            return Span::exact(value);
        }
        Span::new(value, Hull::of(value.as_f64()).widened(own + least(compute)).settled(compute))
    }

    fn settled_in(self, dtype: DType) -> Span {
        match self.hull() {
            Some(hull) => Span::new(self.value, hull.settled(dtype)),
            None => self,
        }
    }

    /// Rounded to the nearest number of `dtype`, as which either neighbour counts.
    fn rounded(self, dtype: DType) -> Span {
        let Some(hull) = self.hull() else { return self };
        let u = dtype.unit_roundoff();
        let of = |x: f64| if x.is_finite() { u * x.abs() } else { 0.0 };
        // Half the spacing of subnormals, where relative errors mean nothing.
        let rounding = of(hull.low).max(of(hull.high)) + u * dtype.min_normal();
        Span::new(self.value, hull.widened(rounding).settled(dtype))
    }
}

/// The numbers from `low` to `high`, none where that is the larger, and NaN if `nan`.
#[derive(Clone, Copy, Debug)]
struct Hull {
    low: f64,
    high: f64,
    nan: bool,
}

impl Hull {
    const EMPTY: Hull = Hull { low: f64::INFINITY, high: f64::NEG_INFINITY, nan: false };

    fn of(x: f64) -> Hull {
        let mut hull = Hull::EMPTY;
        hull.take(x);
        hull
    }

    fn take(&mut self, x: f64) {
        // Neither is moved by NaN.
        self.low = self.low.min(x);
        self.high = self.high.max(x);
        self.nan |= x.is_nan();
    }

    fn or(self, other: Hull) -> Hull {
        Hull { low: self.low.min(other.low), high: self.high.max(other.high), nan: self.nan || other.nan }
    }

    fn contains(self, x: f64) -> bool {
        self.low <= x && x <= self.high
    }

    /// Its ends, and those of the ascending `between` that lie between.
    fn points(self, between: &[f64]) -> Vec<f64> {
        if self.low > self.high {
            return Vec::new();
        }
        let inner = between.iter().copied().filter(|&x| self.low < x && x < self.high);
        let ends = if self.low == self.high { vec![self.low] } else { vec![self.low, self.high] };
        ends.into_iter().chain(inner).collect()
    }

    /// Whether the tangent is infinite somewhere within it or near it, as far as its ends are known.
    fn has_pole_of_tan(self) -> bool {
        use std::f64::consts::{FRAC_PI_2, PI};
        let half_turns = |x: f64| ((x + FRAC_PI_2) / PI).floor();
        let (low, high) = (half_turns(self.low - 1e-9), half_turns(self.high + 1e-9));
        low != high || !(high - low).is_finite() || self.low.abs().max(self.high.abs()) > 32768.0
    }

    fn widened(self, by: f64) -> Hull {
        if self.low > self.high { self } else { Hull { low: self.low - by, high: self.high + by, ..self } }
    }

    /// What is beyond the largest number of `dtype` is infinite, or that number where the dtype saturates.
    fn settled(self, dtype: DType) -> Hull {
        let max = dtype.max_finite();
        if self.low > self.high {
            return self;
        }
        if dtype.saturates() {
            return Hull { low: self.low.clamp(-max, max), high: self.high.clamp(-max, max), ..self };
        }
        // Rounding takes up to half a unit in the last place back to the largest number.
        let certain = max * (1.0 + dtype.unit_roundoff());
        let outer = |x: f64| if x > max { f64::INFINITY } else { x };
        let inner = |x: f64| if x > certain { f64::INFINITY } else { x.min(max) };
        let low = if self.low < 0.0 { -outer(-self.low) } else { inner(self.low) };
        let high = if self.high > 0.0 { outer(self.high) } else { -inner(-self.high) };
        Hull { low, high, ..self }
    }
}

/// Half the spacing of the subnormal numbers of `compute`, where relative errors mean nothing.
fn least(compute: DType) -> f64 {
    (compute.unit_roundoff() * compute.min_normal()).max(f64::from_bits(1))
}

/// Whether `z`, the sum, difference or product of `x` and `y`, is a number of f32 and so what every device computes. In f64
/// the reference itself is rounded.
fn is_exact(f: BinaryFn, x: f64, y: f64, z: f64, compute: DType) -> bool {
    let is_f32 = compute == DType::F32 && f64::from(z as f32) == z && z.abs() >= compute.min_normal();
    is_f32
        && match f {
            BinaryFn::Add => z - x == y && z - y == x,
            BinaryFn::Sub => z - x == -y && z + y == x,
            // 48 bits.
            BinaryFn::Mul => true,
            _ => false,
        }
}

/// The numbers where `f` is 0 or infinite, or turns back.
fn turning_points(f: UnaryFn) -> &'static [f64] {
    match f {
        UnaryFn::Acos | UnaryFn::Asin | UnaryFn::Atanh | UnaryFn::Erfinv => &[-1.0, 0.0, 1.0],
        UnaryFn::Acosh => &[1.0],
        UnaryFn::Lgamma => &[1.461_632_144_968_362_3],
        UnaryFn::Silu => &[-1.278_464_542_761_074, 0.0],
        UnaryFn::Gelu => &[-0.751_791_524_693_564_5, 0.0],
        _ => &[0.0],
    }
}

/// `f` over `of`, by its value at the ends and where it turns.
fn between(f: UnaryFn, of: Hull, compute: DType) -> Hull {
    let points = of.points(turning_points(f));
    let mut hull = Hull::EMPTY;
    points.iter().for_each(|&x| hull.take(f.eval(Scalar::F(x), compute).as_f64()));
    if of.contains(0.0) {
        match f {
            UnaryFn::Reciprocal => hull = Hull { low: f64::NEG_INFINITY, high: f64::INFINITY, nan: false },
            UnaryFn::Rsqrt => hull.low = f64::NEG_INFINITY,
            _ => {}
        }
    }
    // Of what is a little beyond the domain, too.
    let (first, last) = domain(f);
    hull.nan |= of.low < first || of.high > last;
    if f.chooses() {
        return hull;
    }
    let finite = |x: &f64| x.is_finite();
    let values = [hull.low, hull.high].into_iter().filter(finite);
    // An infinity as the largest number: atan of one is rounded, too.
    let most = compute.max_finite();
    let errors = values.flat_map(|y| points.iter().map(move |x| f.error(x.clamp(-most, most), y, compute)));
    let own = errors.fold(0.0, f64::max);
    hull.widened(own + least(compute))
}

/// The least and the largest number that `f` has a number for.
fn domain(f: UnaryFn) -> (f64, f64) {
    match f {
        UnaryFn::Acos | UnaryFn::Asin | UnaryFn::Atanh | UnaryFn::Erfinv => (-1.0, 1.0),
        UnaryFn::Acosh => (1.0, f64::INFINITY),
        UnaryFn::Sqrt | UnaryFn::Rsqrt | UnaryFn::Log | UnaryFn::Log2 => (0.0, f64::INFINITY),
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    }
}

/// Sine or cosine over `of`: by the slope, which is at most 1.
fn wave(f: UnaryFn, of: Hull, compute: DType) -> Hull {
    let all = 1.0 + 8.0 * compute.unit_roundoff();
    let (middle, half) = (of.low / 2.0 + of.high / 2.0, of.high / 2.0 - of.low / 2.0);
    if !middle.is_finite() || half > 1.0 {
        return Hull { low: -all, high: all, nan: !of.low.is_finite() || !of.high.is_finite() };
    }
    let y = f.eval(Scalar::F(middle), compute).as_f64();
    Hull::of(y).widened(half + f.error(of.low.abs().max(of.high.abs()), y, compute) + f.error(middle, 1.0, compute))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::Subnormals;

    const INF: f64 = f64::INFINITY;

    fn exact(x: f64) -> Span {
        Span::exact(Scalar::F(x))
    }

    fn about(x: f64, error: f64) -> Span {
        Span::from(Approx { value: Scalar::F(x), error })
    }

    /// Which of `candidates` are right for an f32 that came of `span`.
    fn right<const N: usize>(span: Span, candidates: [f64; N]) -> [bool; N] {
        let expected = span.round_to(DType::F32).into_expected(DType::F32);
        candidates.map(|x| expected.accepts(Scalar::F(x), DType::F32, Subnormals::Kept))
    }

    #[test]
    fn an_infinity_or_nan_has_an_arc_tangent_that_is_rounded() {
        // 0 times what may have overflowed: NaN, or with another rounding nothing; here -inf or NaN.
        let either = exact(-INF).or(exact(f64::NAN));
        let nearest = f64::from(-std::f32::consts::FRAC_PI_2);
        let arc = either.unary(UnaryFn::Atan, DType::F32);
        assert_eq!(right(arc, [nearest, f64::NAN, 0.0, -nearest]), [true, true, false, false]);
        assert_eq!(right(exact(-INF).unary(UnaryFn::Atan, DType::F32), [nearest, f64::NAN]), [true, false]);
    }

    #[test]
    fn a_sum_that_may_overflow_leaves_infinity_and_the_largest_number() {
        let max = DType::F32.max_finite();
        let sum = about(max, max * 1e-7).binary(BinaryFn::Add, exact(0.0), DType::F32);
        assert_eq!(right(sum, [max, INF, -INF, f64::NAN, 1.0]), [true, true, false, false, false]);
        // Infinity from itself is NaN; two large numbers give one near 0.
        let nothing = sum.binary(BinaryFn::Sub, sum, DType::F32);
        assert_eq!(right(nothing, [0.0, f64::NAN]), [true, true]);
        let certain = exact(max).binary(BinaryFn::Add, exact(max), DType::F32);
        assert_eq!(right(certain, [INF, max, f64::NAN]), [true, false, false]);
        let none = certain.binary(BinaryFn::Sub, certain, DType::F32);
        assert_eq!(right(none, [f64::NAN, 0.0]), [true, false]);
    }

    #[test]
    fn poles_and_edges_of_domains_are_open_within_an_error_of_them() {
        let near_zero = about(1e-30, 2e-30);
        let reciprocal = near_zero.unary(UnaryFn::Reciprocal, DType::F32);
        assert_eq!(right(reciprocal, [INF, -INF, 1e30, -3.0]), [true; 4]);
        let root = near_zero.unary(UnaryFn::Sqrt, DType::F32);
        assert_eq!(right(root, [f64::NAN, 0.0, 1e-15, 1.0]), [true, true, true, false]);
        let quotient = exact(0.0).binary(BinaryFn::Div, near_zero, DType::F32);
        assert_eq!(right(quotient, [f64::NAN, 0.0]), [true, true]);
        let product = near_zero.binary(BinaryFn::Mul, exact(INF), DType::F32);
        assert_eq!(right(product, [f64::NAN, INF, -INF]), [true; 3]);
        // Away from them nothing of it is.
        let away = about(2.0, 0.5).unary(UnaryFn::Reciprocal, DType::F32);
        assert_eq!(right(away, [0.5, 0.4, 0.66, 0.7, f64::NAN]), [true, true, true, false, false]);
    }

    #[test]
    fn functions_that_turn_take_the_value_where_they_do() {
        let least = about(-1.0, 0.9).unary(UnaryFn::Silu, DType::F32);
        assert_eq!(right(least, [-0.278, -0.1, -0.5, 0.01]), [true, true, false, false]);
        let size = about(0.5, 1.0).unary(UnaryFn::Abs, DType::F32);
        assert_eq!(right(size, [0.0, 1.5, 1.6]), [true, true, false]);
        let wave = about(0.0, 0.1).unary(UnaryFn::Cos, DType::F32);
        assert_eq!(right(wave, [1.0, 0.995, 0.8]), [true, true, false]);
    }

    #[test]
    fn sums_that_f32_holds_are_exact_and_others_are_not() {
        let [one, tiny] = [1.0, (-30f64).exp2()].map(exact);
        assert!(one.binary(BinaryFn::Add, one, DType::F32).is_exact());
        assert!(!one.binary(BinaryFn::Add, tiny, DType::F32).is_exact());
        assert!(!one.binary(BinaryFn::Div, one, DType::F32).is_exact());
        // f64 rounds the reference itself.
        assert!(!one.binary(BinaryFn::Add, one, DType::F64).is_exact());
    }

    #[test]
    fn comparisons_are_decided_where_every_outcome_agrees() {
        let [low, high] = [about(1.0, 0.5), about(3.0, 0.5)];
        let is = |span: Span| span.is_exact().then(|| span.value.as_i64());
        assert_eq!(is(low.compare(CompareFn::Lt, high)), Some(1));
        assert_eq!(is(low.compare(CompareFn::Eq, high)), Some(0));
        assert_eq!(is(low.compare(CompareFn::Lt, about(1.6, 0.2))), None);
        let maybe_nan = about(1.0, 2.0).unary(UnaryFn::Sqrt, DType::F32);
        assert_eq!(is(maybe_nan.compare(CompareFn::Lt, exact(9.0))), None);
        assert_eq!(is(maybe_nan.compare(CompareFn::Gt, exact(9.0))), Some(0));
        assert_eq!(is(maybe_nan.compare(CompareFn::Ne, exact(9.0))), Some(1));
        let open = low.compare(CompareFn::Lt, about(1.6, 0.2));
        let chosen = open.select(exact(5.0), exact(-5.0));
        assert_eq!(right(chosen, [5.0, -5.0, -6.0, f64::NAN]), [true, true, false, false]);
    }

    #[test]
    fn what_may_be_flushed_may_be_zero_and_nothing_beyond() {
        let tiny = DType::F32.min_normal() / 2.0;
        let flushed = exact(tiny).flushable(DType::F32);
        assert_eq!(right(flushed, [tiny, 0.0, -tiny, 3.0 * tiny]), [true, true, false, false]);
        assert!(exact(1.0).flushable(DType::F32).is_exact());
        let inverse = flushed.unary(UnaryFn::Reciprocal, DType::F32);
        assert_eq!(right(inverse, [1.0 / tiny, INF]), [true, true]);
    }

    #[test]
    fn rounding_to_a_narrow_type_may_take_either_neighbour_and_overflow() {
        let half = about(65_515.0, 20.0).round_to(DType::F16).into_expected(DType::F16);
        let accepts = |x: f64| half.accepts(Scalar::F(x), DType::F16, Subnormals::Kept);
        assert!(accepts(65_504.0) && accepts(INF) && !accepts(-INF) && !accepts(65_408.0));
        let clipped = about(460.0, 20.0).round_to(DType::F8E4M3).into_expected(DType::F8E4M3);
        assert!(clipped.accepts(Scalar::F(448.0), DType::F8E4M3, Subnormals::Kept));
    }
}
