//! Whether positions lie within an axis: [`Positions`] reads them and keeps the first one at fault in six words on the device.
//!
//! The operations that read and write by position stay inside of their buffers whatever the positions are; this one says afterwards
//! that they were wrong. [`Tensor`](crate::Tensor)'s methods launch it beside the operation, and the next read fetches the words
//! (`core/src/tensor/outside.rs`). The first fault stays: words that hold one are left as they are, and of one tensor's positions the
//! first in row-major order is kept, so that every run tells the same.
//!
//! | word | holds |
//! |---|---|
//! | 0 | 0 where nothing was outside; else 1 + 2 i + u, i being the place in [`Indexing::ALL`] and u 1 for positions of u64 |
//! | 1, 2 | which of the positions it is, counted row-major: low and high word |
//! | 3, 4 | the position, sign-extended to 64 bits: low and high word |
//! | 5 | the extent |

#[cfg(feature = "cpu")]
mod host;
mod plan;

use super::{Arithmetic, Content, Op, Operand, Operation, TensorSpec, check_dense_output};
use crate::gradient::{Gradient, Needs};
#[cfg(feature = "cpu")]
use crate::operation::HostResult;
use crate::oracle::{Expected, HostTensor};
use crate::plan::{Caps, Plan};
use crate::{DType, Error, Layout, Result, Scalar, Shape};

const OP: &str = "positions";

/// Words that a fault takes.
pub const FAULT_WORDS: usize = crate::faults::WORDS;

/// Who reads or writes by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Indexing {
    /// [`Tensor::bincount`](crate::Tensor::bincount).
    Bincount,
    /// [`Tensor::cross_entropy`](crate::Tensor::cross_entropy).
    CrossEntropy,
    /// [`Tensor::gather`](crate::Tensor::gather).
    Gather,
    /// [`Tensor::index_put`](crate::Tensor::index_put).
    IndexPut,
    /// [`Tensor::index_select`](crate::Tensor::index_select).
    IndexSelect,
    /// [`Tensor::one_hot`](crate::Tensor::one_hot).
    OneHot,
    /// [`Tensor::scatter`](crate::Tensor::scatter).
    Scatter,
    /// [`Tensor::scatter_add`](crate::Tensor::scatter_add).
    ScatterAdd,
    /// [`Tensor::take`](crate::Tensor::take).
    Take,
}

impl Indexing {
    /// All of them.
    pub const ALL: [Indexing; 9] = [
        Indexing::Bincount,
        Indexing::CrossEntropy,
        Indexing::Gather,
        Indexing::IndexPut,
        Indexing::IndexSelect,
        Indexing::OneHot,
        Indexing::Scatter,
        Indexing::ScatterAdd,
        Indexing::Take,
    ];

    /// The name of the method.
    pub const fn name(self) -> &'static str {
        match self {
            Indexing::Bincount => "bincount",
            Indexing::CrossEntropy => "cross_entropy",
            Indexing::Gather => "gather",
            Indexing::IndexPut => "index_put",
            Indexing::IndexSelect => "index_select",
            Indexing::OneHot => "one_hot",
            Indexing::Scatter => "scatter",
            Indexing::ScatterAdd => "scatter_add",
            Indexing::Take => "take",
        }
    }
}

/// A look through positions for the first that is none of an axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Positions {
    /// Who takes them.
    pub by: Indexing,
    /// The positions, i32, u32, i64 or u64: any view.
    pub positions: TensorSpec,
    /// Positions from 0 to this less 1 are inside.
    pub extent: u64,
    /// A position outside that is none to complain of.
    pub ignored: Option<i64>,
    /// The dense words, u32 `[6]`, which are updated.
    pub output: TensorSpec,
}

