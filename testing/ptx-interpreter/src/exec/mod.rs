//! Runs launches: clusters of blocks one after the other, the warps of a cluster in turns.

mod access;
mod approx;
mod atomic;
mod block;
mod bulk;
mod claims;
mod cluster;
mod collective;
mod convert;
mod copy_async;
mod float;
mod int;
mod mbarrier;
mod mma;
mod number;
mod regs;
mod round;
mod schedule;
mod step;
mod under_way;
mod warp;
mod wgmma;
mod wmma;

use crate::error::{Fault, FaultKind};
use crate::kernel::{CLUSTER_SHIFT, Kernel, SHARED_BASE, Special};
use crate::memory::Memory;
use approx::{Approximation, mix};
use block::Block;
use warp::Warp;

/// Threads a block may have.
const MAX_THREADS: u32 = 1024;
/// Shared memory a block may have: 227 KiB, the most of any architecture.
const MAX_SHARED: u32 = 232_448;

/// What to launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// The parameter block: each parameter at its [`crate::Param::offset`].
    pub params: Vec<u8>,
    /// Bytes of the unsized shared array.
    pub dynamic_shared_bytes: u32,
}

/// How to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Warp instructions after which the launch is given up.
    pub max_steps: u64,
    /// Seed of a random order of blocks, warps and lanes' stores; in order when `None`.
    pub shuffle: Option<u64>,
    /// Seed of how late bulk copies land: each after some questions in vain about its phase, a few or many; at the first
    /// question when `None`.
    pub late_copies: Option<u64>,
    /// Whether data races are faults, in shared memory and (between blocks as well) in global memory. Takes 48 bytes
    /// for each byte of memory that is touched. Not of kernels with barriers in shared memory, bulk copies, wgmma or
    /// clusters, whose order counts of barriers do not tell.
    pub check_races: bool,
    /// Whether reading memory that nobody has written is a fault: shared, and global of [`Memory::alloc_unwritten`].
    pub check_uninitialised: bool,
    /// Seed of errors in the approximate functions, as large as the ISA allows; correctly rounded when `None`.
    pub perturb: Option<u64>,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions {
            max_steps: 1 << 32,
            shuffle: None,
            late_copies: None,
            check_races: false,
            check_uninitialised: false,
            perturb: None,
        }
    }
}

impl RunOptions {
    /// All checks.
    pub fn strict() -> RunOptions {
        RunOptions { check_races: true, check_uninitialised: true, ..RunOptions::default() }
    }
}

/// What a launch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Instructions that a warp, or a part of it, executed together.
    pub warp_instructions: u64,
    /// Instructions of single threads.
    pub thread_instructions: u64,
    /// Branches that the lanes of a group took differently.
    pub divergent_branches: u64,
    /// Barriers, each counted once per block.
    pub barriers: u64,
}

/// What stopped a lane.
pub(crate) struct Trouble(Box<(usize, FaultKind)>);

impl Trouble {
    fn new(lane: usize, kind: FaultKind) -> Trouble {
        Trouble(Box::new((lane, kind)))
    }
}

/// A launch.
pub(crate) struct Machine<'a> {
    kernel: &'a Kernel,
    options: &'a RunOptions,
    memory: &'a mut Memory,
    params: &'a [u8],
    block_size: [u32; 3],
    approximation: Approximation,
    stats: Stats,
    random: Option<u64>,
    /// What the lateness of the next bulk copy is drawn from.
    late: Option<u64>,
    /// Barriers so far over all blocks; blocks begin a new one.
    epoch: u32,
    /// First epoch of each block that has started, and its index.
    epochs: Vec<(u32, [u32; 3])>,
    /// The blocks of the cluster that runs, by rank.
    blocks: Vec<Block>,
    /// Phases of the cluster's barrier that have ended.
    cluster_phase: u32,
    /// An arrival has just ended a phase: those who ask for one go next.
    woken: bool,
    /// Counts what one thread does and another may wait for.
    progress: u64,
}

