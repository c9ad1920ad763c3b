//% include("logit_row.cu")

constexpr int MOST = 32; /* tokens of a row: lanes of a warp */

/* As spt_logit. */
struct Logit {
    int token;
    float value;
};

/* As spt_logprob_row (runtime/kernels/logprobs.h). */
struct LogprobRow {
    u64 mass;
    float top, logit;
    int count, reserved;
    Logit best[MOST];
};

/* As spt_logprobs_args. */
struct LogprobsArgs {
    const float *logits; /* (row, vocabulary) */
    const int *token;    /* (row) */
    const int *want;     /* (row) */
    LogprobRow *out;     /* (row) */
    long long logits_stride;
    int vocabulary;
};

__shared__ u64 found[MOST];
__shared__ int n_found;

/* The `want` highest above -infinity to out, the first on ties; how many. */
__device__ __forceinline__ int find_best(const Row &row, int want, Logit *out)
{
    if (threadIdx.x == 0)
        n_found = 0;
    Segment s = segment_of(row);
    Walk walk = walk_of(row, s, select(row, 0, min(want, row.vocabulary), false));
    int lane = threadIdx.x % 32;
    for (int i = s.begin; i < s.end; i += 32) {
        bool valid = i + lane < s.end;
        float x = valid ? row.at(i + lane) : MINUS_INFINITY;
        if (walk.take(x, valid) && x > MINUS_INFINITY)
            found[atomicAdd(&n_found, 1)] = static_cast<u64>(key_of(x)) << 32 | ~static_cast<unsigned>(i + lane);
    }
    __syncthreads();
    int count = n_found, rank = 0;
    if (threadIdx.x >= count)
        return count;
    u64 own = found[threadIdx.x];
    for (int i = 0; i < count; i++)
        rank += found[i] > own;
    out[rank] = {static_cast<int>(~static_cast<unsigned>(own)), value_of(static_cast<unsigned>(own >> 32))};
    return count;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
${SYMBOL}(const __grid_constant__ LogprobsArgs args)
{
    int want = args.want[blockIdx.x], token = args.token[blockIdx.x];
    if (want < 0)
        return;
    LogprobRow *out = args.out + blockIdx.x;
    Row row = {args.logits + blockIdx.x * args.logits_stride, args.vocabulary, MINUS_INFINITY};
    row.top = value_of(static_cast<unsigned>(highest(row) >> 32));
    bool any = row.top > MINUS_INFINITY;
    u64 mass = 0;
    for (int i = threadIdx.x; i < row.vocabulary && any; i += THREADS)
        mass += row.mass(row.at(i), LOG2_E);
    mass = block_sum(mass);
    int count = any && want > 0 ? find_best(row, min(want, MOST), out->best) : 0;
    if (threadIdx.x == 0) {
        out->mass = mass;
        out->top = row.top;
        out->logit = token >= 0 ? row.at(token) : MINUS_INFINITY;
        out->count = count;
    }
}
