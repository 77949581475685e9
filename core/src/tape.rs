//! The tape: what was computed from watched tensors, and how gradients come back.
//!
//! There is no second kind of tensor. [`Tape::watch`] gives a tensor that shares its memory with the one watched; every method works on
//! it and on what is computed from it, and the one call through which tensors execute records. An operation that has no rule and reads
//! such a tensor is refused there, by name, before it runs; results that are whole numbers or bool, such as positions and masks, carry no
//! gradient and are not recorded. What a rule reads is kept, everything else goes as it would without a tape.
//!
//! [`Tape::backward`] takes the tape: a second one does not compile. It walks back from the loss through what the loss depends on
//! alone, frees what was kept with its last use, and gives the gradients of the watched tensors. The whole of it, forward and back,
//! can be recorded ([`Device::record`]) and replayed.
//!
//! [`Tape::gradients`] leaves the tape as it is and puts the gradients on it, so that a loss may depend on them; [`Tape::checkpoint`] keeps
//! the inputs of a stretch alone and runs it again on the way back.
//!
//! Gradients belong to memory: that of a view is laid back into the tensor it is a view of, summed where the view repeats.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

mod ends;
mod parts;
mod second;
mod stretch;

use self::ends::{Places, Wanted};
use self::parts::Sum;

use self::stretch::Stretch;

use crate::gradient::{Gradient, Needs, Rest, Rule, WayBack};
use crate::ops::{Builder, GraphOp};
use crate::{Buffer, Device, Error, KeepDims, Layout, Op, ReduceFn, Result, Tensor, TensorSpec};

/// Tells tapes apart.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Tapes that live: what they keep must not be overwritten, by whatever handle.
static LIVE: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// A record of operations on watched tensors. See the [module](self).
///
/// ```
/// use polywarp_core::{Device, Tape, Tensor};
///
/// let device = Device::cpu();
/// let w = Tensor::from_slice(&device, &[1.0f32, -2.0, 3.0], [3])?;
/// let tape = Tape::new();
/// let x = tape.watch(&w)?;
/// let loss = x.mul(&x)?.sum(..)?;
/// let gradients = tape.backward(&loss)?;
/// let dx = gradients.of(&x).expect("the loss depends on x");
/// assert_eq!(dx.to_vec::<f32>()?, [2.0, -4.0, 6.0]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Tape {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    id: u64,
    inner: Mutex<Inner>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Its own handle is dead by now, as are those of others that are dropping.
        live_tapes().retain(|tape| tape.strong_count() > 0);
    }
}

fn live_tapes() -> MutexGuard<'static, Vec<Weak<Shared>>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
struct Inner {
    /// The memory of what is watched.
    kept: Vec<Buffer>,
    /// Dense tensors with gradients: those watched, and results.
    nodes: Vec<TensorSpec>,
    /// Which of them are watched.
    watched: Vec<bool>,
    entries: Vec<Entry>,
}

/// One operation that read a tracked tensor, or a stretch of them.
#[derive(Debug)]
struct Entry {
    made: Made,
    /// The node that each input is a view of, where it is tracked.
    inputs: Vec<Option<usize>>,
    /// The node of each output.
    outputs: Vec<usize>,
    /// What the rule reads: inputs as the operation saw them, then outputs.
    saved: Vec<Option<Tensor>>,
}

/// What made the outputs of an entry.
#[derive(Clone, Debug)]
enum Made {
    By(Op),
    Again(Stretch),
}

impl Made {
    /// What was read, as it was seen.
    fn inputs(&self) -> Vec<TensorSpec> {
        match self {
            Made::By(op) => op.inputs(),
            Made::Again(stretch) => stretch.inputs.clone(),
        }
    }
}

/// Where a tensor stands on a tape. Part of the tensor.
#[derive(Clone, Debug)]
pub(crate) struct Track {
    shared: Weak<Shared>,
    tape: u64,
    node: usize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic while recording leaves an entry out: what it would have made is not tracked then.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn node(&mut self, spec: TensorSpec, is_watched: bool) -> usize {
        self.nodes.push(spec);
        self.watched.push(is_watched);
        self.nodes.len() - 1
    }
}

impl Default for Tape {
    fn default() -> Tape {
        Tape::new()
    }
}

impl Tape {
    /// A tape with nothing on it.
    pub fn new() -> Tape {
        let shared = Arc::new(Shared { id: NEXT.fetch_add(1, Ordering::Relaxed), inner: Mutex::default() });
        live_tapes().push(Arc::downgrade(&shared));
        Tape { shared }
    }

