//! The tests of this crate from outside, in one program: linked once, and run side by side.
//!
//! One file per subject. Bodies take a device, so that any backend can run them; here it is the CPU.

/// Functions of a device as tests on the CPU.
macro_rules! on_the_cpu {
    ($($name:ident),* $(,)?) => {
        mod on_the_cpu {
            $(
                #[test]
                fn $name() {
                    super::$name(&polywarp_core::Device::cpu());
                }
            )*
        }
    };
}

mod support;

mod attention;
mod bert;
mod checkpoints;
mod decoder;
mod files;
mod functions;
mod layers;
mod losses;
mod optimisers;
mod parameters;
mod recorded;
mod scaling;
mod schedules;
