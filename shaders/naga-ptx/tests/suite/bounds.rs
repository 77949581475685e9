//! `Bounds::Clamp`: an index far and near, of either sign, into an array of every address space, read, written and by
//! atomics, run on an interpreter of PTX. What is read is an element, what is written is an element or nothing, and
//! what lies around the array, in the same variable and around its buffer, stays as it was.

use crate::common::launch::{Given, bytes, launch, words};
use crate::common::{Shader, shader_of};
use naga_ptx::{Bounds, Options, Target, Uniforms, WorkgroupMemory};
use ptx_interpreter::RunOptions;

/// Words around the array, in the same structure.
const GUARD: u32 = 0xdead_0000;
const GUARDS: u32 = 4;
/// What element `i` holds at first, added to `i`.
const ELEMENT: u32 = 100;
const WRITTEN: u32 = 77;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Space {
    Storage,
    /// A storage buffer that ends in the array.
    Runtime,
    Uniform,
    Workgroup,
    Private,
    Function,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Access {
    Read,
    Write,
    Atomic,
}

/// An array of `count` words in `space`, accessed so with an index of type `index`.
#[derive(Clone, Copy, Debug)]
struct Case {
    space: Space,
    access: Access,
    count: u32,
    index: &'static str,
}

fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for space in [Space::Storage, Space::Runtime, Space::Uniform, Space::Workgroup, Space::Private, Space::Function] {
        for access in [Access::Read, Access::Write, Access::Atomic] {
            let possible = match access {
                Access::Read => true,
                Access::Write => space != Space::Uniform,
                Access::Atomic => matches!(space, Space::Storage | Space::Runtime | Space::Workgroup),
            };
            // Of variables of the invocation the first are registers, the second memory.
            for (count, index) in [(5, "i32"), (5, "u32"), (40, "i32"), (40, "u32")] {
                if possible {
                    all.push(Case { space, access, count, index });
                }
            }
        }
    }
    all
}

/// Near and far, as 32 bits.
fn indices(count: u32) -> Vec<u32> {
    let signed = [-1, 1_000_000, -1_000_000, i32::MAX, -i32::MAX, i32::MIN].map(|index| index as u32);
    [0, count - 1, count, count + GUARDS, u32::MAX].into_iter().chain(signed).collect()
}

impl Case {
    fn shader(self) -> Shader {
        let Case { space, access, count, index } = self;
        let (element, get) = match (space, access) {
            // Elements of uniforms are 16 bytes apart.
            (Space::Uniform, _) => ("vec4<u32>", "x.x"),
            (_, Access::Atomic) => ("atomic<u32>", "atomicLoad(&x)"),
            (_, Access::Read | Access::Write) => ("u32", "x"),
        };
        let put = |place: &str, value: &str| match access {
            Access::Atomic => format!("atomicStore(&{place}, {value});"),
            Access::Read | Access::Write => format!("{place} = {value};"),
        };
        let get = |place: &str| get.replace('x', place).replacen(&format!(".{place}"), ".x", 1);
        let (array, after) = match space {
            Space::Runtime => (format!("array<{element}>"), String::new()),
            _ => (format!("array<{element}, {count}>"), format!(", after: array<{element}, {GUARDS}>")),
        };
        let (global, local) = match space {
            Space::Storage | Space::Runtime => ("@group(0) @binding(2) var<storage, read_write> g: Guarded;", ""),
            Space::Uniform => ("@group(0) @binding(2) var<uniform> g: Guarded;", ""),
            Space::Workgroup => ("var<workgroup> g: Guarded;", ""),
            Space::Private => ("var<private> g: Guarded;", ""),
            Space::Function => ("", "var g: Guarded;"),
        };
        // Host memory is filled and looked at by the host.
        let (mut fill, mut dump) = (String::new(), String::new());
        if !space.is_host() {
            fill = format!(
                "for (var k = 0u; k < {GUARDS}u; k++) {{ {} {} }} for (var k = 0u; k < {count}u; k++) {{ {} }}",
                put("g.before[k]", &format!("{GUARD}u")),
                put("g.after[k]", &format!("{GUARD}u")),
                put("g.a[k]", &format!("{ELEMENT}u + k")),
            );
            dump = format!(
                "for (var k = 0u; k < {GUARDS}u; k++) {{ all[k] = {}; all[{}u + k] = {}; }}
                 for (var k = 0u; k < {count}u; k++) {{ all[{GUARDS}u + k] = {}; }}",
                get("g.before[k]"),
                GUARDS + count,
                get("g.after[k]"),
                get("g.a[k]"),
            );
        }
        let work = match access {
            Access::Read => format!("seen = {};", get("g.a[i]")),
            Access::Write => format!("g.a[i] = {WRITTEN}u;"),
            Access::Atomic => format!("seen = atomicExchange(&g.a[i], {WRITTEN}u); atomicMax(&g.a[i], {WRITTEN}u);"),
        };
        let source = format!(
            "struct Guarded {{ before: array<{element}, {GUARDS}>, a: {array}{after} }}
             @group(0) @binding(0) var<storage, read> index: {index};
             @group(0) @binding(1) var<storage, read_write> seen: u32;
             {global}
             @group(0) @binding(3) var<storage, read_write> all: array<u32>;
             @compute @workgroup_size(1) fn main() {{ {local} let i = index; {fill} {work} {dump} }}"
        );
        shader_of(format!("{self:?}"), &source)
    }

