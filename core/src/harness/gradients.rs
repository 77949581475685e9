//! The proof of a rule: central differences of the operation's own float64 oracle, without a device.
//!
//! For every subset of the float inputs, the rule's graph is evaluated by the oracles of its steps and compared with (f(x + h) -
//! f(x - h)) / 2h, where f is the sum of all results, each times a random number: the gradient that the rule is given. Inputs
//! are compared as they lie in memory, so that an element which a view repeats gets the sum. Operations in f64 alone: the
//! oracle rounds nothing there.
//!
//! Larger shapes, which have too many elements for that, are held to the adjoint identity: along any direction v the central difference is
//! the sum of v times the gradient ([`prove_adjoint`]). Where elements are equal, those that are move together ([`prove_together`]).

use std::collections::BTreeMap;

use super::Values;
use super::values::mix;
use crate::case::operand;
use crate::gradient::{Gradient, Needs, Rule};
use crate::oracle::HostTensor;
use crate::{Op, Scalar, TensorSpec};

/// Half the distance of the two points, of numbers around 1.
const STEP: f64 = 1e-5;
/// What third derivatives and cancellation leave, relative to the largest gradient.
const TOLERANCE: f64 = 2e-6;

/// What was proved of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proved {
    /// Subsets of inputs.
    pub subsets: u32,
    /// Gradients compared.
    pub elements: u64,
}

/// Proves the rule of `op` on operands drawn from `values` and `seed`; `None` where the operation refuses to have one.
///
/// # Errors
/// The input and element whose gradient is not the central difference, or what else is wrong with the rule.
pub fn prove(op: &Op, values: &[Values], seed: u64) -> Result<Option<Proved>, String> {
    let inputs = op.inputs();
    let floats: Vec<usize> = (0..inputs.len()).filter(|&input| inputs[input].dtype.is_float()).collect();
    let given = vec![true; op.outputs().len()];
    let Point { memory, results, weights } = Point::drawn(op, values, seed)?;
    let mut proved = Proved { subsets: 0, elements: 0 };
    for subset in 0u32..1 << floats.len() {
        let wanted: Vec<bool> = (0..inputs.len())
            .map(|input| floats.iter().position(|&f| f == input).is_some_and(|at| subset >> at & 1 == 1))
            .collect();
        let rule = match op.gradient(&Needs { inputs: &wanted, outputs: &given }).map_err(|error| error.to_string())? {
            Gradient::Refused(_) => return Ok(None),
            Gradient::Rule(rule) => rule,
        };
        let all = [&memory[..], &results, &weights].concat();
        let found = rule.graph.evaluate(&all, &rule.outputs);
        let wanted = (0..inputs.len()).filter(|&input| wanted[input]);
        if found.len() != wanted.clone().count() {
            return Err(format!("{} gradients for {} inputs", found.len(), wanted.count()));
        }
        for (input, found) in wanted.zip(&found) {
            proved.elements += compare(op, &memory, &weights, input, found, &rule)?;
        }
        proved.subsets += 1;
    }
    Ok(Some(proved))
}

/// What was proved of elements that move together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProvedTogether {
    /// Numbers that elements of the float inputs are.
    pub groups: u64,
    /// Those of them that several elements are.
    pub shared: u64,
}

/// Proves that what the rule of `op` gives equal elements is together the derivative where all of them move alike, on operands drawn from `values`
/// and `seed`. An operation that chooses among equal elements has no other derivative there. `None` where it refuses to have a rule.
///
/// # Errors
/// The number whose elements have another derivative, or what else is wrong with the rule.
pub fn prove_together(op: &Op, values: &[Values], seed: u64) -> Result<Option<ProvedTogether>, String> {
    let inputs = op.inputs();
    let Some(Ruled { rule, point: Point { memory, weights, .. }, floats, found }) = Ruled::at(op, values, seed)? else {
        return Ok(None);
    };
    let mut groups: BTreeMap<u64, Group> = BTreeMap::new();
    for (&input, found) in floats.iter().zip(&found) {
        for (at, gradient) in summed(&inputs[input], memory[input].len(), found).into_iter().enumerate() {
            // Zero of either sign is one number.
            let x = memory[input][at].as_f64() + 0.0;
            if !x.is_nan() {
                let group = groups.entry(x.to_bits()).or_insert_with(|| Group { x, ..Group::default() });
                group.places.push((input, at));
                group.gradient += gradient;
                group.magnitude += gradient.abs();
            }
        }
    }
    let shared = groups.values().filter(|group| group.places.len() > 1).count() as u64;
    for Group { x, places, gradient, magnitude } in groups.values() {
        let h = STEP * x.abs().max(1.0);
        let moved = |by: f64| {
            let mut memory = memory.clone();
            places.iter().for_each(|&(input, at)| memory[input][at] = Scalar::F(x + by));
            loss(op, &memory, &weights)
        };
        let numeric = (moved(h) - moved(-h)) / (2.0 * h);
        // NaN is never near.
        let is_near = (numeric - gradient).abs() <= TOLERANCE * (1.0 + magnitude.max(numeric.abs()));
        if !is_near {
            let steps: Vec<&str> = rule.graph.steps.iter().map(|step| step.op.name()).collect();
            let places = places.len();
            return Err(format!(
                "the gradient of {places} elements that are {x} is {gradient} by {steps:?}, not {numeric}"
            ));
        }
    }
    Ok(Some(ProvedTogether { groups: groups.len() as u64, shared }))
}

