//! The proofs: every rule beside central differences of its operation's oracle, at one point and along directions, of the second order
//! too, and where elements are equal or zero; and that no operation with a rule is left out.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{cases, dense, larger, map, tied};
use crate::case::{Case, Level, Values};
use crate::gradient::{Gradient, Needs};
use crate::harness::gradients::{prove, prove_adjoint, prove_together};
use crate::ops::{GraphOp, Map, REGISTRY, Reduce};
use crate::{DType, Expr, Layout, Result, TensorSpec};

/// What was proved of a case, or what is wrong with it: all cases are told together.
fn told<T>(case: &Case, proved: std::result::Result<Option<T>, String>) -> std::result::Result<T, String> {
    match proved {
        Ok(Some(proved)) => Ok(proved),
        Ok(None) => Err(format!("{} has no rule", case.name)),
        Err(why) => Err(format!("{}: {why}", case.name)),
    }
}

#[test]
fn rules_are_the_central_differences_of_what_operations_mean() {
    let (mut proved, mut elements, mut wrong) = (0, 0, Vec::new());
    for case in cases() {
        match told(&case, prove(&case.op, &case.values, 7)) {
            Ok(found) => (proved, elements) = (proved + found.subsets, elements + found.elements),
            Err(why) => wrong.push(why),
        }
    }
    assert!(wrong.is_empty(), "{} cases: {wrong:#?}", wrong.len());
    println!("{proved} rules, {elements} gradients");
    assert!(proved > 200 && elements > 5000, "{proved} rules, {elements} gradients");
}

/// Where elements are equal or zero. Operations that choose have no derivative there, but one for all equal elements together.
#[test]
fn rules_hold_where_elements_are_equal_or_zero() {
    let (mut groups, mut shared, mut wrong) = (0, 0, Vec::new());
    for case in tied() {
        match told(&case, prove_together(&case.op, &case.values, 5)) {
            Ok(found) => (groups, shared) = (groups + found.groups, shared + found.shared),
            Err(why) => wrong.push(why),
        }
    }
    assert!(wrong.is_empty(), "{} cases: {wrong:#?}", wrong.len());
    println!("{groups} values, {shared} of several elements");
    assert!(groups > 3000 && shared > 500, "{groups} values, {shared} of several elements");
}

#[test]
fn rules_are_adjoints_of_derivatives_on_larger_shapes() {
    let (mut kinds, mut elements) = (HashSet::new(), 0);
    for case in larger() {
        let found = prove_adjoint(&case.op, &case.values, 3, 3).unwrap_or_else(|why| panic!("{}: {why}", case.name));
        elements += found.unwrap_or_else(|| panic!("{} has no rule", case.name));
        kinds.insert(case.op.name());
    }
    println!("{kinds:?}: {elements} gradients");
    assert!(kinds.len() > 30 && elements > 100_000, "{kinds:?}: {elements} gradients");
}

