//% include("warp_mma.cu")

/* Laid out as spt_linear_args (runtime/kernels/linear.h). */
struct LinearArgs {
    const half_t *x;         /* (row, input) */
    const unsigned char *weights; /* (panel, units then blocks) */
    const float *bias;       /* (output), or null */
    const float *residual;   /* (row, output), or null */
//% if FLOAT_OUT then
    float *out;              /* (row, output) */
//% else
    half_t *out;             /* (row, output) */
//% end
    long long x_stride, residual_stride, out_stride;
    int outputs, inputs;
    int rows, units;
//% if SOFTCAP then
    float slope, cap;        /* 2 log2(e) / c and c of c tanh(x / c) */
//% end
};

constexpr int ROWS = ${ROWS};            /* rows of x per CTA */
constexpr int N_TILES = ROWS / 8;        /* 8-column tiles, of every warp */
constexpr int PANELS = ${PANELS};        /* of 16 outputs per CTA */
constexpr int K_WARPS = ${K_WARPS};      /* warp w takes units w + i * K_WARPS */
constexpr int STAGES = ${STAGES};        /* units of a warp in shared memory */
constexpr int THREADS = 32 * K_WARPS;
constexpr int UNIT = 64;                 /* inputs of a unit */
constexpr int GROUPS = ${GROUPS};        /* of inputs that share a scale */
constexpr int PLANES = ${PLANES};        /* mma that make up one product */
constexpr int UNIT_BYTES = ${UNIT_BYTES};
constexpr int BLOCK_BYTES = ${BLOCK_BYTES};
constexpr int X_BYTES = ROWS * UNIT * 2;
constexpr int PANEL_BYTES = UNIT_BYTES + BLOCK_BYTES;
constexpr int STAGE_BYTES = X_BYTES + PANELS * PANEL_BYTES;
constexpr int FEATURES = 16 * PANELS;
constexpr int MERGE_STRIDE = FEATURES + 4; /* floats; no bank conflicts */
//% if GATE == "none" then
constexpr int OUTPUTS = FEATURES;        /* of a CTA */
//% else
constexpr int OUTPUTS = FEATURES / 2;    /* of a CTA: gate and up take turns */
//% end

extern __shared__ __align__(128) unsigned char shared[];

//% include("linear_unit.cu")

/* What a lane copies: its pieces of x and of the panels. */
struct Source {
    const half_t *x;         /* its row of the first tile, its 8 inputs */
    int row;                 /* of x */
    unsigned x_slot;         /* of a tile in a stage */
    const unsigned char *panel[PANELS];
};

__device__ __forceinline__ Source source_of(const LinearArgs &args)
{
    Source from;
    int lane = threadIdx.x % 32;
    from.row = blockIdx.x * ROWS + lane / 4;
    from.x = args.x + from.row * args.x_stride + lane % 4 * 8;
//% if GROUPS == 4 then
    from.x_slot = (lane ^ (lane / 8 % 2 * 2)) * 16;
//% else
    from.x_slot = lane * 16;
//% end
    int blocks = (args.units + 3) / 4;
    long long bytes = static_cast<long long>(args.units) * UNIT_BYTES + static_cast<long long>(blocks) * BLOCK_BYTES;
    int panels = (args.outputs + 15) / 16 * (FEATURES / OUTPUTS);
#pragma unroll
    for (int p = 0; p < PANELS; p++) {
        /* Past the last panel it is read again and not stored. */
        int panel = min(static_cast<int>(blockIdx.y) * PANELS + p, panels - 1);
        from.panel[p] = args.weights + panel * bytes;
    }
    return from;
}

/* Copies one unit; a lane's x past rows or inputs is zeros. */
__device__ __forceinline__ void load_unit(const LinearArgs &args, const Source &from, int unit, unsigned stage)
{
    int lane = threadIdx.x % 32;
    int input = unit * UNIT + lane % 4 * 8;
    const half_t *x = from.x + unit * UNIT;
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++, x += 8 * args.x_stride) {
        bool row = from.row + tile * 8 < args.rows;
        unsigned slot = stage + tile * 1024 + from.x_slot;
        cp_async16(slot, x, row && input < args.inputs);
        cp_async16(slot + 512, x + 32, row && input + 32 < args.inputs);
    }
    constexpr int REST = UNIT_BYTES % 512;
#pragma unroll
    for (int p = 0; p < PANELS; p++) {
        const unsigned char *at = from.panel[p] + static_cast<long long>(unit) * UNIT_BYTES + lane * 16;
        unsigned slot = stage + X_BYTES + p * PANEL_BYTES + lane * 16;
#pragma unroll
        for (int i = 0; i < UNIT_BYTES / 512; i++)
            cp_async16(slot + i * 512, at + i * 512, true);
//% if BLOCK_BYTES > 0 then
        if (lane * 16 >= REST)
            at = from.panel[p] + static_cast<long long>(args.units) * UNIT_BYTES + unit / 4 * BLOCK_BYTES - UNIT_BYTES + lane * 16;
//% end
        if (lane * 16 < REST + BLOCK_BYTES)
            cp_async16(slot + UNIT_BYTES - REST, at + UNIT_BYTES - REST, true);
    }
}

