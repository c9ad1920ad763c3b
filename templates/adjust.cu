/* As spt_adjust_entry (runtime/kernels/adjust.h). */
struct Entry {
    int token, count;
    float bias;
};

/* As spt_adjust_list. */
struct List {
    double repeat, presence, frequency;
    int first, count;
};

/* As spt_adjust_row. */
struct AdjustedRow {
    int row, list, first, count;
};

/* As spt_adjust_args. */
struct AdjustArgs {
    float *logits;           /* (row, vocabulary) */
    const List *lists;
    const AdjustedRow *rows; /* (adjusted row) */
    const int *data;         /* entries of the lists, changes of the rows */
    float *kept;             /* (adjusted row, kept_stride), or null */
    long long logits_stride, kept_stride;
    int restore;
};

constexpr int THREADS = ${THREADS};
constexpr int CHANGES = 64; /* of a row, at most */

/* The logit of a token that has the bias and occurred `count` times. */
__device__ __forceinline__ float adjusted(const List &list, float x, float bias, int count)
{
    x = __fadd_rn(x, bias);
    if (count <= 0)
        return x;
    double y = x;
    y = y > 0.0 ? __ddiv_rn(y, list.repeat) : __dmul_rn(y, list.repeat);
    y = __dsub_rn(y, __dmul_rn(static_cast<double>(count), list.frequency));
    return __double2float_rn(__dsub_rn(y, list.presence));
}

extern "C" __global__ void __launch_bounds__(THREADS)
${SYMBOL}(const __grid_constant__ AdjustArgs args)
{
    __shared__ int changes[CHANGES];
    AdjustedRow row = args.rows[blockIdx.x];
    List list = args.lists[row.list];
    const Entry *entries = reinterpret_cast<const Entry *>(args.data + list.first);
    float *logits = args.logits + row.row * args.logits_stride;
    float *kept = args.kept + blockIdx.x * args.kept_stride;
    int n = min(row.count, CHANGES);
    for (int i = threadIdx.x; i < n; i += THREADS)
        changes[i] = args.data[row.first + i];
    __syncthreads();
    for (int i = threadIdx.x; i < list.count; i += THREADS) {
        Entry entry = entries[i];
        if (args.restore) {
            logits[entry.token] = kept[i];
            continue;
        }
        float x = logits[entry.token];
        if (args.kept)
            kept[i] = x;
        for (int j = 0; j < n; j++)
            entry.count += (changes[j] == entry.token) - (changes[j] == ~entry.token);
        logits[entry.token] = adjusted(list, x, entry.bias, entry.count);
    }
}
