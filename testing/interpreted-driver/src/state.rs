//! The driver itself: handles, memory, and one queue of work in the order it was given.
//!
//! One queue for all streams keeps every stream's order and every event's, and is the laziest order there is: nothing
//! runs before somebody waits, and then no more than what was given before. Broken use of a handle ends the process:
//! a test that does that has found a bug.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::CStr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use ptx_interpreter::{FaultKind, Launch, Memory, Module, Param, RunOptions};

pub type Code = u32;
pub const INVALID_VALUE: Code = 1;
pub const OUT_OF_MEMORY: Code = 2;
pub const STUB_LIBRARY: Code = 34;
pub const NO_DEVICE: Code = 100;
pub const INVALID_IMAGE: Code = 200;
pub const INVALID_CONTEXT: Code = 201;
pub const INVALID_PTX: Code = 218;
const UNSUPPORTED_PTX_VERSION: Code = 222;
pub const NOT_FOUND: Code = 500;
pub const NOT_READY: Code = 600;
pub const NOT_SUPPORTED: Code = 801;
pub const STREAM_CAPTURE_UNSUPPORTED: Code = 900;
const PEER_ACCESS_ALREADY_ENABLED: Code = 704;
const ILLEGAL_ADDRESS: Code = 700;
const MISALIGNED_ADDRESS: Code = 716;
const LAUNCH_FAILED: Code = 719;

/// Shared memory of one block without asking, and with.
pub const SHARED_BYTES_UNASKED: u32 = 48 << 10;

pub const FIRST_CONTEXT: usize = 0x1000;
const FIRST_HANDLE: usize = 0x10_0000;

/// What a "cubin" of this driver begins with, and what an archive of kernels in CUDA C++ has for it
/// (`polywarp_kernels::make::interpreted`).
const MAGIC: &str = "// interpreted\n";
const ARCHIVED: &str = "\x7fELF: no machine code, PTX to be interpreted\n";

/// One piece of work.
#[derive(Clone)]
pub enum Work {
    Upload {
        to: u64,
        from: usize,
        bytes: usize,
    },
    Download {
        to: usize,
        from: u64,
        bytes: usize,
    },
    Copy {
        to: u64,
        from: u64,
        bytes: usize,
    },
    Launch {
        module: Arc<Image>,
        kernel: String,
        launch: Launch,
    },
    /// With the number of the recording, since an event can be recorded again.
    Record(usize, u64),
    Wait,
}

/// A loaded module.
pub struct Image {
    module: Module,
    /// How its kernels run.
    options: RunOptions,
    is_endless: bool,
}

#[derive(Default)]
struct Event {
    /// How often it was recorded, and how many of these recordings have passed.
    recorded: u64,
    passed: u64,
    at: Option<Instant>,
}

struct Link {
    log: usize,
    log_len: usize,
    image: Vec<u8>,
}

struct Function {
    module: usize,
    name: String,
    /// Most that a launch may ask for.
    dynamic_shared_bytes: u32,
}

#[derive(Default)]
pub struct Driver {
    next: usize,
    memory: Memory,
    sizes: HashMap<u64, usize>,
    pub allocated_bytes: u64,
    host: HashMap<usize, Box<[u8]>>,
    queue: VecDeque<(usize, Work)>,
    /// Each with what it captures, when it does.
    streams: HashMap<usize, Option<Vec<Work>>>,
    events: HashMap<usize, Event>,
    modules: HashMap<usize, Arc<Image>>,
    functions: HashMap<usize, Function>,
    links: HashMap<usize, Link>,
    graphs: HashMap<usize, Vec<Work>>,
    pub poisoned: Option<Code>,
    /// Recordings of events so far.
    recordings: u64,
    /// Contexts, and those whose memory they reach.
    peers: HashSet<(usize, usize)>,
    pub staged_copies: u64,
}

/// The one driver of the process.
pub fn driver() -> MutexGuard<'static, Driver> {
    static DRIVER: OnceLock<Mutex<Driver>> = OnceLock::new();
    let new = || Mutex::new(Driver { next: FIRST_HANDLE, ..Driver::default() });
    DRIVER.get_or_init(new).lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number from the environment.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// 80 is 8.0.
pub fn compute_capability() -> i32 {
    number("INTERPRETED_SM", 90) as i32
}

