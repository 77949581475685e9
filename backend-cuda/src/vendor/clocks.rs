//! The card's clock, power and temperature while something runs, from NVIDIA's management library (NVML), opened at run time.
//!
//! Every question may go unanswered, by a virtual card or because this user may not ask: that is `None`, never a made-up
//! value.

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use serde::Serialize;

/// NVML, and which card is asked.
#[derive(Debug)]
pub struct Clocks {
    nvml: Nvml,
    pci_bus: String,
}

/// What the card says of itself at one moment, or on average.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct State {
    /// Clock of the multiprocessors.
    pub mhz: f64,
    /// Power drawn.
    pub watts: Option<f64>,
    /// Temperature.
    pub celsius: Option<f64>,
}

impl Clocks {
    /// Opens NVML for the card at `pci_bus` (`0000:3b:00.0`); `None` where it is missing or does not know the card.
    pub fn open(pci_bus: &str) -> Option<Clocks> {
        // The unversioned name, which the wrapper takes by itself, is only there with the toolkit, as a stub.
        let library = if cfg!(windows) { "nvml.dll" } else { "libnvidia-ml.so.1" };
        // The wrapper panics where the library lacks a function.
        let opened = std::panic::catch_unwind(|| Nvml::builder().lib_path(library.as_ref()).init().ok());
        let clocks = Clocks { nvml: opened.ok().flatten()?, pci_bus: pci_bus.to_owned() };
        clocks.now().map(|_| clocks)
    }

    /// The state now.
    pub fn now(&self) -> Option<State> {
        let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let device = self.nvml.device_by_pci_bus_id(self.pci_bus.as_str()).ok()?;
            Some(State {
                mhz: f64::from(device.clock_info(Clock::SM).ok()?),
                watts: device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
                celsius: device.temperature(TemperatureSensor::Gpu).ok().map(f64::from),
            })
        }));
        asked.ok().flatten()
    }
}

impl State {
    /// The average of several; `None` of none.
    pub(super) fn mean(states: &[State]) -> Option<State> {
        let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        Some(State {
            mhz: mean(states.iter().map(|state| state.mhz).collect())?,
            watts: mean(states.iter().filter_map(|state| state.watts).collect()),
            celsius: mean(states.iter().filter_map(|state| state.celsius).collect()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_leaves_out_what_was_not_answered() {
        let state = |mhz, watts| State { mhz, watts, celsius: None };
        let mean = State::mean(&[state(1000.0, Some(300.0)), state(2000.0, None)]);
        assert_eq!(mean, Some(state(1500.0, Some(300.0))));
        assert_eq!(State::mean(&[]), None);
    }

    #[test]
    fn clocks_of_a_card_that_is_not_there_are_none() {
        assert!(Clocks::open("ffff:ff:1f.0").is_none());
    }
}
