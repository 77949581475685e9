//! What an operation is: [`Operation`], and [`Op`], a cheap handle to one.
//!
//! An operation is plain data: dtypes, shapes, strides and parameters, no buffers. Its file says what it is (operands, checks,
//! float64 oracle, cost), how the host computes it, and what tools ask of it. Backends, tuner, harness and benchmarks know
//! operations by this trait alone; where one kind is meant, [`dyn Operation::get`](trait.Operation.html#method.get) finds it.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use crate::gradient::{Gradient, Needs};
use crate::graph::Graph;
use crate::oracle::{Expected, HostTensor};
use crate::plan::{Candidate, Caps, Plan};
use crate::tuned::{Effort, Judged, Key};
use crate::{DType, Layout, Result, TensorSpec};

/// How a buffer takes part in an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It is read.
    Read,
    /// It is written, whatever it held.
    Write,
    /// It is read and written in place.
    Update,
}

impl Role {
    /// Whether the operand holds something before.
    pub fn is_read(self) -> bool {
        self != Role::Write
    }

    /// Whether the operand holds something else afterwards.
    pub fn is_written(self) -> bool {
        self != Role::Read
    }
}

/// One operand: what becomes of its buffer, and how its elements lie there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// Whether it is read, written, or both.
    pub role: Role,
    /// Dtype and layout.
    pub spec: TensorSpec,
}

impl Operand {
    /// An operand that is read.
    pub fn read(spec: TensorSpec) -> Operand {
        Operand { role: Role::Read, spec }
    }

    /// An operand that is written.
    pub fn write(spec: TensorSpec) -> Operand {
        Operand { role: Role::Write, spec }
    }

    /// An operand that is read and written in place.
    pub fn update(spec: TensorSpec) -> Operand {
        Operand { role: Role::Update, spec }
    }
}

/// The arithmetic of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arithmetic {
    /// Operations (a fused multiply-add counts two).
    pub flops: u64,
    /// The dtype of the factors, of matrix products: their time grows faster than their bytes.
    pub multiplies: Option<DType>,
}

impl Arithmetic {
    /// This many operations, of no matrix product.
    pub fn flops(flops: u64) -> Arithmetic {
        Arithmetic { flops, multiplies: None }
    }
}

/// What an operation must do at least: the denominators of every rate and roofline share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Arithmetic operations (a fused multiply-add counts two).
    pub flops: u64,
    /// Bytes read, each input element once.
    pub bytes_read: u64,
    /// Bytes written, each output element once.
    pub bytes_written: u64,
}

/// What holds for an operation, for those who run it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Sums in an order that a device might change from run to run: results are checked to have the same bits twice.
    pub repeats: bool,
    /// Bits move unchanged, NaN payloads included, from the only operand read to the only one written.
    pub moves_bits: bool,
    /// The operand written may be any view that reaches no element twice; else it is dense and starts at a multiple of
    /// [`crate::ops::OUTPUT_ALIGNMENT_BYTES`].
    pub scatters: bool,
}

/// A small operation on parts of the operands of a large one, and where its results lie in the large one's outputs.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The small operation; its operands are views into the same buffers but for the outputs, which are dense.
    pub op: Op,
    /// The elements that it computes of each of the large one's outputs.
    pub positions: Vec<Layout>,
}

/// What an operand must hold for the operation to make sense of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Any numbers.
    Any,
    /// Where runs of `rows` rows end, ascending.
    Ends {
        /// Rows that there are.
        rows: u64,
    },
    /// Positions of rows, most of them within `rows`.
    Rows {
        /// Rows that there are.
        rows: u64,
    },
    /// The places that a 2:4 compression of rows of `k` elements keeps.
    Places24 {
        /// Elements of a row.
        k: u64,
    },
    /// Factors of other operands, small enough that sums of products fit any float.
    Scales,
}

/// Why the host did not compute an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostError {
    /// This much working memory was refused.
    OutOfMemory {
        /// How much was asked for.
        bytes: u64,
    },
    /// There is no routine of the host for it.
    NoRoutine,
}

/// How [`Operation::host`] ends.
pub type HostResult = std::result::Result<(), HostError>;

