//% include("logit_row.cu")

/* As spt_random_use (runtime/engine/random.h). */
enum { RANDOM_ACCEPT = 2, RANDOM_RESIDUAL = 3 };

/* As spt_sample_row (runtime/kernels/sample.h). */
struct SampleRow {
    float scale, top_p, min_log;
    int top_k;
    u64 seed;
    long long position;
    const float *from; /* what the draft was drawn from; null: it was certain */
    int draft;
    int use;
};

/* As spt_sample_args. */
struct SampleArgs {
    const float *logits;    /* (row, vocabulary) */
    const SampleRow *rows;  /* (row) */
    int *token;             /* (row) */
    long long logits_stride;
    int vocabulary;
};

/* What a cut leaves of a row, as weights of ids: a warp asks for 32 in a row, from its segment's first on. */
struct Masses {
    Row row;
    float scale;
    Walk walk;

    __device__ __forceinline__ u64 next(int i, bool valid)
    {
        float x = valid ? row.at(i) : MINUS_INFINITY;
        return walk.take(x, valid) ? row.mass(x, scale) : 0;
    }
};

/* Of weights: the warp's segment, the warps before it, all. */
struct Sums {
    u64 own, before, total;
};

template <class Weights>
__device__ __forceinline__ Sums sums_of(Weights weights, const Segment &s)
{
    u64 own = 0;
    int lane = threadIdx.x % 32;
    for (int i = s.begin; i < s.end; i += 32)
        own += weights.next(i + lane, i + lane < s.end);
    Sums sums = {warp_sum(own), 0, 0};
    share(sums.own);
    for (int warp = 0; warp < WARPS; warp++) {
        sums.before += warp < threadIdx.x / 32 ? parts[warp] : 0;
        sums.total += parts[warp];
    }
    return sums;
}

/* The id whose weight, laid end to end in the order of ids, holds target. */
template <class Weights>
__device__ __forceinline__ int find(Weights weights, const Segment &s, const Sums &sums, u64 target)
{
    int lane = threadIdx.x % 32;
    if (target >= sums.before && target - sums.before < sums.own) {
        target -= sums.before;
        for (int i = s.begin; i < s.end; i += 32) {
            u64 scan = warp_scan(weights.next(i + lane, i + lane < s.end));
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
 * Philox4x32-10 of (position, use) under the seed (Salmon, Moraes, Dror, Shaw,
 * SC 2011): 53 random bits, at the top of a fraction of 64.
 */
__device__ __forceinline__ u64 random_of(const SampleRow &options, unsigned use)
{
    unsigned c0 = static_cast<unsigned>(options.position), c1 = static_cast<unsigned>(options.position >> 32);
    unsigned c2 = use, c3 = 0;
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

__device__ __forceinline__ Masses masses_of(const Row &row, const Segment &s, const SampleRow &options)
{
    return {row, options.scale, walk_of(row, s, filter(row, options))};
}

/* A probability is an integer, of so many. */
constexpr u64 WHOLE = 1ull << 62;

__shared__ u64 draft_parts[2]; /* the draft's probability in p and in q */

/* floor(2^107 / total) of a sum of masses: 2^44 to 2^63. */
__device__ __forceinline__ u64 reciprocal(u64 total)
{
    u64 quotient = 0, rest = 1ull << 43;
    for (int i = 0; i < 64; i++) {
        rest *= 2;
        quotient = quotient << 1 | (rest >= total);
        rest -= rest >= total ? total : 0;
    }
    return quotient;
}

/* max(p - q, 0); on its way it keeps the draft's own two. */
struct Residual {
    Masses p, q;
    u64 p_one, q_one; /* reciprocals; q_one 0: all of q is the draft */
    int draft;

    __device__ __forceinline__ u64 next(int i, bool valid)
    {
        u64 in_p = __umul64hi(p.next(i, valid) << 19, p_one);
        u64 in_q = i == draft ? WHOLE : 0;
        if (q_one)
            in_q = __umul64hi(q.next(i, valid) << 19, q_one);
        if (valid && i == draft) {
            draft_parts[0] = in_p;
            draft_parts[1] = in_q;
        }
        return in_p > in_q ? in_p - in_q : 0;
    }
};

/*
 * The draft with probability p(draft) / q(draft), else a token of the residual;
 * where that is nothing, of p.
 */
__device__ __forceinline__ int judge(const Masses &p, const Segment &s, const SampleRow &options)
{
    Sums p_sums = sums_of(p, s);
    Residual residual = {p, p, reciprocal(p_sums.total), 0, options.draft};
    if (options.from) {
        Row row = {options.from, p.row.vocabulary, MINUS_INFINITY};
        row.top = value_of(static_cast<unsigned>(highest(row) >> 32));
        residual.q = masses_of(row, s, options);
        residual.q_one = reciprocal(sums_of(residual.q, s).total);
    }
    Sums sums = sums_of(residual, s);
    bool kept = __umul64hi(random_of(options, RANDOM_ACCEPT), draft_parts[1]) < draft_parts[0];
    __syncthreads(); /* all have read the draft's parts */
    if (kept)
        return options.draft;
    u64 u = random_of(options, RANDOM_RESIDUAL);
    if (!sums.total)
        return find(p, s, p_sums, __umul64hi(u, p_sums.total));
    return find(residual, s, sums, __umul64hi(u, sums.total));
}

/* The row's token at a temperature above 0. */
__device__ __forceinline__ int draw(const Row &row, const SampleRow &options)
{
    Segment s = segment_of(row);
    Masses masses = masses_of(row, s, options);
    if (options.use == RANDOM_ACCEPT)
        return judge(masses, s, options);
    Sums sums = sums_of(masses, s);
    return find(masses, s, sums, __umul64hi(random_of(options, options.use), sums.total));
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
        token = draw(row, options);
    if (threadIdx.x == 0)
        args.token[blockIdx.x] = token;
}
