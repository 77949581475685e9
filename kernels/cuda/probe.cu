// Computes: nothing. Two kernels that show what a launch gave them.
//   probe_arguments   block b writes its arguments, as bits of 8 bytes each, and what it read back from shared memory.
//   probe_tensor_map  block (x, y) copies one box of a 2-D tensor of 32-bit elements through a tensor map; what lies
//                     outside of the tensor arrives as zero.
// Algorithm: 1 fill shared memory (by threads; by the tensor memory accelerator), 2 wait, 3 write to device memory.
// Tiling: probe_tensor_map: BOX_ROWS x BOX_COLUMNS per block.  Mapping: one thread per element.
// Shared memory: arguments: ARGUMENTS_SHARED_BYTES, asked for dynamically; tensor map: one box, 128-byte swizzle.
// Traffic: negligible.  Numerics: bits are copied.
// Requires: sm_80; probe_tensor_map sm_90.  Measured: not measured.
// References: PTX ISA, "cp.async.bulk.tensor", "mbarrier"; CUDA driver API, cuTensorMapEncodeTiled.
#include <cstdint>

#include "ptx/probe.cuh"

constexpr unsigned ARGUMENTS_SHARED_BYTES = 64 << 10;
constexpr unsigned BOX_ROWS = 8;
constexpr unsigned BOX_COLUMNS = 32;

struct alignas(64) TensorMap {
    unsigned char opaque[128];
};

__device__ __forceinline__ void probe_arguments_body(
    uint32_t a, uint64_t* out, float b, int64_t c, uint32_t d, double e, const void* null) {
    extern __shared__ uint32_t shared[];
    // Phase 1: the last word of the shared memory that was asked for.
    const unsigned last = ARGUMENTS_SHARED_BYTES / 4 - 1;
    if (threadIdx.x == 1) shared[last] = d + blockIdx.x;
    // Phase 2: the word is written before thread 0 reads it.
    __syncthreads();
    // Phase 3.
    if (threadIdx.x != 0) return;
    uint64_t* mine = out + 8 * (blockIdx.x + gridDim.x * blockIdx.y);
    mine[0] = a;
    mine[1] = __float_as_uint(b);
    mine[2] = static_cast<uint64_t>(c);
    mine[3] = d;
    mine[4] = static_cast<uint64_t>(__double_as_longlong(e));
    mine[5] = reinterpret_cast<uint64_t>(null);
    mine[6] = shared[last];
    mine[7] = blockDim.x;
}

#define PROBE_ARGUMENTS(SYMBOL)                                                                                     \
    extern "C" __global__ void __launch_bounds__(64) SYMBOL(                                                        \
        uint32_t a, uint64_t* out, float b, int64_t c, uint32_t d, double e, const void* null) {                    \
        probe_arguments_body(a, out, b, c, d, e, null);                                                             \
    }

#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ void probe_tensor_map_body(
    const TensorMap& map, uint32_t* out, uint32_t rows, uint32_t columns) {
    __shared__ alignas(1024) uint32_t box[BOX_ROWS][BOX_COLUMNS];
    __shared__ alignas(8) uint64_t full;
    const unsigned x = blockIdx.x * BOX_COLUMNS + threadIdx.x, y = blockIdx.y * BOX_ROWS + threadIdx.y;
    // Phase 1: one thread asks for the box.
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init();
        ptx::mbarrier_arrive_expect_tx(&full, sizeof(box));
        ptx::tensor_load_2d(&box[0][0], &map, &full, blockIdx.x * BOX_COLUMNS, blockIdx.y * BOX_ROWS);
    }
    // Phase 2: the barrier exists before others wait on it, and all bytes are there before any is read.
    __syncthreads();
    while (!ptx::mbarrier_try_wait(&full, 0)) {
    }
    // Phase 3: 128-byte swizzle: the 16-byte piece p of row r lies at piece p ^ (r % 8).
    const unsigned piece = (threadIdx.x / 4) ^ (threadIdx.y % 8);
    if (y < rows && x < columns) out[y * columns + x] = box[threadIdx.y][piece * 4 + threadIdx.x % 4];
}

#define PROBE_TENSOR_MAP(SYMBOL)                                                                                    \
    extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(BOX_ROWS * BOX_COLUMNS) SYMBOL(          \
        const __grid_constant__ TensorMap map, uint32_t* out, uint32_t rows, uint32_t columns) {                    \
        probe_tensor_map_body(map, out, rows, columns);                                                             \
    }
#endif
