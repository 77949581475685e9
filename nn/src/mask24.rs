//! Two of four weights: pruning for the sparse tensor cores of GPUs.
//!
//! Of each four neighbours along what a product adds up, the two of largest magnitude stay (Mishra et al., arXiv 2104.08378, section 4): prune a trained
//! network once, then train on with the zeros kept. The decision to know: which two is decided once, when the mask is made; a mask is one
//! more elementwise pass over each weight behind the optimiser's step, and can be recorded with it.

use polywarp_core::{CompareFn, DType, Expr, Result, Sparse24, Tensor};

use crate::{Parameters, invalid};

/// Which two of four weights stay, for every parameter that it applies to.
#[derive(Clone, Debug)]
pub struct Mask24 {
    /// Names, and 1 or 0 for each weight.
    masks: Vec<(String, Tensor)>,
}

impl Mask24 {
    /// The mask of all weights of `parameters` that products read: those of two dimensions and more whose runs of summed elements are multiples
    /// of four. Runs are the last axis of matrices [outputs, inputs], and the channels of filters [outputs, inputs, taps...].
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](polywarp_core::Error::InvalidArgument) where no parameter is one; memory errors of the device.
    pub fn new(parameters: &Parameters) -> Result<Mask24> {
        let names: Vec<String> = parameters.names().map(str::to_owned).collect();
        let mut masks = Vec::new();
        for name in names {
            let weight = parameters.get(&name)?;
            if weight.rank() < 2 || !weight.dims()[1].is_multiple_of(4) || weight.elements() == 0 {
                continue;
            }
            let kept = compressed(&weight)?.decompress()?;
            let mask = Expr::input(0).compare(CompareFn::Ne, 0.0).cast(DType::F32);
            masks.push((name, as_weight(&Tensor::map(&mask, &[&kept])?, &weight)?.contiguous()?));
        }
        if masks.is_empty() {
            let reason = "none has two dimensions and inputs in whole fours: nothing could be pruned".to_owned();
            return invalid("parameters", reason);
        }
        Ok(Mask24 { masks })
    }

    /// Sets the weights that do not stay to 0, in place.
    ///
    /// # Errors
    /// As [`Parameters::get`], for parameters of another network.
    pub fn apply(&self, parameters: &Parameters) -> Result<()> {
        self.masks.iter().try_for_each(|(name, mask)| {
            let weight = parameters.get(name)?;
            // Updated as they lie in memory: filters have their channels innermost.
            let mut order: Vec<usize> = (0..weight.rank()).collect();
            order.sort_by_key(|&axis| std::cmp::Reverse(weight.layout().strides()[axis]));
            weight.permute(&order)?.mul_(&mask.permute(&order)?)
        })
    }

    /// The names of the parameters that it applies to.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.masks.iter().map(|(name, _)| name.as_str())
    }

    /// How many weights it applies to.
    pub fn elements(&self) -> u64 {
        self.masks.iter().map(|(_, mask)| mask.elements()).sum()
    }

    /// How many of them are 0 now.
    ///
    /// # Errors
    /// As [`Mask24::apply`].
    pub fn zeros(&self, parameters: &Parameters) -> Result<u64> {
        let mut zeros = 0;
        for (name, mask) in &self.masks {
            zeros += mask.elements() - u64::from(parameters.get(name)?.count_nonzero(..)?.item::<u32>()?);
        }
        Ok(zeros)
    }

    /// Bytes of these weights as they are, and compressed ([`Tensor::compress_2_4`]).
    ///
    /// # Errors
    /// As [`Mask24::apply`].
    pub fn bytes(&self, parameters: &Parameters) -> Result<[u64; 2]> {
        let mut bytes = [0; 2];
        for (name, _) in &self.masks {
            let weight = parameters.get(name)?;
            bytes[0] += weight.spec().bytes();
            bytes[1] += compressed(&weight)?.size_bytes();
        }
        Ok(bytes)
    }
}

/// A weight [outputs, inputs, taps...], compressed along its inputs.
fn compressed(weight: &Tensor) -> Result<Sparse24> {
    let last = weight.rank() - 1;
    let order: Vec<usize> = [0].into_iter().chain(2..=last).chain([1]).collect();
    weight.permute(&order)?.contiguous()?.compress_2_4()
}

/// [outputs, taps..., inputs] in the order of `weight`.
fn as_weight(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let last = weight.rank() - 1;
    let order: Vec<usize> = [0, last].into_iter().chain(1..last).collect();
    x.permute(&order)
}

#[cfg(test)]
mod tests {
    use polywarp_core::Device;

    use super::*;
    use crate::{Builder, Decay, Init};

    #[test]
    fn two_of_four_inputs_stay_in_matrices_and_in_filters() {
        let mut builder = Builder::new(3);
        let init = Init::Uniform { low: -1.0, high: 1.0 };
        builder.add("matrix", [3, 8], init, Decay::Yes).unwrap();
        builder.add_filters("filters", [5, 8, 3, 2], init, Decay::Yes).unwrap();
        builder.add("bias", [5], init, Decay::No).unwrap();
        let parameters = builder.build(&Device::cpu()).unwrap();
        let values = |name: &str| parameters.get(name).unwrap().to_vec::<f32>().unwrap();
        let before = ["matrix", "filters", "bias"].map(values);
        let mask = Mask24::new(&parameters).unwrap();
        mask.apply(&parameters).unwrap();
        assert_eq!(mask.zeros(&parameters).unwrap() * 2, mask.elements());
        let after = ["matrix", "filters", "bias"].map(values);
        assert_eq!(before[2], after[2]);
        // Neighbouring inputs of an output lie `taps` elements apart.
        for (before, after, taps) in [(&before[0], &after[0], 1), (&before[1], &after[1], 6)] {
            for four in 0..before.len() / 4 {
                let (line, group) = (four / 2, four % 2);
                let place = |i: usize| (line / taps * 8 + group * 4 + i) * taps + line % taps;
                let mut sizes: Vec<f32> = (0..4).map(|i| before[place(i)].abs()).collect();
                sizes.sort_by(|a, b| b.total_cmp(a));
                for i in 0..4 {
                    let x = before[place(i)];
                    assert_eq!(
                        after[place(i)],
                        if x.abs() >= sizes[1] { x } else { 0.0 },
                        "four {four} of {taps} taps"
                    );
                }
            }
        }
    }
}
