//! A decoder of text after GPT-2 (Radford et al., "Language models are unsupervised multitask learners", 2019): each token from those
//! before it.
//!
//! Each layer adds two things to what it reads: causal attention, and a network of two products with GELU between them (the tanh form); both
//! read it normalised. Parameters have the names of transformers' `GPT2Model`, but matrices are [`Linear`]'s, [outputs, inputs], where
//! GPT-2's files have [inputs, outputs]: those files do not load. The decision to know: logits are products with the table of
//! tokens again (tied), and tied weights are one parameter, whose gradients add up.

use polywarp_core::{BinaryFn, DType, Expr, Generator, MatmulOptions, Result, Tensor};

use crate::{
    AttentionOptions, Builder, Dropout, Embedding, Init, LayerNorm, Linear, Watched, attention, gelu_tanh, invalid,
};

/// The sizes of a [`Decoder`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecoderConfig {
    /// Tokens that there are.
    pub vocabulary: u64,
    /// Elements of a token's vector.
    pub width: u64,
    /// Layers.
    pub layers: u64,
    /// Heads of attention; they divide `width`.
    pub heads: u64,
    /// The longest text, in tokens.
    pub positions: u64,
    /// Added to variances.
    pub epsilon: f64,
    /// The rate at which elements of vectors and probabilities of attention are dropped while training.
    pub dropout: f64,
    /// The deviation of starting weights. Those of products whose results are added to what a layer reads start with this divided by
    /// sqrt(2 layers), so that the sum keeps its size.
    pub deviation: f64,
}

impl DecoderConfig {
    /// GPT-2's smallest: 124 million parameters.
    pub fn base() -> DecoderConfig {
        DecoderConfig {
            vocabulary: 50_257,
            width: 768,
            layers: 12,
            heads: 12,
            positions: 1024,
            epsilon: 1e-5,
            dropout: 0.1,
            deviation: 0.02,
        }
    }
}

/// How [`Decoder::generate`] takes the next token.
#[derive(Clone, Copy, Debug)]
pub enum TokenChoice<'a> {
    /// The likeliest one; the first of several.
    Likeliest,
    /// By chance, with probabilities softmax(logits / temperature).
    Sampled {
        /// Positive: below 1 likely tokens come more often, above 1 less often.
        temperature: f64,
        /// Where chance comes from.
        generator: &'a Generator,
    },
}

/// One layer.
#[derive(Clone, Debug)]
struct Layer {
    attention_norm: LayerNorm,
    /// Queries, keys and values, one after the other.
    read: Linear,
    attended: Linear,
    norm: LayerNorm,
    up: Linear,
    down: Linear,
}

/// The network: names and sizes, no tensors.
#[derive(Clone, Debug)]
pub struct Decoder {
    config: DecoderConfig,
    tokens: Embedding,
    positions: Embedding,
    layers: Vec<Layer>,
    norm: LayerNorm,
}

impl Decoder {
    /// Registers the parameters.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](polywarp_core::Error::InvalidArgument) for heads that do not divide the width; as [`Builder::add`].
    pub fn new(builder: &mut Builder, config: DecoderConfig) -> Result<Decoder> {
        let DecoderConfig { vocabulary, width, heads, positions, epsilon, .. } = config;
        if heads == 0 || width % heads != 0 {
            return invalid("decoder", format!("{heads} heads do not divide {width} elements"));
        }
        let init = Init::Normal { mean: 0.0, std: config.deviation as f32 };
        let tokens = Embedding::new(builder, "wte", [vocabulary, width], init, None)?;
        let positions = Embedding::new(builder, "wpe", [positions, width], init, None)?;
        let layers = (0..config.layers).map(|number| Layer::new(builder, number, &config));
        let layers = layers.collect::<Result<Vec<Layer>>>()?;
        let norm = LayerNorm::new(builder, "ln_f", width, epsilon)?;
        Ok(Decoder { config, tokens, positions, layers, norm })
    }

    /// The sizes.
    pub fn config(&self) -> &DecoderConfig {
        &self.config
    }

    /// Whole numbers [texts, length] -> logits [texts, length, vocabulary] of the token behind each, in the dtype of the parameters. Those at
    /// a place depend on the tokens up to it alone.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](polywarp_core::Error::InvalidArgument) for tokens that are not of rank 2 or more than there are positions; as the
    /// operations.
    pub fn forward(&self, parameters: &Watched, tokens: &Tensor, dropout: Dropout<'_>) -> Result<Tensor> {
        let &[texts, length] = tokens.dims() else {
            return invalid("tokens", format!("they must be [texts, length], not {}", tokens.shape()));
        };
        let hidden = self.hidden(parameters, tokens, dropout)?;
        let logits = self.logits(parameters, &hidden.reshape([texts * length, self.config.width])?)?;
        logits.reshape([texts, length, self.config.vocabulary])
    }

    /// The vector of each token after the last normalisation, [texts, length, width].
    fn hidden(&self, parameters: &Watched, tokens: &Tensor, dropout: Dropout<'_>) -> Result<Tensor> {
        let length = tokens.dims()[1];
        if length > self.config.positions {
            return invalid("tokens", format!("{length} of a text, and there are {} positions", self.config.positions));
        }
        let places = Tensor::arange(tokens.device(), DType::I32, 0, 1, length)?;
        let x = self.tokens.forward(parameters, tokens)?.add(&self.positions.forward(parameters, &places)?)?;
        let mut x = dropout.forward(&x, self.config.dropout)?;
        for layer in &self.layers {
            x = layer.forward(parameters, &x, &self.config, dropout)?;
        }
        self.norm.forward(parameters, &x)
    }

