//! The rules that are one launch for each bucket: SGD, Adam, AdamW.
//!
//! A rule is a few expressions over the flat tensors and the numbers of the step. The decision to know: where the step is skipped every
//! result is chosen to be what was there before, so that a gradient of NaN enters nothing.

use polywarp_core::{CompareFn, Expr, Result, Tensor};

use crate::{Adam, Decay, Method, Optimiser, Parameters, Sgd, constant, invalid};

/// `before` where the factor says that the step is skipped, else `after`.
pub(crate) fn unless_skipped(factor: &Expr, before: &Expr, after: Expr) -> Expr {
    factor.compare(CompareFn::Lt, constant(0.0)).select(before.clone(), after)
}

/// Updates the buckets.
pub(crate) fn step(method: &Method, optimiser: &Optimiser, parameters: &Parameters) -> Result<()> {
    let numbers = &optimiser.numbers;
    for (bucket, &(_, decay)) in parameters.places().buckets.iter().enumerate() {
        let decays = decay == Decay::Yes;
        let value = &parameters.values().buckets()[bucket];
        let gradient = &parameters.gradients().buckets()[bucket];
        let moments = optimiser.moments.iter().map(|moment| &moment.buckets()[bucket]);
        let updated: Vec<&Tensor> = [value].into_iter().chain(moments).collect();
        let [first, second] = &numbers.corrections;
        match method {
            Method::Sgd(sgd) => {
                let inputs = [gradient, &numbers.factor, &numbers.rate, &numbers.steps];
                // The step's number is read where the first one differs from the others.
                let inputs = if begins_apart(sgd) { &inputs[..] } else { &inputs[..3] };
                Tensor::update(&descent(sgd, decays, inputs.len()), inputs, &updated)?;
            }
            Method::Adam(adam) | Method::AdamW(adam) => {
                let is_apart = matches!(method, Method::AdamW(_));
                let inputs = [gradient, &numbers.factor, &numbers.rate, first, second];
                let decay = if decays { adam.decay } else { 0.0 };
                Tensor::update(&moments_step(adam, decay, is_apart), &inputs, &updated)?;
            }
            Method::Lamb(_) => return invalid("optimiser", "LAMB is no rule of one launch"),
        }
    }
    Ok(())
}

/// With dampening a buffer that starts at 0 would differ from PyTorch's, which starts as the gradient.
fn begins_apart(sgd: &Sgd) -> bool {
    sgd.momentum != 0.0 && sgd.dampening != 0.0
}

/// The new value and, with momentum, the new buffer; `inputs` stand before them.
fn descent(sgd: &Sgd, decays: bool, inputs: usize) -> Vec<Expr> {
    let [gradient, factor, rate, steps] = [0, 1, 2, 3].map(Expr::input);
    let [value, buffer] = [inputs, inputs + 1].map(Expr::input);
    let mut gradient = gradient * &factor;
    if decays && sgd.decay != 0.0 {
        gradient = gradient + value.clone() * constant(sgd.decay);
    }
    let moved = |direction: Expr| unless_skipped(&factor, &value, value.clone() - rate.clone() * direction);
    if sgd.momentum == 0.0 {
        return vec![moved(gradient)];
    }
    let mut next = buffer.clone() * constant(sgd.momentum) + gradient.clone() * constant(1.0 - sgd.dampening);
    if begins_apart(sgd) {
        next = steps.compare(CompareFn::Le, constant(1.0)).select(gradient.clone(), next);
    }
    let direction = if sgd.nesterov { gradient + next.clone() * constant(sgd.momentum) } else { next.clone() };
    vec![moved(direction), unless_skipped(&factor, &buffer, next)]
}

/// The new moments of `gradient`.
pub(crate) fn moments_of(betas: [f64; 2], gradient: &Expr, [first, second]: [&Expr; 2]) -> [Expr; 2] {
    let of = |moment: &Expr, beta: f64, term: Expr| moment.clone() * constant(beta) + term * constant(1.0 - beta);
    [of(first, betas[0], gradient.clone()), of(second, betas[1], gradient.clone() * gradient)]
}

/// The new value and moments of Adam (decay in the gradient) and AdamW (apart).
fn moments_step(adam: &Adam, decay: f64, is_apart: bool) -> Vec<Expr> {
    let [gradient, factor, rate, of_first, root_of_second, value, first, second] = std::array::from_fn(Expr::input);
    let mut gradient = gradient * &factor;
    let mut kept = value.clone();
    if decay != 0.0 {
        let decayed = value.clone() * constant(decay);
        if is_apart { kept = kept - rate.clone() * decayed } else { gradient = gradient + decayed }
    }
    let [m, v] = moments_of(adam.betas, &gradient, [&first, &second]);
    let root = v.sqrt() / root_of_second + constant(adam.epsilon);
    let next = kept - rate / of_first * (m.clone() / root);
    vec![unless_skipped(&factor, &value, next), unless_skipped(&factor, &first, m), unless_skipped(&factor, &second, v)]
}
