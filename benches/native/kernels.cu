// The kernels of the WGSL files beside this one, by hand in CUDA C++: the same algorithms, one for one. What naga-ptx makes
// of the WGSL is measured against what nvcc makes of this (backend-cuda/examples/against_nvcc.rs).

struct Saxpy { unsigned n; float a; };
extern "C" __global__ void __launch_bounds__(256) saxpy(Saxpy p, const float* __restrict__ x, float* __restrict__ y) {
  unsigned i = blockIdx.x * 256u + threadIdx.x;
  if (i < p.n) y[i] = p.a * x[i] + y[i];
}

struct Copy { unsigned n; };
extern "C" __global__ void __launch_bounds__(256) copy4(Copy p, const float4* __restrict__ x, float4* __restrict__ y) {
  unsigned i = blockIdx.x * 256u + threadIdx.x;
  if (i < p.n) y[i] = x[i];
}

struct Softmax { unsigned columns; };
extern "C" __global__ void __launch_bounds__(256) softmax(Softmax p, const float* __restrict__ x, float* __restrict__ y) {
  __shared__ float part[256];
  unsigned t = threadIdx.x, row = blockIdx.x * p.columns;
  float largest = -3.4028234e38f;
  for (unsigned i = t; i < p.columns; i += 256) largest = fmaxf(largest, x[row + i]);
  part[t] = largest;
  __syncthreads();
  for (unsigned s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] = fmaxf(part[t], part[t + s]);
    __syncthreads();
  }
  largest = part[0];
  __syncthreads();
  float sum = 0.0f;
  for (unsigned i = t; i < p.columns; i += 256) sum += expf(x[row + i] - largest);
  part[t] = sum;
  __syncthreads();
  for (unsigned s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] = part[t] + part[t + s];
    __syncthreads();
  }
  float scale = 1.0f / part[0];
  for (unsigned i = t; i < p.columns; i += 256) y[row + i] = expf(x[row + i] - largest) * scale;
}

struct Gemm { unsigned m, n, k; };
extern "C" __global__ void __launch_bounds__(256)
gemm(Gemm p, const float4* __restrict__ a, const float4* __restrict__ b, float4* __restrict__ c) {
  __shared__ float a_tile[8][128];
  __shared__ float4 b_tile[8][32];
  unsigned t = threadIdx.x, row = t / 16, column = t % 16;
  float4 acc[8][2] = {};
  unsigned a_row = t / 2, a_column = t % 2, b_row = t / 32, b_column = t % 32;
  unsigned a_start = (blockIdx.y * 128 + a_row) * (p.k / 4) + a_column;
  unsigned b_start = b_row * (p.n / 4) + blockIdx.x * 32 + b_column;
  for (unsigned k = 0; k < p.k; k += 8) {
    float4 from_a = a[a_start + k / 4];
    a_tile[a_column * 4][a_row] = from_a.x;
    a_tile[a_column * 4 + 1][a_row] = from_a.y;
    a_tile[a_column * 4 + 2][a_row] = from_a.z;
    a_tile[a_column * 4 + 3][a_row] = from_a.w;
    b_tile[b_row][b_column] = b[b_start + k * (p.n / 4)];
    __syncthreads();
#pragma unroll
    for (unsigned kk = 0; kk < 8; kk++) {
      float4 left = b_tile[kk][column], right = b_tile[kk][column + 16];
#pragma unroll
      for (unsigned i = 0; i < 8; i++) {
        float x = a_tile[kk][row * 8 + i];
        acc[i][0].x += x * left.x;
        acc[i][0].y += x * left.y;
        acc[i][0].z += x * left.z;
        acc[i][0].w += x * left.w;
        acc[i][1].x += x * right.x;
        acc[i][1].y += x * right.y;
        acc[i][1].z += x * right.z;
        acc[i][1].w += x * right.w;
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (unsigned i = 0; i < 8; i++) {
    unsigned start = (blockIdx.y * 128 + row * 8 + i) * (p.n / 4) + blockIdx.x * 32 + column;
    c[start] = acc[i][0];
    c[start + 16] = acc[i][1];
  }
}

struct Histogram { unsigned n; };
extern "C" __global__ void __launch_bounds__(256)
histogram(Histogram p, const unsigned* __restrict__ x, unsigned* __restrict__ bins) {
  __shared__ unsigned local_bins[256];
  unsigned t = threadIdx.x;
  local_bins[t] = 0;
  __syncthreads();
  for (unsigned i = blockIdx.x * 256 + t; i < p.n; i += gridDim.x * 256) {
    unsigned word = x[i];
    atomicAdd(&local_bins[word & 255], 1u);
    atomicAdd(&local_bins[(word >> 8) & 255], 1u);
    atomicAdd(&local_bins[(word >> 16) & 255], 1u);
    atomicAdd(&local_bins[word >> 24], 1u);
  }
  __syncthreads();
  atomicAdd(&bins[t], local_bins[t]);
}
