/* As spt_accept_args (runtime/kernels/accept_path.h). */
struct AcceptArgs {
    const int *q_start; /* (sequences + 1) */
    const int *draft;   /* (token): what the nodes are */
    const int *target;  /* (token): what the target has after them */
    const int *parent;  /* (token): node of its own block */
    int *path;          /* (sequence, path_stride): nodes */
    int *text;          /* (sequence, path_stride): tokens after them */
    int *count;         /* (sequence) */
    int path_stride;
};

extern "C" __global__ void __launch_bounds__(32)
${SYMBOL}(const __grid_constant__ AcceptArgs args)
{
    constexpr unsigned WARP = 0xffffffffu;
    int node = threadIdx.x, first = args.q_start[blockIdx.x];
    int nodes = args.q_start[blockIdx.x + 1] - first;
    bool here = node < nodes;
    int draft = here ? args.draft[first + node] : -1;
    int target = here ? args.target[first + node] : -1;
//% if TREE then
    int parent = here && node > 0 ? args.parent[first + node] : -1;
//% else
    int parent = here ? node - 1 : -1;
//% end
    unsigned path = 0;
    for (int at = nodes > 0 ? 0 : -1; at >= 0;) {
        path |= 1u << at;
        int token = __shfl_sync(WARP, target, at);
        bool next = draft >= 0 && draft == token && parent == at && node > at;
        at = __ffs(__ballot_sync(WARP, next)) - 1;
    }
    long long out = static_cast<long long>(blockIdx.x) * args.path_stride + __popc(path & ((1u << node) - 1));
    if (path >> node & 1) {
        args.path[out] = node;
        args.text[out] = target;
    }
    if (node == 0)
        args.count[blockIdx.x] = __popc(path);
}
