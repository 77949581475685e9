//! BERT (Devlin et al., arXiv 1810.04805): an encoder of text, and its head that names masked tokens.
//!
//! Layers, formulas and names are those of transformers' `BertForMaskedLM`, so that its files load as they are. Each layer is attention
//! and a network of two products with GELU between them (the erf form), each added to what it read and normalised after that. The
//! decision to know: the head multiplies by the table of tokens again (tied), and tied weights are one parameter, whose gradients add up.

use polywarp_core::{CompareFn, Expr, MatmulOptions, Result, Tensor, UnaryFn};

use crate::layers::Joined;
use crate::{
    AttentionOptions, Builder, Decay, Dropout, Embedding, Init, LayerNorm, Linear, Watched, attention, invalid,
};

/// The sizes of a [`Bert`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BertConfig {
    /// Tokens that there are.
    pub vocabulary: u64,
    /// Elements of a token's vector.
    pub hidden: u64,
    /// Layers.
    pub layers: u64,
    /// Heads of attention; they divide `hidden`.
    pub heads: u64,
    /// Elements between the two products of a layer.
    pub intermediate: u64,
    /// The longest text, in tokens.
    pub positions: u64,
    /// Kinds of segments.
    pub segments: u64,
    /// Added to variances.
    pub epsilon: f64,
    /// The rate at which elements of vectors are dropped while training.
    pub dropout: f64,
    /// The rate at which probabilities of attention are dropped while training.
    pub attention_dropout: f64,
    /// The deviation of starting weights.
    pub deviation: f64,
    /// The token whose vector is not trained.
    pub padding: Option<u32>,
}

impl BertConfig {
    /// bert-base-uncased: 110 million parameters.
    pub fn base() -> BertConfig {
        BertConfig {
            vocabulary: 30_522,
            hidden: 768,
            layers: 12,
            heads: 12,
            intermediate: 3072,
            positions: 512,
            segments: 2,
            epsilon: 1e-12,
            dropout: 0.1,
            attention_dropout: 0.1,
            deviation: 0.02,
            padding: Some(0),
        }
    }
}

/// Texts.
#[derive(Clone, Copy, Debug)]
pub struct BertInput<'a> {
    /// Whole numbers, [texts, tokens].
    pub tokens: &'a Tensor,
    /// The kind of segment of each token; the first where nothing is said.
    pub segments: Option<&'a Tensor>,
    /// Which tokens are there, bool, [texts, tokens]; all where nothing is said.
    pub mask: Option<&'a Tensor>,
}

impl<'a> BertInput<'a> {
    /// Texts of one segment and without padding.
    pub fn new(tokens: &'a Tensor) -> BertInput<'a> {
        BertInput { tokens, segments: None, mask: None }
    }
}

/// One layer.
#[derive(Clone, Debug)]
struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    joined: Joined,
    attended: Linear,
    attended_norm: LayerNorm,
    up: Linear,
    down: Linear,
    norm: LayerNorm,
}

/// The head that names masked tokens.
#[derive(Clone, Debug)]
struct Head {
    transform: Linear,
    norm: LayerNorm,
    bias: String,
}

/// The network: names and sizes, no tensors.
#[derive(Clone, Debug)]
pub struct Bert {
    config: BertConfig,
    tokens: Embedding,
    positions: Embedding,
    segments: Embedding,
    norm: LayerNorm,
    layers: Vec<Layer>,
    head: Option<Head>,
}

/// What stands before the names of the head.
const HEAD: &str = "cls.predictions";

/// The table of tokens has room for a multiple of so many, which products of tensor cores read faster.
const ROOM: u64 = 64;

impl Bert {
    /// Registers encoder and head, under the names of `BertForMaskedLM`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](polywarp_core::Error::InvalidArgument) for heads that do not divide the hidden size; as [`Builder::add`].
    pub fn new(builder: &mut Builder, config: BertConfig) -> Result<Bert> {
        let bert = Bert::encoder(builder, "bert.", config)?;
        let (n, init) = (config.hidden, Init::Normal { mean: 0.0, std: config.deviation as f32 });
        let dense = format!("{HEAD}.transform.dense");
        let transform = Linear::with_init(builder, &dense, n, n, init, Some(Init::Zeros))?;
        let norm = LayerNorm::new(builder, &format!("{HEAD}.transform.LayerNorm"), n, config.epsilon)?;
        let bias = format!("{HEAD}.bias");
        builder.add_with_room(bias.as_str(), [config.vocabulary], ROOM, Init::Zeros, Decay::No)?;
        Ok(Bert { head: Some(Head { transform, norm, bias }), ..bert })
    }

