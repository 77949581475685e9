//! What [`super::run`] runs, one after another or abreast: a case of a family, or a row of the contract.

use super::run::{self, Clocks, Reads};
#[cfg(not(target_arch = "wasm32"))]
use super::{CONTRACT, Contract, contract};
use super::{Case, Outcome, Selection};
use crate::Device;

/// One of them.
pub(super) enum Item {
    Case(Box<Case>),
    #[cfg(not(target_arch = "wasm32"))]
    Promise(contract::Promise),
}

/// Operands of a row, as [`Item::elements`] counts them: a few small tensors and what they are compared with.
#[cfg(not(target_arch = "wasm32"))]
const ELEMENTS_OF_A_ROW: u64 = 1 << 20;

impl Item {
    /// Its identity.
    pub(super) fn name(&self) -> &str {
        match self {
            Item::Case(case) => &case.name,
            #[cfg(not(target_arch = "wasm32"))]
            Item::Promise(promise) => &promise.name,
        }
    }

    /// What its outcome is counted under.
    pub(super) fn family(&self) -> &'static str {
        match self {
            Item::Case(case) => case.family,
            #[cfg(not(target_arch = "wasm32"))]
            Item::Promise(_) => CONTRACT,
        }
    }

    /// Elements of all operands; of what must be alone on the device more than there is room for beside anything.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn elements(&self) -> u64 {
        match self {
            Item::Case(case) => {
                let mut elements = 0u64;
                case.op.operands(&mut |operand| elements = elements.saturating_add(operand.spec.layout.elements()));
                elements
            }
            Item::Promise(promise) if promise.company == contract::Company::Unwelcome => u64::MAX,
            Item::Promise(_) => ELEMENTS_OF_A_ROW,
        }
    }

    pub(super) async fn outcome(&self, device: &Device, seed: u64, reads: Reads, clocks: &Clocks) -> Outcome {
        match self {
            Item::Case(case) => run::outcome(device, case, seed, reads, clocks).await,
            #[cfg(not(target_arch = "wasm32"))]
            Item::Promise(promise) => run::kept(device, promise, seed, clocks).await,
        }
    }
}

impl Selection {
    /// The seed and what is selected: rows of the contract that run beside others, cases, rows that run alone. The first may be long, and then
    /// there is work beside them. Cases come [`spread`].
    pub(super) fn items(&self) -> (u64, Vec<Item>) {
        let (seed, cases) = self.cases();
        let cases = spread(cases).into_iter().map(|case| Item::Case(Box::new(case)));
        #[cfg(not(target_arch = "wasm32"))]
        {
            let (mut first, last): (Vec<_>, Vec<_>) =
                self.promises().partition(|promise| promise.company == contract::Company::Welcome);
            let mut items: Vec<Item> = first.drain(..).map(Item::Promise).collect();
            items.extend(cases.chain(last.into_iter().map(Item::Promise)));
            (seed, items)
        }
        #[cfg(target_arch = "wasm32")]
        (seed, cases.collect())
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn promises(&self) -> impl Iterator<Item = contract::Promise> {
        let is_family = self.family.as_deref().is_none_or(|family| family == CONTRACT);
        let are_wanted =
            self.contract == Contract::Included && is_family && self.dtype.is_none() && self.random_programs == 0;
        contract::promises().filter(move |promise| are_wanted && self.names(&promise.name))
    }
}

/// All of `list`, in steps of the golden section round it: any few that follow each other come from distant places. Cases of an operation stand
/// together and share kernels, for which threads that run cases abreast would wait until one of them has compiled them; what is left then takes
/// about as long as its share of the whole says.
fn spread<T>(list: Vec<T>) -> Vec<T> {
    let count = list.len();
    let divides = |mut a: usize, mut b: usize| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a > 1
    };
    let mut step = (count as f64 * 0.618_034) as usize;
    while divides(count, step) {
        step += 1;
    }
    let mut list: Vec<Option<T>> = list.into_iter().map(Some).collect();
    (0..count).filter_map(|turn| list[turn * step % count].take()).collect()
}

/// The estimated work of items: what a case takes however small it is, its arithmetic, and what is laid out and compared. The weights
/// are those of the CPU, where the oracle takes longest (`polywarp check --device cpu --threads 1`).
pub(super) struct Work {
    done: f64,
    all: f64,
}

impl Work {
    /// That of a row of the contract: some of them look at every number of 16 bits.
    #[cfg(not(target_arch = "wasm32"))]
    const ROW: f64 = 4e7;

    fn of(item: &Item) -> f64 {
        match item {
            Item::Case(case) => {
                let cost = case.op.cost();
                1e5 + cost.flops as f64 + 20.0 * (cost.bytes_read as f64 + cost.bytes_written as f64)
            }
            #[cfg(not(target_arch = "wasm32"))]
            Item::Promise(_) => Work::ROW,
        }
    }

    pub(super) fn all(items: &[Item]) -> Work {
        Work { done: 0.0, all: items.iter().map(Work::of).sum() }
    }

    /// The part that is done when `item` is, too.
    pub(super) fn share_with(&mut self, item: &Item) -> f64 {
        self.done += Work::of(item);
        (self.done / self.all).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_keeps_everything_and_parts_neighbours() {
        for count in (0..300).chain([1000, 1024, 9138]) {
            let order = spread((0..count).collect());
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..count).collect::<Vec<usize>>());
            let least = order.windows(16).flat_map(|few| {
                let mut few = few.to_vec();
                few.sort_unstable();
                few.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<usize>>()
            });
            // Sixteen places as even as can be are a sixteenth apart.
            assert!(count < 1000 || least.min().unwrap() >= count / 40, "{count}");
        }
    }
}
