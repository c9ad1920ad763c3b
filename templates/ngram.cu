//% include("warp_integers.cu")

typedef unsigned long long u64;

/* As spt_ngram_args (runtime/kernels/ngram.h). */
struct NgramArgs {
    const int *tokens;
    const long long *start;
    const int *length, *want;
    int *draft, *count, *match;
    int draft_stride;
    int matches;
    int min_match, max_match;
    int longest, extend;
};

constexpr int THREADS = ${THREADS};
constexpr int WARPS = THREADS / 32;
constexpr int MATCHES = 32; /* SPT_NGRAM_MATCHES */

__shared__ u64 warps[WARPS];
__shared__ int ends[MATCHES], sizes[MATCHES]; /* of the matches so far */

/* Tokens, at most `most`, that agree going back from `end` and from `length`. */
__device__ __forceinline__ int match_size(const int *text, int end, int length, int most)
{
    int size = 0;
    most = min(most, end);
    while (size < most && text[end - 1 - size] == text[length - 1 - size])
        size++;
    return size;
}

/* The size of the match at `end`; 0: none that counts. */
__device__ __forceinline__ int match_at(const NgramArgs &args, const int *text, int end, int length)
{
    int size = end >= 1 ? match_size(text, end, length, args.max_match) : 0;
    return size >= args.min_match ? size : 0;
}

/* Every thread gets the highest; two barriers. */
__device__ __forceinline__ u64 block_max(u64 x)
{
    x = warp_max(x);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = x;
    __syncthreads();
    x = warp_max(threadIdx.x % 32 < WARPS ? warps[threadIdx.x % 32] : 0);
    __syncthreads();
    return x;
}

/* The longest match, of those the most recent: size and end; 0: none. */
__device__ __forceinline__ u64 longest_match(const NgramArgs &args, const int *text, int length)
{
    u64 best = 0;
    for (int last = length - 1; last >= 1; last -= THREADS) {
        int end = last - static_cast<int>(threadIdx.x);
        u64 size = match_at(args, text, end, length);
        best = max(best, size ? size << 32 | end : 0);
        if (__syncthreads_or(size >= args.max_match))
            break;
    }
    return block_max(best);
}

__device__ __forceinline__ bool has_successor(const int *text, int n, int token)
{
    for (int i = 0; i < n; i++)
        if (text[ends[i]] == token)
            return true;
    return false;
}

/* One more match. */
__device__ __forceinline__ void add(int n, int end, int size)
{
    if (threadIdx.x == 0) {
        ends[n] = end;
        sizes[n] = size;
    }
    __syncthreads();
}

/* After n matches the most recent others with other successors; how many. */
__device__ __forceinline__ int find_recent(const NgramArgs &args, const int *text, int length, int n)
{
    for (int last = length - 1; last >= 1 && n < args.matches; last -= THREADS) {
        int end = last - static_cast<int>(threadIdx.x);
        u64 size = match_at(args, text, end, length);
        while (n < args.matches) {
            bool open = size && !has_successor(text, n, text[end]);
            if (!__syncthreads_or(open))
                break;
            u64 best = block_max(open ? static_cast<u64>(end) << 32 | size : 0);
            add(n++, static_cast<int>(best >> 32), static_cast<int>(best));
        }
    }
    return n;
}

extern "C" __global__ void __launch_bounds__(THREADS)
${SYMBOL}(const __grid_constant__ NgramArgs args)
{
    int s = blockIdx.x, length = args.length[s], n = 0;
    const int *text = args.tokens + args.start[s];
    if (args.longest) {
        u64 best = longest_match(args, text, length);
        if (best)
            add(n++, static_cast<int>(best), static_cast<int>(best >> 32));
    }
    n = find_recent(args, text, length, n);
    for (int i = 0; i < args.matches; i++) {
        long long out = static_cast<long long>(s) * args.matches + i;
        int follow = i < n ? length - ends[i] : 0; /* tokens that followed */
        int count = args.extend && follow ? args.want[s] : min(args.want[s], follow);
        for (int j = threadIdx.x; j < count; j += THREADS)
            args.draft[out * args.draft_stride + j] = text[ends[i] + j % follow];
        if (threadIdx.x == 0) {
            args.count[out] = max(count, 0);
            args.match[out] = i < n ? sizes[i] : 0;
        }
    }
}
