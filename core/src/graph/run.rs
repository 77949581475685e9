//! Running graphs on the host: by the operations' own routines, and by their oracles.

use super::kept::Temporary;
use super::{Graph, Place};
use crate::operation::{HostError, HostResult};
use crate::oracle::HostTensor;
use crate::{Scalar, TensorSpec};

impl Graph {
    /// Runs every step by its [`Operation::host`](crate::Operation::host) on the bytes of whole buffers. All temporaries are taken before
    /// the first step.
    ///
    /// # Errors
    /// That of the first step that fails, and [`HostError::OutOfMemory`] for the temporaries.
    pub fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        let (of, sizes) = self.buffers();
        let mut temps = sizes.iter().map(|&bytes| Temporary::new(bytes)).collect::<Result<Vec<_>, HostError>>()?;
        for step in self.steps.iter().filter(|step| !super::is_empty(&step.op)) {
            // What is written is taken out for the time of the step, so that the rest can be read.
            let mut taken: Vec<(Place, Temporary)> = Vec::new();
            for place in &step.outputs {
                if let Place::Temp(temp) = *place {
                    taken.push((*place, std::mem::take(&mut temps[of[temp]])));
                }
            }
            let mut written: Vec<(usize, &mut [u8])> = Vec::new();
            for place in &step.outputs {
                if let Place::Output(output) = *place {
                    written.push((output, std::mem::take(&mut outputs[output])));
                }
            }
            let read = |place: &Place| match *place {
                Place::Input(input) => inputs[input],
                Place::Output(output) => &*outputs[output],
                Place::Temp(temp) => bytemuck::cast_slice(&temps[of[temp]].0),
            };
            let sources: Vec<&[u8]> = step.inputs.iter().map(read).collect();
            let (mut of_temps, mut of_outputs) = (taken.iter_mut(), written.iter_mut());
            let mut targets: Vec<&mut [u8]> = Vec::with_capacity(step.outputs.len());
            for place in &step.outputs {
                match place {
                    Place::Temp(_) => {
                        targets.extend(of_temps.next().map(|(_, memory)| bytemuck::cast_slice_mut(&mut memory.0)))
                    }
                    Place::Output(_) => targets.extend(of_outputs.next().map(|(_, bytes)| &mut **bytes)),
                    Place::Input(_) => {}
                }
            }
            let done = step.op.host(&sources, &mut targets);
            for (place, memory) in taken {
                if let Place::Temp(temp) = place {
                    temps[of[temp]] = memory;
                }
            }
            for (output, bytes) in written {
                outputs[output] = bytes;
            }
            done?;
        }
        Ok(())
    }

    /// What the outputs, laid out densely, hold by the oracles of the steps, in float64 and without rounding: `inputs` are what the
    /// buffers hold, element by element of memory.
    pub fn evaluate(&self, inputs: &[Vec<Scalar>], outputs: &[TensorSpec]) -> Vec<Vec<Scalar>> {
        let room = |spec: &TensorSpec| vec![Scalar::F(f64::NAN); spec.layout.required_elements() as usize];
        let mut temps: Vec<Vec<Scalar>> = self.temps.iter().map(room).collect();
        let mut results: Vec<Vec<Scalar>> = outputs.iter().map(room).collect();
        for step in self.steps.iter().filter(|step| !super::is_empty(&step.op)) {
            let held = step.inputs.iter().zip(step.op.inputs()).map(|(place, spec)| {
                let memory = match *place {
                    Place::Input(input) => &inputs[input],
                    Place::Output(output) => &results[output],
                    Place::Temp(temp) => &temps[temp],
                };
                let values = (0..spec.layout.elements()).map(|i| memory[spec.layout.index_of(i) as usize]);
                HostTensor { dtype: spec.dtype, shape: *spec.layout.shape(), values: values.collect() }
            });
            let expected = step.op.oracle(&held.collect::<Vec<_>>());
            for ((place, operand), expected) in step.outputs.iter().zip(step.op.outputs()).zip(expected) {
                let memory = match *place {
                    Place::Output(output) => &mut results[output],
                    Place::Temp(temp) => &mut temps[temp],
                    Place::Input(_) => continue,
                };
                for (i, expected) in expected.iter().enumerate() {
                    memory[operand.spec.layout.index_of(i as u64) as usize] = expected.value;
                }
            }
        }
        results
    }
}