    /// Registers the encoder alone; `prefix` stands before all names (`bert.`, or nothing in files of `BertModel`).
    ///
    /// # Errors
    /// As [`Bert::new`].
    pub fn encoder(builder: &mut Builder, prefix: &str, config: BertConfig) -> Result<Bert> {
        let BertConfig { hidden, heads, epsilon, .. } = config;
        if heads == 0 || hidden % heads != 0 {
            return invalid("BERT", format!("{heads} heads do not divide {hidden} elements"));
        }
        let init = Init::Normal { mean: 0.0, std: config.deviation as f32 };
        let mut table = |name: &str, rows: u64, multiple: u64, padding: Option<u32>| {
            let prefix = format!("{prefix}embeddings.{name}_embeddings");
            Embedding::with_room(builder, &prefix, [rows, hidden], multiple, init, padding)
        };
        let tokens = table("word", config.vocabulary, ROOM, config.padding)?;
        let positions = table("position", config.positions, 1, None)?;
        let segments = table("token_type", config.segments, 1, None)?;
        let norm = LayerNorm::new(builder, &format!("{prefix}embeddings.LayerNorm"), hidden, epsilon)?;
        let layers = (0..config.layers).map(|number| Layer::new(builder, prefix, number, &config));
        let layers = layers.collect::<Result<Vec<Layer>>>()?;
        Ok(Bert { config, tokens, positions, segments, norm, layers, head: None })
    }

    /// The sizes.
    pub fn config(&self) -> &BertConfig {
        &self.config
    }

    /// The vector of each token, [texts, tokens, hidden], in the dtype of the parameters.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](polywarp_core::Error::InvalidArgument) for tokens that are not of rank 2 or more than there are positions; as the
    /// operations.
    pub fn forward(&self, parameters: &Watched, input: &BertInput<'_>, dropout: Dropout<'_>) -> Result<Tensor> {
        let &[_, length] = input.tokens.dims() else {
            return invalid("tokens", format!("they must be [texts, tokens], not {}", input.tokens.shape()));
        };
        if length > self.config.positions {
            return invalid("tokens", format!("{length} of a text, and there are {} positions", self.config.positions));
        }
        let x = self.tokens.forward(parameters, input.tokens)?;
        // Of one kind of segment, and of places in their order, rows of the table as they lie: no choice by index.
        let segments = match input.segments {
            Some(segments) => self.segments.forward(parameters, segments)?,
            None => parameters.get(self.segments.weight())?.slice(0, 0..1)?,
        };
        let places = parameters.get(self.positions.weight())?.slice(0, 0..length)?;
        let x = x.add(&segments)?.add(&places)?;
        let mut x = dropout.forward(&self.norm.forward(parameters, &x)?, self.config.dropout)?;
        // [texts, 1, 1, tokens]: for all heads and queries.
        let mask = input.mask.map(|mask| mask.unsqueeze(1)?.unsqueeze(1)).transpose()?;
        for layer in &self.layers {
            x = layer.forward(parameters, &x, mask.as_ref(), &self.config, dropout)?;
        }
        Ok(x)
    }

    /// What each token is by the head, from the vectors that [`Bert::forward`] gives: logits [..., vocabulary]. Take the vectors of masked
    /// tokens out first ([`Tensor::take`]) where only those count.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](polywarp_core::Error::InvalidArgument) for an encoder without a head; as the operations.
    pub fn predict(&self, parameters: &Watched, hidden: &Tensor) -> Result<Tensor> {
        let head = self.head()?;
        let (table, bias) = (parameters.get(self.tokens.weight())?, parameters.get(&head.bias)?);
        let logits = self.logits(head, parameters, hidden, table, bias)?;
        let rows = &hidden.dims()[..hidden.rank() - 1];
        logits.reshape([rows, &[self.config.vocabulary]].concat())
    }

