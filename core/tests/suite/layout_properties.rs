//! Views agree with a naive model: a list of storage indices in row-major order.

use polywarp_core::{DType, Error, Expr, KeepDims, Layout, Program, Scalar, Shape, TensorSpec, collapse_together};
use proptest::prelude::*;

/// Extents and the storage index of every element: a view as plain data.
#[derive(Clone, Debug)]
struct Model {
    dims: Vec<u64>,
    indices: Vec<u64>,
}

impl Model {
    fn dense(dims: &[u64]) -> Model {
        Model { dims: dims.to_vec(), indices: (0..dims.iter().product()).collect() }
    }

    fn at(&self, index: &[u64]) -> u64 {
        let linear = index.iter().zip(&self.dims).fold(0, |sum, (i, dim)| sum * dim + i);
        self.indices[linear as usize]
    }

    /// A view of shape `dims` whose element at an index is this view's element at `from(index)`.
    fn remap(&self, dims: Vec<u64>, from: impl Fn(&[u64]) -> Vec<u64>) -> Model {
        let count: u64 = dims.iter().product();
        let indices = (0..count)
            .map(|mut linear| {
                let mut index = vec![0; dims.len()];
                for axis in (0..dims.len()).rev() {
                    index[axis] = linear % dims[axis];
                    linear /= dims[axis];
                }
                self.at(&from(&index))
            })
            .collect();
        Model { dims, indices }
    }
}

/// One request for a view; numbers are reduced to what the view at hand has.
#[derive(Clone, Debug)]
enum Step {
    Permute(u64),
    Slice { axis: usize, start: u64, len: u64, step: i64 },
    Broadcast { axis: usize, outer: u64 },
    Collapse,
    Reshape(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        any::<u64>().prop_map(Step::Permute),
        (any::<usize>(), any::<u64>(), any::<u64>(), prop_oneof![-3i64..0, 1i64..4])
            .prop_map(|(axis, start, len, step)| Step::Slice { axis, start, len, step }),
        (any::<usize>(), 1u64..4).prop_map(|(axis, outer)| Step::Broadcast { axis, outer }),
        Just(Step::Collapse),
        any::<u64>().prop_map(Step::Reshape),
    ];
    prop::collection::vec(step, 0..6)
}

fn dims() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![1 => Just(0u64), 9 => 1u64..6], 0..5)
}

fn permutation(rank: usize, seed: u64) -> Vec<usize> {
    let (mut rest, mut left): (u64, Vec<usize>) = (seed, (0..rank).collect());
    (0..rank)
        .map(|_| {
            let at = (rest % left.len() as u64) as usize;
            rest /= left.len() as u64;
            left.remove(at)
        })
        .collect()
}

fn apply(layout: Layout, model: Model, step: &Step) -> (Layout, Model) {
    let rank = layout.rank();
    match *step {
        Step::Permute(seed) => {
            let order = permutation(rank, seed);
            let dims = order.iter().map(|&axis| model.dims[axis]).collect();
            let moved = model.remap(dims, |index| {
                let mut from = vec![0; rank];
                order.iter().zip(index).for_each(|(&axis, &i)| from[axis] = i);
                from
            });
            (layout.permute(&order).unwrap(), moved)
        }
        Step::Slice { axis, start, len, step } if rank > 0 => {
            let axis = axis % rank;
            let start = start % (model.dims[axis] + 1);
            let end = start + len % (model.dims[axis] - start + 1);
            let taken: Vec<u64> = match step > 0 {
                true => (start..end).step_by(step as usize).collect(),
                false => (start..end).rev().step_by(-step as usize).collect(),
            };
            let mut dims = model.dims.clone();
            dims[axis] = taken.len() as u64;
            let sliced = model.remap(dims, |index| {
                let mut from = index.to_vec();
                from[axis] = taken[index[axis] as usize];
                from
            });
            (layout.slice(axis, start, end, step).unwrap(), sliced)
        }
        Step::Broadcast { axis, outer } if rank < 8 => {
            let mut dims = model.dims.clone();
            let stretched = (rank > 0 && dims[axis % rank] == 1).then(|| axis % rank);
            if let Some(axis) = stretched {
                dims[axis] = 3;
            }
            dims.insert(0, outer);
            let repeated = model.remap(dims.clone(), |index| {
                let mut from = index[1..].to_vec();
                if let Some(axis) = stretched {
                    from[axis] = 0;
                }
                from
            });
            (layout.broadcast_to(Shape::new(&dims).unwrap()).unwrap(), repeated)
        }
        Step::Collapse => {
            let flat = layout.collapse();
            let dims = flat.dims().to_vec();
            assert!(dims.len() <= rank && flat.elements() == layout.elements());
            (flat, Model { dims, ..model })
        }
        Step::Reshape(seed) => {
            let count = layout.elements();
            let factor = (1..=count.min(12)).filter(|f| count.is_multiple_of(*f)).nth((seed % 3) as usize).unwrap_or(1);
            let dims = if count == 0 { vec![0, 7] } else { vec![factor, count / factor] };
            match layout.reshape(Shape::new(&dims).unwrap()).unwrap() {
                Some(view) => (view, Model { dims, ..model }),
                None => (layout, model),
            }
        }
        Step::Slice { .. } | Step::Broadcast { .. } => (layout, model),
    }
}

