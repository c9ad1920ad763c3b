//% include("logit_row.cu")

/* As spt_sample_row (runtime/kernels/sample.h). */
struct SampleRow {
    float scale, top_p, min_log;
    int top_k;
    u64 seed;
    long long position;
};

/* As spt_sample_args. */
struct SampleArgs {
    const float *logits;    /* (row, vocabulary) */
    const SampleRow *rows;  /* (row) */
    int *token;             /* (row) */
    long long logits_stride;
    int vocabulary;
};

/* The token whose share of the cut's mass, in the order of ids, holds u. */
__device__ __forceinline__ int draw(const Row &row, const Cut &cut, float scale, u64 u)
{
    Segment s = segment_of(row);
    Walk start = walk_of(row, s, cut), walk = start;
    int lane = threadIdx.x % 32;
    u64 own = 0;
    for (int i = s.begin; i < s.end; i += 32) {
        bool valid = i + lane < s.end;
        float x = valid ? row.at(i + lane) : MINUS_INFINITY;
        own += walk.take(x, valid) ? row.mass(x, scale) : 0;
    }
    own = warp_sum(own);
    share(own);
    u64 total = 0, before = 0;
    for (int warp = 0; warp < WARPS; warp++) {
        before += warp < threadIdx.x / 32 ? parts[warp] : 0;
        total += parts[warp];
    }
    u64 target = __umul64hi(u, total);
    if (target >= before && target - before < own) {
        target -= before;
        walk = start;
        for (int i = s.begin; i < s.end; i += 32) {
            bool valid = i + lane < s.end;
            float x = valid ? row.at(i + lane) : MINUS_INFINITY;
            u64 scan = warp_scan(walk.take(x, valid) ? row.mass(x, scale) : 0);
            unsigned past = __ballot_sync(0xffffffffu, scan > target);
            if (past) {
                if (lane == 0)
                    answer[0] = i + __ffs(past) - 1;
                break;
            }
            unsigned lo = __shfl_sync(0xffffffffu, static_cast<unsigned>(scan), 31);
            unsigned hi = __shfl_sync(0xffffffffu, static_cast<unsigned>(scan >> 32), 31);
            target -= static_cast<u64>(hi) << 32 | lo;
        }
    }
    __syncthreads();
    return static_cast<int>(answer[0]);
}

/*
 * Philox4x32-10 of (position, use 0) under the seed (Salmon, Moraes, Dror,
 * Shaw, SC 2011): 53 random bits, at the top of a fraction of 64.
 */
__device__ __forceinline__ u64 random_of(const SampleRow &options)
{
    unsigned c0 = static_cast<unsigned>(options.position), c1 = static_cast<unsigned>(options.position >> 32);
    unsigned c2 = 0, c3 = 0;
    unsigned k0 = static_cast<unsigned>(options.seed), k1 = static_cast<unsigned>(options.seed >> 32);
    for (int round = 0; round < 10; round++) {
        unsigned h0 = __umulhi(0xd2511f53u, c0), l0 = 0xd2511f53u * c0;
        unsigned h1 = __umulhi(0xcd9e8d57u, c2), l1 = 0xcd9e8d57u * c2;
        c0 = h1 ^ c1 ^ k0;
        c2 = h0 ^ c3 ^ k1;
        c1 = l1;
        c3 = l0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return (static_cast<u64>(c0 >> 5) << 26 | c1 >> 6) << 11;
}

/* What top-k, then top-p of that, then min-p leave. */
__device__ __forceinline__ Cut filter(const Row &row, const SampleRow &options)
{
    Cut cut = {0, ALL, 1};
    if (options.top_k > 0 && options.top_k < row.vocabulary)
        cut = select(row, 0, options.top_k, false);
    if (options.top_p > 0.0f && options.top_p < 1.0f) {
        u64 above = 0;
        for (int i = threadIdx.x; i < row.vocabulary; i += THREADS) {
            float x = row.at(i);
            bool in = key_of(x) > cut.key || cut.rest == ALL;
            above += in ? row.mass(x, LOG2_E) : 0;
        }
        above = block_sum(above);
        if (cut.rest != ALL)
            above += cut.rest * row.mass(value_of(cut.key), LOG2_E);
        u64 target = __double2ull_ru(static_cast<double>(options.top_p) * static_cast<double>(above));
        cut = select(row, cut.key, max(target, 1ull), true);
    }
    unsigned least = key_of(__fadd_rn(row.top, options.min_log));
    if (options.min_log > MINUS_INFINITY && least > cut.key)
        cut = {least, ALL, 1};
    return cut;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
${SYMBOL}(const __grid_constant__ SampleArgs args)
{
    Row row = {args.logits + blockIdx.x * args.logits_stride, args.vocabulary, MINUS_INFINITY};
    SampleRow options = args.rows[blockIdx.x];
    u64 best = highest(row);
    row.top = value_of(static_cast<unsigned>(best >> 32));
    int token = static_cast<int>(~static_cast<unsigned>(best));
    if (row.top == MINUS_INFINITY) { /* nothing to choose from */
        if (threadIdx.x == 0)
            args.token[blockIdx.x] = -1;
        return;
    }
    if (options.scale > 0.0f)
        token = draw(row, filter(row, options), options.scale, random_of(options));
    if (threadIdx.x == 0)
        args.token[blockIdx.x] = token;
}
