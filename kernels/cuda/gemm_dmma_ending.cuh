// From sums to D (phases 2 and 3 of gemm_dmma.cuh), a pair of neighbours at a time.
#pragma once
#include "epilogue.cuh"

namespace dmma {

// What the planner hands over.
struct Problem {
    uint32_t m, n, k, batches, slabs;
    // Elements of K in each slab but the last, a multiple of 16; k when there is one slab.
    uint32_t slab_k;
    // Whether A, B have a matrix for every batch.
    uint32_t a_batches, b_batches;
};

// Phase 2: from sums to D; and 3, other activations than relu, where they are.
struct Ending {
    double* d;
    const polywarp::Epilogue<double>& epilogue;
    const Problem& problem;
    uint32_t batch;
    // Pairs where every row of D (and of C) starts on 16 bytes; the same for the whole launch.
    bool pairs, pairs_c, relu, slow;

    __device__ __forceinline__ Ending(double* d, const polywarp::Epilogue<double>& epilogue, const Problem& problem, uint32_t batch)
        : d(d), epilogue(epilogue), problem(problem), batch(batch), pairs(in_pairs(d, problem.n, 0)),
          pairs_c(pairs && in_pairs(epilogue.c, epilogue.ldc, epilogue.batch_stride_c)),
          relu(epilogue.activation == polywarp::ACTIVATION_RELU), slow(epilogue.activation > polywarp::ACTIVATION_RELU) {}

    __device__ static __forceinline__ bool in_pairs(const double* at, int64_t pitch, int64_t stride) {
        return reinterpret_cast<uint64_t>(at) % 16 == 0 && pitch % 2 == 0 && stride % 2 == 0;
    }

    __device__ __forceinline__ double* at(uint32_t m, uint32_t n) const { return d + static_cast<int64_t>(m) * problem.n + n; }

    // What is added to column n and the next.
    __device__ __forceinline__ void load_bias(double (&bias)[2], uint32_t n) const {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            bias[i] = epilogue.bias != nullptr && n + i < problem.n ? epilogue.bias[n + i] : 0.0;
        }
    }

    // Two sums side by side, either of which may lie outside.
    __device__ __forceinline__ void store(double (&x)[2], const double (&bias)[2], uint32_t m, uint32_t n) const {
        if (m >= problem.m || n >= problem.n) {
            return;
        }
        double addend[2] = {};
        if (epilogue.c != nullptr) {
            const double* c = epilogue.c_at(batch, m, n);
            if (pairs_c) {
                const double2 both = *reinterpret_cast<const double2*>(c);
                addend[0] = both.x;
                addend[1] = both.y;
            } else {
                addend[0] = c[0];
                if (n + 1 < problem.n) {
                    addend[1] = c[1];
                }
            }
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            x[i] = epilogue.alpha * x[i];
            if (epilogue.c != nullptr) {
                x[i] = fma(epilogue.beta, addend[i], x[i]);
            }
            x[i] += bias[i];
            x[i] = relu && x[i] < 0.0 ? 0.0 : x[i];
        }
        double* to = at(m, n);
        if (pairs) {
            *reinterpret_cast<double2*>(to) = make_double2(x[0], x[1]);
        } else {
            to[0] = x[0];
            if (n + 1 < problem.n) {
                to[1] = x[1];
            }
        }
    }

    // Phase 3 for one that this thread has stored.
    __device__ __forceinline__ void activate(uint32_t m, uint32_t n) const {
        if (m < problem.m && n < problem.n) {
            *at(m, n) = polywarp::activate(*at(m, n), epilogue.activation);
        }
    }
};

}  // namespace dmma
