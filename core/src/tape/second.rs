//! Gradients as tensors of the same tape: what they are computed by is recorded, so that a loss may depend on them (second order).

use std::collections::HashMap;

use super::ends::{Wanted, by_rule};
use super::{Made, Tape, Track, add, into_base};
use crate::{Error, Result, Tensor};

impl Tape {
    /// The gradients of `loss`, one element, by each of the tensors `of`, which this tape tracks: `None` where the loss does not depend on
    /// it. They are tracked by this tape, so that a further loss may depend on them: a penalty of gradients, a product with second
    /// derivatives. The tape goes on; what it keeps is freed by [`Tape::backward`].
    ///
    /// ```
    /// use polywarp_core::{Device, Tape, Tensor};
    ///
    /// let device = Device::cpu();
    /// let tape = Tape::new();
    /// let x = tape.watch(&Tensor::from_slice(&device, &[1.0f32, -2.0], [2])?)?;
    /// let cubes = x.mul(&x)?.mul(&x)?.sum(..)?;
    /// let slope = tape.gradients(&cubes, &[&x])?.swap_remove(0).expect("the sum depends on x");
    /// assert_eq!(slope.to_vec::<f32>()?, [3.0, 12.0]);
    /// let curvature = tape.backward(&slope.sum(..)?)?;
    /// assert_eq!(curvature.of(&x).expect("so does the slope").to_vec::<f32>()?, [6.0, -12.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a loss of several elements, for tensors that this tape does not track, for rules that have none
    /// themselves and for checkpointed stretches; memory errors of the device.
    pub fn gradients(&self, loss: &Tensor, of: &[&Tensor]) -> Result<Vec<Option<Tensor>>> {
        let refuse = |reason: &str| Error::InvalidArgument { what: "gradient", reason: reason.to_owned() };
        let start = self.loss(loss)?;
        let target = |tensor: &&Tensor| {
            self.node(tensor).ok_or_else(|| refuse("it is asked for a tensor that this tape does not track"))
        };
        let targets = of.iter().map(target).collect::<Result<Vec<usize>>>()?;
        let (reached, entries) = self.reached(&targets);
        let one = Tensor::full(loss.device(), loss.dtype(), *loss.shape(), 1.0)?;
        let mut gradients: HashMap<usize, Option<Tensor>> = HashMap::new();
        let base = self.shared.lock().nodes[start];
        gradients.insert(start, Some(into_base(&base, &loss.spec(), one)?));
        for number in (0..entries).rev() {
            // The lock is let go before anything runs: what runs is recorded.
            let inner = self.shared.lock();
            let entry = &inner.entries[number];
            let of_outputs: Vec<Option<Tensor>> =
                entry.outputs.iter().map(|node| gradients.get(node).cloned().flatten()).collect();
            let wanted: Vec<bool> = entry.inputs.iter().map(|node| node.is_some_and(|node| reached[node])).collect();
            if of_outputs.iter().all(Option::is_none) || !wanted.contains(&true) {
                continue;
            }
            let Made::By(op) = entry.made.clone() else {
                return Err(refuse("a checkpointed stretch has no gradient of second order; leave out the checkpoint"));
            };
            let nodes = entry.inputs.iter().copied().chain(entry.outputs.iter().map(|&node| Some(node)));
            let saved: Vec<Option<Tensor>> =
                entry.saved.iter().zip(nodes).map(|(saved, node)| self.tracked(saved, node)).collect();
            let inputs: Vec<_> = entry
                .inputs
                .iter()
                .zip(op.inputs())
                .zip(&wanted)
                .filter(|(_, wanted)| **wanted)
                .filter_map(|((node, spec), _)| Some(((*node)?, spec)))
                .map(|(node, spec)| (node, inner.nodes[node], spec))
                .collect();
            drop(inner);
            let views = inputs.iter().map(|&(_, base, view)| Wanted { base, view, place: None, is_part: false });
            let views: Vec<Wanted<'_>> = views.collect();
            let found = by_rule(&op, loss.device(), &wanted, &saved, &of_outputs, &views)?;
            for ((node, ..), gradient) in inputs.into_iter().zip(found) {
                add(gradients.entry(node).or_default(), gradient)?;
            }
        }
        Ok(targets.iter().map(|node| gradients.get(node).cloned().flatten()).collect())
    }

    /// For each node, whether it depends on one of `targets`; and how many entries there are now.
    fn reached(&self, targets: &[usize]) -> (Vec<bool>, usize) {
        let inner = self.shared.lock();
        let mut reached = vec![false; inner.nodes.len()];
        targets.iter().for_each(|&node| reached[node] = true);
        for entry in &inner.entries {
            if entry.inputs.iter().flatten().any(|&node| reached[node]) {
                entry.outputs.iter().for_each(|&node| reached[node] = true);
            }
        }
        (reached, inner.entries.len())
    }

    /// What was kept, as the tensor of its node.
    fn tracked(&self, saved: &Option<Tensor>, node: Option<usize>) -> Option<Tensor> {
        let saved = saved.as_ref()?;
        Some(match node {
            Some(node) if saved.dtype().is_float() => {
                let shared = std::sync::Arc::downgrade(&self.shared);
                saved.tracked(Track { shared, tape: self.shared.id, node })
            }
            _ => saved.clone(),
        })
    }
}