/// Shared memory that a block may ask for (CUDA programming guide, "Technical Specifications per Compute Capability").
pub fn most_shared_bytes() -> u32 {
    match compute_capability() {
        80 | 87 => 163 << 10,
        86 | 89 | 120 => 99 << 10,
        _ => 227 << 10,
    }
}

pub fn total_bytes() -> u64 {
    number("INTERPRETED_MEMORY", 512 << 20)
}

/// Whether it is a fault to read what nobody has written.
fn demands_written() -> bool {
    number("INTERPRETED_UNWRITTEN", 0) != 0
}

/// A call that must fail: function, status, which call of it (from 0); and how many there were.
#[derive(Default)]
struct Plan {
    failure: Option<(String, Code, u64)>,
    calls: u64,
}

fn plan() -> MutexGuard<'static, Plan> {
    static PLAN: OnceLock<Mutex<Plan>> = OnceLock::new();
    PLAN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets the call that must fail, and counts from now.
pub fn plan_failure(failure: Option<(String, Code, u64)>) {
    *plan() = Plan { failure, calls: 0 };
}

/// Calls of the function that must fail, so far.
pub fn planned_calls() -> u64 {
    plan().calls
}

/// The status that this call must return instead of working.
pub fn fails(name: &str) -> Option<Code> {
    let mut plan = plan();
    let (code, at) = plan.failure.as_ref().filter(|(wanted, ..)| wanted == name).map(|&(_, code, at)| (code, at))?;
    plan.calls += 1;
    (plan.calls - 1 == at).then_some(code)
}

pub fn name_of(code: Code) -> &'static CStr {
    match code {
        INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
        OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        STUB_LIBRARY => c"CUDA_ERROR_STUB_LIBRARY",
        NO_DEVICE => c"CUDA_ERROR_NO_DEVICE",
        INVALID_IMAGE => c"CUDA_ERROR_INVALID_IMAGE",
        INVALID_CONTEXT => c"CUDA_ERROR_INVALID_CONTEXT",
        INVALID_PTX => c"CUDA_ERROR_INVALID_PTX",
        UNSUPPORTED_PTX_VERSION => c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        ILLEGAL_ADDRESS => c"CUDA_ERROR_ILLEGAL_ADDRESS",
        MISALIGNED_ADDRESS => c"CUDA_ERROR_MISALIGNED_ADDRESS",
        LAUNCH_FAILED => c"CUDA_ERROR_LAUNCH_FAILED",
        NOT_SUPPORTED => c"CUDA_ERROR_NOT_SUPPORTED",
        _ => c"CUDA_ERROR_OTHER",
    }
}

/// Says what went wrong and ends the process: nothing sensible can follow.
fn broken(what: &str) -> ! {
    eprintln!("interpreted driver: {what}");
    std::process::abort()
}

impl Driver {
    fn handle(&mut self) -> usize {
        self.next += 16;
        self.next
    }

    pub fn new_stream(&mut self) -> usize {
        let handle = self.handle();
        self.streams.insert(handle, None);
        handle
    }

    /// Work that is left is done all the same, as the real driver does.
    pub fn destroy_stream(&mut self, stream: usize) -> Code {
        if self.streams.remove(&stream).is_none() {
            broken("a stream that there is not was destroyed");
        }
        0
    }

    pub fn new_event(&mut self) -> usize {
        let handle = self.handle();
        self.events.insert(handle, Event::default());
        handle
    }

    pub fn destroy_event(&mut self, event: usize) -> Code {
        if self.events.remove(&event).is_none() {
            broken("an event that there is not was destroyed");
        }
        0
    }

    pub fn record(&mut self, event: usize, stream: usize) -> Code {
        self.recordings += 1;
        let number = self.recordings;
        match self.events.get_mut(&event) {
            Some(event) => event.recorded = number,
            None => broken("an event that there is not was recorded"),
        }
        self.give(stream, Work::Record(event, number))
    }

    /// Nothing to enqueue but the order, which the one queue has anyway.
    pub fn wait_for(&mut self, stream: usize, event: usize) -> Code {
        if !self.events.contains_key(&event) {
            broken("an event that there is not was waited for");
        }
        self.give(stream, Work::Wait)
    }

    /// Enqueues work, or captures it.
    pub fn give(&mut self, stream: usize, work: Work) -> Code {
        match self.streams.get_mut(&stream) {
            Some(Some(captured)) => captured.push(work),
            Some(None) => self.queue.push_back((stream, work)),
            None => broken("work was given to a stream that there is not"),
        }
        0
    }

