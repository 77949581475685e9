//! The operands of an operation, said once: `operands! { read input, bias; write output }` in its `impl Operation`, by its fields in the
//! order of the buffers. Operations that update operands, or hold others within others, write the two methods out.

use crate::TensorSpec;

/// What a field holds: one operand, one that may be there, or several.
pub(crate) trait Specs {
    /// Hands out what is there.
    fn visit(&self, each: &mut dyn FnMut(TensorSpec));
    /// The same, to be changed.
    fn visit_mut(&mut self, each: &mut dyn FnMut(&mut TensorSpec));
}

impl Specs for TensorSpec {
    fn visit(&self, each: &mut dyn FnMut(TensorSpec)) {
        each(*self);
    }

    fn visit_mut(&mut self, each: &mut dyn FnMut(&mut TensorSpec)) {
        each(self);
    }
}

impl Specs for Option<TensorSpec> {
    fn visit(&self, each: &mut dyn FnMut(TensorSpec)) {
        self.iter().copied().for_each(each);
    }

    fn visit_mut(&mut self, each: &mut dyn FnMut(&mut TensorSpec)) {
        self.iter_mut().for_each(each);
    }
}

impl Specs for [TensorSpec] {
    fn visit(&self, each: &mut dyn FnMut(TensorSpec)) {
        self.iter().copied().for_each(each);
    }

    fn visit_mut(&mut self, each: &mut dyn FnMut(&mut TensorSpec)) {
        self.iter_mut().for_each(each);
    }
}

/// [`Operation::operands`](crate::Operation::operands) and [`Operation::with_output`](crate::Operation::with_output). See the
/// [module](self).
macro_rules! operands {
    ($(read $($read:ident),+;)? write $($written:ident),+) => {
        fn operands(&self, each: &mut dyn FnMut($crate::operation::Operand)) {
            use $crate::ops::operands::Specs;
            $($(self.$read.visit(&mut |spec| each($crate::operation::Operand::read(spec)));)+)?
            $(self.$written.visit(&mut |spec| each($crate::operation::Operand::write(spec)));)+
        }

        fn with_output(&self, number: usize, output: $crate::TensorSpec) -> Option<$crate::Op> {
            use $crate::ops::operands::Specs;
            let mut op = Clone::clone(self);
            let (mut at, mut found) = (0, false);
            $(op.$written.visit_mut(&mut |written| {
                if at == number {
                    (*written, found) = (output, true);
                }
                at += 1;
            });)+
            found.then(|| op.into())
        }
    };
}

pub(crate) use operands;