/// One computation on one device. See the [module](self).
pub trait Operation: Identity + fmt::Debug + Send + Sync + 'static {
    /// The name used in errors, case names and tables: the function where there is one (`add`, `sum`), else the operation.
    fn name(&self) -> &'static str;

    /// Hands out the operands in the order of their buffers: inputs, which are read, then outputs, which are written or updated.
    /// Allocates nothing.
    fn operands(&self, each: &mut dyn FnMut(Operand));

    /// Refuses what the constructors refuse.
    ///
    /// # Errors
    /// A typed error that names the operation and what is wrong.
    fn validate(&self) -> Result<()>;

    /// What is computed, beside reading and writing the operands.
    fn arithmetic(&self) -> Arithmetic;

    /// For each output, what its elements must be, in row-major order; `before` holds what was in the operands that are read or
    /// updated ([`Operation::held`]).
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>>;

    /// How gradients of its outputs become gradients of its inputs, or why there is no rule: see [`crate::gradient`].
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] for needs that are not of its operands, or that name an operand without a gradient.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient>;

    /// The operation as a graph of others, whose inputs and outputs are its own. It runs that way where [`Operation::host`] and
    /// [`Operation::plan`] say nothing else; `None` for operations that are not made of others.
    ///
    /// # Errors
    /// None that a device could cause: steps that do not fit together.
    fn decompose(&self) -> Result<Option<Graph>> {
        Ok(None)
    }

    /// A graph that computes the same by matrix products, where these may be faster than this operation's own portable kernels: on devices that
    /// multiply matrices on units of their own. A backend takes it where it has such kernels for the products, and none for the operation.
    ///
    /// # Errors
    /// As [`Operation::decompose`].
    fn by_products(&self) -> Result<Option<Graph>> {
        Ok(None)
    }

    /// Computes it on the host, from the bytes of whole buffers to those of others. Short of working memory it may leave any values
    /// in outputs that it writes; in those that it updates it leaves what was there, since it is asked once more.
    ///
    /// # Errors
    /// [`HostError::NoRoutine`] unless the operation says how, or is a graph of others that [`Graph::check`] lets pass.
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        match self.decompose() {
            Ok(Some(graph)) if graph.check(self.name(), &self.inputs(), &self.outputs()).is_ok() => {
                graph.host(inputs, outputs)
            }
            _ => Err(HostError::NoRoutine),
        }
    }

    /// How GPUs compute it by kernels in WGSL: a pure function of the operation and the device. Of several ways the one that is expected
    /// to be fastest.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] unless the operation says how. One that is a graph of others runs as such then, and where a device
    /// lacks what its kernels need.
    fn plan(&self, caps: &Caps) -> Result<Plan> {
        Err(caps.unsupported(self.name(), "no portable kernel serves it"))
    }

    /// All its ways by kernels in WGSL, what is expected to be fastest first. Each must be right by its own.
    ///
    /// # Errors
    /// As [`Operation::plan`].
    fn candidates(&self, caps: &Caps) -> Result<Vec<Candidate>> {
        Ok(Candidate::only(self.name(), self.plan(caps)?))
    }

    /// Adds to the name of a case what operands do not tell: axes, parameters.
    fn describe(&self, name: &mut String) {
        let _ = name;
    }

    /// The operation on the first `extent` indices of the first output's `axis` alone; `None` where slices, computed one by one,
    /// would not give the operation's result.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        let _ = (axis, extent);
        None
    }

    /// The same with output `number` written to `output`, which differs in its place alone; `None` where it writes where it does.
    fn with_output(&self, number: usize, output: TensorSpec) -> Option<Op> {
        let _ = (number, output);
        None
    }

    /// What operand number `input` of [`Operation::held`] must hold.
    fn content(&self, input: usize) -> Content {
        let _ = input;
        Content::Any
    }

    /// A part small enough for the oracle, in which a fault of any tile shows; `None` to compare the whole result.
    ///
    /// # Errors
    /// None that a device could cause: operand and sample do not fit together.
    fn sample(&self) -> Result<Option<Sample>> {
        Ok(None)
    }

    /// The result for operands that hold these bytes, where that can be said without a scalar for every element; the same as
    /// [`Operation::oracle`] gives.
    fn oracle_of_bytes(&self, inputs: &[&[u8]]) -> Option<Vec<Expected>> {
        let _ = inputs;
        None
    }

    /// The same with the last term of every sum left out, as a broken device might; `None` where nothing is summed up.
    ///
    /// # Errors
    /// None that a device could cause.
    fn shortened(&self) -> Result<Option<Op>> {
        Ok(None)
    }

    /// How it is tuned; `None` for operations with one way to run.
    fn tuned(&self) -> Option<&dyn Tuned> {
        None
    }

    /// What holds for it.
    fn facts(&self) -> Facts {
        Facts::default()
    }

    /// The operands read, in order.
    fn inputs(&self) -> Vec<TensorSpec> {
        let mut inputs = Vec::new();
        self.operands(&mut |operand| {
            if operand.role == Role::Read {
                inputs.push(operand.spec);
            }
        });
        inputs
    }

    /// The first operand written: of most operations the only one.
    fn output(&self) -> TensorSpec {
        let mut output = None;
        self.operands(&mut |operand| {
            if operand.role.is_written() {
                output = output.or(Some(operand.spec));
            }
        });
        // One is written by every operation.
        output.unwrap_or(TensorSpec::new(DType::U8, Layout::contiguous(crate::Shape::SCALAR)))
    }

    /// The operands written or updated, in order.
    fn outputs(&self) -> Vec<Operand> {
        let mut outputs = Vec::new();
        self.operands(&mut |operand| {
            if operand.role.is_written() {
                outputs.push(operand);
            }
        });
        outputs
    }

    /// The operands that hold something before: those read, then those updated.
    fn held(&self) -> Vec<TensorSpec> {
        let mut held = Vec::new();
        self.operands(&mut |operand| {
            if operand.role.is_read() {
                held.push(operand.spec);
            }
        });
        held
    }

    /// Whether an operand is updated: such an operation gives something else when it runs once more.
    fn updates(&self) -> bool {
        let mut updates = false;
        self.operands(&mut |operand| updates |= operand.role == Role::Update);
        updates
    }

    /// Arithmetic and traffic.
    fn cost(&self) -> Cost {
        let mut cost = Cost { flops: self.arithmetic().flops, ..Cost::default() };
        self.operands(&mut |Operand { role, spec }| {
            if role.is_read() {
                cost.bytes_read = cost.bytes_read.saturating_add(spec.bytes_once());
            }
            if role.is_written() {
                cost.bytes_written = cost.bytes_written.saturating_add(spec.bytes());
            }
        });
        cost
    }
}

