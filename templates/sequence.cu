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
//% if TREE then
    return sequence.context + __popc(args.tree[sequence.first + token]) - 1;
//% else
    return sequence.context + token;
//% end
}
