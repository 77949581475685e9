"""Makes text_vectors.tsv: vectors of the encoder all-MiniLM-L6-v2 in float64, written out in numpy, one text at a time.

Run from the repository, after `cargo xtask setup`:
    pip install numpy safetensors tokenizers
    python3 examples/data/text_vectors.py target/tools/text-encoder/model examples/data/text_vectors.tsv
"""

import json
import math
import sys

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

TEXTS = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The girl is carrying a baby.",
    "A cheetah is running behind its prey.",
    "Matrix multiplication is faster on a graphics card.",
    "GPUs compute products of large matrices in little time.",
    # Accents, which the tokeniser takes off, and signs that are tokens of their own.
    "Crème brûlée costs 7 € at the café — naïve, isn't it?",
    # More than 256 tokens: it is cut.
    ("A text that is longer than the model reads: it is cut. " * 40).strip(),
]

folder, out = sys.argv[1:3]
weights = {name: array.astype(np.float64) for name, array in load_file(f"{folder}/model.safetensors").items()}
with open(f"{folder}/config.json") as file:
    config = json.load(file)
tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
tokenizer.no_padding()
with open(f"{folder}/sentence_bert_config.json") as file:
    tokenizer.enable_truncation(json.load(file)["max_seq_length"])
erf = np.vectorize(math.erf)


def linear(x, name):
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def layer_norm(x, name):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    normal = (x - mean) / np.sqrt(variance + config["layer_norm_eps"])
    return normal * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def layer(x, name):
    def heads(part):
        projected = linear(x, f"{name}.attention.self.{part}")
        return projected.reshape(len(x), config["num_attention_heads"], -1).transpose(1, 0, 2)

    query, key, value = heads("query"), heads("key"), heads("value")
    scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    attended = (scores / scores.sum(-1, keepdims=True)) @ value
    attended = linear(attended.transpose(1, 0, 2).reshape(x.shape), f"{name}.attention.output.dense")
    x = layer_norm(x + attended, f"{name}.attention.output.LayerNorm")
    up = linear(x, f"{name}.intermediate.dense")
    down = linear(up * 0.5 * (1 + erf(up / math.sqrt(2))), f"{name}.output.dense")
    return layer_norm(x + down, f"{name}.output.LayerNorm")


def vector(tokens):
    tables = (weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type"))
    words, positions, segments = tables
    x = layer_norm(words[tokens] + positions[: len(tokens)] + segments[0], "embeddings.LayerNorm")
    for number in range(config["num_hidden_layers"]):
        x = layer(x, f"encoder.layer.{number}")
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


with open(out, "w", encoding="utf-8") as file:
    for text in TEXTS:
        tokens = tokenizer.encode(text).ids
        elements = ",".join(f"{element:.7f}" for element in vector(tokens))
        file.write(f"{text}\t{len(tokens)}\t{elements}\n")
