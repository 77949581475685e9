//! Numbers as the tables write them: times, bytes, three digits.

/// Nanoseconds as text, in the unit that is easiest to read.
pub(super) fn duration(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{} ns", significant(ns)),
        ns if ns < 1e6 => format!("{} us", significant(ns / 1e3)),
        ns if ns < 1e9 => format!("{} ms", significant(ns / 1e6)),
        ns => format!("{} s", significant(ns / 1e9)),
    }
}

/// Bytes as MiB.
pub(super) fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", significant(bytes as f64 / f64::from(1 << 20)))
}

/// Three significant digits.
pub(super) fn significant(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return format!("{x}");
    }
    // Digits below a millionth do not matter.
    let decimals = (2.0 - x.abs().log10().floor()).clamp(0.0, 8.0) as usize;
    format!("{x:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_take_the_unit_that_reads_best() {
        assert_eq!(duration(12.34), "12.3 ns");
        assert_eq!(duration(12_340.0), "12.3 us");
        assert_eq!(duration(1.5e9), "1.50 s");
    }

    #[test]
    fn significant_keeps_three_digits() {
        let text = [0.0, 0.000_123_4, 0.1234, 1.234, 12.34, 123.4, 1234.0].map(significant);
        assert_eq!(text, ["0", "0.000123", "0.123", "1.23", "12.3", "123", "1234"]);
    }
}
