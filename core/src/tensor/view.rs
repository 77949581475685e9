//! Views: other shapes and orders of the same elements, without a copy where strides can say it.

use crate::axis;
use crate::{Axes, Error, IntoShape, Layout, Position, Result, Shape, Stretch, Tensor};

impl Tensor {
    pub(super) fn with_layout(&self, layout: Layout) -> Tensor {
        Tensor { layout, ..self.clone() }
    }

    /// The place of `axis`, counted from either end.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`].
    pub(crate) fn axis(&self, axis: impl Position) -> Result<usize> {
        axis::axis(axis, self.rank())
    }

    /// Dimensions in a new order: dimension `i` of the result is dimension `order[i]` of this. With `..` they stay as they are.
    ///
    /// # Errors
    /// As [`Layout::permute`].
    pub fn permute(&self, order: impl Axes) -> Result<Tensor> {
        Ok(self.with_layout(self.layout.permute(&axis::in_order(order, self.rank())?)?))
    }

    /// Dimensions `a` and `b` exchanged.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`].
    pub fn transpose(&self, a: impl Position, b: impl Position) -> Result<Tensor> {
        Ok(self.with_layout(self.layout.transpose(self.axis(a)?, self.axis(b)?)?))
    }

    /// The last two dimensions exchanged: the transpose of a matrix or of each matrix of a batch.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`] below rank 2.
    pub fn t(&self) -> Result<Tensor> {
        let rank = self.rank();
        if rank < 2 {
            return Err(Error::AxisOutOfRange { axis: 1, rank });
        }
        self.transpose(rank - 2, rank - 1)
    }