impl Positions {
    /// A checked look whose words start their buffer.
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`] for positions of other dtypes; [`Error::IndexWidth`] for an extent above 2^32 - 1.
    pub fn new(by: Indexing, positions: TensorSpec, extent: u64, ignored: Option<i64>) -> Result<Positions> {
        let output = TensorSpec::new(DType::U32, Layout::contiguous(Shape::new(&[FAULT_WORDS as u64])?));
        Positions { by, positions, extent, ignored, output }.check()
    }

    fn check(self) -> Result<Positions> {
        if !is_checked(self.positions.dtype) {
            return Err(Error::DTypeMismatch { op: OP, expected: DType::I32, got: self.positions.dtype });
        }
        if self.extent > u64::from(u32::MAX) {
            return Err(Error::IndexWidth { op: OP, elements: self.extent, max: u32::MAX.into() });
        }
        let words = Shape::new(&[FAULT_WORDS as u64])?;
        if *self.output.layout.shape() != words {
            return Err(Error::shape_mismatch(OP, self.output.layout.shape(), &words, None));
        }
        if self.output.dtype != DType::U32 {
            return Err(Error::DTypeMismatch { op: OP, expected: DType::U32, got: self.output.dtype });
        }
        check_dense_output(OP, &self.output)?;
        Ok(self)
    }

    /// Word 0 of a fault.
    fn code(&self) -> u32 {
        let place = Indexing::ALL.iter().position(|&by| by == self.by).unwrap_or_default();
        1 + 2 * place as u32 + u32::from(self.positions.dtype == DType::U64)
    }

    /// The ignored position as it is stored, sign-extended, if the dtype has it.
    fn ignored_bits(&self) -> Option<u64> {
        let (least, most) = self.positions.dtype.integer_range()?;
        self.ignored.filter(|&ignored| (least..=most).contains(&i128::from(ignored))).map(|ignored| ignored as u64)
    }

    /// Whether the position of these sign-extended bits is at fault: a negative one is a large number.
    fn is_outside(&self, bits: u64) -> bool {
        bits >= self.extent && self.ignored_bits() != Some(bits)
    }

    /// The words behind a look through `positions`, where they were `words` before.
    fn after(&self, positions: impl Iterator<Item = Scalar>, words: &[Scalar]) -> Vec<Expected> {
        let bits = |x: Scalar| match x {
            Scalar::U(x) => x,
            x => x.as_i64() as u64,
        };
        let is_free = words.first().is_some_and(|code| code.as_i64() == 0);
        let first = is_free.then(|| (0u64..).zip(positions.map(bits)).find(|&(_, bits)| self.is_outside(bits)));
        let after = match first.flatten() {
            Some((place, bits)) => self.words(place, bits).map(|word| Scalar::I(word.into())).to_vec(),
            None => words.to_vec(),
        };
        after.into_iter().map(Expected::exact).collect()
    }

    /// The words of a fault.
    fn words(&self, place: u64, bits: u64) -> [u32; FAULT_WORDS] {
        let halves = |x: u64| [x as u32, (x >> 32) as u32];
        let ([low, high], [position_low, position_high]) = (halves(place), halves(bits));
        [self.code(), low, high, position_low, position_high, self.extent as u32]
    }
}

/// Whether [`Positions`] reads this dtype as it is.
pub(crate) fn is_checked(dtype: DType) -> bool {
    matches!(dtype, DType::I32 | DType::U32 | DType::I64 | DType::U64)
}

/// The error that these words tell of, if they do.
pub(crate) fn fault(words: &[u32; FAULT_WORDS]) -> Option<Error> {
    let [code, place_low, place_high, low, high, extent] = *words;
    let number = code.checked_sub(1)?;
    let whole = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
    let bits = whole(low, high);
    let position = if number % 2 == 1 { i128::from(bits) } else { i128::from(bits as i64) };
    let by = Indexing::ALL.get(number as usize / 2).copied();
    Some(Error::PositionOutside {
        op: by.map_or(OP, Indexing::name),
        position,
        place: whole(place_low, place_high),
        extent: extent.into(),
    })
}

impl Operation for Positions {
    fn name(&self) -> &'static str {
        OP
    }

    fn operands(&self, each: &mut dyn FnMut(Operand)) {
        each(Operand::read(self.positions));
        each(Operand::update(self.output));
    }

    fn validate(&self) -> Result<()> {
        self.clone().check().map(drop)
    }

    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::default()
    }

    /// The definition, exactly.
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        vec![self.after(before[0].values.iter().copied(), &before[1].values)]
    }

    /// A position at a time: tables look through 2^28 of them.
    fn oracle_of_bytes(&self, inputs: &[&[u8]]) -> Option<Vec<Expected>> {
        let [positions, words] = inputs else { return None };
        let words: Vec<Scalar> = self.output.dense_values(words)?.collect();
        Some(self.after(self.positions.dense_values(positions)?, &words))
    }

    fn gradient(&self, _: &Needs<'_>) -> Result<Gradient> {
        Ok(Gradient::Refused("positions are whole numbers, which do not change by small steps"))
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::plan(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::execute(self, inputs[0], outputs[0]);
        Ok(())
    }

    fn describe(&self, name: &mut String) {
        name.push_str(&format!(" of {} below {}", self.by.name(), self.extent));
        if let Some(ignored) = self.ignored {
            name.push_str(&format!(" but {ignored}"));
        }
    }

    fn with_output(&self, _: usize, output: TensorSpec) -> Option<Op> {
        Some(Positions { output, ..self.clone() }.into())
    }

    fn content(&self, operand: usize) -> Content {
        if operand == 0 { Content::Rows { rows: self.extent } } else { Content::Any }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_operation_place_position_and_extent() {
        let of = |dtype, by, place, bits: u64| {
            let positions = TensorSpec::new(dtype, Layout::contiguous(Shape::new(&[9]).unwrap()));
            fault(&Positions::new(by, positions, 7, None).unwrap().words(place, bits))
        };
        for by in Indexing::ALL {
            for (dtype, position) in
                [(DType::I32, -1i128), (DType::I64, i64::MIN.into()), (DType::U64, u64::MAX.into())]
            {
                let found = of(dtype, by, 1 << 40, position as u64);
                assert!(
                    matches!(found, Some(Error::PositionOutside { op, position: at, place: 0x100_0000_0000, extent: 7 })
                        if op == by.name() && at == position),
                    "{found:?}"
                );
            }
        }
        assert!(fault(&[0; FAULT_WORDS]).is_none());
    }

    #[test]
    fn what_is_ignored_is_a_number_of_the_dtype() {
        let of = |dtype, ignored, bits: u64| {
            let positions = TensorSpec::new(dtype, Layout::contiguous(Shape::SCALAR));
            Positions::new(Indexing::CrossEntropy, positions, 7, Some(ignored)).unwrap().is_outside(bits)
        };
        assert!(!of(DType::I32, -100, -100i64 as u64) && of(DType::I32, -100, -99i64 as u64));
        assert!(of(DType::U64, -1, u64::MAX), "-1 is no u64");
        assert!(!of(DType::U32, 9, 9) && !of(DType::U32, 3, 3) && of(DType::U32, 9, 7));
    }
}
