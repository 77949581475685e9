// The types that mma.sync multiplies: which instruction, and how a warp reads its fragments from tiles of any orientation.
//
// What an instruction takes from consecutive registers must arrive there: reading wider and sorting by moves costs more than it
// saves. Rows may stand in any order as long as the result agrees, which makes MN-major operands of all sizes cheap:
//   16 bits  K-major ldmatrix, MN-major ldmatrix.trans.
//   8 bits   K-major ldmatrix. MN-major: ldmatrix.trans moves pairs of rows (m, m + 1) of two k; one prmt a register parts them.
//            The 16 rows of a block (8 columns of two blocks of B) stand in pairs: even ones first.
//   tf32     K-major ldmatrix (a pair of 16-bit elements is one of ours). MN-major: A by 8-byte loads of two neighbours of one k,
//            so that its rows stand in pairs; B by 4-byte loads.
//   f64      8-byte loads.
// `row_of` and `column_of` tell where a place in the fragments really lies.
#pragma once
#include "gemm_mma_sync_tile.cuh"
#include "ptx/mma.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace gemm_mma {

// Lane l = 4 g + c: see ptx/mma.cuh.
__device__ __forceinline__ uint32_t lane_id() { return threadIdx.x % 32; }

// 32-bit registers, 32 bytes of K a step: what the types below have in common.
template <typename Element_, typename Sum_>
struct Words {
    using Element = Element_;
    using Sum = Sum_;
    using Register = uint32_t;
    // A second type of 16 bits that results may have.
    using OtherResult = void;
    static constexpr int STEP_K = 32 / sizeof(Element);
    // Registers of a block of 16 rows of A, of 8 columns of B.
    static constexpr int A_REGISTERS = 4, B_REGISTERS = 2;
    // Blocks of B that one load serves.
    static constexpr int COLUMNS_TOGETHER = 2;
    static constexpr int PARTS = 1;
    static constexpr Pattern MN_PATTERN =
        sizeof(Element) == 4 ? Pattern::FOUR_ROWS : sizeof(Element) == 1 ? Pattern::ROW_PAIRS : Pattern::ROWS;
    static constexpr Pattern K_PATTERN = Pattern::ROWS;

    // Where this lane's loads begin, in a tile whose rows (or bytes of a row) start at `first` of M or N.
    template <typename Tile, Major MAJOR, bool IS_A>
    __device__ static __forceinline__ uint32_t start(uint32_t first) {
        const uint32_t lane = lane_id(), i = lane % 8, matrix = lane / 8;
        // The matrices of one load: two along K and two along M or N. Those of A step along M first, those of B along K.
        const uint32_t inner = matrix % 2, outer = matrix / 2;
        const uint32_t along_mn = IS_A ? inner : outer, along_k = IS_A ? outer : inner;
        if constexpr (MAJOR == Major::K) {
            return Tile::offset(first + i + 8 * along_mn, 16 * along_k);
        } else if constexpr (sizeof(Element) == 2) {
            return Tile::offset(i + 8 * along_k, 2 * first + 16 * along_mn);
        } else if constexpr (sizeof(Element) == 1) {
            return Tile::offset(4 * (i / 2) + i % 2 + 2 * inner + 16 * outer, first);
        } else {
            return Tile::offset(lane % 4, 4 * first + (IS_A ? 8 : 4) * (lane / 4));
        }
    }

    template <typename Tile, Major MAJOR, int BLOCKS>
    __device__ static __forceinline__ void load_a(uint32_t (&a)[BLOCKS][4], uint32_t at, int step) {
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block) {
            if constexpr (MAJOR == Major::K) {
                ptx::load_matrices(a[block], Tile::at(at, Tile::offset(16 * block, 32 * step)));
            } else if constexpr (sizeof(Element) == 2) {
                ptx::load_matrices_transposed(a[block], Tile::at(at, Tile::offset(16 * step, 32 * block)));
            } else if constexpr (sizeof(Element) == 1) {
                uint32_t x[4];
                ptx::load_matrices_transposed(x, Tile::at(at, Tile::offset(32 * step, 16 * block)));
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    a[block][i] = ptx::pick_bytes(x[i & 2], x[(i & 2) + 1], i % 2 == 0 ? 0x6420 : 0x7531);
                }
            } else {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    ptx::load_shared(a[block][2 * half], a[block][2 * half + 1],
                                     Tile::at(at, Tile::offset(8 * step + 4 * half, 64 * block)));
                }
            }
        }
    }

    template <typename Tile, Major MAJOR, int BLOCKS>
    __device__ static __forceinline__ void load_b(uint32_t (&b)[BLOCKS][2], uint32_t at, int step) {
        static_assert(BLOCKS % 2 == 0);
#pragma unroll
        for (int block = 0; block < BLOCKS; block += 2) {
            uint32_t x[4];
            if constexpr (MAJOR == Major::K || sizeof(Element) == 2) {
                if constexpr (MAJOR == Major::K) {
                    ptx::load_matrices(x, Tile::at(at, Tile::offset(8 * block, 32 * step)));
                } else {
                    ptx::load_matrices_transposed(x, Tile::at(at, Tile::offset(16 * step, 16 * block)));
                }
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    b[block + i / 2][i % 2] = x[i];
                }
            } else if constexpr (sizeof(Element) == 1) {
                ptx::load_matrices_transposed(x, Tile::at(at, Tile::offset(32 * step, 8 * block)));
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    b[block + i % 2][i / 2] = ptx::pick_bytes(x[i & 2], x[(i & 2) + 1], i % 2 == 0 ? 0x6420 : 0x7531);
                }
            } else {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    ptx::load_shared(b[block + i / 2][i % 2],
                                     Tile::at(at, Tile::offset(8 * step + 4 * (i % 2), 32 * (block + i / 2))));
                }
            }
        }
    }

    // Row of the warp's tile that stands at row `row` of block `block`.
    template <Major MAJOR>
    __device__ static constexpr int row_of(int block, int row) {
        return MAJOR == Major::MN && sizeof(Element) != 2 ? 16 * block + 2 * (row % 8) + row / 8 : 16 * block + row;
    }

    // Column of the warp's tile that stands at column `column` of block `block`.
    template <Major MAJOR>
    __device__ static constexpr int column_of(int block, int column) {
        return MAJOR == Major::MN && sizeof(Element) == 1 ? 16 * (block / 2) + 2 * column + block % 2 : 8 * block + column;
    }

    // What happens to registers before they are multiplied.
    template <int BLOCKS, int COUNT>
    __device__ static __forceinline__ void prepare(uint32_t (&)[BLOCKS][COUNT]) {}
};

