//! Rules of optimisation as data: which there are, with their numbers.
//!
//! Formulas are PyTorch's, and LAMB's apex's; `rules.rs` and `lamb.rs` compute them. The decision to know: numbers of a rule are constants of
//! its kernels, but for the learning rate, which changes while a recording is replayed and so lives on the device.

use polywarp_core::Result;

use crate::invalid;

/// Stochastic gradient descent (Sutskever et al. 2013, as PyTorch has it): g += decay p; b = momentum b + (1 - dampening) g, at the first step
/// b = g; p -= rate b, with Nesterov's rule p -= rate (g + momentum b). Without momentum p -= rate g.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sgd {
    /// What is kept of the direction before; 0 for none.
    pub momentum: f64,
    /// What is taken from the gradient where it joins the momentum.
    pub dampening: f64,
    /// Nesterov's rule; it needs momentum, and no dampening.
    pub nesterov: bool,
    /// Weight decay, added to the gradient.
    pub decay: f64,
}

/// Adam and AdamW (Kingma and Ba, arXiv 1412.6980; Loshchilov and Hutter, arXiv 1711.05101): m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
/// p -= rate / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + epsilon).
///
/// As [`Method::Adam`] the decay is added to the gradient (g += decay p); as [`Method::AdamW`] it is taken from the parameter (p -= rate decay p).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// Decay rates of the moments.
    pub betas: [f64; 2],
    /// Keeps quotients finite.
    pub epsilon: f64,
    /// Weight decay.
    pub decay: f64,
}

impl Default for Adam {
    /// PyTorch's numbers of AdamW: 0.9, 0.999, 1e-8, 0.01. (Its Adam has a decay of 0.)
    fn default() -> Adam {
        Adam { betas: [0.9, 0.999], epsilon: 1e-8, decay: 0.01 }
    }
}

/// LAMB (You et al., arXiv 1904.00962): Adam's moments, corrected; u = m' / (sqrt(v') + epsilon) + decay p; p -= rate ratio u with
/// ratio = |p| / |u| of the parameter (its L2 norms), 1 where either is 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lamb {
    /// Decay rates of the moments.
    pub betas: [f64; 2],
    /// Keeps quotients finite.
    pub epsilon: f64,
    /// Weight decay.
    pub decay: f64,
    /// Which parameters have a ratio; the others have 1.
    pub ratio: TrustRatio,
}

/// Which parameters LAMB's ratio applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustRatio {
    /// All, as in the paper (apex: `use_nvlamb`).
    All,
    /// Those that decay, as in apex and the BERT recipes.
    Decayed,
}

impl Default for Lamb {
    /// apex's numbers: 0.9, 0.999, 1e-6, 0.01, ratios for what decays.
    fn default() -> Lamb {
        Lamb { betas: [0.9, 0.999], epsilon: 1e-6, decay: 0.01, ratio: TrustRatio::Decayed }
    }
}

/// A rule of optimisation. Weight decay applies to parameters registered with [`Decay::Yes`](crate::Decay::Yes) alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// Stochastic gradient descent.
    Sgd(Sgd),
    /// Adam, decay in the gradient.
    Adam(Adam),
    /// Adam, decay apart.
    AdamW(Adam),
    /// Adam with a rate for each parameter tensor.
    Lamb(Lamb),
}

impl Method {
    /// Its name in files.
    pub fn name(&self) -> &'static str {
        match self {
            Method::Sgd(_) => "sgd",
            Method::Adam(_) => "adam",
            Method::AdamW(_) => "adamw",
            Method::Lamb(_) => "lamb",
        }
    }

    /// Numbers kept for each element.
    pub(crate) fn moments(&self) -> usize {
        match self {
            Method::Sgd(sgd) => usize::from(sgd.momentum != 0.0),
            Method::Adam(_) | Method::AdamW(_) | Method::Lamb(_) => 2,
        }
    }

    pub(crate) fn betas(&self) -> Option<[f64; 2]> {
        match self {
            Method::Sgd(_) => None,
            Method::Adam(adam) | Method::AdamW(adam) => Some(adam.betas),
            Method::Lamb(lamb) => Some(lamb.betas),
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |reason: String| invalid("optimiser", format!("{}: {reason}", self.name()));
        let is_positive = |x: f64| x.is_finite() && x >= 0.0;
        let decay = match self {
            Method::Sgd(Sgd { momentum, dampening, nesterov, decay }) => {
                if !is_positive(*momentum) || !(0.0..=1.0).contains(dampening) {
                    return refuse(format!("momentum {momentum}, dampening {dampening}"));
                }
                if *nesterov && (*momentum == 0.0 || *dampening != 0.0) {
                    return refuse("Nesterov's rule needs momentum, and no dampening".to_owned());
                }
                decay
            }
            Method::Adam(Adam { epsilon, decay, .. })
            | Method::AdamW(Adam { epsilon, decay, .. })
            | Method::Lamb(Lamb { epsilon, decay, .. }) => {
                if !is_positive(*epsilon) {
                    return refuse(format!("epsilon {epsilon}"));
                }
                decay
            }
        };
        if !is_positive(*decay) {
            return refuse(format!("decay {decay}"));
        }
        match self.betas().into_iter().flatten().find(|beta| !(0.0..1.0).contains(beta)) {
            Some(beta) => refuse(format!("beta {beta} is not of 0..1")),
            None => Ok(()),
        }
    }
}
