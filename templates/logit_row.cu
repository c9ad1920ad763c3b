//% include("warp_integers.cu")

/*
 * Rows of logits over a CTA: keys in their order, integer probabilities, cuts at
 * the k-th or where a probability is reached, walks in the order of ids. Nothing
 * depends on how many threads share a row.
 */
typedef unsigned long long u64;

constexpr int THREADS = ${THREADS};
constexpr int WARPS = THREADS / 32;
constexpr int BINS = 256;               /* of one byte of a key */
constexpr int LANE_BINS = BINS / 32;
constexpr int MASS_BITS = 44;           /* of the highest logit: 2^19 of them fit */
constexpr float EXP2[] = {1.0f, 0.693147182f, 0.240226507f, 0.0555041097f, 0.00961812865f, 0.00133335579f, 0.000154035297f};
constexpr float LOG2_E = 1.4426950408889634f;
constexpr float LARGEST = 3.4028235e38f;
constexpr u64 ALL = ~0ull;
#define MINUS_INFINITY __int_as_float(0xff800000)

__shared__ u64 bins[BINS];
__shared__ u64 parts[WARPS];            /* of the warps */
__shared__ u64 answer[2];

/* One row of logits. */
struct Row {
    const float *logits;
    int vocabulary;
    float top; /* the highest logit */

    /* NaN is nothing, +infinity the largest number, -0 is 0. */
    __device__ __forceinline__ float at(int i) const
    {
        float x = logits[i];
        return x != x ? MINUS_INFINITY : __fadd_rn(fminf(x, LARGEST), 0.0f);
    }

    /*
     * 2 to the scaled distance to the highest, 2^44 for itself; Taylor's
     * polynomial, so that a host computes the same bits (sample.c).
     */
    __device__ __forceinline__ u64 mass(float x, float scale) const
    {
        float y = fmaxf(__fmul_rn(__fsub_rn(x, top), scale), -64.0f);
        int whole = __float2int_rn(y);
        float f = __fsub_rn(y, __int2float_rn(whole));
        float e = EXP2[6];
#pragma unroll
        for (int i = 5; i >= 0; i--)
            e = __fmaf_rn(e, f, EXP2[i]);
        return __float2ull_rz(__fmul_rn(e, __int_as_float((MASS_BITS + 127 + whole) << 23)));
    }
};

/*
 * The logits above a key, and of those that are at it the first ones: so many
 * that their weights, `one` each, reach `rest`; all where that is ALL.
 */
struct Cut {
    unsigned key;
    u64 rest, one;
};

/* Unsigned integers in the order of the floats. */
__device__ __forceinline__ unsigned key_of(float x)
{
    unsigned bits = __float_as_uint(x);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ float value_of(unsigned key)
{
    return __uint_as_float(key >> 31 ? key & 0x7fffffffu : ~key);
}

__device__ __forceinline__ u64 warp_sum(u64 x)
{
#pragma unroll
    for (int step = 16; step; step /= 2)
        x += shuffle_xor(x, step);
    return x;
}

/* Sum over the lanes up to this one. */
__device__ __forceinline__ u64 warp_scan(u64 x)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        unsigned lo = __shfl_up_sync(0xffffffffu, static_cast<unsigned>(x), step);
        unsigned hi = __shfl_up_sync(0xffffffffu, static_cast<unsigned>(x >> 32), step);
        x += lane >= step ? static_cast<u64>(hi) << 32 | lo : 0;
    }
    return x;
}

/* Every warp's x to parts; a barrier on both sides. */
__device__ __forceinline__ void share(u64 x)
{
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = x;
    __syncthreads();
}

__device__ __forceinline__ u64 block_sum(u64 x)
{
    share(warp_sum(x));
    return warp_sum(threadIdx.x % 32 < WARPS ? parts[threadIdx.x % 32] : 0);
}

__device__ __forceinline__ u64 block_max(u64 x)
{
    share(warp_max(x));
    return warp_max(threadIdx.x % 32 < WARPS ? parts[threadIdx.x % 32] : 0);
}

