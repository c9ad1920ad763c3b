//% include("warp_integers.cu")

/* As spt_ngram_args (runtime/kernels/ngram.h). */
struct NgramArgs {
    const int *tokens;
    const long long *start;
    const int *length, *want;
    int *draft, *count, *match;
    int draft_stride;
    int min_match, max_match;
    int longest, extend;
};

constexpr int THREADS = ${THREADS};
constexpr int WARPS = THREADS / 32;

/* Tokens, at most `most`, that agree going back from `end` and from `length`. */
__device__ __forceinline__ int match_size(const int *text, int end, int length, int most)
{
    int size = 0;
    most = min(most, end);
    while (size < most && text[end - 1 - size] == text[length - 1 - size])
        size++;
    return size;
}

extern "C" __global__ void __launch_bounds__(THREADS)
${SYMBOL}(const __grid_constant__ NgramArgs args)
{
    __shared__ unsigned long long warps[WARPS];
    int s = blockIdx.x, length = args.length[s];
    const int *text = args.tokens + args.start[s];
    int enough = args.longest ? args.max_match : args.min_match;
    unsigned long long best = 0; /* (size, end), or (end, size) */
    for (int last = length - 1; last >= 1; last -= THREADS) {
        int end = last - static_cast<int>(threadIdx.x), size = 0;
        if (end >= 1)
            size = match_size(text, end, length, args.max_match);
        unsigned long long high = args.longest ? size : end, low = args.longest ? end : size;
        if (size >= args.min_match)
            best = max(best, high << 32 | low);
        if (__syncthreads_or(size >= enough))
            break;
    }
    best = warp_max(best);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = best;
    __syncthreads();
    best = warp_max(threadIdx.x % 32 < WARPS ? warps[threadIdx.x % 32] : 0);
    int high = static_cast<int>(best >> 32), low = static_cast<int>(best);
    int size = args.longest ? high : low, end = args.longest ? low : high;
    int follow = length - end; /* tokens that followed the match */
    int count = best ? (args.extend ? args.want[s] : min(args.want[s], follow)) : 0;
    for (int i = threadIdx.x; i < count; i += THREADS)
        args.draft[static_cast<long long>(s) * args.draft_stride + i] = text[end + i % follow];
    if (threadIdx.x == 0) {
        args.count[s] = max(count, 0);
        args.match[s] = size;
    }
}
