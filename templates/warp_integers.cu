/* 64-bit integers over a warp: every lane gets the result. */
__device__ __forceinline__ unsigned long long shuffle_xor(unsigned long long x, int step)
{
    unsigned lo = __shfl_xor_sync(0xffffffffu, static_cast<unsigned>(x), step);
    unsigned hi = __shfl_xor_sync(0xffffffffu, static_cast<unsigned>(x >> 32), step);
    return static_cast<unsigned long long>(hi) << 32 | lo;
}

__device__ __forceinline__ unsigned long long warp_max(unsigned long long x)
{
#pragma unroll
    for (int step = 16; step; step /= 2)
        x = max(x, shuffle_xor(x, step));
    return x;
}
