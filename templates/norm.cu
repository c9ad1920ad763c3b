//% include("vector.cu")

/* As spt_norm_args (runtime/kernels/norm.h). */
struct NormArgs {
    const void *in;
    const float *weight;
    void *out;
    const int *index;
    long long in_stride, out_stride;
    float eps;
};

constexpr int WIDTH = ${WIDTH};
constexpr int THREADS = ${THREADS};
constexpr int VECTORS = ${VECTORS}; /* of eight numbers */
constexpr int PER_THREAD = ${PER_THREAD};
constexpr int WARPS = ${WARPS};

/* The sum over all threads, in every thread. */
__device__ __forceinline__ float cta_sum(float x, float *warps)
{
    x = warp_sum(x);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = x;
    __syncthreads();
    int lane = threadIdx.x % 32;
    return warp_sum(lane < WARPS ? warps[lane] : 0.0f);
}

extern "C" __global__ void __launch_bounds__(THREADS)
${SYMBOL}(const __grid_constant__ NormArgs args)
{
    __shared__ float warps[WARPS];
    long long row = blockIdx.x;
//% if GATHER then
    long long in = static_cast<long long>(args.index[row]) * args.in_stride;
//% else
    long long in = row * args.in_stride;
//% end
    long long out = row * args.out_stride;
    float x[PER_THREAD][8];
    float squares = 0.0f;
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++) {
        int vector = threadIdx.x + k * THREADS;
        if (vector >= VECTORS)
            break;
        load8_${IN_TYPE}(args.in, in + vector * 8, x[k]);
#pragma unroll
        for (int i = 0; i < 8; i++)
            squares = __fmaf_rn(x[k][i], x[k][i], squares);
    }
    float mean = __fmul_rn(cta_sum(squares, warps), 1.0f / WIDTH);
    float scale = __frcp_rn(__fsqrt_rn(__fadd_rn(mean, args.eps)));
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++) {
        int vector = threadIdx.x + k * THREADS;
        if (vector >= VECTORS)
            break;
        float weight[8];
        load8_fp32(args.weight, vector * 8, weight);
//% if ADD then
        float before[8];
        load8_${OUT_TYPE}(args.out, out + vector * 8, before);
//% end
#pragma unroll
        for (int i = 0; i < 8; i++) {
//% if OFFSET then
            weight[i] = __fadd_rn(1.0f, weight[i]);
//% end
            x[k][i] = __fmul_rn(__fmul_rn(x[k][i], scale), weight[i]);
//% if ADD then
            x[k][i] = __fadd_rn(before[i], x[k][i]);
//% end
        }
        store8_${OUT_TYPE}(args.out, out + vector * 8, x[k]);
    }
}
