//! LAMB: Adam's direction, its length set by the norm of each parameter.
//!
//! Formula and options: [`Lamb`]. The decision to know: a ratio belongs to a parameter and not to a bucket, so behind the launches over
//! buckets (moments and direction, squares) come four small ones for each parameter that has a ratio. Sums of squares are f32 sums, as
//! the global norm's are. Clipping of gradients by their global norm, which apex builds in, is
//! [`StepOptions::clip`](crate::StepOptions::clip).

use polywarp_core::{CompareFn, Expr, Result, Tensor};

use crate::optimiser::Numbers;
use crate::rules::{moments_of, unless_skipped};
use crate::{Decay, Flat, Lamb, Optimiser, Parameters, TrustRatio, constant};

/// Updates all parameters.
pub(crate) fn step(lamb: &Lamb, optimiser: &Optimiser, parameters: &Parameters) -> Result<()> {
    let numbers = &optimiser.numbers;
    let has_ratio = |decay: Decay| lamb.ratio == TrustRatio::All || (decay == Decay::Yes && lamb.decay != 0.0);
    for (bucket, &(_, decay)) in parameters.places().buckets.iter().enumerate() {
        let direction = direction(lamb, decay, optimiser, parameters, bucket)?;
        let value = &parameters.values().buckets()[bucket];
        if !has_ratio(decay) {
            move_by(value, &direction, numbers, None)?;
            continue;
        }
        let square = |x: usize| Expr::input(x) * Expr::input(x);
        let squares = Tensor::map_all(&[square(0), square(1)], &[value, &direction])?;
        for place in &parameters.places().places {
            if place.bucket != bucket {
                continue;
            }
            let elements = place.start..place.start + place.shape.elements();
            let part = |flat: &Tensor| flat.slice(0, elements.clone());
            let sum = |flat: &Tensor| part(flat)?.sum(..)?.reshape([1]);
            let norms = [sum(&squares[0])?, sum(&squares[1])?];
            move_by(&part(value)?, &part(&direction)?, numbers, Some(&norms))?;
        }
    }
    Ok(())
}

/// Updates the moments of a bucket; m' / (sqrt(v') + epsilon) + decay p, anything where the step is skipped.
fn direction(
    lamb: &Lamb,
    decay: Decay,
    optimiser: &Optimiser,
    parameters: &Parameters,
    bucket: usize,
) -> Result<Tensor> {
    let [gradient, factor, value, of_first, root_of_second, first, second] = std::array::from_fn(Expr::input);
    let gradient = gradient * &factor;
    let [m, v] = moments_of(lamb.betas, &gradient, [&first, &second]);
    let mut along = m.clone() / of_first / (v.sqrt() / root_of_second + constant(lamb.epsilon));
    if decay == Decay::Yes && lamb.decay != 0.0 {
        along = along + value * constant(lamb.decay);
    }
    let values = [unless_skipped(&factor, &first, m), unless_skipped(&factor, &second, v), along];
    let of = |flat: &Flat| flat.buckets()[bucket].clone();
    let (gradient, value) = (of(parameters.gradients()), of(parameters.values()));
    let numbers = &optimiser.numbers;
    let [of_first, root_of_second] = &numbers.corrections;
    let inputs = [&gradient, &numbers.factor, &value, of_first, root_of_second];
    let moments: Vec<Tensor> = optimiser.moments.iter().map(of).collect();
    Ok(Tensor::update(&values, &inputs, &moments.iter().collect::<Vec<_>>())?.swap_remove(0))
}

/// p -= rate ratio u. `squares` are the sums of squares of p and u.
fn move_by(value: &Tensor, along: &Tensor, numbers: &Numbers, squares: Option<&[Tensor; 2]>) -> Result<()> {
    let mut inputs = vec![along, &numbers.factor, &numbers.rate];
    inputs.extend(squares.into_iter().flatten());
    let [of_along, factor, rate, of_value, of_direction] = [0, 1, 2, 3, 4].map(Expr::input);
    let before = Expr::input(inputs.len());
    let mut rate = rate;
    if squares.is_some() {
        let is_positive = |x: &Expr| x.compare(CompareFn::Gt, constant(0.0));
        let quotient = is_positive(&of_direction).select(of_value.sqrt() / of_direction.sqrt(), constant(1.0));
        rate = rate * is_positive(&of_value).select(quotient, constant(1.0));
    }
    let after = unless_skipped(&factor, &before, before.clone() - rate * of_along);
    Tensor::update(&[after], &inputs, &[value]).map(drop)
}
