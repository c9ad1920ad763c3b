/*
 * linear_bf16_half_fp32_r16_k4_p2_s4
 * rows times a matrix of packed weights
 *
 * kernel   linear
 * config   dtype=bf16 weight=half out_type=fp32 gate=none softcap=false rows=16
 *          k_warps=4 panels=2 stages=4
 * key      linear-1 bf16 half unit64 warps4 m16n8k16 fp32 none
 * target   sm_90a
 * launch   128 threads, 98304 bytes of shared memory
 * by       spectune 0.1.0
 */
#line 1 "templates/warp_mma.cu"
/* Warp-level building blocks of the mma.sync family (sm_80 and newer). */

typedef unsigned short half_t; /* bits of one bf16 number */

/* 16 bytes to shared memory; zeros instead when take is false. */
__device__ __forceinline__ void cp_async16(unsigned dst, const void *src,
                                           bool take)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(dst),
                 "l"(src), "r"(take ? 16 : 0)
                 : "memory");
}

__device__ __forceinline__ void cp_async_commit()
{
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}

template <int PENDING>
__device__ __forceinline__ void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;\n" ::"n"(PENDING) : "memory");
}

/* Four 8x8 matrices; lane l gives the address of row l%8 of matrix l/8. */
__device__ __forceinline__ void ldmatrix_x4(unsigned (&d)[4], unsigned row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(row)
                 : "memory");
}

__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&d)[4],
                                                  unsigned row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(row)
                 : "memory");
}

__device__ __forceinline__ void ldmatrix_x2(unsigned (&d)[2], unsigned row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];\n"
                 : "=r"(d[0]), "=r"(d[1])
                 : "r"(row)
                 : "memory");
}

__device__ __forceinline__ unsigned transpose8x8(unsigned a)
{
    unsigned d;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n"
                 : "=r"(d)
                 : "r"(a));
    return d;
}

/* d(16x8) = a(16x16) * b(16x8) + c */
__device__ __forceinline__ void mma(float (&d)[4], const unsigned (&a)[4],
                                    const unsigned (&b)[2],
                                    const float (&c)[4])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};\n"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
                   "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

/* Takes an accumulator's left and right column of this lane from another. */
__device__ __forceinline__ void keep_columns(float (&d)[4],
                                             const float (&from)[4], bool left,
                                             bool right)
{
    d[0] = left ? from[0] : d[0];
    d[1] = right ? from[1] : d[1];
    d[2] = left ? from[2] : d[2];
    d[3] = right ? from[3] : d[3];
}

/* Two floats rounded to bf16, the first in the low half. */
__device__ __forceinline__ unsigned pack2(float lo, float hi)
{
    unsigned d;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(d) : "f"(hi), "f"(lo));
    return d;
}

