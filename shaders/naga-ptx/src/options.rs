//! What the caller chooses: the architecture, and how much the generated code distrusts the shader.

/// A compute capability, and with it a PTX target: `sm_90` is `Target::new(9, 0)`.
///
/// PTX for an older target runs on every newer card, so the least target that has the features a shader needs is a good
/// choice for code that travels; the card's own is best for code compiled where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    major: u32,
    minor: u32,
}

impl Target {
    /// The oldest target supported: Volta, the first with independent thread scheduling and `.sync` warp operations.
    pub const OLDEST: Target = Target { major: 7, minor: 0 };

    /// The target of compute capability `major.minor`.
    pub const fn new(major: u32, minor: u32) -> Target {
        Target { major, minor }
    }

    /// `sm_90`, `compute_90`, `90` or `9.0`, of the architectures that PTX ISA 9.0 names (and sm_101, which it calls sm_110);
    /// architecture-specific suffixes (`sm_90a`) mean the base architecture.
    pub fn parse(text: &str) -> Option<Target> {
        const NAMED: [u32; 15] = [70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120, 121];
        let digits = text.strip_prefix("sm_").or_else(|| text.strip_prefix("compute_")).unwrap_or(text);
        let digits = digits.strip_suffix(['a', 'f']).unwrap_or(digits);
        let same = |target: &Target| {
            digits == target.sm().to_string() || digits == format!("{}.{}", target.major, target.minor)
        };
        NAMED.map(|sm| Target::new(sm / 10, sm % 10)).into_iter().find(same)
    }

    /// The number in `sm_90`.
    pub const fn sm(self) -> u32 {
        self.major * 10 + self.minor
    }

    /// Compute capability.
    pub const fn compute_capability(self) -> (u32, u32) {
        (self.major, self.minor)
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sm_{}", self.sm())
    }
}

/// What an access outside an array, vector or matrix does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Bounds {
    /// The index is clamped to the last element, a negative one as the large number that it is without its sign. Of a
    /// variable in registers a read gives some element and a write is left out. WGSL's guarantee, for shaders nobody
    /// vouches for.
    #[default]
    Clamp,
    /// No check is made: the caller vouches that no index is out of bounds. Out of bounds is undefined behaviour.
    Trust,
}

/// What workgroup variables hold when a workgroup starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum WorkgroupMemory {
    /// Zero, as WGSL says.
    #[default]
    Zeroed,
    /// Whatever was there: for kernels that write before they read.
    Undefined,
}

/// How uniform buffers reach the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Uniforms {
    /// As a device pointer, like a storage buffer.
    #[default]
    Pointers,
    /// By value in the kernel's parameters (constant memory of the launch), where they fit into 4 KiB with the rest:
    /// a launch then needs no uniform buffer.
    Parameters,
}

/// Whether `a * b + c` may become one fused multiply-add.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Contraction {
    /// WGSL allows it; the assembler does it where it finds it.
    #[default]
    Allowed,
    /// Every operation is rounded by itself.
    Forbidden,
}

/// What [`crate::compile`] is asked for. The default is safe for anybody's shader on any supported card.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The architecture to compile for.
    pub target: Target,
    /// The entry point to compile; all compute entry points when `None`, beside which other stages are left alone.
    pub entry_point: Option<String>,
    /// What out-of-bounds accesses do.
    pub bounds: Bounds,
    /// What workgroup variables start as.
    pub workgroup_memory: WorkgroupMemory,
    /// How uniform buffers are passed.
    pub uniforms: Uniforms,
    /// Fused multiply-add.
    pub contraction: Contraction,
    /// Rounds after which one execution of a loop ends by force, as by a `break`; each execution of an inner loop has as
    /// many of its own. `None` trusts loops to end.
    pub loop_limit: Option<u32>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            target: Target::OLDEST,
            entry_point: None,
            bounds: Bounds::Clamp,
            workgroup_memory: WorkgroupMemory::Zeroed,
            uniforms: Uniforms::Pointers,
            contraction: Contraction::Allowed,
            loop_limit: None,
        }
    }
}

impl Options {
    /// Options for `target` that trust the shader: no bounds checks, no loop limit, workgroup memory as it is, uniforms
    /// as parameters.
    pub fn trusted(target: Target) -> Options {
        Options {
            target,
            bounds: Bounds::Trust,
            workgroup_memory: WorkgroupMemory::Undefined,
            uniforms: Uniforms::Parameters,
            ..Options::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_those_that_ptx_names() {
        for (text, sm) in [("sm_70", 70), ("compute_89", 89), ("90", 90), ("9.0", 90), ("sm_90a", 90), ("12.0", 120)] {
            assert_eq!(Target::parse(text).map(Target::sm), Some(sm), "{text}");
        }
        for text in ["", "9", "sm_91", "sm_999", "99.9", "sm_90aa", "sm_+90", "sm_090", "hopper"] {
            assert_eq!(Target::parse(text), None, "{text}");
        }
    }
}
