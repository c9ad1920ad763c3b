/* As spt_translate_args (runtime/kernels/translate.h). */
struct TranslateArgs {
    const float *in;
    float *out;
    const int *from; /* (out_width) */
    long long in_stride, out_stride;
    int in_width, out_width;
};

constexpr int THREADS = ${THREADS};
#define MINUS_INFINITY __int_as_float(0xff800000)

extern "C" __global__ void __launch_bounds__(THREADS)
${SYMBOL}(const __grid_constant__ TranslateArgs args)
{
    long long row = blockIdx.x;
    int to = blockIdx.y * THREADS + threadIdx.x;
    if (to >= args.out_width)
        return;
    int from = args.from[to];
    bool known = from >= 0 && from < args.in_width;
    args.out[row * args.out_stride + to] = known ? args.in[row * args.in_stride + from] : MINUS_INFINITY;
}