/* The x of 32 inputs and a tile's 8 rows: the B operands of two mma. */
__device__ __forceinline__ void load_x(unsigned (&x)[2][2], unsigned stage, int tile, int block)
{
    int lane = threadIdx.x % 32;
    unsigned at = stage + tile * 1024 + block * 512;
//% if GROUPS == 4 then
    /* Pieces of 8 inputs, swizzled; each mma takes 4 inputs of a lane. */
    unsigned row = at + lane / 4 * 64 + lane / 2 % 2 * 16 + lane % 2 * 8;
    unsigned first = lane / 8 % 2 * 32;
    load_shared2(x[0][0], x[0][1], row + first);
    load_shared2(x[1][0], x[1][1], row + (first ^ 32));
//% else
    unsigned words[4];
    load_shared4(words, at + lane * 16);
    x[0][0] = words[0], x[0][1] = words[1];
    x[1][0] = words[2], x[1][1] = words[3];
//% end
}

typedef float Tile[4]; /* accumulators: output half * 2 + column */

__device__ __forceinline__ void clear(Tile &tile)
{
    tile[0] = tile[1] = tile[2] = tile[3] = 0.0f;
}

/* What 32 inputs of a panel are, ready for every tile. */
struct Block {
    unsigned a[2][PLANES][4]; /* (mma, plane) */
//% if WEIGHT ~= "half" then
    float scale[GROUPS / 2][2], offset[GROUPS / 2][2]; /* (group, output half) */
//% end

    __device__ __forceinline__ void decode(const Unit &unit, int block)
    {
        weights(a, unit, block);
//% if WEIGHT ~= "half" then
#pragma unroll
        for (int i = 0; i < GROUPS; i++)
            scales(scale[i / 2][i % 2], offset[i / 2][i % 2], unit, block * (GROUPS / 2) + i / 2, i % 2);
//% end
    }
};

//% if WEIGHT ~= "half" then
constexpr int GROUP_MMAS = 4 / GROUPS; /* of a block: both, or one */

/* Sums of a group of x: products with ones. */
__device__ __forceinline__ void sum_x(Tile &sum, const unsigned (&x)[2][2], int group)
{
    const unsigned ones[4] = {ONES, ONES, ONES, ONES};
    clear(sum);
#pragma unroll
    for (int i = 0; i < GROUP_MMAS; i++)
        mma(sum, ones, x[group * GROUP_MMAS + i], sum);
}

/* A group's products, scaled, and what its numbers carry too much. */
__device__ __forceinline__ void add_group(Tile &acc, const Block &block, const unsigned (&x)[2][2], const Tile &sum, int group)
{
    Tile t;
    clear(t);
#pragma unroll
    for (int i = 0; i < GROUP_MMAS; i++)
#pragma unroll
        for (int plane = 0; plane < PLANES; plane++)
            mma(t, block.a[group * GROUP_MMAS + i][plane], x[group * GROUP_MMAS + i], t);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        acc[i] = __fmaf_rn(block.scale[group][i / 2], t[i], acc[i]);
        acc[i] = __fmaf_rn(block.offset[group][i / 2], sum[i % 2], acc[i]);
    }
}

//% end
/* 32 inputs of all panels onto one tile's accumulators. */
__device__ __forceinline__ void add_block(Tile (&acc)[PANELS][N_TILES], const Block (&blocks)[PANELS], const unsigned (&x)[2][2], int tile)
{
//% if WEIGHT ~= "half" then
#pragma unroll
    for (int group = 0; group < GROUPS / 2; group++) {
        Tile sum;
        sum_x(sum, x, group);
#pragma unroll
        for (int p = 0; p < PANELS; p++)
            add_group(acc[p][tile], blocks[p], x, sum, group);
    }
//% else
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int p = 0; p < PANELS; p++)
            mma(acc[p][tile], blocks[p].a[i][0], x[i], acc[p][tile]);
//% end
}

__device__ __forceinline__ void add_unit(Tile (&acc)[PANELS][N_TILES], unsigned stage)
{
    Unit units[PANELS];
#pragma unroll
    for (int p = 0; p < PANELS; p++)
        units[p].load(stage + X_BYTES + p * PANEL_BYTES);
#pragma unroll ${BLOCK_UNROLL}
    for (int block = 0; block < 2; block++) {
        Block blocks[PANELS];
#pragma unroll
        for (int p = 0; p < PANELS; p++)
            blocks[p].decode(units[p], block);
#pragma unroll
        for (int tile = 0; tile < N_TILES; tile++) {
            unsigned x[2][2];
            load_x(x, stage, tile, block);
            add_block(acc, blocks, x, tile);
        }
    }
}

