//! Calls that promise NumPy's or SciPy's meaning, held to answers that those gave (`core/tests/fixtures/numpy_answers.py` asked for them).
//!
//! Every answer is compared exactly, signs of zeros included, but for [`BOUNDS`]. Where polywarp means something else on purpose the case is
//! not in the script, or [`answer`] says so.

use polywarp_core::ops::{PadMode, ScatterFn, SearchSide, SortOrder};
use polywarp_core::{DType, Device, MeshOrder, Norm, Result, Scalar, Tensor};

const ANSWERS: &str = include_str!("../fixtures/numpy_answers.txt");

/// Roundings of f32 that an answer may be off by, because it is computed in f32 here and was in f64 there.
const BOUNDS: &[(&str, f64)] = &[
    // A straight line between two elements: a difference, a product and a sum.
    ("quantile", 3.0),
    // Logarithms of sums of up to nine exponentials, each within a few units.
    ("logcumsumexp", 16.0),
    // Units in the last place, as docs/arrays.md says.
    ("erfc", 24.0),
    ("erfinv", 24.0),
    ("lgamma", 24.0),
    ("digamma", 24.0),
    ("expm1", 24.0),
    ("log1p", 24.0),
    ("asinh", 8.0),
    ("acosh", 8.0),
    ("atanh", 8.0),
    ("cbrt", 8.0),
    ("hypot", 8.0),
    ("atan2", 8.0),
    ("tan", 8.0),
    ("asin", 8.0),
    ("acos", 8.0),
    ("atan", 8.0),
    ("sinh", 8.0),
    ("cosh", 8.0),
    // Two products and a sum.
    ("linspace", 3.0),
    // Differences from a mean, their squares' sum, a quotient and a root.
    ("var", 8.0),
    ("std", 8.0),
    // Powers, which have 16 + 4 |p log2 x| units, and the root of their sum.
    ("norm", 160.0),
    ("logsumexp", 8.0),
    ("softmax", 8.0),
    ("log_softmax", 8.0),
];

struct Array {
    dtype: DType,
    dims: Vec<u64>,
    numbers: Vec<f64>,
}

impl Array {
    fn parse(text: &str) -> Array {
        let mut words = text.split_whitespace();
        let dtype = words.next().unwrap();
        let dtype = DType::ALL.into_iter().find(|known| known.to_string() == dtype).unwrap();
        let dims = words.next().unwrap().trim_matches(['[', ']']).split(',').filter(|dim| !dim.is_empty());
        let dims: Vec<u64> = dims.map(|dim| dim.parse().unwrap()).collect();
        // The shortest word of an f32 is that of another f64.
        let number = |word: &str| match dtype {
            DType::F32 => word.parse::<f32>().unwrap().into(),
            _ => word.parse::<f64>().unwrap(),
        };
        let numbers: Vec<f64> = words.map(number).collect();
        assert_eq!(dims.iter().product::<u64>(), numbers.len() as u64, "{text}");
        Array { dtype, dims, numbers }
    }

    fn tensor(&self, device: &Device) -> Tensor {
        let scalar = |&x: &f64| if self.dtype.is_float() { Scalar::F(x) } else { Scalar::I(x as i64) };
        let bytes: Vec<u8> = self.numbers.iter().flat_map(|x| scalar(x).to_le_bytes(self.dtype)).collect();
        Tensor::from_bytes(device, self.dtype, &bytes, &self.dims[..]).unwrap()
    }

