//! Run-time choice of instruction set for plain Rust loops.
//!
//! A loop handed to [`dispatch`] is compiled once per instruction set that crate `pulp` knows (baseline, AVX2 + FMA, and AVX-512
//! for loops that compute much with each element; NEON is part of the AArch64 baseline) and the best one that this CPU has is
//! called.
//! There is no intrinsic and no `unsafe` here: everything marked `#[inline(always)]` below the entry is inlined into
//! a function that carries the target features, and LLVM vectorises it there.
//!
//! The one decision a reader must know: fused multiply-add is a type parameter ([`MulAdd`]), not a call to
//! `f32::mul_add`. Where the CPU lacks the instruction, `f32::mul_add` becomes a call to libm for every element;
//! [`Separate`] rounds twice instead. Functions that want it (all of [`super::vmath`]) are generic over `M: MulAdd`
//! and reach a loop as a [`Map1`] value; closures that need no fused operation are `Map1`/`Map2` as they are.
//!
//! Threads are not used here: see [`super::parallel`].

use pulp::{Simd, WithSimd};
use std::sync::LazyLock;

/// How `a * b + c` is computed in code that is compiled once per instruction set.
pub trait MulAdd: Copy + 'static {
    /// Whether there is one rounding.
    const FUSED: bool;
    /// `a * b + c`, rounded once by [`Fused`] and twice by [`Separate`].
    fn mul_add(a: f32, b: f32, c: f32) -> f32;
    /// The same in `f64`.
    fn mul_add_f64(a: f64, b: f64, c: f64) -> f64;
}

/// One rounding, by the CPU's own instruction.
#[derive(Clone, Copy, Debug)]
pub struct Fused;

/// Two roundings, for CPUs and targets without the instruction (x86 before 2013, WebAssembly).
#[derive(Clone, Copy, Debug)]
pub struct Separate;

impl MulAdd for Fused {
    const FUSED: bool = true;
    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
    #[inline(always)]
    fn mul_add_f64(a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }
}

impl MulAdd for Separate {
    const FUSED: bool = false;
    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }
    #[inline(always)]
    fn mul_add_f64(a: f64, b: f64, c: f64) -> f64 {
        a * b + c
    }
}

/// A piece of work that [`dispatch`] compiles per instruction set. `run` must be `#[inline(always)]`, and so must
/// everything hot that it calls; a closure inside is inlined when it is called from one place.
pub trait Kernel {
    /// What the work returns.
    type Output;
    /// Whether it computes so much with each element that registers of 512 bits pay. Other loops wait for memory: most take as long without
    /// them, those of f32 that fit into caches up to a quarter less, and a few, most of f16, up to a tenth more (`benches/results/cpu-2026-11-29`).
    const WIDE: bool = false;
    /// Does the work.
    fn run<M: MulAdd>(self) -> Self::Output;
}

struct Run<K>(K);

impl<K: Kernel> WithSimd for Run<K> {
    type Output = K::Output;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> K::Output {
        let fused = if cfg!(any(target_arch = "x86", target_arch = "x86_64")) {
            cfg!(target_feature = "fma") || !S::IS_SCALAR
        } else {
            cfg!(target_arch = "aarch64")
        };
        if fused { self.0.run::<Fused>() } else { self.0.run::<Separate>() }
    }
}

static ARCH: LazyLock<pulp::Arch> = LazyLock::new(pulp::Arch::new);

/// What kernels that are not [`Kernel::WIDE`] choose from. A build that is for CPUs with AVX2 and FMA alone (`-C target-cpu=x86-64-v3`, as
/// the tests are built) has them once.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
enum Narrow {
    Scalar,
    #[cfg(not(all(target_feature = "avx2", target_feature = "fma")))]
    V3(pulp::x86::V3),
}

#[cfg(target_arch = "x86_64")]
static NARROW: LazyLock<Narrow> = LazyLock::new(|| {
    #[cfg(not(all(target_feature = "avx2", target_feature = "fma")))]
    if let Some(simd) = pulp::x86::V3::try_new() {
        return Narrow::V3(simd);
    }
    Narrow::Scalar
});

#[cfg(target_arch = "x86_64")]
impl Narrow {
    #[inline]
    fn dispatch<W: WithSimd>(self, work: W) -> W::Output {
        match self {
            Narrow::Scalar => Simd::vectorize(pulp::Scalar::new(), work),
            #[cfg(not(all(target_feature = "avx2", target_feature = "fma")))]
            Narrow::V3(simd) => Simd::vectorize(simd, work),
        }
    }
}

/// Whether AVX-512 is used at all: LLVM makes vectors at `opt-level` 2 and above, and below the same loops once more would only lengthen the
/// compilation of this crate.
#[cfg(target_arch = "x86_64")]
const HAS_VECTORS: bool = !cfg!(debug_assertions);