fn indices(layout: &Layout) -> Vec<u64> {
    (0..layout.elements()).map(|i| layout.index_of(i)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn views_of_views_agree_with_the_model(dims in dims(), steps in steps()) {
        let mut layout = Layout::contiguous(Shape::new(&dims).unwrap());
        let mut model = Model::dense(&dims);
        for step in &steps {
            (layout, model) = apply(layout, model, step);
            prop_assert_eq!(layout.dims(), &model.dims[..]);
            prop_assert_eq!(indices(&layout), model.indices.clone(), "after {:?}", step);
            let needed = model.indices.iter().max().map_or(0, |i| i + 1);
            prop_assert_eq!(layout.required_elements(), needed);
        }
        let mut sorted = model.indices.clone();
        sorted.sort_unstable();
        let repeats = sorted.windows(2).any(|pair| pair[0] == pair[1]);
        prop_assert!(layout.may_overlap() || !repeats, "an overlap was missed");
        let consecutive = model.indices.windows(2).all(|pair| pair[1] == pair[0] + 1);
        prop_assert_eq!(layout.is_contiguous(), consecutive);
    }

    #[test]
    fn collapsing_together_keeps_every_order(dims in dims(), a in any::<u64>(), step in 1i64..3) {
        let shape = Shape::new(&dims).unwrap();
        let dense = Layout::contiguous(shape);
        let order = permutation(dims.len(), a);
        let inverse: Vec<u64> = order.iter().map(|&axis| dims[axis]).collect();
        // A second layout of the same shape in another memory order: build the permuted one, permute back.
        let mut back = vec![0; dims.len()];
        order.iter().enumerate().for_each(|(to, &from)| back[from] = to);
        let other = Layout::contiguous(Shape::new(&inverse).unwrap()).permute(&back).unwrap();
        prop_assert_eq!(other.dims(), &dims[..]);
        let stepped = match dims.first() {
            Some(&first) => {
                let mut wide = dims.clone();
                wide[0] = first * step as u64;
                Layout::contiguous(Shape::new(&wide).unwrap()).slice(0, 0, first * step as u64, step).unwrap()
            }
            None => dense,
        };
        let before = [dense, other, stepped];
        let after = collapse_together(&before);
        for (before, after) in before.iter().zip(&after) {
            prop_assert_eq!(indices(before), indices(after));
        }
        prop_assert!(after.windows(2).all(|pair| pair[0].shape() == pair[1].shape()));
    }

    #[test]
    fn strided_views_stay_inside_what_they_ask_for(
        dims in dims(),
        strides in prop::collection::vec(prop_oneof![-9i64..9, Just(i64::MAX), Just(i64::MIN)], 0..5),
        offset in 0u64..60,
    ) {
        match Layout::strided(Shape::new(&dims).unwrap(), &strides, offset) {
            Ok(layout) => {
                let needed = layout.required_elements();
                prop_assert!(indices(&layout).into_iter().all(|i| i < needed));
            }
            Err(Error::InvalidArgument { what: "strides", .. }) => {}
            Err(other) => prop_assert!(false, "untyped: {other:?}"),
        }
    }

    #[test]
    fn any_request_is_met_or_refused_by_a_typed_error(
        dims in prop::collection::vec(prop_oneof![0u64..4, Just(u64::MAX), Just(1 << 40), any::<u64>()], 0..10),
        axis in any::<usize>(),
        range in any::<(u64, u64, i64)>(),
        order in prop::collection::vec(0usize..10, 0..10),
    ) {
        let shape = match Shape::new(&dims) {
            Ok(shape) => shape,
            Err(Error::RankTooLarge { rank, .. }) => { prop_assert_eq!(rank, dims.len()); return Ok(()); }
            Err(Error::SizeOverflow { shape, .. }) => { prop_assert_eq!(shape, dims); return Ok(()); }
            Err(other) => { prop_assert!(false, "{other:?}"); return Ok(()); }
        };
        let exact: Option<u128> = dims.iter().try_fold(1u128, |n, &dim| n.checked_mul(dim.into()));
        if let Some(exact) = exact { prop_assert_eq!(u128::from(shape.elements()), exact); }
        match shape.bytes(DType::F64) {
            Ok(bytes) => prop_assert_eq!(u128::from(bytes), u128::from(shape.elements()) * 8),
            Err(e) => {
                let typed = matches!(e, Error::SizeOverflow { dtype: Some(DType::F64), .. });
                prop_assert!(typed, "{e:?}");
            }
        }
        let layout = Layout::contiguous(shape);
        for axis in [axis, axis % 10] {
            if let Err(e) = layout.slice(axis, range.0, range.1, range.2) {
                let typed = matches!(e, Error::AxisOutOfRange { .. } | Error::InvalidSlice { .. });
                prop_assert!(typed, "{e:?}");
            }
        }
        if let Err(e) = layout.permute(&order) {
            let typed = matches!(
                e, Error::AxisOutOfRange { .. } | Error::DuplicateAxis { .. } | Error::InvalidArgument { what: "permutation", .. }
            );
            prop_assert!(typed, "{e:?}");
        }
        let mut axes = order.clone();
        match shape.reduction_axes(&axes) {
            Ok(sorted) => {
                axes.sort_unstable();
                prop_assert_eq!(&sorted, &axes);
                prop_assert_eq!(shape.without_axes(&sorted, KeepDims::No).rank(), shape.rank() - sorted.len());
            }
            Err(e) => prop_assert!(matches!(e, Error::AxisOutOfRange { .. } | Error::DuplicateAxis { .. }), "{e:?}"),
        }
    }

    #[test]
    fn broadcasting_is_symmetric_and_fits_both(a in dims(), b in dims()) {
        let (a, b) = (Shape::new(&a).unwrap(), Shape::new(&b).unwrap());
        let shapes = |e: &Error| matches!(e, Error::ShapeMismatch { op: "add", axis: Some(_), .. });
        match (Shape::broadcast("add", &a, &b), Shape::broadcast("add", &b, &a)) {
            (Ok(to), Ok(back)) => {
                prop_assert_eq!(to, back);
                prop_assert!(Layout::contiguous(a).broadcast_to(to).is_ok());
                prop_assert!(Layout::contiguous(b).broadcast_to(to).is_ok());
            }
            (Err(x), Err(y)) => prop_assert!(shapes(&x) && shapes(&y)),
            (x, y) => prop_assert!(false, "{x:?} but {y:?}"),
        }
    }

    #[test]
    fn casts_agree_with_rust_and_stay_in_range(x in any::<f64>(), i in any::<i64>()) {
        prop_assert_eq!(Scalar::F(x).cast(DType::I32), Scalar::I((x as i32).into()));
        prop_assert_eq!(Scalar::F(x).cast(DType::U8), Scalar::I((x as u8).into()));
        prop_assert_eq!(Scalar::I(i).cast(DType::U32), Scalar::I((i as u32).into()));
        prop_assert_eq!(Scalar::I(i).cast(DType::F32), Scalar::F((i as f32).into()));
        for dtype in DType::ALL {
            for value in [Scalar::F(x).cast(dtype), Scalar::I(i).cast(dtype)] {
                let back = Scalar::from_le_bytes(&value.to_le_bytes(dtype), dtype);
                prop_assert!(back == value || (back.is_nan() && value.is_nan()), "{dtype} {value:?} {back:?}");
            }
        }
    }

    #[test]
    fn outputs_must_be_dense_and_aligned(offset in 0u64..40) {
        let program = Program::compile(&Expr::index().cast(DType::F32), &[]).unwrap();
        let out = TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(&[3]).unwrap()).with_offset(offset));
        let made = polywarp_core::ops::Map::new("arange", program, Vec::new(), out);
        match made {
            Ok(_) => prop_assert_eq!(offset * 4 % 16, 0),
            Err(e) => {
                let typed = matches!(e, Error::InvalidArgument { what: "output", .. });
                prop_assert!(typed && offset * 4 % 16 != 0, "{e:?}");
            }
        }
    }
}