    /// Vectors [rows, width] -> logits [rows, vocabulary].
    fn logits(&self, parameters: &Watched, rows: &Tensor) -> Result<Tensor> {
        let options = MatmulOptions { precision: parameters.policy().products, ..MatmulOptions::default() };
        rows.matmul_with(&parameters.get(self.tokens.weight())?.t()?, &options)
    }

    /// `count` tokens that follow `text`, each chosen by `choice` and read with those before it, the last `positions` of them. Every token
    /// costs a whole pass over them: nothing is kept from one to the next. Waits for the device.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](polywarp_core::Error::InvalidArgument) for an empty text and a temperature that is not positive; as
    /// [`Decoder::forward`].
    pub fn generate(
        &self,
        parameters: &Watched,
        text: &[u32],
        count: usize,
        choice: TokenChoice<'_>,
    ) -> Result<Vec<u32>> {
        if text.is_empty() {
            return invalid("text", "there is no token to go on from");
        }
        if let TokenChoice::Sampled { temperature, .. } = choice
            && !(temperature > 0.0 && temperature.is_finite())
        {
            return invalid("temperature", format!("{temperature}"));
        }
        let device = parameters.get(self.tokens.weight())?.device().clone();
        let positions = self.config.positions as usize;
        let mut all = text.to_vec();
        // One shape for every pass. What stands behind the last token has no influence on it.
        let window = Tensor::zeros(&device, DType::U32, [1, self.config.positions])?;
        for _ in 0..count {
            let mut last = all[all.len().saturating_sub(positions)..].to_vec();
            let at = last.len() as u64 - 1;
            last.resize(positions, 0);
            window.write(&last)?;
            let row = self.hidden(parameters, &window, Dropout::none())?.select(1, at)?;
            let logits = self.logits(parameters, &row.contiguous()?)?;
            let scores = match choice {
                TokenChoice::Likeliest => logits,
                TokenChoice::Sampled { temperature, generator } => sampled(&logits, temperature, generator)?,
            };
            all.push(scores.argmax(..)?.item::<u32>()?);
        }
        Ok(all.split_off(text.len()))
    }
}

/// Scores whose largest is a token drawn with probabilities softmax(logits / temperature): Gumbel noise -log(-log u), u in (0, 1), is added
/// (Gumbel, "Statistical theory of extreme values", 1954).
fn sampled(logits: &Tensor, temperature: f64, generator: &Generator) -> Result<Tensor> {
    let [seed_low, seed_high, stream_low, stream_high] = &generator.key()?.words()?;
    // Uniform numbers are multiples of 2^-24 below 1: half a step stands for 0, whose logarithm is not finite.
    let uniform = Expr::uniform([1, 2, 3, 4].map(Expr::input)).binary(BinaryFn::Max, 0.5 / 16_777_216.0);
    let noise = -(-uniform.log()).log();
    let scores = Expr::input(0).cast(DType::F32) * (1.0 / temperature) + noise;
    Tensor::map(&scores, &[logits, seed_low, seed_high, stream_low, stream_high])
}

impl Layer {
    fn new(builder: &mut Builder, number: u64, config: &DecoderConfig) -> Result<Layer> {
        let DecoderConfig { width, epsilon, deviation, .. } = *config;
        let init = Init::Normal { mean: 0.0, std: deviation as f32 };
        let added = Init::Normal { mean: 0.0, std: (deviation / (2.0 * config.layers as f64).sqrt()) as f32 };
        let name = |part: &str| format!("h.{number}.{part}");
        let zeros = Some(Init::Zeros);
        let attention_norm = LayerNorm::new(builder, &name("ln_1"), width, epsilon)?;
        let read = Linear::with_init(builder, &name("attn.c_attn"), width, 3 * width, init, zeros)?;
        let attended = Linear::with_init(builder, &name("attn.c_proj"), width, width, added, zeros)?;
        let norm = LayerNorm::new(builder, &name("ln_2"), width, epsilon)?;
        let up = Linear::with_init(builder, &name("mlp.c_fc"), width, 4 * width, init, zeros)?;
        let down = Linear::with_init(builder, &name("mlp.c_proj"), 4 * width, width, added, zeros)?;
        Ok(Layer { attention_norm, read, attended, norm, up, down })
    }

    fn forward(
        &self,
        parameters: &Watched,
        x: &Tensor,
        config: &DecoderConfig,
        dropout: Dropout<'_>,
    ) -> Result<Tensor> {
        let (width, heads) = (config.width, config.heads);
        let [texts, length] = [x.dims()[0], x.dims()[1]];
        let read = self.read.forward(parameters, &self.attention_norm.forward(parameters, x)?)?;
        // [texts, length, 3 width] -> [texts, heads, length, width / heads] each: views.
        let read = read.reshape([texts, length, 3, heads, width / heads])?;
        let part = |number: u64| read.select(2, number)?.transpose(1, 2);
        let options = AttentionOptions {
            causal: true,
            precision: parameters.policy().products,
            dropout: Some((config.dropout, dropout)),
            ..AttentionOptions::default()
        };
        let attended = attention(&part(0)?, &part(1)?, &part(2)?, &options)?;
        let attended = attended.transpose(1, 2)?.contiguous()?.reshape([texts, length, width])?;
        let rate = (dropout, config.dropout);
        let x = self.attended.forward_add(parameters, &attended, rate, x)?;
        let up = gelu_tanh(&self.up.forward(parameters, &self.norm.forward(parameters, &x)?)?)?;
        self.down.forward_add(parameters, &up, rate, &x)
    }
}
