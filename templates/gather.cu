/* As spt_gather_args (runtime/kernels/gather.h). */
struct GatherArgs {
    const char *in;
    char *out;
    const int *index;
    long long in_stride, out_stride, row_bytes;
};

constexpr int THREADS = ${THREADS};

extern "C" __global__ void __launch_bounds__(THREADS)
${SYMBOL}(const __grid_constant__ GatherArgs args)
{
    long long row = blockIdx.x;
    long long at = (static_cast<long long>(blockIdx.y) * THREADS + threadIdx.x) * 16;
    if (at >= args.row_bytes)
        return;
    int from = args.index[row];
    uint4 words = make_uint4(0, 0, 0, 0);
    if (from >= 0)
        words = *reinterpret_cast<const uint4 *>(args.in + from * args.in_stride + at);
    *reinterpret_cast<uint4 *>(args.out + row * args.out_stride + at) = words;
}