/// Runs `kernel` compiled for the best instruction set of this CPU.
#[inline]
pub fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    if !(K::WIDE && HAS_VECTORS) {
        return NARROW.dispatch(Run(kernel));
    }
    ARCH.dispatch(Run(kernel))
}

/// Name of the instruction set that [`dispatch`] chooses for wide kernels, for reports.
pub fn instruction_set() -> String {
    #[cfg(target_arch = "x86_64")]
    if !HAS_VECTORS {
        return named(*NARROW);
    }
    named(*ARCH)
}

fn named(set: impl std::fmt::Debug) -> String {
    match format!("{set:?}") {
        scalar if scalar == "Scalar" && cfg!(target_feature = "avx2") => "V3".to_owned(),
        scalar if scalar == "Scalar" => "baseline".to_owned(),
        other => other.chars().take_while(|c| c.is_alphanumeric()).collect(),
    }
}

/// A function of one element. Every `Fn(T) -> U` is one; [`super::vmath`] has unit types such as `vmath::Exp`.
pub trait Map1<T, U = T>: Copy + Send + Sync {
    /// Whether [`Map1::slow`] serves some inputs.
    const HAS_SLOW: bool = false;
    /// [`Kernel::WIDE`]
    const WIDE: bool = false;

    /// The value at `x`. `#[inline(always)]` and free of branches, or the loop is not vectorised.
    fn call<M: MulAdd>(self, x: T) -> U;

    /// Whether `x` is outside what [`Map1::call`] computes well.
    #[inline(always)]
    fn is_slow(self, _x: &T) -> bool {
        false
    }

    /// The value at an `x` that `is_slow`; called element by element.
    fn slow(self, x: T) -> U {
        self.call::<Separate>(x)
    }
}

impl<T, U, F: Fn(T) -> U + Copy + Send + Sync> Map1<T, U> for F {
    #[inline(always)]
    fn call<M: MulAdd>(self, x: T) -> U {
        self(x)
    }
}

/// A function of two elements. Every `Fn(A, B) -> U` is one.
pub trait Map2<A, B = A, U = A>: Copy + Send + Sync {
    /// [`Kernel::WIDE`]
    const WIDE: bool = false;

    /// The value at `(a, b)`. `#[inline(always)]` and free of branches, or the loop is not vectorised.
    fn call<M: MulAdd>(self, a: A, b: B) -> U;
}

impl<A, B, U, F: Fn(A, B) -> U + Copy + Send + Sync> Map2<A, B, U> for F {
    #[inline(always)]
    fn call<M: MulAdd>(self, a: A, b: B) -> U {
        self(a, b)
    }
}

/// A function of three elements (selection, fused products). Every `Fn(A, B, C) -> U` is one.
pub trait Map3<A, B = A, C = A, U = A>: Copy + Send + Sync {
    /// The value at `(a, b, c)`. `#[inline(always)]` and free of branches, or the loop is not vectorised.
    fn call<M: MulAdd>(self, a: A, b: B, c: C) -> U;
}

impl<A, B, C, U, F: Fn(A, B, C) -> U + Copy + Send + Sync> Map3<A, B, C, U> for F {
    #[inline(always)]
    fn call<M: MulAdd>(self, a: A, b: B, c: C) -> U {
        self(a, b, c)
    }
}

/// Elements per block of a function with a slow path: small enough that one huge argument costs little.
const SLOW_BLOCK: usize = 256;

struct Map1Kernel<'a, F, T, U>(F, &'a [T], &'a mut [U]);

impl<F: Map1<T, U>, T: Copy, U> Kernel for Map1Kernel<'_, F, T, U> {
    type Output = ();
    // Rounding to 16 bits is work, too.
    const WIDE: bool = F::WIDE || (size_of::<T>() > 2 && size_of::<U>() == 2);

    #[inline(always)]
    fn run<M: MulAdd>(self) {
        let Self(f, x, y) = self;
        if !F::HAS_SLOW {
            for (y, &x) in y.iter_mut().zip(x) {
                *y = f.call::<M>(x);
            }
            return;
        }
        for (y, x) in y.chunks_mut(SLOW_BLOCK).zip(x.chunks(SLOW_BLOCK)) {
            let mut slow = false;
            for (y, x) in y.iter_mut().zip(x) {
                slow |= f.is_slow(x);
                *y = f.call::<M>(*x);
            }
            if slow {
                patch(f, x, y);
            }
        }
    }
}

#[cold]
fn patch<F: Map1<T, U>, T: Copy, U>(f: F, x: &[T], y: &mut [U]) {
    for (y, x) in y.iter_mut().zip(x).filter(|(_, x)| f.is_slow(x)) {
        *y = f.slow(*x);
    }
}

