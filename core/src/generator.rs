//! Random sequences that go on from launch to launch: [`Generator`], the [`RandomKey`]s it gives, and dropout.
//!
//! [`Tensor::random`] takes its seed and stream from the host, so a recorded call gives the same numbers at every replay. A
//! generator's state lives on the device instead: one launch copies it and moves it on, and a program reads the copy
//! ([`Expr::random`]). A recorded step therefore draws new numbers at each replay, the same as eager steps would. The copy is
//! never written again: a backward pass makes the same numbers from it.
//!
//! The state is a seed and a stream number, 64 bits each; the generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel
//! random numbers: as easy as 1, 2, 3", SC'11). Every key has a stream of its own.

mod distributions;

pub use distributions::Replacement;
pub(crate) use distributions::whole_number_below;

use crate::{BinaryFn, CompareFn, Device, Error, Expr, RandomKey, Result, Tensor};

/// A sequence of keys for random numbers. Clones share its state.
///
/// Key number n, from 0, of a new generator opens stream n under the generator's seed: its numbers are those of [`Tensor::random`] for
/// that seed and stream. Two uses of one seed that must differ need streams apart: those of this generator are 0, 1, 2, ... in the order
/// of the calls. Keys repeat after 2^64.
///
/// ```
/// use polywarp_core::{Device, Expr, Generator, Tensor};
///
/// let device = Device::cpu();
/// let generator = Generator::new(&device, 42)?;
/// let x = Tensor::from_slice(&device, &[1.0f32; 6], [2, 3])?;
/// let noisy = Expr::input(0) + Expr::uniform([1, 2, 3, 4].map(Expr::input));
/// let step = device.record(|| {
///     let [seed_low, seed_high, stream_low, stream_high] = &generator.key()?.words()?;
///     Tensor::map(&noisy, &[&x, seed_low, seed_high, stream_low, stream_high])
/// })?;
/// let first = step.replay()?.to_vec::<f32>()?;
/// assert_ne!(step.replay()?.to_vec::<f32>()?, first);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Generator {
    /// The low words of seed and stream, u32[2].
    low: Tensor,
    /// Their high words.
    high: Tensor,
}

impl Generator {
    /// The generator of `seed`, at stream 0. Not while recording: it is written from the host.
    ///
    /// # Errors
    /// Memory errors of the device; [`Error::Recording`].
    pub fn new(device: &Device, seed: u64) -> Result<Generator> {
        let low = Tensor::from_slice(device, &[seed as u32, 0], [2])?;
        let high = Tensor::from_slice(device, &[(seed >> 32) as u32, 0], [2])?;
        Ok(Generator { low, high })
    }

    /// The present seed and stream; the generator goes on to the next stream. One launch of 4 buffers, which can be recorded.
    ///
    /// # Errors
    /// Memory errors of the device.
    pub fn key(&self) -> Result<RandomKey> {
        let [low, high] = [0, 1].map(Expr::input);
        // The seed is element 0, to which its position adds nothing; the stream is element 1.
        let next = low.clone() + Expr::index();
        let carry = next.compare(CompareFn::Lt, &low).select(1, 0);
        let exprs = [next, high.clone() + carry, low, high];
        let mut present = Tensor::update(&exprs, &[], &[&self.low, &self.high])?.into_iter();
        match (present.next(), present.next()) {
            (Some(low), Some(high)) => Ok(RandomKey { low, high }),
            _ => Err(Error::InvalidArgument { what: "key", reason: "an update gave no new tensors".to_owned() }),
        }
    }

    /// A generator of its own, whose seed is 64 random bits of this one's next key: for a part of a computation that may draw any number of keys
    /// and must draw them again. Two launches, which can be recorded.
    ///
    /// ```
    /// use polywarp_core::{Device, Generator, Tensor};
    ///
    /// let device = Device::cpu();
    /// let generator = Generator::new(&device, 7)?;
    /// let forked = generator.fork()?;
    /// let x = Tensor::from_slice(&device, &[1.0f32; 8], [8])?;
    /// let drawn = || x.dropout(0.5, &forked.copy()?)?.to_vec::<f32>();
    /// assert_eq!(drawn()?, drawn()?);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Memory errors of the device.
    pub fn fork(&self) -> Result<Generator> {
        let [seed_low, seed_high, stream_low, stream_high] = &self.key()?.words()?;
        let [low, high, stream, far] = [0, 1, 2, 3].map(Expr::input);
        // The second word is of a stream that no generator comes to: its number is above half of all.
        let beyond = far.clone() ^ i64::from(1u32 << 31);
        let seeds = [[low.clone(), high.clone(), stream.clone(), far], [low, high, stream, beyond]].map(Expr::random);
        // The seed, and stream 0; what is read beside them is 0 in the shape that both have.
        let shape = Expr::input(4).binary(BinaryFn::Min, 0);
        let is_seed = Expr::index().compare(CompareFn::Eq, 0);
        let words = seeds.map(|seed| is_seed.clone().select(seed, 0) + shape.clone());
        let mut words =
            Tensor::map_all(&words, &[seed_low, seed_high, stream_low, stream_high, &self.low])?.into_iter();
        match (words.next(), words.next()) {
            (Some(low), Some(high)) => Ok(Generator { low, high }),
            _ => Err(Error::InvalidArgument { what: "fork", reason: "a program gave no two results".to_owned() }),
        }
    }

