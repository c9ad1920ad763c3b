/*
 * rotary_d128_r64_norm_bf16_bf16_p16_tree_norm_offset
 * norm of q and k, rotary embedding, append to the KV cache
 *
 * kernel   rotary
 * config   head_dim=128 rotary_dim=64 layout=norm in_type=bf16 dtype=bf16
 *          page_size=16 tree=true qk_norm=true offset=true
 * key      rotary-1 d128 r64 norm bf16 bf16 norm offset
 * target   sm_80
 * launch   128 threads, 0 bytes of shared memory
 * by       spectune 0.1.0
 */
#line 1 "templates/vector.cu"
/*
 * Eight numbers at a time between memory and fp32 registers: 16-byte aligned
 * loads and stores of fp32, bf16 and fp16, rounded to nearest even. And sums
 * over a warp, whose bits are the same in every lane.
 */
__device__ __forceinline__ void load8_fp32(const void *p, long long at, float (&x)[8])
{
    const float4 *from = reinterpret_cast<const float4 *>(static_cast<const float *>(p) + at);
    float4 lo = from[0], hi = from[1];
    x[0] = lo.x, x[1] = lo.y, x[2] = lo.z, x[3] = lo.w;
    x[4] = hi.x, x[5] = hi.y, x[6] = hi.z, x[7] = hi.w;
}

__device__ __forceinline__ void store8_fp32(void *p, long long at, const float (&x)[8])
{
    float4 *to = reinterpret_cast<float4 *>(static_cast<float *>(p) + at);
    to[0] = make_float4(x[0], x[1], x[2], x[3]);
    to[1] = make_float4(x[4], x[5], x[6], x[7]);
}

__device__ __forceinline__ float bf16_to_float(unsigned short bits)
{
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
}

__device__ __forceinline__ float fp16_to_float(unsigned short bits)
{
    float x;
    asm("cvt.f32.f16 %0, %1;\n" : "=f"(x) : "h"(bits));
    return x;
}

__device__ __forceinline__ unsigned bf16_pair(float lo, float hi)
{
    unsigned d;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(d) : "f"(hi), "f"(lo));
    return d;
}

__device__ __forceinline__ unsigned fp16_pair(float lo, float hi)
{
    unsigned d;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(d) : "f"(hi), "f"(lo));
    return d;
}

__device__ __forceinline__ uint4 load_words(const void *p, long long at)
{
    return *reinterpret_cast<const uint4 *>(static_cast<const unsigned short *>(p) + at);
}

__device__ __forceinline__ void store_words(void *p, long long at, uint4 words)
{
    *reinterpret_cast<uint4 *>(static_cast<unsigned short *>(p) + at) = words;
}

__device__ __forceinline__ void load8_bf16(const void *p, long long at, float (&x)[8])
{
    uint4 words = load_words(p, at);
    const unsigned w[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[2 * i] = bf16_to_float(static_cast<unsigned short>(w[i]));
        x[2 * i + 1] = __uint_as_float(w[i] & 0xffff0000u);
    }
}

__device__ __forceinline__ void load8_fp16(const void *p, long long at, float (&x)[8])
{
    uint4 words = load_words(p, at);
    const unsigned w[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[2 * i] = fp16_to_float(static_cast<unsigned short>(w[i]));
        x[2 * i + 1] = fp16_to_float(static_cast<unsigned short>(w[i] >> 16));
    }
}

__device__ __forceinline__ void store8_bf16(void *p, long long at, const float (&x)[8])
{
    store_words(p, at, make_uint4(bf16_pair(x[0], x[1]), bf16_pair(x[2], x[3]), bf16_pair(x[4], x[5]), bf16_pair(x[6], x[7])));
}

__device__ __forceinline__ void store8_fp16(void *p, long long at, const float (&x)[8])
{
    store_words(p, at, make_uint4(fp16_pair(x[0], x[1]), fp16_pair(x[2], x[3]), fp16_pair(x[4], x[5]), fp16_pair(x[6], x[7])));
}

