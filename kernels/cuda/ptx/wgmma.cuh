// wgmma: a warpgroup of 128 threads multiplies a 64 x k by a k x N matrix, both in shared memory, into registers. One
// instruction a function. PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"; the layout of the registers is in
// its figure "WGMMA .m64nNk16 register fragment layout for accumulator matrix D".
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

namespace ptx {

// Operands as wgmma names them, where C++ has no type of its own.
struct tf32_t {
    float bits;
};

// Where neighbours in shared memory lie: along k, or along m (of A) and n (of B).
enum class Major : int { K = 0, MN = 1 };

// Bytes of one row of a tile, and the swizzle's pattern: 8 rows of 128 bytes.
constexpr uint32_t SWIZZLE_ROW_BYTES = 128;
constexpr uint32_t SWIZZLE_ATOM_BYTES = 1024;

// Bytes that addresses in descriptors count, and an address so counted: bits from 18 on are left away, which name a block of the cluster.
constexpr uint32_t DESCRIPTOR_UNIT = 16;
__device__ __forceinline__ uint32_t descriptor_unit(uint32_t address) { return (address & 0x3ffff) / DESCRIPTOR_UNIT; }

// The descriptor of a matrix in shared memory that is swizzled by 128 bytes. `unit`: where it begins. `leading_bytes`: MN-major, from 64
// elements along m or n to the next 64; K-major, not used. `stride_bytes`: from 8 rows (along m, n or, MN-major, k) to the next 8.
// PTX ISA, "Shared memory matrix descriptor": address, leading and stride in units of 16 bytes from bits 0, 16 and 32, swizzle mode
// (1 = 128 bytes) from bit 62. What is multiplied next begins a few units on: they are added.
__device__ __forceinline__ uint64_t matrix_descriptor(uint32_t unit, uint32_t leading_bytes, uint32_t stride_bytes) {
    const uint32_t low = unit + (leading_bytes / DESCRIPTOR_UNIT << 16), high = stride_bytes / DESCRIPTOR_UNIT | 1u << 30;
    return static_cast<uint64_t>(high) << 32 | low;
}

// wgmma.fence: registers and shared memory are ready for the wgmma that follow.
__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// wgmma.commit_group
__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// wgmma.wait_group: until at most PENDING groups are under way.
template <int PENDING>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// A value that wgmma writes or reads in the background must not be moved across the wait by the compiler.
template <typename T>
__device__ __forceinline__ void keep_in_place(T& value);
template <>
__device__ __forceinline__ void keep_in_place<float>(float& value) {
    asm volatile("" : "+f"(value)::"memory");
}
template <>
__device__ __forceinline__ void keep_in_place<int>(int& value) {
    asm volatile("" : "+r"(value)::"memory");
}
template <>
__device__ __forceinline__ void keep_in_place<uint32_t>(uint32_t& value) {
    asm volatile("" : "+r"(value)::"memory");
}
template <typename T, size_t N>
__device__ __forceinline__ void keep_in_place(T (&values)[N]) {
#pragma unroll
    for (size_t i = 0; i < N; ++i) {
        keep_in_place(values[i]);
    }
}

// The instruction for operands of one type: `run<N, A, B>(d, a, b, add)`: d = a b, or d += a b when `add` is not 0.
// d: N / 2 values a thread; a, b: descriptors. `K` elements of k a call; `Accumulator` is what d holds.
template <typename A, typename B>
struct Wgmma;

// The registers of d, eight at a time: their places in the text and as operands.
#define WGMMA_TEXT_1 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WGMMA_TEXT_2 WGMMA_TEXT_1 ", " "%8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_TEXT_3 WGMMA_TEXT_2 ", " "%16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_TEXT_4 WGMMA_TEXT_3 ", " "%24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_TEXT_5 WGMMA_TEXT_4 ", " "%32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_TEXT_6 WGMMA_TEXT_5 ", " "%40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_TEXT_7 WGMMA_TEXT_6 ", " "%48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_TEXT_8 WGMMA_TEXT_7 ", " "%56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_TEXT_9 WGMMA_TEXT_8 ", " "%64, %65, %66, %67, %68, %69, %70, %71"
#define WGMMA_TEXT_10 WGMMA_TEXT_9 ", " "%72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_TEXT_11 WGMMA_TEXT_10 ", " "%80, %81, %82, %83, %84, %85, %86, %87"
#define WGMMA_TEXT_12 WGMMA_TEXT_11 ", " "%88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_TEXT_13 WGMMA_TEXT_12 ", " "%96, %97, %98, %99, %100, %101, %102, %103"
#define WGMMA_TEXT_14 WGMMA_TEXT_13 ", " "%104, %105, %106, %107, %108, %109, %110, %111"
#define WGMMA_TEXT_15 WGMMA_TEXT_14 ", " "%112, %113, %114, %115, %116, %117, %118, %119"
#define WGMMA_TEXT_16 WGMMA_TEXT_15 ", " "%120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_EIGHT(c, d, i) \
    c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3]), c(d[i + 4]), c(d[i + 5]), c(d[i + 6]), c(d[i + 7])
