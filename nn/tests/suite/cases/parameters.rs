//! Parameters: names, places, starting values, gradients.

use polywarp_core::{DType, Device, Error, Tape, Tensor};
use polywarp_nn::{Builder, Decay, Init};

use super::support::{bits, close, gradient, parameters, values};

/// One bucket for each option, the last parameter first, each at a multiple of 64 elements.
pub fn buckets_hold_parameters_in_reverse(device: &Device) {
    let parameters = parameters(device);
    let sizes: Vec<u64> = parameters.values().buckets().iter().map(Tensor::elements).collect();
    assert_eq!((sizes, parameters.elements()), (vec![128, 64], 18));
    let offset = |name: &str| parameters.get(name).unwrap().layout().offset();
    assert_eq!((offset("v"), offset("w"), offset("b")), (0, 64, 0));
    assert_eq!(parameters.names().collect::<Vec<_>>(), ["w", "b", "v"]);
    let bucket = parameters.values().buckets()[0].to_vec::<f32>().unwrap();
    let padding = bucket[7..64].iter().chain(&bucket[70..]);
    assert!(padding.copied().all(|value| value == 0.0));
    assert!(matches!(parameters.get("x"), Err(Error::InvalidArgument { what: "parameter", .. })));
}

pub fn one_more_parameter_changes_none_before(device: &Device) {
    let build = |more: bool| {
        let mut builder = Builder::new(3);
        builder.add("a", [100], Init::Normal { mean: 0.0, std: 1.0 }, Decay::Yes).unwrap();
        builder.add("b", [10, 10], Init::Linear { fan_in: 16 }, Decay::Yes).unwrap();
        if more {
            builder.add("c", [100], Init::Uniform { low: -1.0, high: 1.0 }, Decay::Yes).unwrap();
        }
        builder.build(device).unwrap()
    };
    let (less, more) = (values(&build(false)), values(&build(true)));
    assert_eq!(bits(&less), bits(&more[..2]));
    assert!(less[1].iter().all(|value| value.abs() <= 0.25) && less[1].iter().any(|value| value.abs() > 0.2));
    assert!(less[0].iter().any(|value| value.abs() > 1.0));
    assert_ne!(more[0], more[2]);
}

pub fn gradients_come_to_their_places(device: &Device) {
    let parameters = parameters(device);
    // Something to overwrite, NaN among it.
    for (_, view) in parameters.gradients().iter() {
        view.write(&vec![f32::NAN; view.elements() as usize]).unwrap();
    }
    let backward = |into: &dyn Fn(&polywarp_nn::Watched, &polywarp_core::Gradients)| {
        let tape = Tape::new();
        let watched = parameters.watch(&tape).unwrap();
        // The loss does not depend on b.
        let [w, v] = ["w", "v"].map(|name| watched.get(name).unwrap());
        let loss = w.mul(w).unwrap().sum(..).unwrap().add(&v.sum(..).unwrap()).unwrap();
        into(&watched, &tape.backward(&loss).unwrap());
    };
    let gradient = |name: &str| parameters.gradients().get(name).unwrap().to_vec::<f32>().unwrap();
    let w: Vec<f64> = values(&parameters)[0].iter().map(|w| 2.0 * f64::from(*w)).collect();
    backward(&|watched, gradients| parameters.collect(watched, gradients).unwrap());
    close(&gradient("w"), &w, 0.0);
    assert_eq!((gradient("b"), gradient("v")), (vec![0.0; 5], vec![1.0; 7]));
    backward(&|watched, gradients| parameters.accumulate(watched, gradients).unwrap());
    close(&gradient("w"), &w.iter().map(|w| 2.0 * w).collect::<Vec<_>>(), 0.0);
    assert_eq!((gradient("b"), gradient("v")), (vec![0.0; 5], vec![2.0; 7]));
    parameters.zero_gradients().unwrap();
    assert_eq!(gradient("w"), [0.0; 6]);
    let others = super::support::parameters(device);
    backward(&|watched, gradients| assert!(others.collect(watched, gradients).is_err()));
}

/// The problem of these tests has the gradients that its formula says.
pub fn problem_has_its_gradients(device: &Device) {
    let parameters = parameters(device);
    super::support::Problem::new(device).backward(&parameters, None).unwrap();
    for (number, (value, (_, found))) in values(&parameters).iter().zip(parameters.gradients().iter()).enumerate() {
        let value: Vec<f64> = value.iter().copied().map(f64::from).collect();
        close(&found.to_vec().unwrap(), &gradient(number, &value), 1e-6);
    }
}

pub fn values_are_set_whole_or_not(device: &Device) {
    let parameters = parameters(device);
    let of = |dims: &[u64]| Tensor::full(device, DType::F32, dims, 2.0).unwrap();
    assert!(matches!(parameters.set("w", &of(&[1])), Err(Error::ShapeMismatch { .. })));
    let wrong = Tensor::full(device, DType::F16, [5], 2.0).unwrap();
    assert!(matches!(parameters.set("b", &wrong), Err(Error::DTypeMismatch { .. })));
    let start = bits(&values(&parameters));
    let [w, b, v] = [of(&[3, 2]), of(&[5]), of(&[7, 1])];
    for refused in [&[("w", &w), ("b", &b)][..], &[("w", &w), ("b", &b), ("v", &v), ("w", &w)], &[("x", &w)]] {
        assert!(parameters.load(refused.iter().copied()).is_err());
        assert_eq!(bits(&values(&parameters)), start);
    }
    parameters.load([("v", &v), ("w", &w), ("b", &b)]).unwrap();
    assert!(values(&parameters).iter().flatten().all(|&value| value == 2.0));
    // What a tape watches is not overwritten.
    let tape = Tape::new();
    let watched = parameters.watch(&tape).unwrap();
    assert!(matches!(parameters.set("w", &w), Err(Error::InvalidArgument { .. })));
    drop((tape, watched));
    parameters.set("w", &w).unwrap();
}

cases!(
    buckets_hold_parameters_in_reverse,
    one_more_parameter_changes_none_before,
    gradients_come_to_their_places,
    problem_has_its_gradients,
    values_are_set_whole_or_not,
);
