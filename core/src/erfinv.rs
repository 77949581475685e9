//! The inverse of the error function as x P(w), w = -ln(1 - x^2), after M. Giles, "Approximating the erfinv function", GPU Computing Gems, 2011:
//! coefficients of both parts of P, from the constant on, fitted to the single precision of [`cpu`](crate::cpu). The oracle starts from them.

#![allow(clippy::excessive_precision)] // as they were fitted

/// P in w - 5/2, for w on [0, 5], with an error of 2^-27.4.
pub(crate) const CENTRE: [f32; 10] = [
    1.501_409_4,
    0.246_640_29,
    -0.004_177_386_8,
    -0.001_252_741_9,
    0.000_218_344_44,
    -4.963_334_6e-6,
    -3.462_704_4e-6,
    4.661_699e-7,
    2.323_262e-8,
    -8.791_000_6e-9,
];

/// P in sqrt w - 3, for sqrt w on [sqrt 5, 4.01], with an error of 2^-27.3.
pub(crate) const TAIL: [f32; 10] = [
    2.8329768,
    1.00167507,
    0.00944565493,
    -0.00763917496,
    0.00568347859,
    -0.00358818031,
    0.00149493317,
    -7.43256253e-05,
    -0.00031790119,
    0.000127444827,
];
