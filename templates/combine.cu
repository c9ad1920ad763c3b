//% include("warp_mma.cu")
//% include("verify_args.cu")

constexpr int HEAD_DIM = ${HEAD_DIM};
constexpr int GROUP = ${GROUP};          /* query heads per KV head */
constexpr int CHUNK = ${CHUNK};          /* KV tokens per partial result */
constexpr int LANES = HEAD_DIM / 4;      /* threads of one chunk's row */
constexpr int MERGE_WAYS = ${MERGE_WAYS}; /* chunk c is summed by way c % MERGE_WAYS */
constexpr int THREADS = LANES * MERGE_WAYS;

//% if SINKS then
constexpr float LOG2_E = 1.4426950408889634f;
//% end
constexpr float LN_2 = 0.6931471805599453f;

/* First and last chunk that hold a visible position of the row. */
__device__ __forceinline__ void chunk_range(const VerifyArgs &args,
                                            int position, int &first,
                                            int &last)
{
    first = 0;
//% if WINDOW then
    first = max(position - args.window + 1, 0) / CHUNK;
//% end
    last = position < 0 ? -1 : position / CHUNK;
}

/* One CTA merges the chunks of one row, every way in ascending order. */
extern "C" __global__ void __launch_bounds__(THREADS)
${SYMBOL}(const __grid_constant__ VerifyArgs args)
{
    __shared__ float4 way_o[MERGE_WAYS][LANES];
    __shared__ float way_sum[MERGE_WAYS];
    __shared__ float tops[THREADS];
    Sequence sequence = sequence_of(args, blockIdx.z);
    int row = blockIdx.x;
    if (row >= sequence.tokens * GROUP)
        return;
    int lane = threadIdx.x % LANES, way = threadIdx.x / LANES;
    int head = blockIdx.y * GROUP + row % GROUP;
    int first, last;
    chunk_range(args, position_of(args, sequence, row / GROUP), first, last);
    long long base = (static_cast<long long>(blockIdx.z) * gridDim.y + blockIdx.y) * args.chunks * args.rows + row;

    float top = MINUS_INFINITY;
    for (int chunk = first + threadIdx.x; chunk <= last; chunk += THREADS)
        top = fmaxf(top, args.partial_ml[base + static_cast<long long>(chunk) * args.rows].x);
    tops[threadIdx.x] = top;
    __syncthreads();
    for (int i = 0; i < min(THREADS, last - first + 1); i++)
        top = fmaxf(top, tops[i]);
//% if SINKS then
    float sink = __fmul_rn(args.sinks[head], LOG2_E);
    top = fmaxf(top, sink);
//% end
    float reference = top == MINUS_INFINITY ? 0.0f : top;

    float sum = 0.0f;
    float4 o = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    int start = first + (way + MERGE_WAYS - first % MERGE_WAYS) % MERGE_WAYS;
#pragma unroll 4
    for (int chunk = start; chunk <= last; chunk += MERGE_WAYS) {
        long long at = base + static_cast<long long>(chunk) * args.rows;
        float2 ml = args.partial_ml[at];
        float weight = exp2_approx(__fsub_rn(ml.x, reference));
        float4 part = *reinterpret_cast<const float4 *>(args.partial_o + at * HEAD_DIM + lane * 4);
        sum = __fmaf_rn(weight, ml.y, sum);
        o.x = __fmaf_rn(weight, part.x, o.x);
        o.y = __fmaf_rn(weight, part.y, o.y);
        o.z = __fmaf_rn(weight, part.z, o.z);
        o.w = __fmaf_rn(weight, part.w, o.w);
    }
    way_o[way][lane] = o;
    if (lane == 0)
        way_sum[way] = sum;
    __syncthreads();
    if (way != 0)
        return;
#pragma unroll
    for (int other = 1; other < MERGE_WAYS; other++) {
        float4 part = way_o[other][lane];
        sum = __fadd_rn(sum, way_sum[other]);
        o.x = __fadd_rn(o.x, part.x);
        o.y = __fadd_rn(o.y, part.y);
        o.z = __fadd_rn(o.z, part.z);
        o.w = __fadd_rn(o.w, part.w);
    }
//% if SINKS then
    sum = __fadd_rn(sum, exp2_approx(__fsub_rn(sink, reference)));
//% end
    /* Nothing visible: zeros. Adding +0 leaves no row with a -0 of its own. */
    float inverse = sum > 0.0f ? __frcp_rn(sum) : 0.0f;
    uint2 packed;
    packed.x = pack2(__fadd_rn(__fmul_rn(o.x, inverse), 0.0f), __fadd_rn(__fmul_rn(o.y, inverse), 0.0f));
    packed.y = pack2(__fadd_rn(__fmul_rn(o.z, inverse), 0.0f), __fadd_rn(__fmul_rn(o.w, inverse), 0.0f));
    int token = sequence.first + row / GROUP;
    long long out = (static_cast<long long>(token) * gridDim.y * GROUP + head) * HEAD_DIM + lane * 4;
    *reinterpret_cast<uint2 *>(args.out + out) = packed;
    if (lane == 0)
        args.lse[static_cast<long long>(token) * gridDim.y * GROUP + head] = sum > 0.0f ? __fmul_rn(__fadd_rn(reference, log2_approx(sum)), LN_2) : MINUS_INFINITY;
}