    /// `tensor`, watched: the same memory, and gradients of what is computed from the result.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a tensor that is no float, that is not dense, or that a live tape watches already.
    pub fn watch(&self, tensor: &Tensor) -> Result<Tensor> {
        let refuse = |reason: String| Err(Error::InvalidArgument { what: "watched tensor", reason });
        if !tensor.dtype().is_float() {
            return refuse(format!("{} has no gradient; watch floats", tensor.dtype()));
        }
        if !tensor.layout().is_contiguous() {
            return refuse(format!("{:?} is not dense; watch the tensor that it is a view of", tensor.layout()));
        }
        if live(tensor).is_some() {
            return refuse("a tape watches it already".to_owned());
        }
        let mut inner = self.shared.lock();
        let node = inner.node(tensor.spec(), true);
        inner.kept.push(tensor.buffer().clone());
        drop(inner);
        Ok(tensor.tracked(Track { shared: Arc::downgrade(&self.shared), tape: self.shared.id, node }))
    }

    /// The gradients of `loss`, one element, by every watched tensor that it depends on. The tape is spent: what it kept is freed on the way, and
    /// a second call does not compile.
    ///
    /// ```compile_fail,E0382
    /// use polywarp_core::{Device, Tape, Tensor};
    ///
    /// let (tape, device) = (Tape::new(), Device::cpu());
    /// let x = tape.watch(&Tensor::from_slice(&device, &[2.0f32], [1])?)?;
    /// let loss = x.mul(&x)?.sum(..)?;
    /// tape.backward(&loss)?;
    /// tape.backward(&loss)?;
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a loss of several elements, and for one that this tape knows nothing of; memory errors of the device.
    pub fn backward(self, loss: &Tensor) -> Result<Gradients> {
        self.backward_into(loss, &[])
    }

    /// [`Tape::backward`] with places for the gradients of some watched tensors, each as a pair: dense and of the watched tensor's shape,
    /// f32 or its dtype. What they held is gone; where the loss does not depend on a tensor its place becomes zero. Products and sums
    /// write there directly, in the place's dtype, so that gradients of 16-bit parameters add up in f32 and nothing is copied.
    ///
    /// # Errors
    /// As [`Tape::backward`]; [`Error::InvalidArgument`] for a tensor that this tape does not watch, a place that is not dense, overlaps what the
    /// tape keeps or another place, or starts at no multiple of 16 bytes, [`Error::ShapeMismatch`] and [`Error::DTypeMismatch`] for a place of another shape or dtype.
    pub fn backward_into(self, loss: &Tensor, places: &[(&Tensor, &Tensor)]) -> Result<Gradients> {
        let node = self.loss(loss)?;
        let places = self.places(places)?;
        let one = Tensor::full(loss.device(), loss.dtype(), *loss.shape(), 1.0)?;
        self.back(loss.device(), vec![(node, loss.spec(), one)], places)
    }

    /// The node of a loss.
    fn loss(&self, loss: &Tensor) -> Result<usize> {
        let refuse = |reason: &str| Err(Error::InvalidArgument { what: "loss", reason: reason.to_owned() });
        if loss.shape().elements() != 1 {
            return refuse("it has several elements; sum or average them first");
        }
        match self.node(loss) {
            Some(node) => Ok(node),
            None => refuse(
                "it depends on no tensor that this tape watches; compute it from the tensors that watch() of this tape gave",
            ),
        }
    }

    /// The node of a tensor that this tape tracks.
    fn node(&self, tensor: &Tensor) -> Option<usize> {
        tensor.track().filter(|track| track.tape == self.shared.id).map(|track| track.node)
    }

