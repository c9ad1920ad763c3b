//% include("vector.cu")
//% include("gate.cu")

/* As spt_activation_args (runtime/kernels/activation.h). */
struct ActivationArgs {
    const void *gate, *up;
    void *out;
    long long gate_stride, up_stride, out_stride;
    int width;
};

constexpr int THREADS = ${THREADS};

extern "C" __global__ void __launch_bounds__(THREADS)
${SYMBOL}(const __grid_constant__ ActivationArgs args)
{
    long long row = blockIdx.x;
    int at = (blockIdx.y * THREADS + threadIdx.x) * 8;
    if (at >= args.width)
        return;
    float gate[8], up[8];
    load8_${IN_TYPE}(args.gate, row * args.gate_stride + at, gate);
    load8_${IN_TYPE}(args.up, row * args.up_stride + at, up);
#pragma unroll
    for (int i = 0; i < 8; i++)
        up[i] = __fmul_rn(gate_of(gate[i]), up[i]);
    store8_${OUT_TYPE}(args.out, row * args.out_stride + at, up);
}