#define WGMMA_REGISTERS_1(c, d) WGMMA_EIGHT(c, d, 0)
#define WGMMA_REGISTERS_2(c, d) WGMMA_REGISTERS_1(c, d), WGMMA_EIGHT(c, d, 8)
#define WGMMA_REGISTERS_3(c, d) WGMMA_REGISTERS_2(c, d), WGMMA_EIGHT(c, d, 16)
#define WGMMA_REGISTERS_4(c, d) WGMMA_REGISTERS_3(c, d), WGMMA_EIGHT(c, d, 24)
#define WGMMA_REGISTERS_5(c, d) WGMMA_REGISTERS_4(c, d), WGMMA_EIGHT(c, d, 32)
#define WGMMA_REGISTERS_6(c, d) WGMMA_REGISTERS_5(c, d), WGMMA_EIGHT(c, d, 40)
#define WGMMA_REGISTERS_7(c, d) WGMMA_REGISTERS_6(c, d), WGMMA_EIGHT(c, d, 48)
#define WGMMA_REGISTERS_8(c, d) WGMMA_REGISTERS_7(c, d), WGMMA_EIGHT(c, d, 56)
#define WGMMA_REGISTERS_9(c, d) WGMMA_REGISTERS_8(c, d), WGMMA_EIGHT(c, d, 64)
#define WGMMA_REGISTERS_10(c, d) WGMMA_REGISTERS_9(c, d), WGMMA_EIGHT(c, d, 72)
#define WGMMA_REGISTERS_11(c, d) WGMMA_REGISTERS_10(c, d), WGMMA_EIGHT(c, d, 80)
#define WGMMA_REGISTERS_12(c, d) WGMMA_REGISTERS_11(c, d), WGMMA_EIGHT(c, d, 88)
#define WGMMA_REGISTERS_13(c, d) WGMMA_REGISTERS_12(c, d), WGMMA_EIGHT(c, d, 96)
#define WGMMA_REGISTERS_14(c, d) WGMMA_REGISTERS_13(c, d), WGMMA_EIGHT(c, d, 104)
#define WGMMA_REGISTERS_15(c, d) WGMMA_REGISTERS_14(c, d), WGMMA_EIGHT(c, d, 112)
#define WGMMA_REGISTERS_16(c, d) WGMMA_REGISTERS_15(c, d), WGMMA_EIGHT(c, d, 120)

// The instruction for N = 16 EIGHTS columns. NAME is what follows "m64nN" in its name; A, B, ADD, TA, TB and LAST are the numbers
// of the operands after the registers. 16-bit operands say how they lie (TA, TB), other floats only that nothing is
// negated, integers neither. Of an A in four registers these come first, then B and ADD.
#define WGMMA_OPEN(ADD) "{\n\t.reg .pred add;\n\tsetp.ne.b32 add, %" #ADD ", 0;\n\twgmma.mma_async.sync.aligned.m64n"
#define WGMMA_BODY(N, NAME, EIGHTS, A, B) #N NAME " {" WGMMA_TEXT_##EIGHTS "}, %" #A ", %" #B ", add"
#define WGMMA_16BIT(N, NAME, EIGHTS, A, B, ADD, TA, TB, LAST)                                                             \
    if constexpr (N_ == N)                                                                                                \
    asm volatile(WGMMA_OPEN(ADD) WGMMA_BODY(N, NAME, EIGHTS, A, B) ", 1, 1, %" #TA ", %" #TB ";\n\t}"                     \
                 : WGMMA_REGISTERS_##EIGHTS("+f", d)                                                                      \
                 : "l"(a), "l"(b), "r"(add), "n"(static_cast<int>(A_)), "n"(static_cast<int>(B_)))
#define WGMMA_FLOAT(N, NAME, EIGHTS, A, B, ADD, TA, TB, LAST)                                                             \
    if constexpr (N_ == N)                                                                                                \
    asm volatile(WGMMA_OPEN(ADD) WGMMA_BODY(N, NAME, EIGHTS, A, B) ", 1, 1;\n\t}"                                         \
                 : WGMMA_REGISTERS_##EIGHTS("+f", d)                                                                      \
                 : "l"(a), "l"(b), "r"(add))