    /// The mean cross-entropy of [`Bert::predict`] and `targets`, whole numbers [texts, tokens], of which -100 do not count. The same number,
    /// sooner: the product is as wide as tensor cores like it, and the columns beyond the vocabulary are those of no word.
    ///
    /// # Errors
    /// As [`Bert::predict`] and [`Tensor::cross_entropy`].
    pub fn loss(&self, parameters: &Watched, hidden: &Tensor, targets: &Tensor) -> Result<Tensor> {
        let head = self.head()?;
        let (table, bias) = (parameters.unit(self.tokens.weight())?, parameters.unit(&head.bias)?);
        // Below everything, so that the exponential there is 0, and with it the gradient.
        let number = Expr::index();
        let is_word = number.compare(CompareFn::Lt, self.config.vocabulary as i64);
        let nowhere = Expr::constant(f64::NEG_INFINITY);
        let bias = Tensor::map(&is_word.select(Expr::input(0), nowhere), &[bias])?;
        let logits = self.logits(head, parameters, hidden, table, &bias)?;
        logits.cross_entropy(&targets.reshape([targets.elements()])?)
    }

    fn head(&self) -> Result<&Head> {
        match &self.head {
            Some(head) => Ok(head),
            None => invalid("BERT", "this is an encoder without the head; make it by `Bert::new`"),
        }
    }

    /// [rows of `hidden`, rows of `table`].
    fn logits(
        &self,
        head: &Head,
        parameters: &Watched,
        hidden: &Tensor,
        table: &Tensor,
        bias: &Tensor,
    ) -> Result<Tensor> {
        let Head { transform, norm, .. } = head;
        let x = norm.forward(parameters, &transform.forward_activated(parameters, hidden, UnaryFn::Gelu)?)?;
        let rows = x.elements() / self.config.hidden.max(1);
        let options = MatmulOptions { bias: Some(bias), precision: parameters.policy().products, ..Default::default() };
        x.reshape([rows, self.config.hidden])?.matmul_with(&table.t()?, &options)
    }
}

impl Layer {
    fn new(builder: &mut Builder, prefix: &str, number: u64, config: &BertConfig) -> Result<Layer> {
        let (hidden, init) = (config.hidden, Init::Normal { mean: 0.0, std: config.deviation as f32 });
        let name = |part: &str| format!("{prefix}encoder.layer.{number}.{part}");
        let mut linear = |part: &str, inputs: u64, outputs: u64| {
            Linear::with_init(builder, &name(part), inputs, outputs, init, Some(Init::Zeros))
        };
        let query = linear("attention.self.query", hidden, hidden)?;
        let key = linear("attention.self.key", hidden, hidden)?;
        let value = linear("attention.self.value", hidden, hidden)?;
        let attended = linear("attention.output.dense", hidden, hidden)?;
        let up = linear("intermediate.dense", hidden, config.intermediate)?;
        let down = linear("output.dense", config.intermediate, hidden)?;
        let attended_norm = LayerNorm::new(builder, &name("attention.output.LayerNorm"), hidden, config.epsilon)?;
        let norm = LayerNorm::new(builder, &name("output.LayerNorm"), hidden, config.epsilon)?;
        let joined = Linear::join(builder, &[&query, &key, &value])?;
        Ok(Layer { query, key, value, joined, attended, attended_norm, up, down, norm })
    }

    fn forward(
        &self,
        parameters: &Watched,
        x: &Tensor,
        mask: Option<&Tensor>,
        config: &BertConfig,
        dropout: Dropout<'_>,
    ) -> Result<Tensor> {
        let (heads, size) = (config.heads, config.hidden / config.heads);
        let dims = [x.dims()[0], x.dims()[1]];
        // [texts, tokens, hidden] -> [texts, heads, tokens, size]: a view.
        let split = |x: Tensor| x.reshape([dims[0], dims[1], heads, size])?.transpose(1, 2);
        let layers = [&self.query, &self.key, &self.value];
        let read = Linear::forward_joined(&layers, self.joined, parameters, x)?;
        let read = read.into_iter().map(split).collect::<Result<Vec<Tensor>>>()?;
        let [q, k, v] = [&read[0], &read[1], &read[2]];
        let options = AttentionOptions {
            mask,
            precision: parameters.policy().products,
            dropout: Some((config.attention_dropout, dropout)),
            ..AttentionOptions::default()
        };
        let attended = attention(q, k, v, &options)?;
        let attended = attended.transpose(1, 2)?.contiguous()?.reshape([dims[0], dims[1], config.hidden])?;
        let rate = (dropout, config.dropout);
        let attended = self.attended.forward_add(parameters, &attended, rate, x)?;
        let x = self.attended_norm.forward(parameters, &attended)?;
        let up = self.up.forward_activated(parameters, &x, UnaryFn::Gelu)?;
        let down = self.down.forward_add(parameters, &up, rate, &x)?;
        self.norm.forward(parameters, &down)
    }
}
