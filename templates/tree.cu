/* As spt_tree_args (runtime/kernels/tree.h). */
struct TreeArgs {
    const int *q_start, *parent;
    unsigned *tree;
    int *depth;
};

extern "C" __global__ void __launch_bounds__(32)
${SYMBOL}(const __grid_constant__ TreeArgs args)
{
    int first = args.q_start[blockIdx.x], node = threadIdx.x;
    if (node >= args.q_start[blockIdx.x + 1] - first)
        return;
    unsigned mask = 1u << node;
    int at = node, parent = args.parent[first + node];
    while (parent >= 0 && parent < at) {
        mask |= 1u << parent;
        at = parent;
        parent = args.parent[first + at];
    }
    args.tree[first + node] = mask;
    args.depth[first + node] = __popc(mask) - 1;
}
