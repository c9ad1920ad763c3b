/*
 * combine_fp16_d64_g4_tree_window_sinks_c256
 * merge of verify attention's chunks
 *
 * kernel   combine
 * config   group=4 head_dim=64 dtype=fp16 tree=true window=true sinks=true
 *          chunk=256
 * key      combine-1 fp16 d64 chunk256 ways4 window sinks
 * target   sm_80
 * launch   64 threads, 0 bytes of shared memory
 * by       spectune 0.1.0
 */
#line 1 "templates/warp_mma.cu"
/* Warp-level building blocks of the mma.sync family (sm_80 and newer). */

typedef unsigned short half_t; /* bits of one fp16 number */

/* 16 bytes to shared memory; zeros instead when take is false. */
__device__ __forceinline__ void cp_async16(unsigned dst, const void *src,
                                           bool take)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(dst),
                 "l"(src), "r"(take ? 16 : 0)
                 : "memory");
}

__device__ __forceinline__ void cp_async_commit()
{
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}

template <int PENDING>
__device__ __forceinline__ void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;\n" ::"n"(PENDING) : "memory");
}

/* Four 8x8 matrices; lane l gives the address of row l%8 of matrix l/8. */
__device__ __forceinline__ void ldmatrix_x4(unsigned (&d)[4], unsigned row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(row)
                 : "memory");
}

__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&d)[4],
                                                  unsigned row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(row)
                 : "memory");
}

__device__ __forceinline__ void ldmatrix_x2(unsigned (&d)[2], unsigned row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];\n"
                 : "=r"(d[0]), "=r"(d[1])
                 : "r"(row)
                 : "memory");
}

__device__ __forceinline__ unsigned transpose8x8(unsigned a)
{
    unsigned d;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n"
                 : "=r"(d)
                 : "r"(a));
    return d;
}

/* d(16x8) = a(16x16) * b(16x8) + c */
__device__ __forceinline__ void mma(float (&d)[4], const unsigned (&a)[4],
                                    const unsigned (&b)[2],
                                    const float (&c)[4])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};\n"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
                   "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

/* Takes an accumulator's left and right column of this lane from another. */
__device__ __forceinline__ void keep_columns(float (&d)[4],
                                             const float (&from)[4], bool left,
                                             bool right)
{
    d[0] = left ? from[0] : d[0];
    d[1] = right ? from[1] : d[1];
    d[2] = left ? from[2] : d[2];
    d[3] = right ? from[3] : d[3];
}

/* Two floats rounded to fp16, the first in the low half. */
__device__ __forceinline__ unsigned pack2(float lo, float hi)
{
    unsigned d;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(d) : "f"(hi), "f"(lo));
    return d;
}

__device__ __forceinline__ float exp2_approx(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float log2_approx(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

#define MINUS_INFINITY __int_as_float(0xff800000)
#line 1 "templates/verify_args.cu"
/*
 * Arguments of verify attention and of its combine, laid out as
 * spt_verify_args (runtime/kernels/verify.h). Strides count elements.
 */
struct VerifyArgs {
    const half_t *q;        /* (token, query head, head dim) */
    const half_t *k, *v;    /* (page, slot, KV head, head dim), or without pages
                               (token, KV head, head dim), by strides */
    const int *page_table;  /* (sequence, page) */
    const int *q_start;     /* (sequences + 1): first token of each in q */
    const int *kv_len;      /* (sequence): KV tokens, draft block included */
    const long long *kv_start; /* (sequence): first KV token, without pages */
    const unsigned *tree;   /* (token): bits of its ancestors and itself */
    const float *sinks;     /* (query head): logits */
    float *partial_o;       /* (sequence, KV head, chunk, row, head dim) */
    float2 *partial_ml;     /* (sequence, KV head, chunk, row): max, sum */
    half_t *out;            /* (token, query head, head dim) */
    float *lse;             /* (token, query head), natural logarithm */
    long long q_token_stride, kv_page_stride, kv_token_stride, kv_head_stride;
    int page_table_stride;  /* pages per sequence */
    int chunks, rows;       /* of partial_o: chunks and rows per KV head */
    int row_groups;         /* CTAs that share a chunk's rows */
    int window;             /* a row sees this many last positions */
    float scale_log2;       /* softmax scale * log2(e) */
    float cap, cap_log2;    /* scale / softcap, softcap * log2(e) */
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
#line 4 "templates/combine.cu"
constexpr int HEAD_DIM = 64;
constexpr int GROUP = 4;          /* query heads per KV head */
constexpr int CHUNK = 256;          /* KV tokens per partial result */
constexpr int LANES = HEAD_DIM / 4;      /* threads of one chunk's row */
constexpr int MERGE_WAYS = 4; /* chunk c is summed by way c % MERGE_WAYS */
constexpr int THREADS = LANES * MERGE_WAYS;

#line 12 "templates/combine.cu"
constexpr float LOG2_E = 1.4426950408889634f;
#line 14 "templates/combine.cu"
constexpr float LN_2 = 0.6931471805599453f;

/* First and last chunk that hold a visible position of the row. */
__device__ __forceinline__ void chunk_range(const VerifyArgs &args,
                                            int position, int &first,
                                            int &last)
{
    first = 0;
#line 23 "templates/combine.cu"
    first = max(position - args.window + 1, 0) / CHUNK;
#line 25 "templates/combine.cu"
    last = position < 0 ? -1 : position / CHUNK;
}

/* One CTA merges the chunks of one row, every way in ascending order. */
extern "C" __global__ void __launch_bounds__(THREADS)
combine_fp16_d64_g4_tree_window_sinks_c256(const __grid_constant__ VerifyArgs args)
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
#line 53 "templates/combine.cu"
    float sink = __fmul_rn(args.sinks[head], LOG2_E);
    top = fmaxf(top, sink);
#line 56 "templates/combine.cu"
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
#line 89 "templates/combine.cu"
    sum = __fadd_rn(sum, exp2_approx(__fsub_rn(sink, reference)));
#line 91 "templates/combine.cu"
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