    /// What differs from it.
    fn difference(&self, got: &Tensor, roundings: f64) -> Option<String> {
        if got.dtype() != self.dtype || got.dims() != self.dims {
            return Some(format!("{} {:?}, not {} {:?}", got.dtype(), got.dims(), self.dtype, self.dims));
        }
        let found = got.to_f64_vec().unwrap();
        let is_off = |(&got, &want): (&f64, &f64)| {
            let is_same = if want == 0.0 { got.to_bits() == want.to_bits() } else { got == want };
            let bound = if want.is_finite() { roundings * want.abs() * f64::from(f32::EPSILON) } else { 0.0 };
            !(is_same || got.is_nan() && want.is_nan() || bound > 0.0 && (got - want).abs() <= bound)
        };
        let at = found.iter().zip(&self.numbers).position(is_off)?;
        Some(format!("[{at}] is {} and not {}: {found:?}", found[at], self.numbers[at]))
    }
}

/// An end of a slice; `None` where it is open.
fn end(word: &str) -> Option<i64> {
    (word != "_").then(|| word.parse().unwrap())
}

/// What polywarp answers.
fn answer(device: &Device, name: &str, words: &[&str], x: &[Tensor]) -> Result<Vec<Tensor>> {
    let n = |at: usize| words[at].parse::<i64>().unwrap();
    let numbers: Vec<i64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let counts: Vec<u64> = numbers.iter().filter_map(|&number| number.try_into().ok()).collect();
    let all: Vec<&Tensor> = x.iter().collect();
    let pad = |mode| {
        let pairs: Vec<(i64, i64)> = numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        x[0].pad(&pairs, mode)
    };
    let scatter = |f: ScatterFn| x[0].scatter(&x[1], &x[2], n(0), f);
    let put = |f: ScatterFn| {
        let (indices, values) = all[1..].split_at(counts[0] as usize);
        x[0].index_put(indices, values[0], f)
    };
    let one = match name {
        "cat" => Tensor::cat(&all, n(0)),
        "stack" => Tensor::stack(&all, n(0)),
        "split" => return x[0].split(&counts[1..], counts[0]),
        "flip" => x[0].flip(n(0)),
        "repeat" => x[0].repeat(counts[0], n(1)),
        "tile" => x[0].tile(&counts),
        "roll" => x[0].roll(&[n(0)], [n(1)]),
        "meshgrid_ij" => return Tensor::meshgrid(&all, MeshOrder::Matrix),
        "meshgrid_xy" => return Tensor::meshgrid(&all, MeshOrder::Cartesian),
        "pad_edge" => pad(PadMode::Edge),
        "pad_reflect" => pad(PadMode::Reflect),
        "pad_wrap" => pad(PadMode::Wrap),
        "pad_constant" => x[0].pad_with(&[(n(0), n(1)), (n(2), n(3))], 9),
        "tril" => x[0].tril(n(0)),
        "triu" => x[0].triu(n(0)),
        "eye" => Tensor::eye(device, DType::I32, counts[0], counts[1], n(2)),
        "diagonal" => x[0].diagonal(n(0), n(1), n(2)),
        "diag" => x[0].diag(n(0)),
        "slice" => match (end(words[0]), end(words[1])) {
            (Some(start), Some(end)) => x[0].slice(0, start..end),
            (Some(start), None) => x[0].slice(0, start..),
            (None, Some(end)) => x[0].slice(0, ..end),
            (None, None) => x[0].slice(0, ..),
        },
        "slice_step" => x[0].slice_step(0, n(0)..n(1), n(2)),
        "select" => x[0].select(n(0), n(1)),
        "sliding_windows" => x[0].sliding_windows(counts[0], counts[1], n(2)),
        "take" => x[0].take(&x[1]),
        "index_select" => x[0].index_select(&x[1], n(0)),
        "gather" => x[0].gather(&x[1], n(0)),
        "scatter_set" => scatter(ScatterFn::Set),
        "scatter_sum" => scatter(ScatterFn::Sum),
        "scatter_prod" => scatter(ScatterFn::Prod),
        "scatter_max" => scatter(ScatterFn::Max),
        "scatter_min" => scatter(ScatterFn::Min),
        "index_put_set" => put(ScatterFn::Set),
        "index_put_sum" => put(ScatterFn::Sum),
        "scatter_add" => x[0].scatter_add(&x[1], counts[0]),
        "nonzero" => x[0].nonzero(),
        "masked_select" => x[0].masked_select(&x[1]),
        "masked_scatter" => x[0].masked_scatter(&x[1], &x[2]),
        "cumsum" => x[0].cumsum(n(0)),
        "cumprod" => x[0].cumprod(n(0)),
        // NumPy has no positions of them.
        "cummax" => Ok(x[0].cummax(n(0))?.values),
        "cummin" => Ok(x[0].cummin(n(0))?.values),
        "logcumsumexp" => x[0].logcumsumexp(n(0)),
        "sort" | "sort_descending" => {
            let order = if name == "sort" { SortOrder::Ascending } else { SortOrder::Descending };
            let sorted = x[0].sort(n(0), order)?;
            return Ok(vec![sorted.values, sorted.indices]);
        }
        "topk_smallest" => {
            let sorted = x[0].topk(counts[0], n(1), SortOrder::Ascending)?;
            return Ok(vec![sorted.values, sorted.indices]);
        }
        "unique" => {
            let unique = x[0].unique()?;
            return Ok(vec![unique.values, unique.inverse, unique.counts]);
        }
        // Which NaN is which is not said.
        "unique_values" => {
            let unique = x[0].unique()?;
            return Ok(vec![unique.values, unique.counts]);
        }
        "quantile" => x[0].quantile(words[0].parse().unwrap(), n(1)),
        "median" => x[0].median(n(0)),
        "histogram" => x[0].histogram(counts[0], n(1) as f64, n(2) as f64),
        "bincount" => x[0].bincount_within(counts[0]),
        "unique_along" => {
            let unique = x[0].unique_along(n(0))?;
            return Ok(vec![unique.values, unique.inverse, unique.counts]);
        }
        // Which slice with NaN is which is not said.
        "unique_along_values" => {
            let unique = x[0].unique_along(n(0))?;
            return Ok(vec![unique.values, unique.counts]);
        }
        "histogram_along" => x[0].histogram_along(counts[0], n(1) as f64, n(2) as f64, n(3)),
        "bincount_along" => x[0].bincount_along(counts[0], n(1)),
        "searchsorted_left" => x[0].searchsorted(&x[1], SearchSide::Left),
        "searchsorted_right" => x[0].searchsorted(&x[1], SearchSide::Right),
        "erfc" => x[0].erfc(),
        "erfinv" => x[0].erfinv(),
        "lgamma" => x[0].lgamma(),
        "digamma" => x[0].digamma(),
        "expm1" => x[0].expm1(),
        "log1p" => x[0].log1p(),
        "asinh" => x[0].asinh(),
        "acosh" => x[0].acosh(),
        "atanh" => x[0].atanh(),
        "cbrt" => x[0].cbrt(),
        "hypot" => x[0].hypot(&x[1]),
        "atan2" => x[0].atan2(&x[1]),
        "logsumexp" => x[0].logsumexp(n(0)),
        "softmax" => x[0].softmax(n(0)),
        "log_softmax" => x[0].log_softmax(n(0)),
        "tan" => x[0].tan(),
        "asin" => x[0].asin(),
        "acos" => x[0].acos(),
        "atan" => x[0].atan(),
        "sinh" => x[0].sinh(),
        "cosh" => x[0].cosh(),
        "trunc" => x[0].trunc(),
        "isnan" => x[0].is_nan(),
        "isinf" => x[0].is_inf(),
        "isfinite" => x[0].is_finite(),
        "nan_to_num" => x[0].nan_to_num(n(0), n(1), n(2)),
        "maximum" => x[0].maximum(&x[1]),
        "minimum" => x[0].minimum(&x[1]),
        "fmax" => x[0].fmax(&x[1]),
        "fmin" => x[0].fmin(&x[1]),
        "copysign" => x[0].copysign(&x[1]),
        "nextafter" => x[0].nextafter(&x[1]),
        "bitwise_count" => x[0].count_ones(),
        "invert" => x[0].not(),
        "left_shift" => x[0].shl(&x[1]),
        "right_shift" => x[0].shr(&x[1]),
        "linspace" => {
            let end = |at: usize| words[at].parse::<f64>().unwrap();
            Tensor::linspace(device, DType::F32, end(0), end(1), words[2].parse().unwrap())
        }
        "var" => x[0].var(n(1), n(0) as f64),
        "std" => x[0].std(n(1), n(0) as f64),
        "norm" => {
            let kind = match words[0] {
                "1" => Norm::L1,
                "2" => Norm::L2,
                "inf" => Norm::Infinity,
                power => Norm::P(power.parse().unwrap()),
            };
            x[0].norm(kind, n(1))
        }
        "count_nonzero" => x[0].count_nonzero(n(0)),
        "bucketize_left" => x[0].bucketize(&x[1], SearchSide::Left),
        "bucketize_right" => x[0].bucketize(&x[1], SearchSide::Right),
        "floor_divide" => x[0].floor_divide(&x[1]),
        "remainder" => x[0].remainder(&x[1]),
        "fmod" => x[0].fmod(&x[1]),
        _ => panic!("{name} is none of the calls here"),
    };
    Ok(vec![one?])
}