    pub fn idle(&self, stream: usize) -> bool {
        !self.queue.iter().any(|(of, _)| *of == stream)
    }

    pub fn passed(&self, event: usize) -> bool {
        match self.events.get(&event) {
            Some(event) => event.passed >= event.recorded,
            None => broken("an event that there is not was asked for"),
        }
    }

    pub fn elapsed(&self, start: usize, end: usize) -> Option<f64> {
        let at = |event| self.events.get(event)?.at;
        Some(at(&end)?.duration_since(at(&start)?).as_secs_f64())
    }

    /// Whether there is no work at all.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Runs work until `done`; `None` when it comes to a kernel that never ends.
    pub fn finish(&mut self, done: impl Fn(&Driver) -> bool) -> Option<Code> {
        while !done(self) {
            if self.is_stuck() {
                return None;
            }
            self.step();
        }
        Some(self.poisoned.unwrap_or(0))
    }

    /// Whether the next piece of work is a kernel that never ends.
    fn is_stuck(&self) -> bool {
        self.poisoned.is_none()
            && matches!(self.queue.front(), Some((_, Work::Launch { module, .. })) if module.is_endless)
    }

    /// Runs one piece of work, and says whether `done`.
    pub fn look(&mut self, done: impl Fn(&Driver) -> bool) -> Code {
        if done(self) {
            return self.poisoned.unwrap_or(0);
        }
        if self.is_stuck() {
            return NOT_READY;
        }
        self.step();
        self.poisoned.unwrap_or(NOT_READY)
    }

    fn step(&mut self) {
        let Some((_, work)) = self.queue.pop_front() else { broken("somebody waits for work that nobody gave") };
        if self.poisoned.is_some() {
            // The real driver's streams are empty after a fault.
            self.queue.clear();
            self.events.values_mut().for_each(|event| event.passed = event.recorded);
            return;
        }
        if let Err(code) = self.run(work) {
            self.poisoned = Some(code);
        }
    }

    fn run(&mut self, work: Work) -> Result<(), Code> {
        match work {
            Work::Upload { to, from, bytes } => {
                let data = self.host_bytes(from, bytes).to_vec();
                self.memory.write(to, &data).map_err(|kind| code_of(&kind))
            }
            Work::Download { to, from, bytes } => {
                let data = self.memory.read(from, bytes).map_err(|kind| code_of(&kind))?.to_vec();
                if let (true, Err(kind)) = (demands_written(), self.memory.demand_written(from, bytes)) {
                    eprintln!("interpreted driver: a copy to the host: {kind}");
                    return Err(code_of(&kind));
                }
                self.host_bytes(to, bytes).copy_from_slice(&data);
                Ok(())
            }
            Work::Copy { to, from, bytes } => self.memory.copy(to, from, bytes).map_err(|kind| code_of(&kind)),
            Work::Launch { module, kernel, launch } => {
                let Some(kernel) = module.module.kernel(&kernel) else { broken("a kernel vanished") };
                match ptx_interpreter::run(kernel, &mut self.memory, &launch, &module.options) {
                    Ok(_) => Ok(()),
                    Err(fault) => {
                        eprintln!("interpreted driver: {fault}");
                        Err(code_of(&fault.kind))
                    }
                }
            }
            Work::Record(event, number) => {
                if let Some(event) = self.events.get_mut(&event) {
                    event.passed = number;
                    event.at = Some(Instant::now());
                }
                Ok(())
            }
            // What the event stands for was given, and so was done, before.
            Work::Wait => Ok(()),
        }
    }

    pub fn enable_peer(&mut self, own: usize, peer: usize) -> Code {
        match own == peer {
            true => INVALID_VALUE,
            false if self.peers.insert((own, peer)) => 0,
            false => PEER_ACCESS_ALREADY_ENABLED,
        }
    }

    /// Counts a copy that has to go by way of the host.
    pub fn count_copy(&mut self, from: usize, to: usize) {
        let direct = from == to || self.peers.contains(&(from, to));
        self.staged_copies += u64::from(!direct);
    }

    pub fn begin_capture(&mut self, stream: usize) -> Code {
        self.streams.insert(stream, Some(Vec::new()));
        0
    }

