//! Matrix products beside the vendor's own library, where the machine has one: cuBLASLt on NVIDIA's cards.
//!
//! The library is opened at run time, and only for the tables. Both take turns on the same operands in one process; a
//! vendor's result outside of the bound does not count. `polywarp_cuda::vendor` does the measuring; without CUDA there
//! is nothing to compare with.

use serde::Serialize;

/// One product by this library and by the vendor's.
#[derive(Clone, Debug, Serialize)]
pub struct Versus {
    /// The vendor's library with its version and the number of its kernel: `cuBLASLt 13.1.0 #2`.
    pub library: String,
    /// The kernel of this library, where its tuner knows it.
    pub kernel: Option<String>,
    /// Whether every extent is a multiple of 8 elements, as the vendor's fast kernels require.
    pub aligned: bool,
    /// Short samples with pauses, in which the card keeps its highest clocks.
    pub burst: Pair,
    /// Long runs at the clocks that the power limit allows; only for products that take long.
    pub sustained: Option<Pair>,
}

/// Times of both, taken in turns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// Nanoseconds of one launch of this library's.
    pub ours_ns: f64,
    /// Nanoseconds of one launch of the vendor's.
    pub theirs_ns: f64,
    /// The card while this library ran.
    pub ours_state: Option<CardState>,
    /// The card while the vendor's library ran.
    pub theirs_state: Option<CardState>,
}

/// A card's report of its own state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CardState {
    /// Clock of its multiprocessors.
    pub mhz: f64,
    /// Power drawn.
    pub watts: Option<f64>,
    /// Temperature.
    pub celsius: Option<f64>,
}

impl Pair {
    /// The speedup of this library over the vendor's.
    pub fn ratio(&self) -> f64 {
        self.theirs_ns / self.ours_ns
    }
}

#[cfg(all(feature = "cuda-unpinned", not(target_arch = "wasm32")))]
mod cublaslt {
    use std::time::Duration;

    use polywarp_core::ops::Matmul;
    use polywarp_core::tuner::Key;
    use polywarp_core::{Device, Result};
    use polywarp_cuda::vendor::{Clocks, CublasLt, Entrant, Operands, Sampling, State, rounds, sustained};
    use polywarp_cuda::{CudaBackend, card};

    use super::super::{Prepared, Reference};
    use super::{CardState, Pair, Versus};

    /// Short enough not to heat a card, long against the clock's grain.
    const SAMPLING: Sampling = Sampling { sample_ns: 400_000.0, least_launches: 1 };
    /// Nanoseconds below which a product hardly loads the card, so that long runs tell no more than bursts.
    const SUSTAINED_FROM_NS: f64 = 100_000.0;

    /// The vendor's library on one device.
    #[derive(Debug)]
    pub struct Vendor {
        library: CublasLt,
        clocks: Option<Clocks>,
        device: Device,
    }

    /// Both libraries' products, ready to take turns.
    #[derive(Debug)]
    pub struct Contest<'a> {
        vendor: &'a Vendor,
        backend: &'a CudaBackend,
        /// This library's, then the vendor's.
        entrants: [Entrant<'a>; 2],
        aligned: bool,
        kernel: Option<String>,
    }

    impl Vendor {
        /// The library for `device`; `None` where the device is no NVIDIA card or the machine has no such library.
        pub fn open(device: &Device) -> Option<Vendor> {
            let backend = device.backend_as::<CudaBackend>()?;
            let library = CublasLt::open(backend);
            let library = library.inspect_err(|why| log::info!("{}: no cuBLASLt: {why}", device.id())).ok()?;
            let clocks = card(device.id()).ok().and_then(|card| Clocks::open(&card.pci_bus));
            Some(Vendor { library, clocks, device: device.clone() })
        }

        /// Its name and version.
        pub fn name(&self) -> String {
            format!("cuBLASLt {}", self.library.version())
        }

