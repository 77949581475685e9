//! A stretch of a tape that is run again on the way back, instead of keeping what its operations read.
//!
//! Memory for time: of a network of n equal stretches only their inputs are kept, and what one of them reads; each is computed twice
//! (Chen, Xu, Zhang and Guestrin, arXiv 1604.06174).

use std::fmt;
use std::sync::Arc;

use super::ends::Places;
use super::{Entry, Made, Tape, Track, live};
use crate::{Device, Error, Result, Tensor, TensorSpec};

/// What runs again.
type Run = dyn Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync;

#[derive(Clone)]
pub(super) struct Stretch {
    run: Arc<Run>,
    /// What it reads.
    pub inputs: Vec<TensorSpec>,
}

impl fmt::Debug for Stretch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stretch").field("inputs", &self.inputs).finish_non_exhaustive()
    }
}

impl Tape {
    /// What `run` makes of `inputs`, without keeping what its operations read: on the way back it runs a second time. Gradients flow to
    /// `inputs` alone, so give it every tensor whose gradient is wanted, parameters too. It must do the same each time; where it draws
    /// random numbers, let it draw them from a copy of a generator that was forked before ([`Generator::fork`](crate::Generator::fork)).
    ///
    /// ```
    /// use polywarp_core::{Device, Tape, Tensor};
    ///
    /// let device = Device::cpu();
    /// let tape = Tape::new();
    /// let x = tape.watch(&Tensor::from_slice(&device, &[1.0f32, -2.0], [2])?)?;
    /// let y = tape.checkpoint(&[&x], |inputs| Ok(vec![inputs[0].mul(&inputs[0])?.exp()?]))?.swap_remove(0);
    /// let gradients = tape.backward(&y.sum(..)?)?;
    /// let slope = gradients.of(&x).expect("y depends on x").to_vec::<f32>()?;
    /// assert!((slope[0] - 2.0 * 1f32.exp()).abs() < 1e-5);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `run`; [`Error::InvalidArgument`] for inputs of another tape, and where a result depends on a watched tensor that is none
    /// of the inputs: its gradient would be lost.
    pub fn checkpoint(
        &self,
        inputs: &[&Tensor],
        run: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    ) -> Result<Vec<Tensor>> {
        let refuse = |reason: &str| Err(Error::InvalidArgument { what: "checkpoint", reason: reason.to_owned() });
        let mut nodes = Vec::with_capacity(inputs.len());
        for tensor in inputs {
            let track = live(tensor);
            if track.as_ref().is_some_and(|(shared, _)| !Arc::ptr_eq(shared, &self.shared)) {
                return refuse("another tape watches one of its inputs");
            }
            nodes.push(track.filter(|_| tensor.dtype().is_float()).map(|(_, node)| node));
        }
        let unknown: Vec<Tensor> = inputs.iter().map(|tensor| tensor.seen_as(tensor.spec())).collect();
        let mut outputs = Vec::new();
        for output in run(&unknown)? {
            if live(&output).is_some() {
                return refuse("a result depends on a watched tensor that is none of its inputs; give it as an input");
            }
            let output = output.contiguous()?;
            outputs.push(output.seen_as(output.spec()));
        }
        if nodes.iter().all(Option::is_none) {
            return Ok(outputs);
        }
        let stretch = Stretch { run: Arc::new(run), inputs: inputs.iter().map(|tensor| tensor.spec()).collect() };
        let mut inner = self.shared.lock();
        let of_outputs: Vec<usize> = outputs.iter().map(|output| inner.node(output.spec(), false)).collect();
        let saved = unknown.into_iter().map(Some).collect();
        inner.entries.push(Entry { made: Made::Again(stretch), inputs: nodes, outputs: of_outputs.clone(), saved });
        drop(inner);
        for (output, node) in outputs.iter().zip(of_outputs).filter(|(output, _)| output.dtype().is_float()) {
            output.start_tracking(Track { shared: Arc::downgrade(&self.shared), tape: self.shared.id, node });
        }
        Ok(outputs)
    }
}

impl Stretch {
    /// The gradients of the wanted inputs, in order, of those that a result depends on: the stretch runs on a tape of its own, and back from
    /// its results.
    pub fn backward(
        &self,
        device: &Device,
        wanted: &[bool],
        saved: &[Option<Tensor>],
        of_outputs: &[Option<Tensor>],
    ) -> Result<Vec<Option<Tensor>>> {
        let tape = Tape::new();
        let (mut inputs, mut watched) = (Vec::new(), Vec::new());
        for (input, wanted) in saved.iter().flatten().zip(wanted) {
            inputs.push(if *wanted {
                let input = tape.watch(&input.contiguous()?)?;
                watched.push(input.clone());
                input
            } else {
                input.clone()
            });
        }
        let outputs = (self.run)(&inputs)?;
        let mut seeds = Vec::new();
        for (output, gradient) in outputs.iter().zip(of_outputs) {
            if let (Some(node), Some(gradient)) = (tape.node(output), gradient) {
                seeds.push((node, output.spec(), gradient.clone()));
            }
        }
        let gradients = tape.back(device, seeds, Places::default())?;
        Ok(watched.iter().map(|input| gradients.of(input).cloned()).collect())
    }
}
