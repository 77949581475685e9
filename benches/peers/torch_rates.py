#!/usr/bin/env python3
"""How fast PyTorch does what README.md compares polywarp with: one line per thing, `what: TIME ms, RATE unit`.

  torch_rates.py train  resnet50|bert-base  f32|tf32|bf16|f16  BATCH      whole steps of training
  torch_rates.py encode bert-base           f32|tf32|bf16|f16  BATCH      hidden states of texts, without gradients
  torch_rates.py attention DTYPE BATCH HEADS ROWS HEAD                    forward and gradient, by cuDNN and by FlashAttention

Compiled with CUDA graphs (`torch.compile(mode="reduce-overhead")`), images
channels-last, cuDNN asked for its best algorithms, 16-bit training by autocast (f16 with a scaler of the loss), fused AdamW. Of BERT: texts of 128
tokens, dropout 0.1, a label on 15 % of them; the encoder is the faster of transformers' and one of plain layers without masks.
Run it in the same call as `polywarp bench`, on the same card: the ratio is what counts.
Needs torch; torchvision for ResNet-50, transformers for BERT.
"""

import sys
import time

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

TOKENS = 128
DTYPES = {"f32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def seconds(work, warm=8, rounds=7, budget=0.2):
    """The median time of `work`, by the host's clock around many of them."""
    for _ in range(warm):
        work()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    work()
    torch.cuda.synchronize()
    repeats = max(1, int(budget / (time.perf_counter() - begin)))
    found = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(repeats):
            work()
        torch.cuda.synchronize()
        found.append((time.perf_counter() - begin) / repeats)
    return sorted(found)[rounds // 2]


def images(batch):
    import torchvision

    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    x = torch.randn(batch, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (batch,), device="cuda")
    return model, lambda model: functional.cross_entropy(model(x), y)


def texts(batch):
    from transformers import BertConfig, BertForMaskedLM

    model = BertForMaskedLM(BertConfig()).cuda()
    x = torch.randint(0, 30522, (batch, TOKENS), device="cuda")
    hidden = torch.rand(batch, TOKENS, device="cuda") < 0.15
    hidden[:, 0] = True
    y = torch.where(hidden, x, -100)
    return model, lambda model: model(input_ids=x, labels=y).loss


def train(network, mode, batch):
    model, loss_of = images(batch) if network == "resnet50" else texts(batch)
    if network == "resnet50":
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    scaler = torch.amp.GradScaler("cuda", enabled=mode == "f16")
    compiled = torch.compile(model.train(), mode="reduce-overhead")
    dtype = DTYPES[mode]

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=dtype, enabled=dtype != torch.float32):
            loss = loss_of(compiled)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    took = seconds(step)
    peak = torch.cuda.max_memory_allocated() / 2**30
    print(f"{network} train {mode} b{batch}: {took * 1e3:.2f} ms, {batch / took:.0f} /s, peak {peak:.2f} GiB", flush=True)


class Encoder(torch.nn.Module):
    """BERT-base's encoder without masks, written for speed: one product for queries, keys and values."""

    def __init__(self, hidden=768, layers=12, heads=12, words=30522):
        super().__init__()
        nn = torch.nn
        self.heads = heads
        self.words, self.places, self.kinds = nn.Embedding(words, hidden), nn.Embedding(512, hidden), nn.Embedding(2, hidden)
        self.norm = nn.LayerNorm(hidden, eps=1e-12)
        block = lambda: nn.ModuleList([
            nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden), nn.LayerNorm(hidden, eps=1e-12),
            nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden), nn.LayerNorm(hidden, eps=1e-12),
        ])
        self.blocks = nn.ModuleList(block() for _ in range(layers))

    def forward(self, x):
        y = self.norm(self.words(x) + self.places.weight[: x.shape[1]] + self.kinds.weight[0])
        for qkv, out, norm, wide, narrow, last in self.blocks:
            q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in qkv(y).chunk(3, -1))
            seen = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            y = norm(y + out(seen))
            y = last(y + narrow(functional.gelu(wide(y))))
        return y


def encode(mode, batch):
    from transformers import BertConfig, BertModel

    x = torch.randint(0, 30522, (batch, TOKENS), device="cuda")
    found = {}
    for name, model in (("transformers", BertModel(BertConfig(), add_pooling_layer=False)), ("plain layers", Encoder())):
        compiled = torch.compile(model.cuda().to(DTYPES[mode]).eval(), mode="reduce-overhead")
        with torch.inference_mode():
            found[name] = seconds(lambda: compiled(x))
    name, took = min(found.items(), key=lambda item: item[1])
    others = ", ".join(f"{name} {took * 1e3:.3f} ms" for name, took in found.items())
    print(f"bert-base encode {mode} b{batch}: {took * 1e3:.3f} ms, {batch / took:.0f} /s, by {name} ({others})", flush=True)


def attention(mode, batch, heads, rows, head):
    shape = (batch, heads, rows, head)
    query, key, value, change = (torch.randn(shape, device="cuda", dtype=DTYPES[mode]) for _ in range(4))
    products = 2 * batch * heads * rows * rows * head
    for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
        what = f"{mode} b{batch} h{heads} s{rows} d{head} {name}"
        with sdpa_kernel(backend):
            forward = seconds(lambda: functional.scaled_dot_product_attention(query, key, value))
            print(f"attention {what}: {forward * 1e3:.4f} ms, {2 * products / forward / 1e12:.1f} TFLOP/s", flush=True)
            inputs = [x.detach().requires_grad_() for x in (query, key, value)]
            result = functional.scaled_dot_product_attention(*inputs)
            back = seconds(lambda: torch.autograd.grad(result, inputs, change, retain_graph=True))
            print(f"attention gradient {what}: {back * 1e3:.4f} ms, {5 * products / back / 1e12:.1f} TFLOP/s", flush=True)


def main(what, *rest):
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    mode = rest[0] if what == "attention" else rest[1]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = mode == "tf32"
    if what == "train":
        train(rest[0], mode, int(rest[2]))
    elif what == "encode":
        encode(mode, int(rest[2]))
    elif what == "attention":
        attention(mode, *map(int, rest[1:]))
    else:
        raise SystemExit(__doc__)
    if what != "attention":
        return
    print(f"({torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()})")


if __name__ == "__main__":
    if len(sys.argv) < 5:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