    pub fn end_capture(&mut self, stream: usize) -> Result<usize, Code> {
        let captured = self.streams.insert(stream, None).flatten().ok_or(INVALID_VALUE)?;
        let handle = self.handle();
        self.graphs.insert(handle, captured);
        Ok(handle)
    }

    pub fn instantiate(&mut self, graph: usize) -> usize {
        let Some(work) = self.graphs.get(&graph).cloned() else { broken("there is no such graph") };
        let handle = self.handle();
        self.graphs.insert(handle, work);
        handle
    }

    pub fn replay(&mut self, exec: usize, stream: usize) -> Code {
        let Some(work) = self.graphs.get(&exec).cloned() else { broken("there is no such graph") };
        work.into_iter().for_each(|work| {
            self.give(stream, work);
        });
        0
    }

    pub fn destroy_graph(&mut self, graph: usize) -> Code {
        if self.graphs.remove(&graph).is_none() {
            broken("a graph that there is not was destroyed");
        }
        0
    }

    pub fn allocate(&mut self, bytes: usize) -> Option<u64> {
        if bytes == 0 || self.allocated_bytes + bytes as u64 > total_bytes() {
            return None;
        }
        // Whatever was there before: nothing may rely on zeros.
        let address = self.memory.alloc_unwritten(bytes, 0xa5);
        self.sizes.insert(address, bytes);
        self.allocated_bytes += bytes as u64;
        Some(address)
    }

    /// No work is left then, which the real one waits for as well.
    pub fn free(&mut self, address: u64) -> Code {
        let Some(bytes) = self.sizes.remove(&address) else { broken("memory that there is not was freed") };
        self.memory.free(address);
        self.allocated_bytes -= bytes as u64;
        0
    }

    pub fn allocate_host(&mut self, bytes: usize) -> *mut u8 {
        let mut memory = vec![0x5a; bytes].into_boxed_slice();
        let start = memory.as_mut_ptr();
        self.host.insert(start as usize, memory);
        start
    }

    pub fn free_host(&mut self, start: usize) -> Code {
        let Some(memory) = self.host.remove(&start) else { broken("page-locked memory that there is not was freed") };
        let used = self.queue.iter().any(|(_, work)| match work {
            Work::Upload { from: at, .. } | Work::Download { to: at, .. } => (start..start + memory.len()).contains(at),
            _ => false,
        });
        if used {
            broken("page-locked memory was freed that a copy still needs");
        }
        0
    }

    /// Page-locked bytes that a copy reads or writes.
    fn host_bytes(&mut self, at: usize, bytes: usize) -> &mut [u8] {
        for (&start, memory) in &mut self.host {
            if start <= at && at + bytes <= start + memory.len() {
                return &mut memory[at - start..at - start + bytes];
            }
        }
        broken("a copy reaches outside of page-locked memory")
    }

    pub fn new_link(&mut self, log: usize, log_len: usize) -> usize {
        let handle = self.handle();
        self.links.insert(handle, Link { log, log_len, image: Vec::new() });
        handle
    }

