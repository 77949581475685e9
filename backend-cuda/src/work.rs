//! What computes an op, as plain data: a plan of kernels in CUDA C++, one of kernels in WGSL, or several of both in turn.
//!
//! `candidates.rs` chooses among them, `composed.rs` puts several together, `run.rs` runs them.

use polywarp_core::graph::Place;

/// What is run.
#[derive(Clone, Debug)]
pub enum Work {
    /// Kernels in CUDA C++.
    Native(polywarp_kernels::Plan),
    /// Kernels in WGSL, compiled to PTX.
    Portable(polywarp_core::plan::Plan),
    /// Both, one after the other.
    Composed(Composed),
}

impl Work {
    /// Its plans of kernels in CUDA C++.
    pub(crate) fn natives(&self) -> impl Iterator<Item = &polywarp_kernels::Plan> {
        let (one, parts) = match self {
            Work::Native(plan) => (Some(plan), None),
            Work::Portable(_) => (None, None),
            Work::Composed(plan) => (None, Some(plan.natives())),
        };
        one.into_iter().chain(parts.into_iter().flatten())
    }

    /// Its plans of kernels in WGSL.
    pub(crate) fn portables(&self) -> impl Iterator<Item = &polywarp_core::plan::Plan> {
        let (one, parts) = match self {
            Work::Native(_) => (None, None),
            Work::Portable(plan) => (Some(plan), None),
            Work::Composed(plan) => (None, Some(plan.portables())),
        };
        one.into_iter().chain(parts.into_iter().flatten())
    }

    /// Sizes of its scratch buffers.
    pub(crate) fn scratch_bytes(&self) -> &[u64] {
        match self {
            Work::Native(plan) => &plan.scratch_bytes,
            Work::Portable(plan) => &plan.scratch_bytes,
            Work::Composed(plan) => plan.scratch_bytes(),
        }
    }
}

/// A plan of kernels of one kind.
#[derive(Clone, Debug)]
pub(crate) enum Single {
    Native(polywarp_kernels::Plan),
    Portable(polywarp_core::plan::Plan),
}

impl Single {
    fn scratch_bytes(&self) -> &[u64] {
        match self {
            Single::Native(plan) => &plan.scratch_bytes,
            Single::Portable(plan) => &plan.scratch_bytes,
        }
    }
}

/// One plan, and where its operands lie.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) plan: Single,
    pub(crate) inputs: Vec<Place>,
    pub(crate) outputs: Vec<Place>,
}

/// A way of several plans, one after the other.
#[derive(Clone, Debug)]
pub struct Composed {
    pub(crate) parts: Vec<Part>,
    /// How many of the buffers below are temporaries; `Place::Temp` numbers them.
    pub(crate) temps: usize,
    /// Temporaries, then what any of the plans needs.
    scratch_bytes: Vec<u64>,
}

impl Composed {
    pub(crate) fn new(temps: Vec<u64>) -> Composed {
        Composed { parts: Vec::new(), temps: temps.len(), scratch_bytes: temps }
    }

    pub(crate) fn push(&mut self, plan: Single, inputs: Vec<Place>, outputs: Vec<Place>) {
        let mut beside = self.scratch_bytes.split_off(self.temps);
        polywarp_core::plan::share_scratch(&mut beside, plan.scratch_bytes().iter().copied());
        self.scratch_bytes.extend(beside);
        self.parts.push(Part { plan, inputs, outputs });
    }

    /// Adds the parts of `other`, whose operands lie at these places here.
    pub(crate) fn append(&mut self, other: Composed, inputs: &[Place], outputs: &[Place]) {
        let (first, temps) = (self.temps, other.temps);
        self.scratch_bytes.splice(first..first, other.scratch_bytes[..temps].iter().copied());
        self.temps += temps;
        let place = |place: &Place| match *place {
            Place::Input(number) => inputs[number],
            Place::Output(number) => outputs[number],
            Place::Temp(number) => Place::Temp(first + number),
        };
        for Part { plan, inputs, outputs } in other.parts {
            self.push(plan, inputs.iter().map(place).collect(), outputs.iter().map(place).collect());
        }
    }

    /// Its plans of kernels in CUDA C++.
    pub(crate) fn natives(&self) -> impl Iterator<Item = &polywarp_kernels::Plan> {
        self.parts.iter().filter_map(|part| if let Single::Native(plan) = &part.plan { Some(plan) } else { None })
    }

    /// Its plans of kernels in WGSL.
    pub(crate) fn portables(&self) -> impl Iterator<Item = &polywarp_core::plan::Plan> {
        self.parts.iter().filter_map(|part| if let Single::Portable(plan) = &part.plan { Some(plan) } else { None })
    }

    /// Bytes of temporaries, and of scratch buffers beside them.
    pub(crate) fn scratch_bytes(&self) -> &[u64] {
        &self.scratch_bytes
    }
}
