//! Texts as vectors that are close where meanings are: the encoder all-MiniLM-L6-v2 (BERT, six layers, 22 million
//! parameters) on every device.
//!
//! Crate `tokenizers` makes tokens, `nn::models::Bert` encodes them with the model's own safetensors file, and the mean
//! over the tokens without padding is scaled to length 1. Each vector must be within 1e-4 of one computed in float64
//! from the same file (`data/text_vectors.tsv`). The decision to know: weights are fetched, not shipped; without them
//! the program says how to get them and compares nothing.
//!
//! Run: `cargo xtask setup` once, which fetches the weights, then `cargo run --release --example text_to_vectors`. For
//! weights elsewhere, name their folder behind ` -- ` or in `POLYWARP_TEXT_ENCODER`. `data/README.md` tells how the
//! reference vectors were made.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use polywarp::nn::file::{self, Loaded};
use polywarp::nn::models::{Bert, BertConfig, BertInput};
use polywarp::nn::{Builder, Dropout, Parameters, Watched};
use polywarp::{Device, Tensor};
use tokenizers::{Tokenizer, TruncationParams};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The file in which `cargo xtask setup` stores the weights.
const FETCHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/tools/text-encoder/model");

/// The most tokens of a text; further ones are cut off (`sentence_bert_config.json` of the model).
const MOST_TOKENS: usize = 256;
/// Tokens in a batch, including padding; a longer text would be a batch of its own.
const BATCH_TOKENS: usize = 256;
/// The largest difference of an element from its reference.
const TOLERANCE: f32 = 1e-4;

/// Tensors of the file that the encoder does not have: the positions 0 to 511 as integers, which are the rows of a
/// table here, and BERT's pooler, a layer on the first token for a task of its training. This model takes the mean of
/// all tokens instead.
const LEFT_OUT: [&str; 3] = ["embeddings.position_ids", "pooler.dense.bias", "pooler.dense.weight"];

/// Pairs of texts, by their lines, whose similarity is printed.
const PAIRS: [(usize, usize); 4] = [(0, 1), (4, 5), (0, 3), (2, 5)];

/// The model's `config.json`; all other settings are BERT-base's.
fn config() -> BertConfig {
    BertConfig { hidden: 384, layers: 6, heads: 12, intermediate: 1536, ..BertConfig::base() }
}

/// A text with its reference vector; messages refer to it by its line.
struct Reference {
    text: &'static str,
    tokens: usize,
    vector: Vec<f32>,
}

/// The shipped references; they are part of the program, so they are well formed.
fn references() -> Vec<Reference> {
    let line = |line: &'static str| {
        let mut fields = line.split('\t');
        let mut field = || fields.next().expect("a line has a text, a number of tokens and a vector");
        let (text, tokens) = (field(), field().parse().expect("a whole number"));
        let vector: Vec<f32> = field().split(',').map(|element| element.parse().expect("a number")).collect();
        assert_eq!(vector.len() as u64, config().hidden, "elements of the vector of {text:?}");
        Reference { text, tokens, vector }
    };
    include_str!("data/text_vectors.tsv").lines().map(line).collect()
}

/// The folder of the weights; `None` where none was named and none was fetched.
fn folder() -> Option<PathBuf> {
    let named = std::env::args_os().nth(1).or_else(|| std::env::var_os("POLYWARP_TEXT_ENCODER"));
    named.map(PathBuf::from).or_else(|| Path::new(FETCHED).is_dir().then(|| FETCHED.into()))
}

/// The encoder on a device.
struct Encoder {
    bert: Bert,
    parameters: Watched,
}

impl Encoder {
    fn new(device: &Device, weights: &Loaded) -> Outcome<Encoder> {
        let mut builder = Builder::new(0);
        let bert = Bert::encoder(&mut builder, "", config())?;
        let parameters: Parameters = builder.build(device)?;
        let names = weights.names().into_iter().filter(|name| !LEFT_OUT.contains(&name.as_str()));
        let tensor = |name: String| weights.tensor(device, &name).map(|tensor| (name, tensor));
        let tensors = names.map(tensor).collect::<polywarp::Result<Vec<(String, Tensor)>>>()?;
        // Refuses missing names, unknown names and other shapes.
        parameters.load(tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)))?;
        Ok(Encoder { bert, parameters: parameters.unwatched() })
    }

    /// The vectors of texts, [texts, hidden], computed from their tokens.
    fn encode(&self, device: &Device, texts: &[&[u32]]) -> Outcome<Tensor> {
        let length = texts.iter().map(|text| text.len()).max().unwrap_or_default();
        let padding = config().padding.unwrap_or_default();
        let at = |text: &[u32], place: usize| text.get(place).copied().unwrap_or(padding);
        let places = || texts.iter().flat_map(|&text| (0..length).map(move |place| (text, place)));
        let tokens: Vec<u32> = places().map(|(text, place)| at(text, place)).collect();
        let is_there: Vec<bool> = places().map(|(text, place)| place < text.len()).collect();
        let shape = [texts.len() as u64, length as u64];
        let tokens = Tensor::from_slice(device, &tokens, shape)?;
        let mask = Tensor::from_slice(device, &is_there, shape)?;

        let input = BertInput { mask: Some(&mask), ..BertInput::new(&tokens) };
        let hidden = self.bert.forward(&self.parameters, &input, Dropout::none())?;
        // The mean over the tokens that are no padding.
        let mask = mask.cast(hidden.dtype())?;
        let sums = hidden.mul(&mask.unsqueeze(2)?)?.sum(1)?;
        let means = sums.div(&mask.sum(1)?.unsqueeze(1)?)?;
        // Scaled to length 1.
        let lengths = means.mul(&means)?.sum(1)?.sqrt()?;
        Ok(means.div(&lengths.unsqueeze(1)?)?)
    }
}