/* The warp's units through its own pipeline: no other warp is waited for. */
__device__ __forceinline__ void add_units(const LinearArgs &args, Tile (&acc)[PANELS][N_TILES])
{
    Source from = source_of(args);
    int warp = threadIdx.x / 32;
    unsigned base = shared_address(shared) + warp * STAGES * STAGE_BYTES;
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; stage++) {
        int unit = warp + stage * K_WARPS;
        if (unit < args.units)
            load_unit(args, from, unit, base + stage * STAGE_BYTES);
        cp_async_commit();
    }
    int stage = 0;
    for (int unit = warp; unit < args.units; unit += K_WARPS) {
        cp_async_wait<STAGES - 2>();
        __syncwarp();
        int next = unit + (STAGES - 1) * K_WARPS;
        if (next < args.units)
            load_unit(args, from, next, base + (stage == 0 ? STAGES - 1 : stage - 1) * STAGE_BYTES);
        cp_async_commit();
        add_unit(acc, base + stage * STAGE_BYTES);
        stage = stage + 1 < STAGES ? stage + 1 : 0;
    }
    cp_async_wait<0>();
}

/* The sum of all warps, in their order, of one row and feature of the CTA. */
__device__ __forceinline__ float merged(int row, int feature)
{
    const float *at = reinterpret_cast<const float *>(shared) + row * MERGE_STRIDE + feature;
    float sum = at[0];
#pragma unroll
    for (int warp = 1; warp < K_WARPS; warp++)
        sum = __fadd_rn(sum, at[warp * ROWS * MERGE_STRIDE]);
    return sum;
}

//% if GATE ~= "none" then
//% include("gate.cu")
//% end
//% if SOFTCAP then
/* c tanh(x / c) by tanh(y) = 1 - 2 / (exp(2 y) + 1) */
__device__ __forceinline__ float capped(const LinearArgs &args, float x)
{
    float e;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(e) : "f"(__fmul_rn(x, args.slope)));
    float t = __fmaf_rn(-2.0f, __frcp_rn(__fadd_rn(e, 1.0f)), 1.0f);
    return __fmul_rn(t, args.cap);
}

//% end
__device__ __forceinline__ void store(const LinearArgs &args, int row, int output, float value)
{
//% if FLOAT_OUT then
    args.out[row * args.out_stride + output] = value;
//% else
    half_t bits;
    asm("cvt.rn.${OUT_MMA_TYPE}.f32 %0, %1;\n" : "=h"(bits) : "f"(value));
    args.out[row * args.out_stride + output] = bits;
//% end
}

/* Merges the warps and writes what they have in common: rows x OUTPUTS. */
__device__ __forceinline__ void finish(const LinearArgs &args, const Tile (&acc)[PANELS][N_TILES])
{
    int lane = threadIdx.x % 32;
    float *part = reinterpret_cast<float *>(shared) + threadIdx.x / 32 * ROWS * MERGE_STRIDE;
    __syncthreads();
#pragma unroll
    for (int p = 0; p < PANELS; p++)
#pragma unroll
        for (int tile = 0; tile < N_TILES; tile++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                part[(tile * 8 + lane % 4 * 2 + i % 2) * MERGE_STRIDE + p * 16 + lane / 4 + i / 2 * 8] = acc[p][tile][i];
    __syncthreads();
    for (int item = threadIdx.x; item < ROWS * OUTPUTS; item += THREADS) {
        /* 16 outputs of a row; rows r and r + 4 use all banks together. */
        int group = item / 16 / ROWS, i = item / 16 % ROWS;
        int local = i / 8 * 8 + i % 2 * 4 + i / 2 % 4;
        int row = blockIdx.x * ROWS + local;
        int output = blockIdx.y * OUTPUTS + group * 16 + item % 16;
        if (row >= args.rows || output >= args.outputs)
            continue;
        int feature = group * (FEATURES / OUTPUTS * 16) + item % 16;
        float value = merged(local, feature);
//% if GATE ~= "none" then
        value = __fmul_rn(gate_of(value), merged(local, feature + 16));
//% end
        if (args.bias)
            value = __fadd_rn(value, args.bias[output]);
        if (args.residual)
            value = __fadd_rn(args.residual[row * args.residual_stride + output], value);
//% if SOFTCAP then
        value = capped(args, value);
//% end
        store(args, row, output, value);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, ${MIN_CTAS})
${SYMBOL}(const __grid_constant__ LinearArgs args)
{
    Tile acc[PANELS][N_TILES];
#pragma unroll
    for (int p = 0; p < PANELS; p++)
#pragma unroll
        for (int tile = 0; tile < N_TILES; tile++)
            clear(acc[p][tile]);
    add_units(args, acc);
    finish(args, acc);
}