struct F16 : Words<__half, float> {
    using Result = __half;
    __device__ static __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
        ptx::mma_f16(d, a, b);
    }
};

struct Bf16 : Words<__nv_bfloat16, float> {
    using Result = __nv_bfloat16;
    __device__ static __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
        ptx::mma_bf16(d, a, b);
    }
};

// f32 operands, rounded to nearest tf32 as they are read from shared memory; those that would become infinite are left to the
// instruction, which ignores the bits that tf32 lacks.
struct Tf32 : Words<float, float> {
    using Result = float;
    template <int BLOCKS, int COUNT>
    __device__ static __forceinline__ void prepare(uint32_t (&registers)[BLOCKS][COUNT]) {
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block) {
#pragma unroll
            for (int i = 0; i < COUNT; ++i) {
                const uint32_t rounded = ptx::round_tf32(registers[block][i]);
                registers[block][i] = isinf(__uint_as_float(rounded)) ? registers[block][i] : rounded;
            }
        }
    }
    __device__ static __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
        ptx::mma_tf32(d, a, b);
    }
};

struct S8 : Words<int8_t, int32_t> {
    using Result = int32_t;
    __device__ static __forceinline__ void multiply(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
        ptx::mma_s8(d, a, b);
    }
};

struct U8 : Words<uint8_t, int32_t> {
    using Result = int32_t;
    __device__ static __forceinline__ void multiply(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
        ptx::mma_u8(d, a, b);
    }
};

struct F64 {
    using Element = double;
    using Sum = double;
    using Register = double;
    using Result = double;
    using OtherResult = void;
    static constexpr int STEP_K = 8;
    static constexpr int A_REGISTERS = STEP_K / 2, B_REGISTERS = STEP_K / 4;
    static constexpr int COLUMNS_TOGETHER = 1;
    // Doubles take twice the registers.
    static constexpr int PARTS = STEP_K / 4;
    static constexpr Pattern MN_PATTERN = Pattern::FOUR_ROWS;
    static constexpr Pattern K_PATTERN = Pattern::FOUR_ROWS;

    template <typename Tile, Major MAJOR, bool IS_A>
    __device__ static __forceinline__ uint32_t start(uint32_t first) {
        const uint32_t g = lane_id() / 4, c = lane_id() % 4;
        return MAJOR == Major::K ? Tile::offset(first + g, 8 * c) : Tile::offset(c, 8 * (first + g));
    }

    // The element 8 `eighths` of M or N and 4 `quarters` of K further than this lane's first.
    template <typename Tile, Major MAJOR>
    __device__ static __forceinline__ void load(double& to, uint32_t at, int eighths, int quarters) {
        ptx::load_shared(to, Tile::at(at, MAJOR == Major::K ? Tile::offset(8 * eighths, 32 * quarters)
                                                            : Tile::offset(4 * quarters, 64 * eighths)));
    }

    template <typename Tile, Major MAJOR, int BLOCKS>
    __device__ static __forceinline__ void load_a(double (&a)[BLOCKS][A_REGISTERS], uint32_t at, int step) {
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block) {
#pragma unroll
            for (int i = 0; i < A_REGISTERS; ++i) {
                load<Tile, MAJOR>(a[block][i], at, 2 * block + i % 2, STEP_K / 4 * step + i / 2);
            }
        }
    }

    template <typename Tile, Major MAJOR, int BLOCKS>
    __device__ static __forceinline__ void load_b(double (&b)[BLOCKS][B_REGISTERS], uint32_t at, int step) {
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block) {
#pragma unroll
            for (int i = 0; i < B_REGISTERS; ++i) {
                load<Tile, MAJOR>(b[block][i], at, block, STEP_K / 4 * step + i);
            }
        }
    }

    template <Major MAJOR>
    __device__ static constexpr int row_of(int block, int row) {
        return 16 * block + row;
    }

    template <Major MAJOR>
    __device__ static constexpr int column_of(int block, int column) {
        return 8 * block + column;
    }

    template <int BLOCKS, int COUNT>
    __device__ static __forceinline__ void prepare(double (&)[BLOCKS][COUNT]) {}

    __device__ static __forceinline__ void multiply(double (&d)[4], const double (&a)[A_REGISTERS], const double (&b)[B_REGISTERS]) {
#if __CUDA_ARCH__ >= 900
        ptx::mma_f64_16x8x8(d, a, b);
#else
#pragma unroll
        for (int i = 0; i < B_REGISTERS; ++i) {
            ptx::mma_f64_8x8x4(d[0], d[1], a[2 * i], b[i]);
            ptx::mma_f64_8x8x4(d[2], d[3], a[2 * i + 1], b[i]);
        }
#endif
    }
};

}  // namespace gemm_mma
