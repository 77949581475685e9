// dest[i] = a[i] * b[i] for i < n. To PTX: nvcc -ptx -arch=compute_70 multiply_them.cu; to machine code: nvcc -cubin -arch=sm_90.
__global__ void multiply_them(float *dest, const float *a, const float *b, unsigned n)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        dest[i] = a[i] * b[i];
    }
}
