//% include("vector.cu")
//% if PACKED then
//% include("packed_decode.cu")
//% else
//% include("weight_decode.cu")
//% end

/* As spt_embedding_args (runtime/kernels/embedding.h). */
struct EmbeddingArgs {
    const int *ids;
    const unsigned char *table;
    float *out;
    long long table_stride; /* bytes between rows, or panels of 16 rows */
    long long out_stride;
    int vocabulary, width;
    float scale;
};

constexpr int THREADS = ${THREADS};

extern "C" __global__ void __launch_bounds__(THREADS)
${SYMBOL}(const __grid_constant__ EmbeddingArgs args)
{
    long long row = blockIdx.x;
    int at = (blockIdx.y * THREADS + threadIdx.x) * 8;
    if (at >= args.width)
        return;
    int id = args.ids[row];
    float x[8] = {};
    if (id >= 0 && id < args.vocabulary) {
//% if PACKED then
        packed8(args.table + id / 16 * args.table_stride, (args.width + 63) / 64, id % 16, at, x);
//% else
        const unsigned char *blocks = args.table + id * args.table_stride;
        decode8(blocks + at / BLOCK_WEIGHTS * BLOCK_BYTES, at % BLOCK_WEIGHTS, x);
//% end
#pragma unroll
        for (int i = 0; i < 8; i++)
            x[i] = __fmul_rn(x[i], args.scale);
    }
    store8_fp32(args.out, row * args.out_stride + at, x);
}
