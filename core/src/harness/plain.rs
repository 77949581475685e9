//! Sums of products as they are defined: what tests of other crates hold results to. Most of those are compiled without
//! optimisation, where such a loop takes ten times as long.

/// Adds to `sums`, element by element, the product of a row and a row-major matrix with as many columns as there are sums. Numbers wrap.
///
/// # Panics
/// When the matrix has fewer rows than `row` has elements.
pub fn add_row_product(row: &[i32], matrix: &[i32], sums: &mut [i32]) {
    let columns = sums.len();
    for (i, &x) in row.iter().enumerate() {
        for (sum, &y) in sums.iter_mut().zip(&matrix[i * columns..][..columns]) {
            *sum = sum.wrapping_add(x.wrapping_mul(y));
        }
    }
}

/// The sum of products of pairs, in order; what the longer one has more is left out.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_products_are_those_worked_by_hand() {
        let mut sums = [100, i32::MAX];
        add_row_product(&[1, -2, 3], &[1, 2, 3, 4, 5, 6, 7, 8], &mut sums);
        assert_eq!(sums, [100 + 1 - 6 + 15, i32::MIN + 11]);
        assert_eq!(dot(&[1.0, 2.0, 3.0], &[4.0, 0.5]), 5.0);
        let mut none: [i32; 0] = [];
        add_row_product(&[1], &[], &mut none);
    }
}