/// The rule of an operation for all of its float inputs, and what it gives at a point.
struct Ruled {
    rule: Rule,
    point: Point,
    /// The numbers of the inputs.
    floats: Vec<usize>,
    /// A gradient for each of them.
    found: Vec<Vec<Scalar>>,
}

impl Ruled {
    /// `None` where `op` refuses to have a rule.
    fn at(op: &Op, values: &[Values], seed: u64) -> Result<Option<Ruled>, String> {
        let wanted: Vec<bool> = op.inputs().iter().map(|input| input.dtype.is_float()).collect();
        let given = vec![true; op.outputs().len()];
        let rule = match op.gradient(&Needs { inputs: &wanted, outputs: &given }).map_err(|error| error.to_string())? {
            Gradient::Refused(_) => return Ok(None),
            Gradient::Rule(rule) => rule,
        };
        let point = Point::drawn(op, values, seed)?;
        let operands = [&point.memory[..], &point.results, &point.weights].concat();
        let found = rule.graph.evaluate(&operands, &rule.outputs);
        let floats: Vec<usize> = (0..wanted.len()).filter(|&input| wanted[input]).collect();
        if found.len() != floats.len() {
            return Err(format!("{} gradients for {} inputs", found.len(), floats.len()));
        }
        Ok(Some(Ruled { rule, point, floats, found }))
    }
}

/// Elements that are one number.
#[derive(Default)]
struct Group {
    x: f64,
    /// Inputs, and elements of their memory.
    places: Vec<(usize, usize)>,
    gradient: f64,
    magnitude: f64,
}

/// Proves that the rule of `op` is the adjoint of its derivative along some `directions` of all float inputs together, on operands drawn from `values`
/// and `seed`; how many elements its gradients have. `None` where the operation refuses to have a rule.
///
/// # Errors
/// The direction along which the two sides differ, or what else is wrong with the rule.
pub fn prove_adjoint(op: &Op, values: &[Values], seed: u64, directions: u64) -> Result<Option<u64>, String> {
    /// Nearer than [`STEP`]: kinks between the two points are rarer, and sums of many terms cancel less.
    const STEP: f64 = 1e-6;
    /// What a few kinks of thousands of elements and the digits that the difference loses leave, relative to the terms' magnitudes.
    const TOLERANCE: f64 = 1e-6;
    let inputs = op.inputs();
    let Some(Ruled { point: Point { memory, weights, .. }, floats, found, .. }) = Ruled::at(op, values, seed)? else {
        return Ok(None);
    };
    for direction in 0..directions {
        let along: Vec<Vec<f64>> = floats
            .iter()
            .map(|&input| numbers(memory[input].len(), mix(seed, 2000 + 100 * direction + input as u64)))
            .map(|numbers| numbers.iter().map(|number| number.as_f64()).collect())
            .collect();
        let moved = |by: f64| {
            let mut memory = memory.clone();
            for (&input, along) in floats.iter().zip(&along) {
                let elements = memory[input].iter_mut().zip(along);
                elements.for_each(|(x, v)| *x = Scalar::F(x.as_f64() + by * v));
            }
            loss(op, &memory, &weights)
        };
        let numeric = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
        let (mut analytic, mut magnitude) = (0.0, 0.0);
        for ((&input, along), found) in floats.iter().zip(&along).zip(&found) {
            for (i, gradient) in found.iter().enumerate() {
                let term = gradient.as_f64() * along[inputs[input].layout.index_of(i as u64) as usize];
                analytic += term;
                magnitude += term.abs();
            }
        }
        // NaN is never near.
        let is_near = (numeric - analytic).abs() <= TOLERANCE * (1.0 + magnitude);
        if !is_near {
            return Err(format!(
                "along direction {direction} the derivative is {numeric}, by the rule {analytic} of {magnitude}"
            ));
        }
    }
    Ok(Some(found.iter().map(|gradient| gradient.len() as u64).sum()))
}