__device__ __forceinline__ float warp_sum(float x)
{
#pragma unroll
    for (int step = 16; step; step /= 2)
        x = __fadd_rn(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}
#line 3 "templates/rotary.cu"
typedef unsigned short half_t; /* bits of one bf16 number */

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

#line 1 "templates/sequence.cu"
/* For kernels whose arguments have q_start, kv_len and tree of verify_args.cu. */

/* Where one sequence stands: tokens of its draft block and what precedes. */
struct Sequence {
    int first, tokens, context;
};

template <typename Args>
__device__ __forceinline__ Sequence sequence_of(const Args &args, int s)
{
    Sequence sequence;
    sequence.first = args.q_start[s];
    sequence.tokens = args.q_start[s + 1] - sequence.first;
    sequence.context = args.kv_len[s] - sequence.tokens;
    return sequence;
}

/* Position of a draft token: context + depth, -1 past the block. */
template <typename Args>
__device__ __forceinline__ int position_of(const Args &args,
                                           const Sequence &sequence, int token)
{
    if (token >= sequence.tokens)
        return -1;
#line 26 "templates/sequence.cu"
    return sequence.context + __popc(args.tree[sequence.first + token]) - 1;
#line 30 "templates/sequence.cu"
}
#line 23 "templates/rotary.cu"
constexpr int HEAD_DIM = 128;
constexpr int ROTATED = 64; /* numbers of a head, from its start */
constexpr int PAGE_SIZE = 16;
constexpr int WARPS = 4;
constexpr int QUADS = 32; /* of a head: two pairs of numbers each */
constexpr int PER_LANE = 1;
constexpr bool NEOX = false;

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
#line 47 "templates/rotary.cu"
    unsigned w = *reinterpret_cast<const unsigned *>(static_cast<const half_t *>(p) + at);
    return make_float2(bf16_to_float(static_cast<half_t>(w)), bf16_to_float(static_cast<half_t>(w >> 16)));
#line 50 "templates/rotary.cu"
}

__device__ __forceinline__ void store2(half_t *p, float2 x)
{
    *reinterpret_cast<unsigned *>(p) = bf16_pair(x.x, x.y);
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

#line 89 "templates/rotary.cu"
__device__ __forceinline__ void scale2(float2 &x, float scale, const float *weight)
{
    float2 w = *reinterpret_cast<const float2 *>(weight);
#line 93 "templates/rotary.cu"
    w = make_float2(__fadd_rn(1.0f, w.x), __fadd_rn(1.0f, w.y));
#line 95 "templates/rotary.cu"
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
#line 122 "templates/rotary.cu"
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

#line 1 "templates/slot.cu"
/* Element of the KV cache where a slot of sequence s begins, head 0. */
template <typename Args>
__device__ __forceinline__ long long slot_of(const Args &args, int s, int slot)
{
#line 6 "templates/slot.cu"
    long long page = args.page_table[static_cast<long long>(s) * args.page_table_stride + slot / PAGE_SIZE];
    return page * args.kv_page_stride + slot % PAGE_SIZE * args.kv_token_stride;
#line 11 "templates/slot.cu"
}
#line 150 "templates/rotary.cu"
extern "C" __global__ void __launch_bounds__(32 * WARPS)
rotary_d128_r64_norm_bf16_bf16_p16_tree_norm_offset(const __grid_constant__ RotaryArgs args)
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
#line 171 "templates/rotary.cu"
    norm_head(x, lane, is_key ? args.k_weight : args.q_weight, args.eps);
#line 173 "templates/rotary.cu"
    int position = position_of(args, sequence, token);
    rotate_head(x, lane, args.cos_sin + static_cast<long long>(position) * (ROTATED / 2));
    if (is_key)
        store_head(args.k_cache + slot_of(args, s, sequence.context + token) + head * args.kv_head_stride, lane, x);
    else
        store_head(args.q_out + row * args.q_out_stride + head * HEAD_DIM, lane, x);
}
