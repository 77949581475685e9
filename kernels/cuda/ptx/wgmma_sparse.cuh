// wgmma of a 2:4 compressed A: a warpgroup multiplies a 64 x K matrix, of which A holds two of each four along k, by a K x N
// matrix, both in shared memory, into registers; K is 64 bytes. One instruction a type. PTX ISA 9.7.15.6, "Asynchronous
// Warpgroup Level Multiply-and-Accumulate Operation using wgmma.mma_async.sp instruction"; sm_90a.
//
// D's registers are those of ptx/wgmma.cuh. Metadata: four bits for each group of four elements of a row, ascending along k
// from bit 0 on ("Sparse matrix storage", 9.7.15.6.1). Warp w gives those of rows 16 w to 16 w + 15 (table of 9.7.15.6.2). Of
// 16-bit elements lanes 4 g + c with c = 2 s and 2 s + 1 do, s being SELECTOR: elements 0 to 15 and 16 to 31 of k, row g in the
// lower half of the word, row g + 8 in the upper (figure 176, which is that of mma.sp m16n8k32). So one register of all lanes
// may serve two instructions. Of 8-bit elements all lanes do: c = 0 and 1 elements 0 to 31 of rows g and g + 8, c = 2 and 3
// elements 32 to 63 of the same (figures 180 and 181).
#pragma once
#include "wgmma.cuh"

namespace ptx {

// An operand of which every second element is kept.
template <typename T>
struct Sparse24 {
    T value;
};

// Bytes of k that a step takes of A and of B.
constexpr uint32_t SPARSE_STEP_A_BYTES = 32, SPARSE_STEP_B_BYTES = 64;
// Bytes of one row of a tile of A, whose rows of B have SWIZZLE_ROW_BYTES.
constexpr uint32_t SPARSE_ROW_BYTES = 64;

// The descriptor of a K-major matrix whose rows of 64 bytes are swizzled by 64 bytes, in atoms of 8 rows: as
// `matrix_descriptor`, stride 512, swizzle mode 2.
__device__ __forceinline__ uint64_t sparse_descriptor(uint32_t unit) {
    constexpr uint32_t HIGH = 8 * SPARSE_ROW_BYTES / DESCRIPTOR_UNIT | 2u << 30;
    return static_cast<uint64_t>(HIGH) << 32 | unit;
}

// The instruction for N = 16 EIGHTS columns, as WGMMA_16BIT; the selector is part of its text.
#define WGMMA_SPARSE_OPEN(N, NAME, EIGHTS, A, B, ADD, E)                                                                  \
    "{\n\t.reg .pred add;\n\tsetp.ne.b32 add, %" #ADD ", 0;\n\twgmma.mma_async.sp.sync.aligned.m64n" #N NAME " {"         \
        WGMMA_TEXT_##EIGHTS "}, %" #A ", %" #B ", %" #E
#define WGMMA_SPARSE(SELECTOR, N, NAME, EIGHTS, A, B, ADD, E, TB, LAST)                                                   \
    if constexpr (N_ == N && SELECTOR_ == SELECTOR)                                                                       \
    asm volatile(WGMMA_SPARSE_OPEN(N, NAME, EIGHTS, A, B, ADD, E) ", " #SELECTOR ", add, 1, 1, 0, %" #TB ";\n\t}"         \
                 : WGMMA_REGISTERS_##EIGHTS("+f", d)                                                                      \
                 : "l"(a), "l"(b), "r"(add), "r"(metadata), "n"(static_cast<int>(B_)))
#define WGMMA_SPARSE_0(...) WGMMA_SPARSE(0, __VA_ARGS__)
#define WGMMA_SPARSE_1(...) WGMMA_SPARSE(1, __VA_ARGS__)

// The same for integers, which have neither signs nor transposes.
#define WGMMA_SPARSE_INTEGER(N, NAME, EIGHTS, A, B, ADD, E, TB, LAST)                                                     \
    if constexpr (N_ == N)                                                                                                \
    asm volatile(WGMMA_SPARSE_OPEN(N, NAME, EIGHTS, A, B, ADD, E) ", 0, add;\n\t}"                                        \
                 : WGMMA_REGISTERS_##EIGHTS("+r", d)                                                                      \
                 : "l"(a), "l"(b), "r"(add), "r"(metadata))

// `run<N, B, SELECTOR>(d, a, b, metadata, add)`, A being K-major; a register of metadata serves STEPS_A_WORD instructions.
#define WGMMA_SPARSE_FLOAT(TYPE, NAME)                                                                                    \
    template <>                                                                                                           \
    struct Wgmma<Sparse24<TYPE>, TYPE> {                                                                                  \
        using Accumulator = float;                                                                                        \
        static constexpr int K = 32, STEPS_A_WORD = 2;                                                                    \
        template <int N_, Major B_, int SELECTOR_>                                                                        \
        __device__ static __forceinline__ void run(float (&d)[N_ / 2], uint64_t a, uint64_t b, uint32_t metadata, int add) { \
            static_assert(N_ % 16 == 0 && N_ >= 16 && N_ <= 256 && (SELECTOR_ == 0 || SELECTOR_ == 1));                   \
            WGMMA_WIDTHS(WGMMA_SPARSE_0, NAME)                                                                            \
            WGMMA_WIDTHS(WGMMA_SPARSE_1, NAME)                                                                            \
        }                                                                                                                 \
    };

WGMMA_SPARSE_FLOAT(__half, "k32.f32.f16.f16")
WGMMA_SPARSE_FLOAT(__nv_bfloat16, "k32.f32.bf16.bf16")

template <>
struct Wgmma<Sparse24<int8_t>, int8_t> {
    using Accumulator = int;
    static constexpr int K = 64, STEPS_A_WORD = 1;
    template <int N_, Major B_, int SELECTOR_>
    __device__ static __forceinline__ void run(int (&d)[N_ / 2], uint64_t a, uint64_t b, uint32_t metadata, int add) {
        static_assert(N_ % 16 == 0 && N_ >= 16 && N_ <= 256 && B_ == Major::K && SELECTOR_ == 0);
        WGMMA_WIDTHS(WGMMA_SPARSE_INTEGER, "k64.s32.s8.s8")
    }
};

}  // namespace ptx