/// Rules are graphs, which have rules by their steps: gradients of second order, and of operations that are graphs of others.
#[test]
fn rules_of_graphs_are_central_differences_too() {
    let (mut proved, mut elements, mut wrong) = (0, 0, Vec::new());
    for case in cases() {
        let floats: Vec<bool> = case.op.inputs().iter().map(|input| input.dtype.is_float()).collect();
        let given = vec![true; case.op.outputs().len()];
        let Ok(Gradient::Rule(rule)) = case.op.gradient(&Needs { inputs: &floats, outputs: &given }) else {
            panic!("{} has no rule", case.name)
        };
        let (second, used) = GraphOp::new("second", rule.graph, rule.inputs.clone(), rule.outputs.clone());
        let inputs = case.op.inputs().len();
        // Outputs and their gradients may be any numbers here: but those of a root are positive.
        let values: Vec<Values> =
            used.iter().map(|&number| case.values.get(number).copied().unwrap_or(Values::Uniform(0.5, 1.5))).collect();
        assert!(used.iter().all(|&number| number < inputs || rule.inputs[number].layout.is_contiguous()));
        let mut prove_one = |op: crate::Op, values: &[Values]| match told(&case, prove(&op, values, 11)) {
            Ok(found) => (proved, elements) = (proved + found.subsets, elements + found.elements),
            Err(why) => wrong.push(format!("{} of {why}", op.name())),
        };
        // An extremum that is none of the elements has no place to go, as other numbers than results have here. Each input doubles
        // the subsets.
        let is_extremum = ["max", "min", "abs_max"].contains(&case.op.name()) && case.op.is::<Reduce>();
        let is_extremum = is_extremum || ["scatter_max", "scatter_min"].contains(&case.op.name());
        if values.len() <= 5 && !is_extremum {
            prove_one(second.into(), &values);
        }
        if let Ok(Some(graph)) = case.op.decompose() {
            let inputs = case.op.inputs();
            let outputs: Vec<TensorSpec> =
                case.op.outputs().iter().map(|output| dense_at_start(&output.spec)).collect();
            let moved = outputs.iter().enumerate().try_fold(case.op.clone(), |op, (n, spec)| op.with_output(n, *spec));
            let graph = moved.and_then(|op| op.decompose().ok().flatten()).unwrap_or(graph);
            let (composed, used) = GraphOp::new("composed", graph, inputs, outputs);
            let values: Vec<Values> = used.iter().map(|&number| case.values[number]).collect();
            prove_one(composed.into(), &values);
        }
    }
    println!("{proved} rules, {elements} gradients");
    assert!(wrong.is_empty(), "{} graphs: {wrong:#?}", wrong.len());
    assert!(proved > 400 && elements > 5000, "{proved} rules, {elements} gradients");
}

fn dense_at_start(spec: &TensorSpec) -> TensorSpec {
    TensorSpec::new(spec.dtype, Layout::contiguous(*spec.layout.shape()))
}

/// A rule that nobody proves, and a refusal without a reason, would be found by users.
#[test]
fn every_kind_of_operation_is_proved_or_says_why_not() {
    let kind = |op: &crate::Op| op.name().to_owned();
    let proved: HashSet<String> = cases().iter().map(|case| kind(&case.op)).collect();
    for case in REGISTRY.iter().flat_map(|family| (family.cases)(Level::Quick)) {
        let (inputs, outputs) = (vec![false; case.op.inputs().len()], vec![true; case.op.outputs().len()]);
        match case.op.gradient(&Needs { inputs: &inputs, outputs: &outputs }) {
            Ok(Gradient::Refused(why)) => assert!(why.len() > 10, "{}", case.name),
            Ok(Gradient::Rule(_)) => {
                let is_map = case.op.is::<Map>();
                assert!(is_map || proved.contains(&kind(&case.op)), "{} has a rule that no case proves", case.name);
            }
            // A program with a step that has none, by name.
            Err(error) => {
                assert!(case.op.is::<Map>() && error.to_string().contains("derivative"), "{}: {error}", case.name)
            }
        }
    }
}

/// What a case of a rule can have that others lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Feature {
    /// An input without elements.
    Empty,
    /// An input in which a view repeats elements.
    Broadcast,
    /// An input that is zero.
    Zero,
    /// Elements that are equal, and some that are not.
    Tie,
}

impl Feature {
    const ALL: [Feature; 4] = [Feature::Empty, Feature::Broadcast, Feature::Zero, Feature::Tie];
}

/// What has no meaning for an operation, with the reason.
const MEANINGLESS: &[(&str, Feature, &str)] = &[
    ("masked_scatter", Feature::Broadcast, "it reads dense operands alone"),
    ("masked_select", Feature::Broadcast, "it reads dense operands alone"),
];

/// The features of a case.
fn features(case: &Case) -> BTreeSet<Feature> {
    let mut found = BTreeSet::new();
    for (input, values) in case.op.inputs().iter().zip(&case.values).filter(|(input, _)| input.dtype.is_float()) {
        let (dims, strides) = (input.layout.dims(), input.layout.strides());
        if input.layout.elements() == 0 {
            found.insert(Feature::Empty);
            continue;
        }
        if dims.iter().zip(strides).any(|(&extent, &stride)| extent > 1 && stride == 0) {
            found.insert(Feature::Broadcast);
        }
        match values {
            Values::Constant(0.0) => drop(found.insert(Feature::Zero)),
            Values::Integers(..) if input.layout.elements() > 3 => drop(found.insert(Feature::Tie)),
            _ => {}
        }
    }
    found
}