__device__ __forceinline__ float exp2_approx(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float log2_approx(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

#define MINUS_INFINITY __int_as_float(0xff800000)
#line 3 "templates/linear.cu"
/* Laid out as spt_linear_args (runtime/kernels/linear.h). */
struct LinearArgs {
    const half_t *x;         /* (row, input) */
    const unsigned char *weights; /* (panel, units then blocks) */
    const float *bias;       /* (output), or null */
    const float *residual;   /* (row, output), or null */
#line 10 "templates/linear.cu"
    float *out;              /* (row, output) */
#line 14 "templates/linear.cu"
    long long x_stride, residual_stride, out_stride;
    int outputs, inputs;
    int rows, units;
#line 20 "templates/linear.cu"
};

constexpr int ROWS = 16;            /* rows of x per CTA */
constexpr int N_TILES = ROWS / 8;        /* 8-column tiles, of every warp */
constexpr int PANELS = 2;        /* of 16 outputs per CTA */
constexpr int K_WARPS = 4;      /* warp w takes units w + i * K_WARPS */
constexpr int STAGES = 4;        /* units of a warp in shared memory */
constexpr int THREADS = 32 * K_WARPS;
constexpr int UNIT = 64;                 /* inputs of a unit */
constexpr int GROUPS = 2;        /* of inputs that share a scale */
constexpr int PLANES = 1;        /* mma that make up one product */
constexpr int UNIT_BYTES = 2048;
constexpr int BLOCK_BYTES = 0;
constexpr int X_BYTES = ROWS * UNIT * 2;
constexpr int PANEL_BYTES = UNIT_BYTES + BLOCK_BYTES;
constexpr int STAGE_BYTES = X_BYTES + PANELS * PANEL_BYTES;
constexpr int FEATURES = 16 * PANELS;
constexpr int MERGE_STRIDE = FEATURES + 4; /* floats; no bank conflicts */
#line 39 "templates/linear.cu"
constexpr int OUTPUTS = FEATURES;        /* of a CTA */
#line 44 "templates/linear.cu"
extern __shared__ __align__(128) unsigned char shared[];

#line 1 "templates/linear_unit.cu"
/*
 * One unit of packed weights, 16 outputs x 64 inputs, as a lane sees it, and
 * its decoding. A number of 16 bits becomes a 16-bit float by being put
 * into the mantissa of a power of two; that constant (BIAS, with what the
 * format subtracts) is taken off the sums, where it costs one product a group.
 */
#line 12 "templates/linear_unit.cu"
constexpr unsigned ONES = 0x3f803f80u;  /* 1.0, twice */
#line 17 "templates/linear_unit.cu"
__device__ __forceinline__ void load_shared(unsigned &d, unsigned address)
{
    asm volatile("ld.shared.b32 %0, [%1];\n" : "=r"(d) : "r"(address) : "memory");
}

__device__ __forceinline__ void load_shared2(unsigned &d0, unsigned &d1, unsigned address)
{
    asm volatile("ld.shared.v2.b32 {%0,%1}, [%2];\n" : "=r"(d0), "=r"(d1) : "r"(address) : "memory");
}

__device__ __forceinline__ void load_shared4(unsigned (&d)[4], unsigned address)
{
    asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(address)
                 : "memory");
}

struct Unit {
#line 52 "templates/linear_unit.cu"
    unsigned address;   /* of the unit in shared memory */

    __device__ __forceinline__ void load(unsigned at)
    {
        int lane = threadIdx.x % 32;
        address = at + lane * 16;
#line 76 "templates/linear_unit.cu"
    }
};

__device__ __forceinline__ unsigned shift_right(unsigned word, int bits)
{
    return bits >= 0 ? word >> bits : word << -bits;
}

/* (word & mask) | bits: one instruction. */
__device__ __forceinline__ unsigned pick(unsigned word, unsigned mask, unsigned bits)
{
    unsigned d;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;\n" : "=r"(d) : "r"(word), "r"(mask), "r"(bits));
    return d;
}

#line 146 "templates/linear_unit.cu"
__device__ __forceinline__ void weights(unsigned (&a)[2][1][4], const Unit &unit, int block)
{
    load_shared4(a[0][0], unit.address + block * 1024);
    load_shared4(a[1][0], unit.address + block * 1024 + 512);
}
#line 48 "templates/linear.cu"
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
#line 65 "templates/linear.cu"
    from.x_slot = lane * 16;
#line 67 "templates/linear.cu"
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
#line 104 "templates/linear.cu"
        if (lane * 16 < REST + BLOCK_BYTES)
            cp_async16(slot + UNIT_BYTES - REST, at + UNIT_BYTES - REST, true);
    }
}

/* The x of 32 inputs and a tile's 8 rows: the B operands of two mma. */
__device__ __forceinline__ void load_x(unsigned (&x)[2][2], unsigned stage, int tile, int block)
{
    int lane = threadIdx.x % 32;
    unsigned at = stage + tile * 1024 + block * 512;
#line 121 "templates/linear.cu"
    unsigned words[4];
    load_shared4(words, at + lane * 16);
    x[0][0] = words[0], x[0][1] = words[1];
    x[1][0] = words[2], x[1][1] = words[3];
#line 126 "templates/linear.cu"
}

typedef float Tile[4]; /* accumulators: output half * 2 + column */

__device__ __forceinline__ void clear(Tile &tile)
{
    tile[0] = tile[1] = tile[2] = tile[3] = 0.0f;
}

/* What 32 inputs of a panel are, ready for every tile. */
struct Block {
    unsigned a[2][PLANES][4]; /* (mma, plane) */
#line 142 "templates/linear.cu"
    __device__ __forceinline__ void decode(const Unit &unit, int block)
    {
        weights(a, unit, block);
#line 150 "templates/linear.cu"
    }
};

#line 184 "templates/linear.cu"
/* 32 inputs of all panels onto one tile's accumulators. */
__device__ __forceinline__ void add_block(Tile (&acc)[PANELS][N_TILES], const Block (&blocks)[PANELS], const unsigned (&x)[2][2], int tile)
{
#line 197 "templates/linear.cu"
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int p = 0; p < PANELS; p++)
            mma(acc[p][tile], blocks[p].a[i][0], x[i], acc[p][tile]);
#line 203 "templates/linear.cu"
}

__device__ __forceinline__ void add_unit(Tile (&acc)[PANELS][N_TILES], unsigned stage)
{
    Unit units[PANELS];
#pragma unroll
    for (int p = 0; p < PANELS; p++)
        units[p].load(stage + X_BYTES + p * PANEL_BYTES);
#pragma unroll 2
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

#line 278 "templates/linear.cu"
__device__ __forceinline__ void store(const LinearArgs &args, int row, int output, float value)
{
#line 281 "templates/linear.cu"
    args.out[row * args.out_stride + output] = value;
#line 287 "templates/linear.cu"
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
#line 316 "templates/linear.cu"
        if (args.bias)
            value = __fadd_rn(value, args.bias[output]);
        if (args.residual)
            value = __fadd_rn(args.residual[row * args.residual_stride + output], value);
#line 323 "templates/linear.cu"
        store(args, row, output, value);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
linear_bf16_half_fp32_r16_k4_p2_s4(const __grid_constant__ LinearArgs args)
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