    pub fn add_ptx(&mut self, link: usize, text: &[u8]) -> Code {
        let Some(link) = self.links.get_mut(&link) else { broken("there is no such link") };
        let text = String::from_utf8_lossy(text.strip_suffix(&[0]).unwrap_or(text)).into_owned();
        if version_of(&text) > number("INTERPRETED_PTX", u64::MAX) {
            return UNSUPPORTED_PTX_VERSION;
        }
        let rejected = std::env::var("INTERPRETED_REJECTS").ok().filter(|unwanted| text.contains(unwanted));
        let refused = match rejected {
            Some(unwanted) => Err(format!("kernel.ptx; error:\n  `{unwanted}` is not taken")),
            None => Module::parse(&text).map(|_| ()).map_err(|error| error.to_string()),
        };
        if let Err(words) = refused {
            let words = words + "\0";
            let len = words.len().min(link.log_len);
            // SAFETY: the caller of `cuLinkCreate` gave a buffer of this length, for as long as the link lives.
            unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), link.log as *mut u8, len) };
            return INVALID_PTX;
        }
        link.image = format!("{MAGIC}{text}\0").into_bytes();
        0
    }

    pub fn image(&self, link: usize) -> (usize, usize) {
        match self.links.get(&link) {
            Some(link) => (link.image.as_ptr() as usize, link.image.len()),
            None => broken("there is no such link"),
        }
    }

    pub fn destroy_link(&mut self, link: usize) -> Code {
        if self.links.remove(&link).is_none() {
            broken("a link that there is not was destroyed");
        }
        0
    }

    pub fn load(&mut self, image: &[u8]) -> Result<usize, Code> {
        let text = std::str::from_utf8(image).map_err(|_| INVALID_IMAGE)?;
        let shuffle = std::env::var("INTERPRETED_SHUFFLE").ok().and_then(|seed| seed.parse().ok());
        let plain = RunOptions { max_steps: 1 << 28, shuffle, late_copies: shuffle, ..RunOptions::default() };
        let (text, options) = match (text.strip_prefix(MAGIC), text.strip_prefix(ARCHIVED)) {
            (Some(text), _) => (text, RunOptions { check_uninitialised: demands_written(), ..plain }),
            // Their order is looked at more closely. Not what they read: pipelines load ahead of the end of k what nobody
            // wrote and nobody uses, and shared memory begins as bits that spoil every result.
            (_, Some(text)) => (text, RunOptions { check_races: true, ..plain }),
            _ => return Err(INVALID_IMAGE),
        };
        let module = Module::parse(text).map_err(|error| {
            eprintln!("interpreted driver: {error}");
            INVALID_IMAGE
        })?;
        let is_endless = std::env::var("INTERPRETED_ENDLESS").is_ok_and(|endless| text.contains(&endless));
        let handle = self.handle();
        self.modules.insert(handle, Arc::new(Image { module, options, is_endless }));
        Ok(handle)
    }

    /// What a function wants to be given.
    pub fn params(&self, function: usize) -> Vec<Param> {
        let kernel = |function: &Function| {
            let image = self.modules.get(&function.module)?;
            Some(image.module.kernel(&function.name)?.params().to_vec())
        };
        match self.functions.get(&function).and_then(kernel) {
            Some(params) => params,
            None => broken("a function was launched whose module is unloaded"),
        }
    }

    /// Launches under way keep what they run.
    pub fn unload(&mut self, module: usize) -> Code {
        if self.modules.remove(&module).is_none() {
            broken("a module that there is not was unloaded");
        }
        self.functions.retain(|_, function| function.module != module);
        0
    }

    pub fn function(&mut self, module: usize, name: &str) -> Option<usize> {
        self.modules.get(&module)?.module.kernel(name)?;
        let handle = self.handle();
        let dynamic_shared_bytes = SHARED_BYTES_UNASKED;
        self.functions.insert(handle, Function { module, name: name.to_owned(), dynamic_shared_bytes });
        Some(handle)
    }

    /// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
    pub fn allow_shared(&mut self, function: usize, bytes: u32) -> Code {
        match self.functions.get_mut(&function) {
            Some(function) if bytes <= most_shared_bytes() => function.dynamic_shared_bytes = bytes,
            _ => return INVALID_VALUE,
        }
        0
    }

    pub fn launch(&mut self, stream: usize, function: usize, launch: Launch) -> Code {
        let unloaded = "a function was launched whose module is unloaded";
        let Some(function) = self.functions.get(&function) else { broken(unloaded) };
        let Some(module) = self.modules.get(&function.module) else { broken(unloaded) };
        if launch.dynamic_shared_bytes > function.dynamic_shared_bytes {
            return INVALID_VALUE;
        }
        let limits = [0x7fff_ffff, 65_535, 65_535];
        if launch.grid.iter().zip(limits).any(|(&count, limit)| count == 0 || count > limit) {
            return INVALID_VALUE;
        }
        let work = Work::Launch { module: Arc::clone(module), kernel: function.name.clone(), launch };
        self.give(stream, work)
    }
}

/// 78 of PTX with the line `.version 7.8`.
fn version_of(ptx: &str) -> u64 {
    let digits = ptx.lines().find_map(|line| line.strip_prefix(".version "));
    digits.and_then(|text| text.trim().replace('.', "").parse().ok()).unwrap_or(0)
}

fn code_of(kind: &FaultKind) -> Code {
    match kind {
        FaultKind::OutOfBounds { .. } | FaultKind::ReadOnly { .. } => ILLEGAL_ADDRESS,
        FaultKind::Misaligned { .. } => MISALIGNED_ADDRESS,
        _ => LAUNCH_FAILED,
    }
}