/* The highest logit's key, and below it ~id: of equal ones the first wins. */
__device__ __forceinline__ u64 highest(const Row &row)
{
    u64 best = 0;
    for (int i = threadIdx.x; i < row.vocabulary; i += THREADS)
        best = max(best, static_cast<u64>(key_of(row.at(i))) << 32 | ~static_cast<unsigned>(i));
    return block_max(best);
}

/*
 * The first warp finds the bin, from the highest down, at which the bins' sum
 * reaches target: answer is the bin and what it still has to give.
 */
__device__ __forceinline__ void find_bin(u64 target)
{
    int lane = threadIdx.x, first = BINS - 1 - lane * LANE_BINS;
    u64 own = 0;
    for (int i = 0; i < LANE_BINS; i++)
        own += bins[first - i];
    u64 before = warp_scan(own) - own;
    if (before >= target || before + own < target)
        return;
    int bin = first;
    while (before + bins[bin] < target)
        before += bins[bin--];
    answer[0] = bin;
    answer[1] = target - before;
}

/*
 * The highest cut, not below the key `floor`, whose logits are `target` many,
 * or by mass have that probability: byte by byte of the keys.
 */
__device__ __forceinline__ Cut select(const Row &row, unsigned floor, u64 target, bool by_mass)
{
    unsigned prefix = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (int i = threadIdx.x; i < BINS; i += THREADS)
            bins[i] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < row.vocabulary; i += THREADS) {
            float x = row.at(i);
            unsigned key = key_of(x);
            bool in = key >= floor && (shift == 24 || key >> (shift + 8) == prefix);
            u64 weight = by_mass ? row.mass(x, LOG2_E) : 1;
            if (in && weight)
                atomicAdd(&bins[key >> shift & 255], weight);
        }
        __syncthreads();
        if (threadIdx.x < 32)
            find_bin(target);
        __syncthreads();
        prefix = prefix << 8 | static_cast<unsigned>(answer[0]);
        target = answer[1];
    }
    return {prefix, target, by_mass ? row.mass(value_of(prefix), LOG2_E) : 1};
}

/* Which logits are in, going over them in the order of ids. */
struct Walk {
    unsigned key;
    unsigned ties, limit; /* at the key: before this warp's next logits, those that are in */

    __device__ __forceinline__ bool take(float x, bool valid)
    {
        unsigned own = key_of(x);
        bool tie = valid && own == key;
        unsigned mask = __ballot_sync(0xffffffffu, tie);
        unsigned rank = ties + __popc(mask & ((1u << threadIdx.x % 32) - 1));
        ties += __popc(mask);
        return valid && (own > key || (tie && rank < limit));
    }
};

/* A warp's part of the vocabulary: ids in a row. */
struct Segment {
    int begin, end;
};

__device__ __forceinline__ Segment segment_of(const Row &row)
{
    int size = (row.vocabulary + THREADS - 1) / THREADS * 32;
    Segment s;
    s.begin = min(static_cast<int>(threadIdx.x / 32) * size, row.vocabulary);
    s.end = min(s.begin + size, row.vocabulary);
    return s;
}

/* Where the warp's walk starts: ties that the warps before it have. */
__device__ __forceinline__ Walk walk_of(const Row &row, const Segment &s, const Cut &cut)
{
    Walk walk = {cut.key, 0, ~0u};
    if (cut.rest == ALL)
        return walk;
    walk.limit = static_cast<unsigned>((cut.rest + cut.one - 1) / cut.one);
    u64 count = 0;
    for (int i = s.begin + threadIdx.x % 32; i < s.end; i += 32)
        count += key_of(row.at(i)) == cut.key;
    share(warp_sum(count));
    for (int warp = 0; warp < threadIdx.x / 32; warp++)
        walk.ties += static_cast<unsigned>(parts[warp]);
    return walk;
}