/// What an operation whose kernels are chosen says of itself, in its own file.
pub trait Tuned {
    /// What decides which kernel is best. Operations that differ in what they promise never share one. (Every kernel gives the
    /// same bits on every run; should an op come to ask for less, that belongs into the key as well.)
    fn key(&self) -> Key;

    /// What a check of a kernel covers: the key without sizes, and with what changes the code but not which kernel is best.
    fn class(&self) -> String;

    /// The operation made small: of its class, so that kernels take the same paths, with its inner dimension `longer` times
    /// doubled for candidates that only serve long ones. `None` where that is not smaller than the operation itself.
    fn small(&self, effort: Effort, longer: u32) -> Option<Op>;

    /// For each output of a small operation, which of its elements are compared and what they must be, for operands that held `before`.
    ///
    /// # Errors
    /// Never for what [`Tuned::small`] makes.
    fn judged(&self, before: &[HostTensor]) -> Result<Vec<Judged>>;
}

impl Key {
    /// The key of `op`; `None` for operations that leave nothing to choose.
    pub fn of(op: &Op) -> Option<Key> {
        op.tuned().map(|tuned| tuned.key())
    }
}

/// What [`Operation`]s have by being plain data: a copy, equality and a hash, of floats by their bits.
pub trait Identity {
    /// For [`dyn Operation::get`](trait.Operation.html#method.get).
    fn as_any(&self) -> &dyn Any;
    /// A handle to a copy.
    fn to_op(&self) -> Op;
    /// Whether `other` is an equal operation of the same kind.
    fn is_same(&self, other: &dyn Operation) -> bool;
    /// Adds it to `state`.
    fn hash_into(&self, state: &mut dyn Hasher);
}

impl<T: Operation + Clone + Eq + Hash> Identity for T {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn to_op(&self) -> Op {
        Op(Arc::new(self.clone()))
    }

    fn is_same(&self, other: &dyn Operation) -> bool {
        other.get::<T>().is_some_and(|other| other == self)
    }

    fn hash_into(&self, mut state: &mut dyn Hasher) {
        // Operations of two kinds may hold the same words.
        std::any::TypeId::of::<T>().hash(&mut state);
        self.hash(&mut state);
    }
}

impl dyn Operation {
    /// This operation, if it is of kind `T`.
    pub fn get<T: Operation>(&self) -> Option<&T> {
        self.as_any().downcast_ref()
    }

    /// Whether it is of kind `T`.
    pub fn is<T: Operation>(&self) -> bool {
        self.as_any().is::<T>()
    }
}

/// A handle to an operation: cheap to clone, equal and hashed by what it describes, floats by their bits.
#[derive(Clone)]
pub struct Op(Arc<dyn Operation>);

impl<T: Operation> From<T> for Op {
    fn from(op: T) -> Op {
        Op(Arc::new(op))
    }
}

impl Deref for Op {
    type Target = dyn Operation;

    fn deref(&self) -> &dyn Operation {
        &*self.0
    }
}

impl PartialEq for Op {
    fn eq(&self, other: &Op) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.is_same(&**other)
    }
}

impl Eq for Op {}

impl Hash for Op {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash_into(state);
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests;