/// Runs `kernel`.
///
/// # Errors
/// [`Fault`]: what a thread did wrong, and where; [`FaultKind::Launch`] when the launch does not fit the kernel.
pub fn run(kernel: &Kernel, memory: &mut Memory, launch: &Launch, options: &RunOptions) -> Result<Stats, Box<Fault>> {
    let refuse = |message: String| {
        Box::new(Fault {
            kernel: kernel.name.clone(),
            block: [0; 3],
            thread: [0; 3],
            line: 0,
            text: String::new(),
            kind: FaultKind::Launch(message),
        })
    };
    let threads = launch.block.iter().try_fold(1_u32, |all, &n| all.checked_mul(n)).unwrap_or(u32::MAX);
    if threads == 0 || threads > MAX_THREADS {
        return Err(refuse(format!("{:?} threads in a block: 1 to {MAX_THREADS} are possible", launch.block)));
    }
    if kernel.required.is_some_and(|required| required != launch.block) {
        return Err(refuse(format!("blocks of {:?} for .reqntid {:?}", launch.block, kernel.required)));
    }
    if kernel.at_most.is_some_and(|most| most.iter().fold(1_u32, |all, &n| all.saturating_mul(n)) < threads) {
        return Err(refuse(format!("blocks of {:?} for .maxntid {:?}", launch.block, kernel.at_most)));
    }
    if launch.grid.contains(&0)
        || launch.grid[1] > 65_535
        || launch.grid[2] > 65_535
        || launch.grid[0] > i32::MAX as u32
    {
        return Err(refuse(format!("a grid of {:?}", launch.grid)));
    }
    if launch.grid.iter().zip(kernel.cluster).any(|(&blocks, cluster)| !blocks.is_multiple_of(cluster)) {
        return Err(refuse(format!("a grid of {:?} in clusters of {:?}", launch.grid, kernel.cluster)));
    }
    if launch.params.len() != kernel.param_bytes as usize {
        return Err(refuse(format!("{} bytes of parameters for {}", launch.params.len(), kernel.param_bytes)));
    }
    if launch.dynamic_shared_bytes > 0 && !kernel.uses_dynamic {
        return Err(refuse("dynamic shared memory for a kernel that uses none".to_owned()));
    }
    let shared = (kernel.dynamic_base - SHARED_BASE).checked_add(launch.dynamic_shared_bytes);
    let Some(shared) = shared.filter(|&bytes| bytes <= MAX_SHARED) else {
        return Err(refuse(format!("{} bytes of dynamic shared memory", launch.dynamic_shared_bytes)));
    };
    if kernel.static_shared_bytes > 48 << 10 {
        return Err(refuse(format!(
            "{} bytes of static shared memory: 48 KiB are possible",
            kernel.static_shared_bytes
        )));
    }
    memory.begin_launch(kernel.uses_nc, options.check_uninitialised);
    let machine = Machine {
        kernel,
        options,
        memory,
        params: &launch.params,
        block_size: launch.block,
        approximation: Approximation { seed: options.perturb },
        stats: Stats::default(),
        random: options.shuffle,
        // Not the numbers of the order, if both have one seed.
        late: options.late_copies.map(mix),
        epoch: 0,
        epochs: Vec::new(),
        blocks: Vec::new(),
        cluster_phase: 0,
        woken: false,
        progress: 0,
    };
    machine.launch(launch.grid, threads, shared, launch.dynamic_shared_bytes)
}

