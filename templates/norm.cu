//% include("vector.cu")

/* As spt_norm_args (runtime/kernels/norm.h). */
struct NormArgs {
    const void *in;
    const float *weight;
    void *out;
    const int *index;
    const float *next_weight;
    void *next;
    long long in_stride, out_stride, next_stride;
    float eps;
};

constexpr int WIDTH = ${WIDTH};
constexpr int THREADS = ${THREADS};
constexpr int VECTORS = ${VECTORS}; /* of eight numbers */
constexpr int PER_THREAD = ${PER_THREAD};
constexpr int WARPS = ${WARPS};

/* What a row is multiplied with: 1 / sqrt(mean of squares + eps). */
__device__ __forceinline__ float row_scale(const float (&x)[PER_THREAD][8], float eps, float *warps)
{
    float squares = 0.0f;
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            squares = __fmaf_rn(x[k][i], x[k][i], squares);
    squares = warp_sum(squares);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = squares;
    __syncthreads();
    int lane = threadIdx.x % 32;
    float mean = __fmul_rn(warp_sum(lane < WARPS ? warps[lane] : 0.0f), 1.0f / WIDTH);
    return __frcp_rn(__fsqrt_rn(__fadd_rn(mean, eps)));
}

/* x * scale * weight, the weight being 1 + w with `offset`. */
__device__ __forceinline__ void scale8(float (&x)[8], float scale, const float *weights)
{
    float weight[8];
    load8_fp32(weights, 0, weight);
#pragma unroll
    for (int i = 0; i < 8; i++) {
//% if OFFSET then
        weight[i] = __fadd_rn(1.0f, weight[i]);
//% end
        x[i] = __fmul_rn(__fmul_rn(x[i], scale), weight[i]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
${SYMBOL}(const __grid_constant__ NormArgs args)
{
    __shared__ float warps[${NORMS}][WARPS];
    long long row = blockIdx.x;
//% if GATHER then
    long long in = static_cast<long long>(args.index[row]) * args.in_stride;
//% else
    long long in = row * args.in_stride;
//% end
    long long out = row * args.out_stride;
    float x[PER_THREAD][8] = {};
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++) {
        int vector = threadIdx.x + k * THREADS;
        if (vector < VECTORS)
            load8_${IN_TYPE}(args.in, in + vector * 8, x[k]);
    }
    float scale = row_scale(x, args.eps, warps[0]);
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++) {
        int vector = threadIdx.x + k * THREADS;
        if (vector >= VECTORS)
            continue;
        scale8(x[k], scale, args.weight + vector * 8);
//% if ADD then
        float before[8];
        load8_${OUT_TYPE}(args.out, out + vector * 8, before);
#pragma unroll
        for (int i = 0; i < 8; i++)
            x[k][i] = __fadd_rn(before[i], x[k][i]);
//% end
        store8_${OUT_TYPE}(args.out, out + vector * 8, x[k]);
    }
//% if NEXT then
    scale = row_scale(x, args.eps, warps[1]);
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++) {
        int vector = threadIdx.x + k * THREADS;
        if (vector >= VECTORS)
            continue;
        scale8(x[k], scale, args.next_weight + vector * 8);
        store8_${NEXT_TYPE}(args.next, row * args.next_stride + vector * 8, x[k]);
    }
//% end
}
