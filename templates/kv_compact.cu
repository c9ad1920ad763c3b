/* As spt_kv_compact_args (runtime/kernels/kv_compact.h). */
struct KvCompactArgs {
    unsigned short *k, *v;
    const int *page_table;
    const long long *kv_start;
    const int *context, *path, *path_length;
    long long layer_stride, kv_page_stride, kv_token_stride, kv_head_stride;
    int page_table_stride, path_stride, kv_heads, head_dim;
};

constexpr int PAGE_SIZE = ${PAGE_SIZE};
constexpr int THREADS = ${THREADS};

//% include("slot.cu")

extern "C" __global__ void __launch_bounds__(THREADS)
${SYMBOL}(const __grid_constant__ KvCompactArgs args)
{
    int vectors = args.head_dim / 8; /* of a head */
    int column = blockIdx.x * THREADS + threadIdx.x, s = blockIdx.z;
    if (column >= args.kv_heads * vectors)
        return;
    unsigned short *cache = blockIdx.y % 2 ? args.v : args.k;
    cache += blockIdx.y / 2 * args.layer_stride + column / vectors * args.kv_head_stride + column % vectors * 8;
    const int *path = args.path + static_cast<long long>(s) * args.path_stride;
    int context = args.context[s], length = args.path_length[s];
    for (int j = 0; j < length; j++) {
        if (path[j] == j)
            continue;
        uint4 moved = *reinterpret_cast<const uint4 *>(cache + slot_of(args, s, context + path[j]));
        *reinterpret_cast<uint4 *>(cache + slot_of(args, s, context + j)) = moved;
    }
}