/// `y[i] = f(x[i])` on one thread.
///
/// # Panics
/// When the lengths differ.
pub fn map1<T: Copy, U>(f: impl Map1<T, U>, x: &[T], y: &mut [U]) {
    assert_eq!(x.len(), y.len(), "map1: lengths differ");
    dispatch(Map1Kernel(f, x, y));
}

/// `x[i] = f(x[i])` on one thread.
pub fn map1_in_place<T: Copy + Default>(f: impl Map1<T, T>, x: &mut [T]) {
    let mut copy = [T::default(); SLOW_BLOCK];
    for block in x.chunks_mut(SLOW_BLOCK) {
        let copy = &mut copy[..block.len()];
        copy.copy_from_slice(block);
        dispatch(Map1Kernel(f, copy, block));
    }
}

struct Map2Kernel<'a, F, A, B, U>(F, &'a [A], &'a [B], &'a mut [U]);

impl<F: Map2<A, B, U>, A: Copy, B: Copy, U> Kernel for Map2Kernel<'_, F, A, B, U> {
    type Output = ();
    const WIDE: bool = F::WIDE;

    #[inline(always)]
    fn run<M: MulAdd>(self) {
        let Self(f, a, b, y) = self;
        for ((y, &a), &b) in y.iter_mut().zip(a).zip(b) {
            *y = f.call::<M>(a, b);
        }
    }
}

/// `y[i] = f(a[i], b[i])` on one thread.
///
/// # Panics
/// When the lengths differ.
pub fn map2<A: Copy, B: Copy, U>(f: impl Map2<A, B, U>, a: &[A], b: &[B], y: &mut [U]) {
    assert!(a.len() == y.len() && b.len() == y.len(), "map2: lengths differ");
    dispatch(Map2Kernel(f, a, b, y));
}

struct Map3Kernel<'a, F, A, B, C, U>(F, &'a [A], &'a [B], &'a [C], &'a mut [U]);

impl<F: Map3<A, B, C, U>, A: Copy, B: Copy, C: Copy, U> Kernel for Map3Kernel<'_, F, A, B, C, U> {
    type Output = ();

    #[inline(always)]
    fn run<M: MulAdd>(self) {
        let Self(f, a, b, c, y) = self;
        for (((y, &a), &b), &c) in y.iter_mut().zip(a).zip(b).zip(c) {
            *y = f.call::<M>(a, b, c);
        }
    }
}

/// `y[i] = f(a[i], b[i], c[i])` on one thread.
///
/// # Panics
/// When the lengths differ.
pub fn map3<A: Copy, B: Copy, C: Copy, U>(f: impl Map3<A, B, C, U>, a: &[A], b: &[B], c: &[C], y: &mut [U]) {
    assert!([a.len(), b.len(), c.len()] == [y.len(); 3], "map3: lengths differ");
    dispatch(Map3Kernel(f, a, b, c, y));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_all_short_lengths_write_every_element() {
        for n in 0..68usize {
            let a: Vec<i32> = (0..n as i32).collect();
            let b: Vec<i32> = a.iter().map(|v| v * 10).collect();
            let mut y = vec![-1; n];
            map1(|x: i32| x * 3, &a, &mut y);
            assert!(y.iter().enumerate().all(|(i, &v)| v == 3 * i as i32));
            map2(|x: i32, y: i32| x - y, &a, &b, &mut y);
            assert!(y.iter().enumerate().all(|(i, &v)| v == -9 * i as i32));
            let mut z = vec![0f64; n];
            map3(|x: i32, y: i32, z: i32| f64::from(x + y * z), &a, &b, &a, &mut z);
            assert!(z.iter().enumerate().all(|(i, &v)| v == (i + 10 * i * i) as f64));
            map1_in_place(|x: i32| x + 1, &mut y);
            assert!(y.iter().enumerate().all(|(i, &v)| v == 1 - 9 * i as i32));
        }
    }

    #[test]
    #[should_panic(expected = "lengths differ")]
    fn map1_lengths_differ_panics() {
        map1(|x: f32| x, &[1.0], &mut [0.0; 2]);
    }

    struct Twice;
    impl Kernel for Twice {
        type Output = (f32, bool);
        #[inline(always)]
        fn run<M: MulAdd>(self) -> (f32, bool) {
            let a = std::hint::black_box(1.0 + f32::EPSILON);
            (M::mul_add(a, a, -1.0 - 2.0 * f32::EPSILON), size_of::<M>() == 0)
        }
    }

    #[test]
    fn dispatch_on_fma_cpu_rounds_once() {
        let always = cfg!(any(target_arch = "aarch64", target_feature = "fma"));
        let fused = always || instruction_set() != "baseline";
        let expected = if fused { f32::EPSILON * f32::EPSILON } else { 0.0 };
        assert_eq!(dispatch(Twice).0, expected);
    }
}