/// Where a rule is tried: the operands' memory, the results, and the numbers that the results are multiplied with.
struct Point {
    memory: Vec<Vec<Scalar>>,
    results: Vec<Vec<Scalar>>,
    weights: Vec<Vec<Scalar>>,
}

impl Point {
    fn drawn(op: &Op, values: &[Values], seed: u64) -> Result<Point, String> {
        let operands = op.inputs().into_iter().zip(values).enumerate();
        let memory: Vec<Vec<Scalar>> =
            operands.map(|(i, (spec, values))| drawn(&spec, values, mix(seed, i as u64))).collect();
        let results = evaluate(op, &memory);
        if let Some(fault) = super::run::oracle_fault(op, &results) {
            return Err(fault);
        }
        let weight = |(number, result): (usize, &Vec<Scalar>)| numbers(result.len(), mix(seed, 1000 + number as u64));
        let weights = results.iter().enumerate().map(weight).collect();
        Ok(Point { memory, results, weights })
    }
}

/// `count` numbers from -1 to 1.
fn numbers(count: usize, seed: u64) -> Vec<Scalar> {
    let bytes = Values::Uniform(-1.0, 1.0).bytes(crate::DType::F64, count as u64, seed);
    bytes.chunks_exact(8).map(|bytes| Scalar::from_le_bytes(bytes, crate::DType::F64)).collect()
}

/// The elements of memory that a view of `values` reaches; NaN elsewhere.
fn drawn(spec: &TensorSpec, values: &Values, seed: u64) -> Vec<Scalar> {
    let host = operand(spec, values, seed).host;
    let mut memory = vec![Scalar::F(f64::NAN); spec.layout.required_elements() as usize];
    for (i, &value) in host.values.iter().enumerate() {
        memory[spec.layout.index_of(i as u64) as usize] = value;
    }
    memory
}

/// The results, dense.
fn evaluate(op: &Op, memory: &[Vec<Scalar>]) -> Vec<Vec<Scalar>> {
    let view = |(spec, memory): (&TensorSpec, &Vec<Scalar>)| HostTensor {
        dtype: spec.dtype,
        shape: *spec.layout.shape(),
        values: (0..spec.layout.elements()).map(|i| memory[spec.layout.index_of(i) as usize]).collect(),
    };
    let hosts: Vec<HostTensor> = op.inputs().iter().zip(memory).map(view).collect();
    op.oracle(&hosts).iter().map(|result| result.iter().map(|expected| expected.value).collect()).collect()
}

fn loss(op: &Op, memory: &[Vec<Scalar>], weights: &[Vec<Scalar>]) -> f64 {
    let results = evaluate(op, memory);
    let terms = results.iter().zip(weights).flat_map(|(result, weights)| result.iter().zip(weights));
    terms.map(|(y, w)| y.as_f64() * w.as_f64()).sum()
}

/// The gradient of a view, dense in `found`, by the `elements` of its memory: that of one which the view repeats is a sum.
fn summed(view: &TensorSpec, elements: usize, found: &[Scalar]) -> Vec<f64> {
    let mut summed = vec![0.0; elements];
    for (i, value) in found.iter().enumerate() {
        summed[view.layout.index_of(i as u64) as usize] += value.as_f64();
    }
    summed
}

/// Compares the gradient of `input`, dense in `found`, with central differences; how many elements.
fn compare(
    op: &Op,
    memory: &[Vec<Scalar>],
    weights: &[Vec<Scalar>],
    input: usize,
    found: &[Scalar],
    rule: &Rule,
) -> Result<u64, String> {
    let summed = summed(&op.inputs()[input], memory[input].len(), found);
    let largest = summed.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    let mut compared = 0;
    for (at, &analytic) in summed.iter().enumerate() {
        let x = memory[input][at].as_f64();
        if x.is_nan() {
            continue;
        }
        let h = STEP * x.abs().max(1.0);
        let moved = |by: f64| {
            let mut memory = memory.to_vec();
            memory[input][at] = Scalar::F(x + by);
            loss(op, &memory, weights)
        };
        let numeric = (moved(h) - moved(-h)) / (2.0 * h);
        // NaN is never near.
        let is_near = (numeric - analytic).abs() <= TOLERANCE * (1.0 + largest.max(numeric.abs()));
        if !is_near {
            let steps: Vec<&str> = rule.graph.steps.iter().map(|step| step.op.name()).collect();
            return Err(format!(
                "gradient of input {input} at element {at} ({x}) is {analytic} by {steps:?}, not {numeric}"
            ));
        }
        compared += 1;
    }
    Ok(compared)
}