/// Numbers of the texts, grouped into batches of similar length, so that batches contain little padding.
fn batches(texts: &[Vec<u32>]) -> Vec<Vec<usize>> {
    let mut numbers: Vec<usize> = (0..texts.len()).collect();
    numbers.sort_by_key(|&number| texts[number].len());
    let mut batches: Vec<Vec<usize>> = Vec::new();
    for number in numbers {
        // Texts come in order of length: this is the longest of its batch so far.
        let length = texts[number].len();
        match batches.last_mut() {
            Some(batch) if (batch.len() + 1) * length <= BATCH_TOKENS => batch.push(number),
            _ => batches.push(vec![number]),
        }
    }
    batches
}

/// Encodes all texts on `device` and returns their vectors.
fn vectors(device: &Device, weights: &Loaded, texts: &[Vec<u32>]) -> Outcome<Vec<Vec<f32>>> {
    let encoder = Encoder::new(device, weights)?;
    let (start, batches) = (Instant::now(), batches(texts));
    let mut vectors = vec![Vec::new(); texts.len()];
    for batch in &batches {
        let tokens: Vec<&[u32]> = batch.iter().map(|&number| texts[number].as_slice()).collect();
        let encoded: Vec<f32> = encoder.encode(device, &tokens)?.to_vec()?;
        for (&number, vector) in batch.iter().zip(encoded.chunks(config().hidden as usize)) {
            vectors[number] = vector.to_vec();
        }
    }
    println!("{} ({}, {})", device.id(), device.info().name, device.info().api);
    print!("  {} texts in {} batches, {:.1?} from cold", texts.len(), batches.len(), start.elapsed());
    Ok(vectors)
}

/// The largest difference; infinite where an element is NaN or the lengths differ.
fn difference(vector: &[f32], reference: &[f32]) -> f32 {
    if vector.len() != reference.len() {
        return f32::INFINITY;
    }
    let differences = vector.iter().zip(reference).map(|(x, y)| (x - y).abs());
    // `max` alone would ignore NaN.
    differences.fold(0.0, |most, next| if next.is_nan() { f32::INFINITY } else { most.max(next) })
}

/// The cosine of the angle between vectors of length 1.
fn similarity(vectors: &[Vec<f32>], (one, other): (usize, usize)) -> f32 {
    vectors[one].iter().zip(&vectors[other]).map(|(x, y)| x * y).sum()
}

fn main() -> Outcome<ExitCode> {
    let Some(folder) = folder() else {
        println!("NOT RUN: there are no weights in {FETCHED}; `cargo xtask setup` fetches them (83 MB)");
        return Ok(ExitCode::SUCCESS);
    };
    let references = references();
    let path = folder.join("tokenizer.json");
    let mut tokenizer = Tokenizer::from_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    // The file asks for 128 tokens, cut or padded. The model reads more, and batches do their own padding.
    tokenizer
        .with_padding(None)
        .with_truncation(Some(TruncationParams { max_length: MOST_TOKENS, ..TruncationParams::default() }))?;
    let tokens = |reference: &Reference| tokenizer.encode(reference.text, true).map(|text| text.get_ids().to_vec());
    let texts = references.iter().map(tokens).collect::<Result<Vec<Vec<u32>>, _>>()?;
    let weights = file::load(folder.join("model.safetensors"))?;

    let (mut is_right, mut shown) = (true, None);
    for (number, (tokens, reference)) in texts.iter().zip(&references).enumerate() {
        if tokens.len() != reference.tokens {
            eprintln!("text {} has {} tokens, not {}", number + 1, tokens.len(), reference.tokens);
            is_right = false;
        }
    }
    for entry in polywarp::devices() {
        let device = match entry.open() {
            Ok(device) => device,
            Err(error) => {
                println!("{}: {error}", entry.id);
                continue;
            }
        };
        let vectors = vectors(&device, &weights, &texts)?;
        let pairs = vectors.iter().zip(&references);
        let differences: Vec<f32> = pairs.map(|(vector, expected)| difference(vector, &expected.vector)).collect();
        println!("; at most {:.1e} from the references", differences.iter().copied().fold(0.0, f32::max));
        for (number, by) in differences.iter().enumerate().filter(|(_, by)| **by > TOLERANCE) {
            eprintln!("{}: the vector of text {} is {by:.1e} from its reference", device.id(), number + 1);
            is_right = false;
        }
        shown.get_or_insert(vectors);
    }
    let Some(vectors) = shown else { return Err("no device could be opened".into()) };
    println!("similarities:");
    for pair in PAIRS {
        let [one, other] = [pair.0, pair.1].map(|number| references[number].text);
        println!("{:>7.3}  {one} / {other}", similarity(&vectors, pair));
    }
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
