//! Cases that run on any device, for the tests of this crate and of backends.
//!
//! One file per subject, each with functions of a device. The program that has this module says before it what becomes of them: the macro
//! `cases!` gets the names of the functions of each file.

pub mod support;

pub mod attention;
pub mod bert;
pub mod checkpoints;
pub mod decoder;
pub mod files;
pub mod functions;
pub mod layers;
pub mod losses;
pub mod optimisers;
pub mod parameters;
pub mod recorded;
pub mod resnet;
pub mod scaling;
pub mod schedules;