#define WGMMA_REGISTER_A(N, NAME, EIGHTS, A0, A1, A2, A3, B, ADD)                                                         \
    if constexpr (N_ == N)                                                                                                \
    asm volatile(WGMMA_OPEN(ADD) #N NAME " {" WGMMA_TEXT_##EIGHTS "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B     \
                                        ", add, 1, 1;\n\t}"                                                               \
                 : WGMMA_REGISTERS_##EIGHTS("+f", d)                                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add))
#define WGMMA_INTEGER(N, NAME, EIGHTS, A, B, ADD, TA, TB, LAST)                                                           \
    if constexpr (N_ == N)                                                                                                \
    asm volatile(WGMMA_OPEN(ADD) WGMMA_BODY(N, NAME, EIGHTS, A, B) ";\n\t}"                                               \
                 : WGMMA_REGISTERS_##EIGHTS("+r", d)                                                                      \
                 : "l"(a), "l"(b), "r"(add))

// Every width; only the one asked for is compiled.
#define WGMMA_WIDTHS(CALL, NAME) \
    CALL(16, NAME, 1, 8, 9, 10, 11, 12, 13); \
    CALL(32, NAME, 2, 16, 17, 18, 19, 20, 21); \
    CALL(48, NAME, 3, 24, 25, 26, 27, 28, 29); \
    CALL(64, NAME, 4, 32, 33, 34, 35, 36, 37); \
    CALL(80, NAME, 5, 40, 41, 42, 43, 44, 45); \
    CALL(96, NAME, 6, 48, 49, 50, 51, 52, 53); \
    CALL(112, NAME, 7, 56, 57, 58, 59, 60, 61); \
    CALL(128, NAME, 8, 64, 65, 66, 67, 68, 69); \
    CALL(144, NAME, 9, 72, 73, 74, 75, 76, 77); \
    CALL(160, NAME, 10, 80, 81, 82, 83, 84, 85); \
    CALL(176, NAME, 11, 88, 89, 90, 91, 92, 93); \
    CALL(192, NAME, 12, 96, 97, 98, 99, 100, 101); \
    CALL(208, NAME, 13, 104, 105, 106, 107, 108, 109); \
    CALL(224, NAME, 14, 112, 113, 114, 115, 116, 117); \
    CALL(240, NAME, 15, 120, 121, 122, 123, 124, 125); \
    CALL(256, NAME, 16, 128, 129, 130, 131, 132, 133);

// One type of operands: its instruction's NAME after "m64nN", the elements of k it takes, and which operands lie MN-major.
#define WGMMA_TYPE(TYPE_A, TYPE_B, ACCUMULATOR, K_, CALL, NAME, EITHER_MAJOR)                                             \
    template <>                                                                                                           \
    struct Wgmma<TYPE_A, TYPE_B> {                                                                                        \
        using Accumulator = ACCUMULATOR;                                                                                  \
        static constexpr int K = K_;                                                                                      \
        template <int N_, Major A_, Major B_>                                                                             \
        __device__ static __forceinline__ void run(ACCUMULATOR (&d)[N_ / 2], uint64_t a, uint64_t b, int add) {           \
            static_assert(N_ % 16 == 0 && N_ >= 16 && N_ <= 256);                                                         \
            static_assert(EITHER_MAJOR || (A_ == Major::K && B_ == Major::K));                                            \
            WGMMA_WIDTHS(CALL, NAME)                                                                                      \
        }                                                                                                                 \
    };

// tf32 with A in registers: rows `lane / 4` and 8 further, each at k = `lane % 4`, then both at 4 further (PTX ISA, figure "WGMMA
// .m64nNk8 register fragment layout for matrix A"). They must stay as they are until the group of this instruction has ended.
template <int N_>
__device__ __forceinline__ void wgmma_tf32_of_registers(float (&d)[N_ / 2], const uint32_t (&a)[4], uint64_t b, int add) {
    static_assert(N_ % 16 == 0 && N_ >= 16 && N_ <= 256);
    WGMMA_WIDTHS(WGMMA_REGISTER_A, "k8.f32.tf32.tf32")
}

WGMMA_TYPE(__half, __half, float, 16, WGMMA_16BIT, "k16.f32.f16.f16", true)
WGMMA_TYPE(__nv_bfloat16, __nv_bfloat16, float, 16, WGMMA_16BIT, "k16.f32.bf16.bf16", true)
WGMMA_TYPE(tf32_t, tf32_t, float, 8, WGMMA_FLOAT, "k8.f32.tf32.tf32", false)
WGMMA_TYPE(__nv_fp8_e4m3, __nv_fp8_e4m3, float, 32, WGMMA_FLOAT, "k32.f32.e4m3.e4m3", false)
WGMMA_TYPE(__nv_fp8_e4m3, __nv_fp8_e5m2, float, 32, WGMMA_FLOAT, "k32.f32.e4m3.e5m2", false)
WGMMA_TYPE(__nv_fp8_e5m2, __nv_fp8_e4m3, float, 32, WGMMA_FLOAT, "k32.f32.e5m2.e4m3", false)
WGMMA_TYPE(__nv_fp8_e5m2, __nv_fp8_e5m2, float, 32, WGMMA_FLOAT, "k32.f32.e5m2.e5m2", false)
WGMMA_TYPE(int8_t, int8_t, int, 32, WGMMA_INTEGER, "k32.s32.s8.s8", false)
WGMMA_TYPE(uint8_t, uint8_t, int, 32, WGMMA_INTEGER, "k32.s32.u8.u8", false)

}  // namespace ptx
