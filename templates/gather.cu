//% include("vector.cu")

/* As spt_gather_args (runtime/kernels/gather.h). */
struct GatherArgs {
    const void *in;
    void *out;
    const int *from, *to; /* (row), or null: rows in their order */
    long long in_stride, out_stride;
    int width;
};

constexpr int THREADS = ${THREADS};

extern "C" __global__ void __launch_bounds__(THREADS)
${SYMBOL}(const __grid_constant__ GatherArgs args)
{
    int row = blockIdx.x, at = (blockIdx.y * THREADS + threadIdx.x) * 8;
    long long from = args.from ? args.from[row] : row;
    long long to = args.to ? args.to[row] : row;
    if (at >= args.width || to < 0)
        return;
    float x[8] = {};
    if (from >= 0)
        load8_${IN_TYPE}(args.in, from * args.in_stride + at, x);
    store8_${OUT_TYPE}(args.out, to * args.out_stride + at, x);
}
