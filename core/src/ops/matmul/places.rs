//! Positions of a product's optional operands: C, bias and scales.

use super::Matmul;

/// Positions among the operands that are read; `None` for an operand that a product does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatmulPlaces {
    /// Position of C.
    pub c: Option<usize>,
    /// Position of the bias.
    pub bias: Option<usize>,
    /// Position of A's scales.
    pub scale_a: Option<usize>,
    /// Position of B's scales.
    pub scale_b: Option<usize>,
}

impl MatmulPlaces {
    /// Positions of C and the bias.
    pub fn addends(&self) -> [Option<usize>; 2] {
        [self.c, self.bias]
    }

    /// Positions of A's and of B's scales.
    pub fn scales(&self) -> [Option<usize>; 2] {
        [self.scale_a, self.scale_b]
    }
}

impl Matmul {
    /// Positions of C, bias, scale_a and scale_b among the operands that are read.
    pub fn places(&self) -> MatmulPlaces {
        let [c, bias, scale_a, scale_b] =
            [self.c, self.bias, self.scale_a, self.scale_b].map(|operand| usize::from(operand.is_some()));
        // A and B are 0 and 1; each of the others follows those before it that the product has.
        let place = |operand: usize, before: usize| (operand == 1).then_some(2 + before);
        MatmulPlaces {
            c: place(c, 0),
            bias: place(bias, c),
            scale_a: place(scale_a, c + bias),
            scale_b: place(scale_b, c + bias + scale_a),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{Matmul, Operation, TensorSpec};
    use crate::{DType, Layout, Shape};

    /// The positions follow the order of `operands!`, whichever operands are present.
    #[test]
    fn places_are_those_among_the_operands_that_are_read() {
        let spec =
            |offset| TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(&[2, 2]).unwrap()).with_offset(offset));
        for given in 0..16u64 {
            let operand = |bit: u64| (given >> bit & 1 == 1).then(|| spec(10 + bit));
            let [c, bias, scale_a, scale_b] = [0, 1, 2, 3].map(operand);
            let op = Matmul { c, bias, scale_a, scale_b, ..Matmul::product(spec(0), spec(1), spec(2)) };
            let inputs = op.inputs();
            let places = op.places();
            let found = [places.addends(), places.scales()].concat();
            let found: Vec<_> = found.into_iter().map(|place| place.map(|place| inputs[place])).collect();
            assert_eq!(found, [c, bias, scale_a, scale_b], "{given:04b}");
            assert_eq!(inputs[..2], [spec(0), spec(1)]);
        }
    }
}