#[test]
fn every_rule_is_proved_with_empty_axes_broadcasts_zeros_and_ties() {
    let kind = |op: &crate::Op| if op.is::<Map>() { "map" } else { op.name() };
    let mut of: BTreeMap<&str, BTreeSet<Feature>> = BTreeMap::new();
    for case in cases().iter().chain(&tied()) {
        of.entry(kind(&case.op)).or_default().extend(features(case));
    }
    let lacking = of.iter().flat_map(|(kind, has)| {
        let lacks = Feature::ALL.into_iter().filter(move |feature| !has.contains(feature));
        lacks.map(move |feature| (*kind, feature))
    });
    let lacking: Vec<(&str, Feature)> = lacking.collect();
    let named: Vec<(&str, Feature)> = MEANINGLESS.iter().map(|&(kind, feature, _)| (kind, feature)).collect();
    assert_eq!(lacking, named, "cases of rules lack the left, MEANINGLESS names the right");
    assert!(MEANINGLESS.iter().all(|(.., why)| why.len() > 10));
}

/// Small shapes have no whole blocks: each rule is proved on a larger one too. There is no list of exceptions, and no rule needs one.
#[test]
fn every_kind_of_operation_with_a_rule_has_an_adjoint_case() {
    let kind = |op: &crate::Op| if op.is::<Map>() { "map".to_owned() } else { op.name().to_owned() };
    let proved: HashSet<String> = larger().iter().map(|case| kind(&case.op)).collect();
    let mut missing: Vec<String> = Vec::new();
    for case in REGISTRY.iter().flat_map(|family| (family.cases)(Level::Quick)).chain(cases()) {
        let (inputs, outputs) = (vec![false; case.op.inputs().len()], vec![true; case.op.outputs().len()]);
        let rule = case.op.gradient(&Needs { inputs: &inputs, outputs: &outputs });
        if matches!(rule, Ok(Gradient::Rule(_))) && !proved.contains(&kind(&case.op)) {
            missing.push(kind(&case.op));
        }
    }
    missing.sort();
    missing.dedup();
    assert!(missing.is_empty(), "no case of `larger` is one of {missing:?}");
    // Maps are one kind, whatever they compute: those that draw random numbers are among them.
    let reads_words =
        |case: &Case| case.op.is::<Map>() && case.op.inputs().iter().any(|input| input.dtype == DType::U32);
    assert!(larger().iter().any(reads_words), "nothing is dropped");
}

/// Wrong rules are found: the proof can fail.
#[test]
fn a_wrong_rule_is_found() {
    let inputs = [dense(&[5]).unwrap()];
    let right: crate::Op = map(&[Expr::input(0).exp()], inputs.to_vec(), &[5]).unwrap().into();
    let wrong: crate::Op = Wrong(right).into();
    let found = prove(&wrong, &[Values::Normal], 0).unwrap_err();
    assert!(found.contains("gradient of input 0 at element 0"), "{found}");
    let found = prove_adjoint(&wrong, &[Values::Normal], 0, 1).unwrap_err();
    assert!(found.contains("along direction 0"), "{found}");
    let found = prove_together(&wrong, &[Values::Integers(1, 2)], 0).unwrap_err();
    assert!(found.contains("elements that are 1") || found.contains("elements that are 2"), "{found}");
}

/// exp with the gradient of its own result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Wrong(crate::Op);

impl crate::Operation for Wrong {
    fn name(&self) -> &'static str {
        "wrong"
    }
    fn operands(&self, each: &mut dyn FnMut(crate::operation::Operand)) {
        self.0.operands(each);
    }
    fn validate(&self) -> Result<()> {
        Ok(())
    }
    fn arithmetic(&self) -> crate::operation::Arithmetic {
        self.0.arithmetic()
    }
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        let rule = crate::ops::RuleBuilder::new(self, needs)?;
        let dy = rule.gradient(0)?;
        let gradients = if rule.wants(0) { vec![Some(dy)] } else { Vec::new() };
        rule.finish(gradients)
    }
    fn oracle(&self, before: &[crate::oracle::HostTensor]) -> Vec<Vec<crate::oracle::Expected>> {
        self.0.oracle(before)
    }
}