        /// A contest over `prepared`; `None` for operations that are no plain product, and the reason for a product
        /// that the vendor's library does not compute rightly.
        ///
        /// # Errors
        /// Errors of the device.
        pub fn contest<'a>(
            &'a self,
            prepared: &'a Prepared,
            reference: &Reference,
        ) -> Result<Option<Result<Contest<'a>, String>>> {
            let Some(op) = prepared.op().get::<Matmul>() else { return Ok(None) };
            let Some(backend) = self.device.backend_as::<CudaBackend>() else { return Ok(None) };
            let sets: Vec<Operands> = prepared
                .copies()
                .iter()
                .filter_map(|(inputs, outputs)| {
                    Some(Operands { inputs: inputs.clone(), output: outputs.first()?.clone() })
                })
                .collect();
            let mut is_right = || Ok(prepared.judge(reference)?.is_right());
            let theirs = match self.library.best(backend, op, &sets, SAMPLING, &mut is_right)? {
                Ok(theirs) => theirs,
                Err(why) => return Ok(Some(Err(why.to_string()))),
            };
            let run = |set: &Operands| self.device.execute(prepared.op(), &set.inputs(), &[&set.output]);
            let ours = Entrant::ours(backend, "polywarp", &sets, SAMPLING, &run)?;
            let kernel = self.device.tuner().zip(Key::of(prepared.op()));
            let kernel = kernel.and_then(|(tuner, key)| Some(tuner.answer(&key)?.winner));
            Ok(Some(Ok(Contest { vendor: self, backend, entrants: [ours, theirs], aligned: is_aligned(op), kernel })))
        }
    }

    fn is_aligned(op: &Matmul) -> bool {
        let dims = op.dims();
        [dims.m, dims.n, dims.k].iter().all(|extent| extent % 8 == 0 || *extent == 1)
    }

    impl Contest<'_> {
        /// One sample of each, nanoseconds of one launch: this library's, then the vendor's.
        ///
        /// # Errors
        /// Errors of the device.
        pub fn turn(&self) -> Result<(f64, f64)> {
            Ok((self.entrants[0].sample(self.backend)?, self.entrants[1].sample(self.backend)?))
        }

        /// Bursts for about `budget`, then long stretches of `length` each.
        ///
        /// # Errors
        /// Errors of the device.
        pub fn run(mut self, budget: Duration, length: Duration) -> Result<Versus> {
            const ROUNDS: usize = 25;
            let clocks = self.vendor.clocks.as_ref();
            rounds(self.backend, &mut self.entrants, 3, ROUNDS, budget)?;
            let state = clocks.and_then(Clocks::now).map(CardState::from);
            let [ours, theirs] = &self.entrants;
            let (ours_ns, theirs_ns) = (ours.median_ns(), theirs.median_ns());
            let burst = Pair { ours_ns, theirs_ns, ours_state: state, theirs_state: state };
            let long = theirs_ns.max(ours_ns) >= SUSTAINED_FROM_NS && !length.is_zero();
            let held = if long { sustained(self.backend, &[ours, theirs], length, clocks)? } else { Vec::new() };
            let held = match held[..] {
                [ours, theirs] => Some(Pair {
                    ours_ns: ours.ns,
                    theirs_ns: theirs.ns,
                    ours_state: ours.state.map(CardState::from),
                    theirs_state: theirs.state.map(CardState::from),
                }),
                _ => None,
            };
            let number = theirs.name.rsplit(' ').next().unwrap_or_default();
            let library = format!("{} {number}", self.vendor.name());
            Ok(Versus { library, kernel: self.kernel, aligned: self.aligned, burst, sustained: held })
        }
    }

    impl From<State> for CardState {
        fn from(State { mhz, watts, celsius }: State) -> CardState {
            CardState { mhz, watts, celsius }
        }
    }
}

#[cfg(all(feature = "cuda-unpinned", not(target_arch = "wasm32")))]
pub use cublaslt::{Contest, Vendor};

/// Without CUDA no vendor's library is known.
#[cfg(not(all(feature = "cuda-unpinned", not(target_arch = "wasm32"))))]
mod nobody {
    use std::time::Duration;

    use polywarp_core::{Device, Result};

    use super::super::{Prepared, Reference};
    use super::Versus;

    /// Never constructed.
    #[derive(Debug)]
    pub enum Vendor {}

    /// Never constructed.
    #[derive(Debug)]
    pub enum Contest {}

    impl Vendor {
        /// `None`.
        pub fn open(_: &Device) -> Option<Vendor> {
            None
        }

        /// Its name and version.
        pub fn name(&self) -> String {
            match *self {}
        }

        /// A contest over a product.
        ///
        /// # Errors
        /// None.
        pub fn contest(&self, _: &Prepared, _: &Reference) -> Result<Option<Result<Contest, String>>> {
            match *self {}
        }
    }

    impl Contest {
        /// One sample of each.
        ///
        /// # Errors
        /// None.
        pub fn turn(&self) -> Result<(f64, f64)> {
            match *self {}
        }

        /// Bursts, then long stretches.
        ///
        /// # Errors
        /// None.
        pub fn run(self, _: Duration, _: Duration) -> Result<Versus> {
            match self {}
        }
    }
}

#[cfg(not(all(feature = "cuda-unpinned", not(target_arch = "wasm32"))))]
pub use nobody::{Contest, Vendor};
