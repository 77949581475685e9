#version 450
// dest[i] = a[i] * b[i], for as many elements as dest has. multiply_them.spv is made of it:
// glslangValidator --target-env vulkan1.1 -g0 multiply_them.comp -o multiply_them.spv
layout(local_size_x = 256) in;
layout(std430, binding = 0) writeonly restrict buffer Dest { float dest[]; };
layout(std430, binding = 1) readonly restrict buffer A { float a[]; };
layout(std430, binding = 2) readonly restrict buffer B { float b[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < dest.length()) {
        dest[i] = a[i] * b[i];
    }
}
