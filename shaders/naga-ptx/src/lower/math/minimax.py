"""Derives the polynomial coefficients of exp_log.rs, trig.rs, hyperbolic.rs and double.rs. Needs mpmath.

Each is a weighted minimax polynomial (Remez exchange in 120 digits); coefficients are rounded to the format that
evaluates them, where it matters from the lowest power up and the rest fitted again after each rounding. Prints Rust arrays, lowest
power first, and log2 of the largest weighted error.
"""
import struct
import sys

from mpmath import mp, mpf, log, log1p, sqrt, sin, cos, tan, asin, atan, tanh, sinh, exp, pi, lu_solve, matrix

mp.dps = 120


def f32(x):
    return mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def f64(x):
    return mpf(float(x))


def remez(g, w, a, b, n):
    """n coefficients c with max over [a, b] of |w(z) (sum c_i z^i - g(z))| least."""
    grid = 40 * n + 201  # odd: the middle, where weights may vanish, is not a point
    zs = [(a + b) / 2 + (b - a) / 2 * mp.cos(pi * (grid - i) / grid) for i in range(grid + 1)]
    gs, ws = [g(z) for z in zs], [w(z) for z in zs]
    picks = [round(i * (grid - 2) / n) + 1 for i in range(n + 1)]
    for _ in range(30):
        m, v = matrix(n + 1, n + 1), matrix(n + 1, 1)
        for i, k in enumerate(picks):
            for j in range(n):
                m[i, j] = zs[k] ** j
            m[i, n] = (-1) ** i / ws[k]
            v[i] = gs[k]
        s = lu_solve(m, v)
        c, level = [s[j] for j in range(n)], abs(s[n])
        err = [ws[k] * (horner(c, zs[k]) - gs[k]) for k in range(grid + 1)]
        runs = []
        for k, e in enumerate(err):
            if runs and (err[runs[-1]] > 0) == (e > 0):
                if abs(e) > abs(err[runs[-1]]):
                    runs[-1] = k
            else:
                runs.append(k)
        while len(runs) > n + 1:
            runs.pop(0 if abs(err[runs[0]]) < abs(err[runs[-1]]) else -1)
        worst = max(abs(e) for e in err)
        if len(runs) < n + 1 or worst < level * mpf("1.001"):
            break
        picks = runs
    return c, worst


def horner(c, z):
    r = mpf(0)
    for x in reversed(c):
        r = r * z + x
    return r


def fit(name, g, w, a, b, n, rnd, refit=None):
    a, b = mpf(a) or mpf(b) / 1000, mpf(b)  # the quotients have their limits at 0, and are smooth
    done = []
    if a < 0:  # coefficients beyond the first powers of a small number: rounding them does no harm
        done = [rnd(c) for c in remez(g, lambda z: abs(w(z)), a, b, n)[0]]
    for k in range(len(done), n):
        rest = lambda z, done=tuple(done): (g(z) - horner(done, z)) / z ** len(done)
        weight = lambda z, k=k: abs(w(z) * z ** k)
        c, _ = remez(rest, weight, a, b, n - k)
        if refit is not None and k == refit:  # the rest rounded as it is: what rounding did to the first spoils later fits
            done += [rnd(x) for x in c]
            break
        done.append(rnd(c[0]))
    worst = max(abs(w(z) * (horner(done, z) - g(z))) for z in [a + (b - a) * mpf(i) / 997 for i in range(998)])
    text = (lambda c: f"{c:.8e}") if rnd is f32 else repr
    print(f"// {name}: 2^{float(mp.log(worst, 2)):.1f}")
    print("[" + ", ".join(text(float(c)) for c in done) + "]")


def main(which):
    run = lambda name, *rest: fit(name, *rest) if not which or name in which else None
    third = mpf(1) / 3
    # log(1+f) = f + f^2 P(f); weight: relative to the logarithm.
    run("LOG", lambda f: (log1p((f)) - (f)) / (f) ** 2, lambda f: (f) ** 2 / log1p((f)), -third, third, 9, f32)
    # log2(1+f) = L f + f P(f), L the f32 nearest 1/ln 2.
    l2e = f32(1 / log(2))
    run("LOG2", lambda f: log1p((f)) / log(2) / (f) - l2e, lambda f: (f) * log(2) / log1p((f)), -third, third, 10, f32)
    # log(m) = u + u^3 P(u^2), u = 2 (m-1)/(m+1); weight: relative to the logarithm.
    u2 = (2 * (sqrt(2) - 1) / (sqrt(2) + 1)) ** 2
    at = lambda z: (2 * mp.atanh(sqrt((z)) / 2) / sqrt((z)) - 1) / (z)
    run("POW_LOG", at, lambda z: (z), 0, u2, 4, f32)
    q = (pi / 4 + mpf("4e-3")) ** 2
    run("SIN", lambda z: (sin(sqrt((z))) / sqrt((z)) - 1) / (z), lambda z: (z), 0, q, 3, f32)
    run("COS", lambda z: (cos(sqrt((z))) - 1 + (z) / 2) / (z) ** 2, lambda z: (z) ** 2, 0, q, 3, f32)
    run("TAN", lambda z: (tan(sqrt((z))) / sqrt((z)) - 1) / (z), lambda z: (z), 0, q, 7, f32)
    run("ASIN", lambda z: (asin(sqrt((z))) / sqrt((z)) - 1) / (z), lambda z: (z), 0, mpf("0.25"), 5, f32)
    run("ATAN", lambda z: (atan(sqrt((z))) / sqrt((z)) - 1) / (z), lambda z: (z), 0, 1, 9, f32)
    run("TANH", lambda z: (tanh(sqrt((z))) / sqrt((z)) - 1) / (z), lambda z: (z), 0, mpf("0.6") ** 2, 5, f32)
    run("SINH", lambda z: (sinh(sqrt((z))) / sqrt((z)) - 1) / (z), lambda z: (z), 0, 1, 4, f32)
    # f64
    run("EXP_F64", lambda r: (exp((r)) - 1 - (r)) / (r) ** 2, lambda r: (r) ** 2, -log(2) / 2, log(2) / 2, 11, f64)
    run("LOG_F64", at, lambda z: (z), 0, u2, 8, f64)
    run("SIN_F64", lambda z: (sin(sqrt((z))) / sqrt((z)) - 1) / (z), lambda z: (z), 0, q, 6, f64)
    run("COS_F64", lambda z: (cos(sqrt((z))) - 1 + (z) / 2) / (z) ** 2, lambda z: (z) ** 2, 0, q, 6, f64)
    odd = lambda name, g, b, n, *refit: run(name, lambda z: (g(sqrt(z)) / sqrt(z) - 1) / z, lambda z: z, 0, b, n, f64, *refit)
    odd("ASIN_F64", asin, mpf("0.25"), 13)
    odd("ATAN_F64", atan, 1, 20, 3)
    odd("TANH_F64", tanh, mpf("0.6") ** 2, 11, 3)
    odd("SINH_F64", sinh, 1, 8)


main(sys.argv[1:])
