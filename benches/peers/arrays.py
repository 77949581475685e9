"""What PyTorch and CuPy (where it is installed) reach of the work of examples/arrays_speed.rs, in milliseconds.

    python3 benches/peers/arrays.py

Medians of five samples by the card's clock, after warm-up. Random operands; results are not checked.
"""
import statistics

import torch


def torch_ms(work, calls=10):
    for _ in range(3):
        work()
    samples = []
    for _ in range(5):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            work()
        end.record()
        torch.cuda.synchronize()
        samples.append(begin.elapsed_time(end) / calls)
    return statistics.median(samples)


def with_torch():
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}")
    x = torch.rand(1 << 26, device="cuda")
    print(f"torch sort 2^26 with indices: {torch_ms(lambda: torch.sort(x), 3):.3f}")
    x = torch.randn(1 << 28, device="cuda")
    y = torch.empty_like(x)
    print(f"torch copy 2^28: {torch_ms(lambda: y.copy_(x)):.3f}")
    print(f"torch cumsum 2^28: {torch_ms(lambda: torch.cumsum(x, 0, out=y)):.3f}")
    print(f"torch histc 2^28 in 256: {torch_ms(lambda: torch.histc(x, 256, -4, 4)):.3f}")
    print(f"torch normal 2^28: {torch_ms(lambda: y.normal_()):.3f}")
    del x, y
    x = torch.randn(64, 1 << 20, device="cuda")
    print(f"torch topk 64 of 64 x 2^20: {torch_ms(lambda: torch.topk(x, 64, 1)):.3f}")
    rows = torch.randn(1 << 18, 256, device="cuda")
    at = torch.randint(0, 1 << 18, (1 << 18,), device="cuda")
    print(f"torch gather 2^18 rows of 1 KB: {torch_ms(lambda: rows[at]):.3f}")
    print(f"torch zeros and index_add 2^18 rows of 1 KB: {torch_ms(lambda: torch.zeros_like(rows).index_add_(0, at, rows)):.3f}")


def with_cupy():
    import cupy

    def ms(work, calls=5):
        for _ in range(2):
            work()
        samples = []
        for _ in range(5):
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record()
            for _ in range(calls):
                work()
            end.record()
            end.synchronize()
            samples.append(cupy.cuda.get_elapsed_time(begin, end) / calls)
        return statistics.median(samples)

    print(f"CuPy {cupy.__version__}")
    x = cupy.random.rand(1 << 26, dtype=cupy.float32)
    print(f"cupy sort 2^26 without indices: {ms(lambda: cupy.sort(x), 3):.3f}")
    print(f"cupy argsort 2^26: {ms(lambda: cupy.argsort(x), 3):.3f}")
    x = cupy.random.standard_normal(1 << 28, dtype=cupy.float32)
    print(f"cupy cumsum 2^28: {ms(lambda: cupy.cumsum(x)):.3f}")
    edges = cupy.linspace(-4, 4, 257, dtype=cupy.float32)
    print(f"cupy histogram 2^28 in 256: {ms(lambda: cupy.histogram(x, edges), 1):.3f}")
    print(f"cupy normal 2^28: {ms(lambda: cupy.random.standard_normal(1 << 28, dtype=cupy.float32)):.3f}")
    del x
    rows = cupy.random.standard_normal((1 << 18, 256), dtype=cupy.float32)
    at = cupy.random.randint(0, 1 << 18, 1 << 18)
    print(f"cupy take 2^18 rows of 1 KB: {ms(lambda: rows[at]):.3f}")


if __name__ == "__main__":
    with_torch()
    try:
        with_cupy()
    except ImportError as missing:
        print(f"cupy left out: {missing}")