/// What differs from the answers in `text`, and how many there were.
fn differences(text: &str) -> (Vec<String>, usize) {
    let device = Device::cpu();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let (mut wrong, mut count) = (Vec::new(), 0);
    for line in lines {
        count += 1;
        let (call, answers) = line.split_once(" -> ").unwrap();
        let [name, words, inputs]: [&str; 3] =
            call.splitn(3, '|').map(str::trim).collect::<Vec<_>>().try_into().unwrap();
        let arrays = |text: &str| -> Vec<Array> {
            text.split(';').filter(|array| !array.trim().is_empty()).map(Array::parse).collect()
        };
        let inputs: Vec<Tensor> = arrays(inputs).iter().map(|array| array.tensor(&device)).collect();
        let words: Vec<&str> = words.split_whitespace().collect();
        let roundings = BOUNDS.iter().find(|(bound, _)| *bound == name).map_or(0.0, |(_, roundings)| *roundings);
        let wants = arrays(answers);
        match answer(&device, name, &words, &inputs) {
            Err(error) => wrong.push(format!("{call}: {error}")),
            Ok(got) if got.len() != wants.len() => wrong.push(format!("{call}: {} results", got.len())),
            Ok(got) => {
                let found = wants.iter().zip(&got).filter_map(|(want, got)| want.difference(got, roundings));
                wrong.extend(found.map(|what| format!("{call}: {what}")));
            }
        }
    }
    (wrong, count)
}

#[test]
fn answers_are_numpys() {
    let (wrong, count) = differences(ANSWERS);
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 380, "{count} answers");
}

#[test]
fn a_wrong_answer_is_found() {
    for line in [
        "cumsum | 0 | f32 [2] 1.0 2.0 -> f32 [2] 1.0 3.0000002",
        "remainder |  | f32 [1] -0.0 ; f32 [1] 4.0 -> f32 [1] -0.0",
        "sort | 0 | i32 [2] 1 1 -> i32 [2] 1 1 ; u32 [2] 1 0",
        "quantile | 0.5 0 | f32 [2] 1.0 2.0 -> f32 [] 1.5000012",
        "take |  | f32 [2] 1.0 2.0 ; i32 [1] 2 -> f32 [1] 1.0",
        "tril | 0 | i32 [2,2] 1 2 3 4 -> i32 [4] 1 0 3 4",
        "atanh |  | f32 [1] 0.5 -> f32 [1] inf",
    ] {
        let found = std::panic::catch_unwind(|| differences(line).0.len());
        assert!(found.is_err() || found.unwrap() == 1, "{line}");
    }
}