    /// The gradients of all that is watched, from those of some nodes, each as a view of it.
    fn back(self, device: &Device, seeds: Vec<(usize, TensorSpec, Tensor)>, places: Places) -> Result<Gradients> {
        let mut inner = std::mem::take(&mut *self.shared.lock());
        let mut sums: Vec<Sum> = inner.nodes.iter().map(|_| Sum::None).collect();
        for (node, view, gradient) in seeds {
            let base = inner.nodes[node];
            places.add(node, &base, &mut sums[node], into_base(&base, &view, gradient)?)?;
        }
        // Entries stand in the order in which they ran: nothing later reads what an earlier one wrote.
        while let Some(entry) = inner.entries.pop() {
            let of_outputs = entry.outputs.iter().map(|&node| sums[node].take(&inner.nodes[node]));
            let of_outputs = of_outputs.collect::<Result<Vec<Option<Tensor>>>>()?;
            if of_outputs.iter().all(Option::is_none) {
                continue;
            }
            let wanted: Vec<bool> = entry.inputs.iter().map(Option::is_some).collect();
            let inputs = entry.inputs.iter().zip(entry.made.inputs());
            let views: Vec<(usize, Wanted<'_>)> = inputs
                .filter_map(|(node, view)| Some(((*node)?, view)))
                .map(|(node, view)| {
                    let (base, sum) = (inner.nodes[node], &sums[node]);
                    let is_part = places.takes_part(node, &base, &view, sum);
                    (node, Wanted { base, view, place: places.for_first(node, sum), is_part })
                })
                .collect();
            let found = match &entry.made {
                Made::By(op) => {
                    let views: Vec<Wanted<'_>> = views.iter().map(|(_, view)| view.clone()).collect();
                    let found = ends::by_rule(op, device, &wanted, &entry.saved, &of_outputs, &views)?;
                    found.into_iter().map(Some).collect::<Vec<_>>()
                }
                Made::Again(stretch) => {
                    let found = stretch.backward(device, &wanted, &entry.saved, &of_outputs)?;
                    let laid = |((_, view), found): (&(_, Wanted<'_>), Option<Tensor>)| {
                        found.map(|gradient| view.laid(gradient)).transpose()
                    };
                    views.iter().zip(found).map(laid).collect::<Result<_>>()?
                }
            };
            for ((node, Wanted { base, view, is_part, .. }), gradient) in views.into_iter().zip(found) {
                let Some(gradient) = gradient else { continue };
                // Two inputs may be one part of one tensor: the second is laid.
                if is_part && places.takes_part(node, &base, &view, &sums[node]) {
                    places.add_part(node, &base, &view, &mut sums[node], gradient)?;
                } else {
                    let gradient = if is_part { into_base(&base, &view, gradient)? } else { gradient };
                    places.add(node, &base, &mut sums[node], gradient)?;
                }
            }
        }
        places.finish(&sums)?;
        let mut of = HashMap::new();
        for (node, sum) in sums.iter_mut().enumerate().filter(|(node, _)| inner.watched[*node]) {
            if let Some(gradient) = sum.take(&inner.nodes[node])? {
                of.insert(node, gradient);
            }
        }
        Ok(Gradients { tape: self.shared.id, of })
    }
}

/// Adds in the gradient's dtype: of 16 bits each addition is rounded. Places may be wider ([`Tape::backward_into`]).
fn add(sum: &mut Option<Tensor>, gradient: Tensor) -> Result<()> {
    *sum = Some(match sum.take() {
        Some(sum) => sum.add(&gradient)?,
        None => gradient,
    });
    Ok(())
}

/// The gradients of watched tensors.
#[derive(Debug)]
pub struct Gradients {
    tape: u64,
    of: HashMap<usize, Tensor>,
}

impl Gradients {
    /// The gradient of `watched`, a tensor that [`Tape::watch`] gave: dense, of its shape and dtype. `None` where the loss does not
    /// depend on it.
    pub fn of(&self, watched: &Tensor) -> Option<&Tensor> {
        let track = watched.track().filter(|track| track.tape == self.tape)?;
        self.of.get(&track.node)
    }
}

/// Whether a live tape tracks `tensor`.
pub(crate) fn is_watched(tensor: &Tensor) -> bool {
    live(tensor).is_some()
}

/// The live tape that `tensor` is tracked by, and its node there.
fn live(tensor: &Tensor) -> Option<(Arc<Shared>, usize)> {
    let track = tensor.track()?;
    Some((track.shared.upgrade()?, track.node))
}

/// The rule of `op`.
fn rule(op: &Op, needs: &Needs<'_>) -> Result<Rule> {
    match op.gradient(needs)? {
        Gradient::Rule(rule) => Ok(rule),
        Gradient::Refused(reason) => {
            let reason = format!("{} has no gradient: {reason}", op.name());
            Err(Error::InvalidArgument { what: "gradient", reason })
        }
    }
}

/// An operation that is about to run on tracked tensors.
pub(crate) struct Pending {
    shared: Arc<Shared>,
    inputs: Vec<Option<usize>>,
    rule: Rule,
}

/// What must be recorded of `op` on `inputs`; `None` where no live tape watches any of them, or no result has a gradient.
///
/// # Errors
/// [`Error::InvalidArgument`] for an operation without a rule, and for tensors of two tapes.
pub(crate) fn pending(op: &Op, inputs: &[&Tensor]) -> Result<Option<Pending>> {
    // Most calls end here.
    if inputs.iter().all(|tensor| tensor.track().is_none()) {
        return Ok(None);
    }
    let tracks: Vec<Option<(Arc<Shared>, usize)>> = inputs.iter().map(|tensor| live(tensor)).collect();
    let outputs = op.outputs();
    let given: Vec<bool> = outputs.iter().map(|output| output.spec.dtype.is_float()).collect();
    let Some(shared) = tracks.iter().flatten().next().map(|(shared, _)| Arc::clone(shared)) else { return Ok(None) };
    if !given.contains(&true) {
        return Ok(None);
    }
    if tracks.iter().flatten().any(|(other, _)| !Arc::ptr_eq(other, &shared)) {
        let reason = format!("{} of tensors that two tapes watch", op.name());
        return Err(Error::InvalidArgument { what: "gradient", reason });
    }
    let inputs: Vec<Option<usize>> = tracks.into_iter().map(|track| track.map(|(_, node)| node)).collect();
    let wanted: Vec<bool> = inputs.iter().map(Option::is_some).collect();
    let rule = rule(op, &Needs { inputs: &wanted, outputs: &given })?;
    Ok(Some(Pending { shared, inputs, rule }))
}

impl Pending {
    /// Records that `op` has run on `inputs` and made `outputs`, which are tracked from now on.
    pub(crate) fn record(self, op: &Op, inputs: &[&Tensor], outputs: &[&Tensor]) {
        let of_inputs = inputs.iter().zip(op.inputs()).enumerate().map(|(number, (tensor, spec))| {
            // As the operation saw it, and known to no tape.
            self.rule.saves_input(number).then(|| tensor.seen_as(spec))
        });
        let of_outputs = outputs.iter().enumerate();
        let of_outputs =
            of_outputs.map(|(number, tensor)| self.rule.saves_output(number).then(|| tensor.seen_as(tensor.spec())));
        let saved = of_inputs.chain(of_outputs).collect();
        let mut inner = self.shared.lock();
        let nodes: Vec<usize> = outputs.iter().map(|tensor| inner.node(tensor.spec(), false)).collect();
        inner.entries.push(Entry { made: Made::By(op.clone()), inputs: self.inputs, outputs: nodes.clone(), saved });
        drop(inner);
        for (tensor, node) in outputs.iter().zip(nodes).filter(|(tensor, _)| tensor.dtype().is_float()) {
            tensor.start_tracking(Track { shared: Arc::downgrade(&self.shared), tape: self.shared.id, node });
        }
    }
}

/// Refuses to overwrite memory that a live tape watches or keeps, through whichever tensor, and tensors that depend on what it
/// watches: gradients would be those of other values.
///
/// # Errors
/// [`Error::InvalidArgument`] saying what to do.
pub(crate) fn refuse_overwriting(op: &'static str, tensors: &[&Tensor]) -> Result<()> {
    // The lock is let go before any tape may be: the last handle of one takes it.
    let tapes: Vec<Arc<Shared>> = live_tapes().iter().filter_map(Weak::upgrade).collect();
    let keeps = |tape: &Arc<Shared>, tensor: &Tensor| {
        let inner = tape.lock();
        let saved = inner.entries.iter().flat_map(|entry| entry.saved.iter().flatten());
        saved.map(Tensor::buffer).chain(&inner.kept).any(|kept| kept.same(tensor.buffer()))
    };
    let is_kept = |tensor: &Tensor| live(tensor).is_some() || tapes.iter().any(|tape| keeps(tape, tensor));
    if !tensors.iter().any(|tensor| is_kept(tensor)) {
        return Ok(());
    }
    let reason = format!(
        "{op} overwrites a tensor that a live tape watches or keeps; end the tape by backward, or drop it, first"
    );
    Err(Error::InvalidArgument { what: "updated", reason })
}

/// Refuses to put what a live tape watches where no tape follows: its gradient would end there in silence.
///
/// # Errors
/// [`Error::InvalidArgument`] saying what to do.
pub(crate) fn refuse_leaving(op: &'static str, source: &Tensor) -> Result<()> {
    if live(source).is_none() {
        return Ok(());
    }
    let reason = format!(
        "{op} puts what a live tape watches where no tape follows it; make a new tensor, or end the tape first"
    );
    Err(Error::InvalidArgument { what: "source", reason })
}

/// A gradient of a view of `base`, laid back into the shape of `base`.
fn into_base(base: &TensorSpec, view: &TensorSpec, mut gradient: Tensor) -> Result<Tensor> {
    let WayBack { summed, rest } = WayBack::new(&base.layout, &view.layout)?;
    if !summed.is_empty() {
        gradient = gradient.reduce(ReduceFn::Sum, &summed, KeepDims::Yes)?;
    }
    let shape = *base.layout.shape();
    let layout = match rest {
        Rest::Whole(order) => return gradient.permute(&order)?.contiguous()?.reshape(shape),
        Rest::Part(layout) => layout,
    };
    // One operation, so that a tape follows it.
    let (name, inputs) = ("view's gradient", vec![gradient.spec()]);
    let outputs = vec![TensorSpec::new(base.dtype, Layout::contiguous(shape))];
    let mut graph = Builder::new(inputs.clone());
    let value = graph.input(0)?;
    let laid = graph.laid(value, TensorSpec::new(base.dtype, layout), shape)?;
    let (op, _) = GraphOp::new(name, graph.finish(name, &[laid], &outputs)?, inputs, outputs);
    Ok(Tensor::apply(gradient.device(), op, &[&gradient])?.swap_remove(0))
}

#[cfg(test)]
mod tests;