impl Machine<'_> {
    fn launch(mut self, grid: [u32; 3], threads: u32, shared: u32, dynamic: u32) -> Result<Stats, Box<Fault>> {
        let kernel = self.kernel;
        let cluster = kernel.cluster;
        let ranks = cluster.iter().product::<u32>() as usize;
        let count = threads.div_ceil(32);
        let each = (0..ranks).flat_map(|rank| (0..count).map(move |index| (rank, index)));
        let new = |(rank, index)| Warp::new(index, rank, kernel.rows, kernel.local_bytes);
        let mut warps: Vec<Warp> = each.map(new).collect();
        for warp in &mut warps {
            self.fill_constants(warp, grid, count, dynamic);
        }
        let block = || Block::new(shared as usize, self.options.check_uninitialised);
        self.blocks = (0..ranks).map(|_| block()).collect();
        let clusters: [u32; 3] = std::array::from_fn(|axis| grid[axis] / cluster[axis]);
        let total = clusters.iter().map(|&n| u64::from(n)).product::<u64>();
        // A random order: a step coprime to the count from a random start.
        let (mut at, step) = match self.random {
            None => (0, 1),
            Some(_) => (self.draw() % total, coprime(self.draw() | 1, total)),
        };
        for _ in 0..total {
            let [x, y] = [u64::from(clusters[0]), u64::from(clusters[1])];
            self.start_cluster([(at % x) as u32, (at / x % y) as u32, (at / x / y) as u32], threads, &mut warps);
            self.run_cluster(&mut warps)?;
            at = (at + step) % total;
        }
        Ok(self.stats)
    }

    /// Sets the blocks of a cluster and their warps to the beginning.
    fn start_cluster(&mut self, index: [u32; 3], threads: u32, warps: &mut [Warp]) {
        let cluster = self.kernel.cluster;
        let races = self.options.check_races && !self.kernel.uses_async;
        self.cluster_phase = 0;
        for rank in 0..self.blocks.len() {
            let within = within(rank as u32, cluster);
            let block: [u32; 3] = std::array::from_fn(|axis| index[axis] * cluster[axis] + within[axis]);
            self.epoch += 1;
            if races {
                self.epochs.push((self.epoch, block));
            }
            self.blocks[rank].start(block, self.epoch, races, self.kernel.uses_async);
        }
        for warp in warps {
            for &(special, slot) in &self.kernel.specials {
                let value = match special {
                    Special::Ctaid(axis) => self.blocks[warp.rank].index[axis],
                    Special::ClusterId(axis) => index[axis],
                    _ => continue,
                };
                *warp.regs.row_mut::<u32>(slot) = [value; 32];
            }
            let left = threads - warp.index * 32;
            warp.start(if left >= 32 { u32::MAX } else { (1 << left) - 1 });
            warp.local.fill(0xFF);
        }
    }

    /// Rows that no instruction writes.
    fn fill_constants(&self, warp: &mut Warp, grid: [u32; 3], warps: u32, dynamic: u32) {
        for &(class, slot, bits) in &self.kernel.immediates {
            warp.regs.fill(class, slot, bits);
        }
        let first = warp.index * 32;
        let (index, warp_rank) = (warp.index, warp.rank as u32);
        for &(special, slot) in &self.kernel.specials {
            let row = warp.regs.row_mut::<u32>(slot);
            for (lane, value) in row.iter_mut().enumerate() {
                let lane = lane as u32;
                *value = match special {
                    Special::Tid(axis) => self.thread_index(first + lane)[axis],
                    Special::Ntid(axis) => self.block_size[axis],
                    // Filled as blocks begin.
                    Special::Ctaid(_) | Special::ClusterId(_) => 0,
                    Special::NClusterId(axis) => grid[axis] / self.kernel.cluster[axis],
                    Special::ClusterCtaid(axis) => within(warp_rank, self.kernel.cluster)[axis],
                    Special::ClusterNctaid(axis) => self.kernel.cluster[axis],
                    Special::ClusterRank => warp_rank,
                    Special::ClusterSize => self.kernel.cluster.iter().product(),
                    Special::Nctaid(axis) => grid[axis],
                    Special::LaneId => lane,
                    Special::WarpId => index,
                    Special::NWarpId => warps,
                    Special::LaneMaskEq => 1 << lane,
                    Special::LaneMaskLt => (1 << lane) - 1,
                    Special::LaneMaskLe => u32::MAX >> (31 - lane),
                    Special::LaneMaskGt => u32::MAX.checked_shl(lane + 1).unwrap_or(0),
                    Special::LaneMaskGe => u32::MAX << lane,
                    Special::DynamicSharedBytes => dynamic,
                    // In a cluster it names the block, too (see `own`).
                    Special::DynamicShared if self.kernel.cluster == [1; 3] => self.kernel.dynamic_base,
                    Special::DynamicShared => (warp_rank + 1) << CLUSTER_SHIFT | self.kernel.dynamic_base,
                };
            }
        }
    }

    /// `%tid` of a thread of the block.
    fn thread_index(&self, thread: u32) -> [u32; 3] {
        let [x, y, _] = self.block_size;
        [thread % x, thread / x % y, thread / (x * y)]
    }

    /// A random number; 0 when the order is not random.
    fn draw(&mut self) -> u64 {
        match &mut self.random {
            None => 0,
            Some(state) => {
                *state = state.wrapping_add(1);
                mix(*state)
            }
        }
    }

    /// A random choice; false when the order is not random.
    fn coin(&mut self) -> bool {
        self.random.is_some() && self.draw() & 1 != 0
    }

    #[cold]
    fn fault(&self, warp: &Warp, pc: u32, trouble: Trouble) -> Box<Fault> {
        let (lane, kind) = *trouble.0;
        let line = self.kernel.code.get(pc as usize).map_or(0, |inst| inst.line);
        let text = self.kernel.lines.get((line as usize).wrapping_sub(1)).cloned().unwrap_or_default();
        Box::new(Fault {
            kernel: self.kernel.name.clone(),
            block: self.blocks[warp.rank].index,
            thread: self.thread_index(warp.index * 32 + lane as u32),
            line,
            text,
            kind,
        })
    }
}

/// The place of block `rank` in a cluster.
fn within(rank: u32, [x, y, _]: [u32; 3]) -> [u32; 3] {
    [rank % x, rank / x % y, rank / x / y]
}

/// The first number from `start` on that is coprime to `n`.
fn coprime(start: u64, n: u64) -> u64 {
    let gcd = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let start = start % n.max(1);
    (start.max(1)..).find(|&step| gcd(step, n) == 1).unwrap_or(1)
}