    /// The indices `range` along `axis`: `1..3`, `-2..`, `..-1`, with NumPy's ends ([`Stretch`]). The axis stays, with extent 0 where the range holds
    /// none of its indices; one index alone, which must exist, is [`Tensor::select`].
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[1i32, 2, 3, 4, 5], [5])?;
    /// assert_eq!(x.slice(0, -2..)?.to_vec::<i32>()?, [4, 5]);
    /// assert_eq!(x.slice(0, 3..100)?.to_vec::<i32>()?, [4, 5]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`].
    pub fn slice(&self, axis: impl Position, range: impl Stretch) -> Result<Tensor> {
        self.slice_step(axis, range, 1)
    }

    /// Every `step`-th index of `range` along `axis`; a negative step walks from the range's last index down. So `x[::-2]` of NumPy is a range of
    /// `..` with step -2, and its `x[5:2:-1]` is `3..6` with step -1: a range is the same indices whichever way they are walked.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[1i32, 2, 3, 4, 5], [5])?;
    /// assert_eq!(x.slice_step(0, .., -2)?.to_vec::<i32>()?, [5, 3, 1]);
    /// assert_eq!(x.slice_step(-1, 1..-1, 2)?.to_vec::<i32>()?, [2, 4]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`]; [`Error::InvalidSlice`] for step 0.
    pub fn slice_step(&self, axis: impl Position, range: impl Stretch, step: i64) -> Result<Tensor> {
        let axis = self.axis(axis)?;
        let range = axis::indices(range, self.dims()[axis]);
        Ok(self.with_layout(self.layout.slice(axis, range.start, range.end, step)?))
    }

    /// Index `index` along `axis`, which disappears; -1 is its last.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`], [`Error::IndexOutOfRange`].
    pub fn select(&self, axis: impl Position, index: impl Position) -> Result<Tensor> {
        let axis = self.axis(axis)?;
        let index = axis::index(index, axis, self.dims()[axis])?;
        self.slice(axis, index..index + 1)?.squeeze(axis)
    }

    /// Stretched to `shape`: new outer dimensions and extents of 1 repeat.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`].
    pub fn broadcast_to(&self, shape: impl IntoShape) -> Result<Tensor> {
        Ok(self.with_layout(self.layout.broadcast_to(shape.into_shape()?)?))
    }

    /// The same elements in row-major order under another shape; a view when strides allow it, else a copy.
    ///
    /// # Errors
    /// [`Error::ReshapeSize`] when the element counts differ; memory errors of a copy.
    pub fn reshape(&self, shape: impl IntoShape) -> Result<Tensor> {
        let shape = shape.into_shape()?;
        match self.layout.reshape(shape)? {
            Some(layout) => Ok(self.with_layout(layout)),
            None => self.copy()?.reshape(shape),
        }
    }

    /// [`Tensor::reshape`] with at most one extent given as -1, which is inferred.
    ///
    /// # Errors
    /// [`Error::AmbiguousReshape`] for more than one -1, [`Error::InvalidArgument`] for other negative extents,
    /// [`Error::ReshapeSize`].
    pub fn reshape_infer(&self, dims: &[i64]) -> Result<Tensor> {
        let inferred = dims.iter().filter(|&&d| d == -1).count();
        if inferred > 1 {
            return Err(Error::AmbiguousReshape { inferred, shape: dims.to_vec() });
        }
        if let Some(bad) = dims.iter().find(|&&d| d < -1) {
            let reason = format!("extent {bad} in {dims:?}; give extents from 0 on, and -1 for the one to infer");
            return Err(Error::InvalidArgument { what: "shape", reason });
        }
        let known: Vec<u64> = dims.iter().filter(|&&d| d >= 0).map(|&d| d as u64).collect();
        let product = Shape::new(&known)?.elements();
        let rest = self.elements().checked_div(product).unwrap_or(0);
        let full: Vec<u64> = dims.iter().map(|&d| if d == -1 { rest } else { d as u64 }).collect();
        self.reshape(full)
    }

    /// Without dimension `axis`, whose extent must be 1.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`], [`Error::InvalidArgument`] when the extent is not 1.
    pub fn squeeze(&self, axis: impl Position) -> Result<Tensor> {
        let mut dims = self.dims().to_vec();
        let axis = self.axis(axis)?;
        let extent = dims.remove(axis);
        if extent != 1 {
            let reason = format!(
                "squeeze takes an axis of extent 1, and axis {axis} of {:?} has {extent}; take one index by select(), or reshape()",
                self.dims()
            );
            return Err(Error::InvalidArgument { what: "axis", reason });
        }
        self.reshape(dims)
    }

    /// With a new dimension of extent 1, which is dimension `axis` of the result; -1 is the last.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`] for an axis that the result does not have, [`Error::RankTooLarge`].
    pub fn unsqueeze(&self, axis: impl Position) -> Result<Tensor> {
        let mut dims = self.dims().to_vec();
        dims.insert(axis::axis(axis, dims.len() + 1)?, 1);
        self.reshape(dims)
    }

    /// The order of indices along `axis` reversed.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`].
    pub fn flip(&self, axis: impl Position) -> Result<Tensor> {
        self.slice_step(axis, .., -1)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::ops::{Missing, ReduceFn, ScanDirection, ScanFn, ScanOptions, ScatterFn, SortOrder};
    use crate::{DType, Device, FourBit, KeepDims, MatmulOptions, Norm, Tensor, keep};

    type Method = fn(&Tensor, i64) -> crate::Result<Tensor>;

    /// Every method that takes an axis, of a tensor of shape [2, 3].
    const METHODS: [(&str, Method); 58] = [
        ("abs_max", |x, axis| x.abs_max(axis)),
        ("all", |x, axis| x.gt(0)?.all(axis)),
        ("any", |x, axis| x.gt(2)?.any(axis)),
        ("argmax", |x, axis| x.argmax(axis)),
        ("argmin", |x, axis| x.argmin([axis])),
        ("argsort", |x, axis| x.argsort(axis, SortOrder::Descending)),
        ("bincount_along", |x, axis| x.abs()?.cast(DType::U32)?.bincount_along(5, axis)),
        ("bincount_along_within", |x, axis| x.cast(DType::I32)?.bincount_along_within(3, axis)),
        ("cat", |x, axis| Tensor::cat(&[x, x], axis)),
        ("chunk", |x, axis| Ok(x.chunk(2, axis)?.swap_remove(0))),
        ("count_nonzero", |x, axis| x.count_nonzero(axis)),
        ("cummax", |x, axis| Ok(x.cummax(axis)?.values)),
        ("cummin", |x, axis| Ok(x.cummin(axis)?.indices)),
        ("cumprod", |x, axis| x.cumprod(axis)),
        ("cumsum", |x, axis| x.cumsum(axis)),
        ("cumulative_extrema", |x, axis| Ok(x.cumulative_extrema(ScanFn::Max, axis, ScanDirection::Reverse)?.values)),
        ("diagonal", |x, axis| x.diagonal(0, axis, if axis.rem_euclid(2) == 0 { 1 } else { 0 })),
        ("flip", |x, axis| x.flip(axis)),
        ("gather", |x, axis| x.gather(&Tensor::zeros(x.device(), DType::U32, [2, 3])?, axis)),
        ("gather_or", |x, axis| x.gather_or(&Tensor::full(x.device(), DType::U32, [2, 3], 2)?, axis, Missing::Zero)),
        ("histogram_along", |x, axis| x.histogram_along(4, -2.0, 4.0, axis)),
        ("index_select", |x, axis| x.index_select(&Tensor::zeros(x.device(), DType::U32, [2])?, axis)),
        ("index_select_or", |x, axis| {
            x.index_select_or(&Tensor::full(x.device(), DType::U32, [2], 2)?, axis, Missing::Zero)
        }),
        ("kth_value", |x, axis| Ok(x.kth_value(1, axis)?.values)),
        ("log_softmax", |x, axis| x.log_softmax(axis)),
        ("logcumsumexp", |x, axis| x.logcumsumexp(axis)),
        ("logsumexp", |x, axis| x.logsumexp(axis)),
        ("matmul_reduce", |x, axis| x.matmul_reduce(&x.t()?, &MatmulOptions::default(), ReduceFn::Max, axis)),
        ("max", |x, axis| x.max(axis)),
        ("mean", |x, axis| x.mean(axis)),
        ("median", |x, axis| x.median(axis)),
        ("min", |x, axis| x.min(axis)),
        ("norm", |x, axis| x.norm(Norm::L2, axis)),
        ("permute", |x, axis| x.permute([axis, if axis.rem_euclid(2) == 0 { 1 } else { 0 }])),
        ("prod", |x, axis| x.prod(axis)),
        ("quantile", |x, axis| x.quantile(0.25, axis)),
        ("quantize4", |x, axis| x.quantize4(FourBit::I4, axis, 2)?.dequantize(DType::F32)),
        ("quantize4_with", |x, axis| {
            let groups = if axis.rem_euclid(2) == 0 { [1, 3] } else { [2, 2] };
            let scales = Tensor::full(x.device(), DType::F32, groups, 0.5)?;
            x.quantize4_with(FourBit::I4, axis, 2, scales, None)?.dequantize(DType::F32)
        }),
        ("reduce", |x, axis| x.reduce(ReduceFn::Sum, axis, KeepDims::Yes)),
        ("reduce_as", |x, axis| x.reduce_as(ReduceFn::Sum, axis, KeepDims::Yes, DType::F32)),
        ("repeat", |x, axis| x.repeat(2, axis)),
        ("roll", |x, axis| x.roll(&[1], axis)),
        ("scan", |x, axis| x.scan(ScanFn::Sum, axis, ScanOptions::default().exclusive())),
        ("scatter", |x, axis| x.scatter(&Tensor::zeros(x.device(), DType::U32, [2, 3])?, x, axis, ScatterFn::Sum)),
        ("scatter_within", |x, axis| {
            x.scatter_within(&Tensor::full(x.device(), DType::U32, [2, 3], 2)?, x, axis, ScatterFn::Sum)
        }),
        ("select", |x, axis| x.select(axis, 1)),
        ("sliding_windows", |x, axis| x.sliding_windows(2, 1, axis)),
        ("slice", |x, axis| x.slice(axis, 1..)),
        ("slice_step", |x, axis| x.slice_step(axis, .., -1)),
        ("softmax", |x, axis| x.softmax(axis)),
        ("sort", |x, axis| Ok(x.sort(axis, SortOrder::Ascending)?.values)),
        ("split", |x, axis| Ok(x.split(if axis.rem_euclid(2) == 0 { &[1, 1] } else { &[1, 2] }, axis)?.swap_remove(1))),
        ("std", |x, axis| x.std(axis, 0.0)),
        ("sum", |x, axis| x.sum(axis)),
        ("topk", |x, axis| Ok(x.topk(1, axis, SortOrder::Descending)?.values)),
        ("unique_along", |x, axis| Ok(x.unique_along(axis)?.values)),
        ("var", |x, axis| x.var(axis, 0.0)),
        ("var_mean", |x, axis| Ok(x.var_mean(axis, 0.0)?.1)),
    ];

    /// Those that take an axis in another way, tested by themselves.
    const OTHERS: [&str; 4] = ["squeeze", "stack", "transpose", "unsqueeze"];

    /// The names of this crate's public methods of `Tensor` in `folder` that take axes, without those of macros.
    fn methods_with_axes(folder: &Path, names: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                methods_with_axes(&path, names);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let source = std::fs::read_to_string(&path).unwrap();
                let blocks = source.split("\nimpl Tensor {").skip(1).filter_map(|text| text.split("\n}\n").next());
                let methods = blocks.flat_map(|block| block.split("\n    pub fn ").skip(1));
                let signatures = methods.filter_map(|method| method.split(" {\n").next());
                let with_axes = signatures.filter(|text| text.contains("impl Position") || text.contains("impl Axes"));
                names.extend(with_axes.filter_map(|text| text.split(['(', '<']).next()).map(str::to_owned));
            }
        }
    }

    #[test]
    fn every_method_that_takes_an_axis_is_listed() {
        let mut found = Vec::new();
        methods_with_axes(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
        let reductions = include_str!("compute.rs").rsplit("\nreductions!(").next().unwrap();
        let reductions = reductions.split(')').next().unwrap().split(',');
        found.extend(reductions.filter_map(|each| each.split("=>").next()).map(|name| name.trim().to_owned()));
        found.sort();
        let mut listed: Vec<&str> = METHODS.iter().map(|(name, _)| *name).chain(OTHERS).collect();
        listed.sort();
        assert_eq!(found, listed);
    }

    #[test]
    fn axes_below_zero_are_counted_from_the_end_by_every_method() {
        let x = Tensor::from_slice(&Device::cpu(), &[3.0f32, -1.0, 2.0, 0.5, 4.0, -2.0], [2, 3]).unwrap();
        for (name, method) in METHODS {
            for axis in [0, 1] {
                let [from_start, from_end] = [axis, axis - 2].map(|axis| method(&x, axis).unwrap());
                assert_eq!(from_start.dims(), from_end.dims(), "{name}");
                assert_eq!(from_start.to_bytes().unwrap(), from_end.to_bytes().unwrap(), "{name} of axis {axis}");
            }
            for axis in [2, -3] {
                let error = method(&x, axis).unwrap_err().to_string();
                assert!(error.contains(&format!("axis {axis} is out of range")), "{name}: {error}");
            }
        }
        assert_eq!(x.unsqueeze(-1).unwrap().dims(), [2, 3, 1]);
        assert_eq!(x.unsqueeze(-1).unwrap().squeeze(-1).unwrap().dims(), [2, 3]);
        assert_eq!(Tensor::stack(&[&x, &x], -1).unwrap().dims(), [2, 3, 2]);
        assert_eq!(x.transpose(-1, -2).unwrap().dims(), [3, 2]);
    }

    #[test]
    fn kept_axes_have_extent_one() {
        let x = Tensor::full(&Device::cpu(), DType::F32, [2, 3, 4], 2).unwrap();
        let reduced = [
            x.sum(keep([0, -1])),
            x.argmax(keep([0, -1])),
            x.var(keep([0, -1]), 0.0),
            x.norm(Norm::Infinity, keep([0, -1])),
            x.norm(Norm::L1, keep([0, -1])),
            x.count_nonzero(keep([0, -1])),
            x.logsumexp(keep([0, -1])),
            x.median(keep([0, -1])),
            x.quantile(0.3, keep([0, -1])),
            x.kth_value(5, keep([0, -1])).map(|found| found.indices),
            x.reduce(ReduceFn::Max, [0, -1], KeepDims::Yes),
        ];
        for result in reduced {
            assert_eq!(result.unwrap().dims(), [1, 3, 1]);
        }
        assert_eq!(x.mean(keep(..)).unwrap().dims(), [1, 1, 1]);
        let one = x.select(0, -1).unwrap().select(0, 0).unwrap().select(0, 3).unwrap();
        assert_eq!((one.sum(..).unwrap().item::<f32>().unwrap(), one.rank()), (2.0, 0));
        assert_eq!(Tensor::zeros(&Device::cpu(), DType::F32, []).unwrap().rank(), 0);
    }

    #[test]
    #[allow(clippy::reversed_empty_ranges)] // which they are not
    fn slices_have_the_ends_of_numpy() {
        let x = Tensor::arange(&Device::cpu(), DType::I32, 0, 1, 10).unwrap();
        let of = |x: crate::Result<Tensor>| x.unwrap().to_vec::<i32>().unwrap();
        assert_eq!(of(x.slice(0, -3..)), [7, 8, 9]);
        assert_eq!(of(x.slice(0, 7..100)), [7, 8, 9]);
        assert_eq!(of(x.slice(-1, -100..-8)), [0, 1]);
        assert_eq!(x.slice(0, 5..2).unwrap().dims(), [0]);
        assert_eq!(of(x.slice_step(0, 3..6, -1)), [5, 4, 3]); // x[5:2:-1]
        assert_eq!(of(x.slice_step(0, .., -4)), [9, 5, 1]); // x[::-4]
        assert_eq!(of(x.slice_step(0, 1..-1, 3)), [1, 4, 7]); // x[1:-1:3]
        assert_eq!(of(x.select(0, -1)), [9]);
    }
}