    /// A generator that goes on as this one would, and leaves this one as it is. Two launches, which can be recorded.
    ///
    /// # Errors
    /// Memory errors of the device.
    pub fn copy(&self) -> Result<Generator> {
        Ok(Generator { low: self.low.copy()?, high: self.high.copy()? })
    }

    /// Seed low, seed high, stream low, stream high of the next key: a checkpoint for [`Generator::set_state`]. Waits for the device.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`].
    pub fn state(&self) -> Result<[u32; 4]> {
        let (low, high) = (self.low.to_vec::<u32>()?, self.high.to_vec::<u32>()?);
        match (low.as_slice(), high.as_slice()) {
            (&[seed_low, stream_low], &[seed_high, stream_high]) => Ok([seed_low, seed_high, stream_low, stream_high]),
            _ => Err(Error::InvalidArgument { what: "state", reason: "two words were not read".to_owned() }),
        }
    }

    /// The state itself, u32 `[2]` each: the low words of seed and stream, and their high words. They are the generator's memory and not a
    /// copy: what is assigned to them is the state that it goes on from, under recordings too.
    pub fn tensors(&self) -> [&Tensor; 2] {
        [&self.low, &self.high]
    }

    /// Goes on from `state`, which [`Generator::state`] gave; steps that were recorded do, too. Keys drawn before stay as they are.
    ///
    /// # Errors
    /// As [`Tensor::write`].
    pub fn set_state(&self, state: [u32; 4]) -> Result<()> {
        let [seed_low, seed_high, stream_low, stream_high] = state;
        self.low.write(&[seed_low, stream_low])?;
        self.high.write(&[seed_high, stream_high])
    }
}

impl Tensor {
    /// Each element times 1 / (1 - p) with probability 1 - p, else 0, NaN and infinities too (Srivastava et al., JMLR 15, 2014). `p` =
    /// 0 is the tensor itself and draws no key, 1 gives zeros. The element at row-major position i is kept where the uniform number
    /// ([`Expr::uniform`]) at i of the generator's next key is not below `p`, exactly: p counts in steps of 2^-24.
    ///
    /// The gradient is 1 / (1 - p) where the element was kept, else 0; it is made from the key, no mask is stored.
    ///
    /// ```
    /// use polywarp_core::{Device, Generator, Tape, Tensor};
    ///
    /// let device = Device::cpu();
    /// let generator = Generator::new(&device, 1)?;
    /// let tape = Tape::new();
    /// let x = tape.watch(&Tensor::from_slice(&device, &[1.0f32; 8], [8])?)?;
    /// let y = x.dropout(0.5, &generator)?;
    /// let gradients = tape.backward(&y.sum(..)?)?;
    /// // Of ones the result is its own gradient.
    /// let dx = gradients.of(&x).expect("the loss depends on x");
    /// assert_eq!(dx.to_vec::<f32>()?, y.to_vec::<f32>()?);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a `p` that is not in 0..=1, [`Error::UndefinedForDType`] for integers and bool,
    /// [`Error::DeviceMismatch`] for a generator of another device; memory errors of the device.
    pub fn dropout(&self, p: f64, generator: &Generator) -> Result<Tensor> {
        self.dropout_by("dropout", p, generator, None)
    }

    /// [`Tensor::dropout`], plus `residual`, in one pass: the end of a residual block. `p` = 0 draws no key.
    ///
    /// # Errors
    /// As [`Tensor::dropout`]; [`Error::DTypeMismatch`] for a residual of another dtype, [`Error::ShapeMismatch`] for one that does not
    /// broadcast with it.
    pub fn dropout_add(&self, p: f64, generator: &Generator, residual: &Tensor) -> Result<Tensor> {
        self.dropout_by("dropout_add", p, generator, Some(residual))
    }

    fn dropout_by(&self, op: &'static str, p: f64, generator: &Generator, residual: Option<&Tensor>) -> Result<Tensor> {
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::InvalidArgument { what: "dropout", reason: format!("{p} is no probability") });
        }
        if !self.dtype().is_float() {
            return Err(Error::UndefinedForDType { op, dtype: self.dtype() });
        }
        self.expect_device(op, &generator.low)?;
        if p == 0.0 {
            return residual.map_or_else(|| Ok(self.clone()), |residual| self.add(residual));
        }
        if let Some(residual) = residual.filter(|residual| residual.shape() != self.shape()) {
            // Positions decide what is kept: they are those of this tensor.
            return self.dropout(p, generator)?.add(residual);
        }
        let [seed_low, seed_high, stream_low, stream_high] = &generator.key()?.words()?;
        let inputs = [self, seed_low, seed_high, stream_low, stream_high];
        match residual {
            None => Tensor::map_named(op, &Expr::dropped(p), &inputs),
            Some(residual) => {
                let inputs: Vec<&Tensor> = inputs.into_iter().chain([residual]).collect();
                Tensor::map_named(op, &(Expr::dropped(p) + Expr::input(5)), &inputs)
            }
        }
    }
}

#[cfg(test)]
mod tests;
