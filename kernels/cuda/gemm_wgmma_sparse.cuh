// Matrix products with a 2:4 compressed A on Hopper's tensor cores (sm_90a): gemm_wgmma.cuh with wgmma.sp.
//
// Computes      D = activation(alpha A B + beta C + bias), A [batch, m, k] as values [batch, m, k / 2] and metadata, the rest as
//               gemm_wgmma.cuh.
// Algorithm     That kernel's, with all of its schedules. A stage is a tile of values, one of B twice as long along k, and the
//               metadata of the values, which arrive by a bulk copy for each 64 of k; a warpgroup's threads read their words for
//               each slab of 64 rows while the stage before is still being multiplied.
// Tiling        BLOCK_M x BLOCK_N x 128 bytes of B's k: two steps. Those of 16-bit elements share a word (SELECTOR).
// Mapping       As there.
// Shared memory STAGES x (values, B, metadata). Rows of values have 64 bytes and are swizzled by 64, so that a stage is as
//               long along k as the dense kernel's and B lies as it does there, K- or MN-major; metadata is 512 bytes for each
//               slab and 64 of k.
// Metadata      As sparse24_metadata.cu arranges it, one launch before: for each 64 of k, each slab of 64 rows, each thread of a
//               warpgroup its word. Core's words have one row each, of two of which a thread needs halves: read from there, a
//               stage would touch a line of memory for each of its rows, and those of one row of tiles once for each column.
// Traffic       2 m n k operations, counted as if A were dense. Shared memory gives 128 bytes a clock (32 banks), which is what
//               wgmma.sp takes of B at its full rate; values come on top: for N = 256 and 64 bytes of k 16 + 2 KiB, 144 clocks
//               where the tensor cores need 128. What TMA writes for it in tiles of 128 x 256 is 2 + 8 KiB more: 28 in all (256 x
//               128: the same; 128 x 128: 32), for which the dense kernel of that tile has 256 clocks. So wide tiles matter more
//               than for dense products, and twice the dense rate is out of reach. From L2 such a tile asks twice as much of B as
//               the dense one does in the same time: two blocks may share B by multicast. Metadata is 1/8 of the values' bytes,
//               of i8 1/4.
// Numerics      As there. Zeros that were left out are not multiplied: NaN and infinities of B opposite them do not count.
// Requires      sm_90a; bases and pitches of values and B are multiples of 16 bytes (TMA), values, and an 8-bit B,
//               K-major; k a multiple of 4.
// Measured      docs/gemm.md.
// References    PTX ISA 9.7.15.6 (ptx/wgmma_sparse.cuh).
// Next          gemm_wgmma_sparse_stage.cuh: what a stage does; gemm_wgmma_config.cuh: what it keeps where.
#pragma once
#include "gemm_wgmma.cuh"

// As GEMM_WGMMA; IN is the type of values and B. Behind the parameters that all have stand the arranged metadata and its slabs
// of 64 rows.
#define GEMM_WGMMA_SPARSE(SYMBOL, IN, ...)                                                                                 \
    GEMM_WGMMA_KERNEL(SYMBOL, ptx::Sparse24<IN>, IN, __VA_ARGS__, MATRICES,                                                \
                      (polywarp::gemm_wgmma::Metadata{metadata, slabs_m}),                                                 \
                      GEMM_WGMMA_COMMA const uint32_t* metadata GEMM_WGMMA_COMMA uint32_t slabs_m)