    /// What the structure holds at first.
    fn start(self) -> Vec<u32> {
        let guards = [GUARD; GUARDS as usize];
        let after = if self.space == Space::Runtime { 0 } else { GUARDS as usize };
        let elements = (0..self.count).map(|i| ELEMENT + i);
        guards.into_iter().chain(elements).chain(guards.into_iter().take(after)).collect()
    }

    /// What was read, and the structure afterwards.
    fn run(self, shader: &Shader, options: &Options, index: u32) -> Result<(u32, Vec<u32>), String> {
        let start = self.start();
        let held = match self.space {
            Space::Uniform => bytes(&start.iter().flat_map(|&word| [word, GUARD, GUARD, GUARD]).collect::<Vec<_>>()),
            _ => bytes(&start),
        };
        let buffers = vec![bytes(&[index]), bytes(&[0]), held, vec![0; start.len() * 4]];
        let given = Given { buffers, guard: Some(0xad), ..Given::default() };
        let after = launch(shader, options, &RunOptions::strict(), &given)?;
        let structure = match self.space {
            Space::Uniform => words(&after[2]).chunks_exact(4).map(|vector| vector[0]).collect(),
            space if space.is_host() => words(&after[2]),
            _ => words(&after[3]),
        };
        Ok((words(&after[1])[0], structure))
    }

    /// What is wrong with a run of `index`.
    fn fault(self, shader: &Shader, options: &Options, index: u32) -> Option<String> {
        let (seen, structure) = match self.run(shader, options, index) {
            Ok(outcome) => outcome,
            Err(fault) => return Some(fault),
        };
        let inside = index < self.count;
        let elements = ELEMENT..ELEMENT + self.count;
        if self.access != Access::Write && (!elements.contains(&seen) || (inside && seen != ELEMENT + index)) {
            return Some(format!("read {seen:#x}"));
        }
        let start = self.start();
        let changed: Vec<usize> = (0..start.len()).filter(|&at| structure[at] != start[at]).collect();
        let element = |&at: &usize| at.checked_sub(GUARDS as usize).filter(|&i| i < self.count as usize);
        let right = match (self.access, &changed[..]) {
            (Access::Read, changed) => changed.is_empty(),
            // Clamped where it lies in memory; what is in registers may be left as it is.
            (Access::Write | Access::Atomic, []) => !inside && !self.space.is_host(),
            (Access::Write | Access::Atomic, [at]) => {
                let place = element(at);
                place == Some(index.min(self.count - 1) as usize) && structure[*at] == WRITTEN
            }
            _ => false,
        };
        (!right).then(|| format!("changed {changed:?}: {structure:x?}"))
    }
}

impl Space {
    fn is_host(self) -> bool {
        matches!(self, Space::Storage | Space::Runtime | Space::Uniform)
    }
}

fn all_options(bounds: Bounds) -> Vec<Options> {
    let mut all = Vec::new();
    for target in [Target::new(7, 0), Target::new(9, 0)] {
        for uniforms in [Uniforms::Pointers, Uniforms::Parameters] {
            let workgroup_memory = WorkgroupMemory::Undefined;
            all.push(Options { target, uniforms, bounds, workgroup_memory, ..Options::default() });
        }
    }
    all
}

#[test]
fn no_index_leaves_its_array() {
    let mut wrong = Vec::new();
    for case in cases() {
        let shader = case.shader();
        for options in all_options(Bounds::Clamp) {
            for index in indices(case.count) {
                let fault = case.fault(&shader, &options, index);
                wrong.extend(fault.map(|fault| format!("{case:?} [{index:#x}] {:?}: {fault}", options.uniforms)));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Without checks each case does leave its array, unless that is in registers: the test above would see it.
#[test]
fn trusted_indices_leave_their_arrays() {
    for case in cases() {
        let shader = case.shader();
        for options in all_options(Bounds::Trust) {
            let leaves = indices(case.count).into_iter().any(|index| case.fault(&shader, &options, index).is_some());
            let registers = case.count == 5 && matches!(case.space, Space::Private | Space::Function);
            assert_eq!(leaves, !registers, "{case:?}");
        }
    }
}
