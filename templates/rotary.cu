//% include("vector.cu")

typedef unsigned short half_t; /* bits of one ${DTYPE} number */

/* As spt_rotary_args (runtime/kernels/rotary.h). */
struct RotaryArgs {
    const void *q, *k, *v;
    half_t *q_out, *k_cache, *v_cache;
    const int *page_table, *q_start, *kv_len;
    const long long *kv_start;
    const unsigned *tree;
    const float2 *cos_sin;
    const float *q_weight, *k_weight;
    long long q_stride, k_stride, v_stride, q_out_stride;
    long long kv_page_stride, kv_token_stride, kv_head_stride;
    int page_table_stride;
    int q_heads, kv_heads;
    float eps;
};

//% include("sequence.cu")

constexpr int HEAD_DIM = ${HEAD_DIM};
constexpr int ROTATED = ${ROTATED}; /* numbers of a head, from its start */
constexpr int PAGE_SIZE = ${PAGE_SIZE};
constexpr int WARPS = ${WARPS};
constexpr int QUADS = ${QUADS}; /* of a head: two pairs of numbers each */
constexpr int PER_LANE = ${PER_LANE};
constexpr bool NEOX = ${NEOX};

/* Where the two halves of a quad stand in its head. */
__device__ __forceinline__ int first_half(int quad)
{
    return NEOX && quad < ROTATED / 4 ? 2 * quad : 4 * quad;
}

__device__ __forceinline__ int second_half(int quad)
{
    return NEOX && quad < ROTATED / 4 ? ROTATED / 2 + 2 * quad : 4 * quad + 2;
}

__device__ __forceinline__ float2 load2(const void *p, long long at)
{
//% if IN_TYPE == "fp32" then
    return *reinterpret_cast<const float2 *>(static_cast<const float *>(p) + at);
//% else
    unsigned w = *reinterpret_cast<const unsigned *>(static_cast<const half_t *>(p) + at);
    return make_float2(${IN_TYPE}_to_float(static_cast<half_t>(w)), ${IN_TYPE}_to_float(static_cast<half_t>(w >> 16)));
//% end
}

__device__ __forceinline__ void store2(half_t *p, float2 x)
{
    *reinterpret_cast<unsigned *>(p) = ${DTYPE}_pair(x.x, x.y);
}

/* A head's numbers: quad lane + 32 k is (a, b)[k]. */
struct Head {
    float2 a[PER_LANE], b[PER_LANE];
};

__device__ __forceinline__ void load_head(const void *p, long long at, int lane,
                                          Head &head)
{
#pragma unroll
    for (int k = 0; k < PER_LANE; k++) {
        int quad = lane + 32 * k;
        head.a[k] = head.b[k] = make_float2(0.0f, 0.0f);
        if (quad < QUADS) {
            head.a[k] = load2(p, at + first_half(quad));
            head.b[k] = load2(p, at + second_half(quad));
        }
    }
}

__device__ __forceinline__ void store_head(half_t *p, int lane, const Head &head)
{
#pragma unroll
    for (int k = 0; k < PER_LANE; k++) {
        int quad = lane + 32 * k;
        if (quad < QUADS) {
            store2(p + first_half(quad), head.a[k]);
            store2(p + second_half(quad), head.b[k]);
        }
    }
}

//% if QK_NORM then
__device__ __forceinline__ void scale2(float2 &x, float scale, const float *weight)
{
    float2 w = *reinterpret_cast<const float2 *>(weight);
//% if OFFSET then
    w = make_float2(__fadd_rn(1.0f, w.x), __fadd_rn(1.0f, w.y));
//% end
    x.x = __fmul_rn(__fmul_rn(x.x, scale), w.x);
    x.y = __fmul_rn(__fmul_rn(x.y, scale), w.y);
}

__device__ __forceinline__ void norm_head(Head &head, int lane, const float *weight, float eps)
{
    float squares = 0.0f;
#pragma unroll
    for (int k = 0; k < PER_LANE; k++) {
        squares = __fmaf_rn(head.a[k].x, head.a[k].x, squares);
        squares = __fmaf_rn(head.a[k].y, head.a[k].y, squares);
        squares = __fmaf_rn(head.b[k].x, head.b[k].x, squares);
        squares = __fmaf_rn(head.b[k].y, head.b[k].y, squares);
    }
    float mean = __fmul_rn(warp_sum(squares), 1.0f / HEAD_DIM);
    float scale = __frcp_rn(__fsqrt_rn(__fadd_rn(mean, eps)));
#pragma unroll
    for (int k = 0; k < PER_LANE; k++) {
        int quad = lane + 32 * k;
        if (quad < QUADS) {
            scale2(head.a[k], scale, weight + first_half(quad));
            scale2(head.b[k], scale, weight + second_half(quad));
        }
    }
}
//% end

__device__ __forceinline__ void rotate(float &x, float &y, float cosine, float sine)
{
    float turned = __fmaf_rn(x, cosine, -__fmul_rn(y, sine));
    y = __fmaf_rn(y, cosine, __fmul_rn(x, sine));
    x = turned;
}

/* row: the position's pairs. */
__device__ __forceinline__ void rotate_head(Head &head, int lane, const float2 *row)
{
#pragma unroll
    for (int k = 0; k < PER_LANE; k++) {
        int quad = lane + 32 * k;
        if (quad >= ROTATED / 4)
            continue;
        float4 angle = *reinterpret_cast<const float4 *>(row + 2 * quad);
        if (NEOX) {
            rotate(head.a[k].x, head.b[k].x, angle.x, angle.y);
            rotate(head.a[k].y, head.b[k].y, angle.z, angle.w);
        } else {
            rotate(head.a[k].x, head.a[k].y, angle.x, angle.y);
            rotate(head.b[k].x, head.b[k].y, angle.z, angle.w);
        }
    }
}

//% include("slot.cu")

extern "C" __global__ void __launch_bounds__(32 * WARPS)
${SYMBOL}(const __grid_constant__ RotaryArgs args)
{
    int lane = threadIdx.x % 32, head = blockIdx.x * WARPS + threadIdx.x / 32;
    int token = blockIdx.y, s = blockIdx.z;
    Sequence sequence = sequence_of(args, s);
    int keys = args.q_heads, values = keys + args.kv_heads;
    if (token >= sequence.tokens || head >= values + args.kv_heads)
        return;
    long long row = sequence.first + token;
    Head x;
    if (head >= values) {
        head -= values;
        load_head(args.v, row * args.v_stride + head * HEAD_DIM, lane, x);
        store_head(args.v_cache + slot_of(args, s, sequence.context + token) + head * args.kv_head_stride, lane, x);
        return;
    }
    bool is_key = head >= keys;
    head -= is_key ? keys : 0;
    load_head(is_key ? args.k : args.q, row * (is_key ? args.k_stride : args.q_stride) + head * HEAD_DIM, lane, x);
//% if QK_NORM then
    norm_head(x, lane, is_key ? args.k_weight : args.q_weight, args.eps);
//% end
    int position = position_of(args, sequence, token);
    rotate_head(x, lane, args.cos_sin + static_cast<long long>(position) * (ROTATED / 2));
    if (is_key)
        store_head(args.k_cache + slot_of(args, s, sequence.context + token) + head * args.kv_head_stride, lane, x);
    else
        store_head(args.q_out + row * args.q_out_stride + head * HEAD_DIM, lane, x);
}
