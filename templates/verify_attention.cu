//% include("warp_mma.cu")
//% include("verify_args.cu")

constexpr int HEAD_DIM = ${HEAD_DIM};
constexpr int GROUP = ${GROUP};          /* query heads per KV head */
constexpr int ROWS = ${ROWS};            /* query rows of this CTA */
constexpr int ROW_WARPS = ${ROW_WARPS};  /* warps that share out the rows */
constexpr int KV_WARPS = ${KV_WARPS};    /* warps that share out a KV step */
constexpr int STEP = 16 * KV_WARPS;      /* KV tokens per softmax update */
constexpr int CHUNK = ${CHUNK};          /* KV tokens per CTA */
constexpr int STAGES = ${STAGES};        /* KV steps in shared memory */
constexpr int THREADS = 32 * KV_WARPS * ROW_WARPS;
constexpr int K_STEPS = HEAD_DIM / 16;   /* mma k steps of a score */
constexpr int D_TILES = HEAD_DIM / 16;   /* 16-row tiles of the output */
constexpr int N_TILES = ROWS / ROW_WARPS / 8; /* 8-column tiles per warp */
constexpr int PIECES = HEAD_DIM / 8;     /* 16-byte pieces of a row */

/* An odd number of pieces per row: ldmatrix has no bank conflicts. */
constexpr int ROW_BYTES = HEAD_DIM * 2 + 16;
constexpr int STAGE_BYTES = 2 * STEP * ROW_BYTES;
constexpr int O_STRIDE = HEAD_DIM + 4;   /* floats; conflict-free likewise */
constexpr int Q_OFFSET = ${Q_OFFSET};
constexpr int POSITION_OFFSET = Q_OFFSET + ROWS * ROW_BYTES;
//% if PAGE_SIZE > 0 then
constexpr int PAGE_SIZE = ${PAGE_SIZE};
constexpr int PAGES_OFFSET = POSITION_OFFSET + ROWS * 4;
//% end
//% if TREE then
constexpr int MAX_NODES = 32;
constexpr int NODE_OFFSET = STAGE_BYTES; /* K rows of the draft block, ... */
constexpr int NODE_V = (MAX_NODES + 1) * ROW_BYTES; /* ... and V rows */
//% end

/* An exponent of ones, in both halves, marks infinities and NaN; adding one
   to it carries into the sign's bit. */
constexpr unsigned EXPONENT = ${EXPONENT};
constexpr unsigned EXPONENT_ONE = ${EXPONENT_ONE};

extern __shared__ __align__(128) unsigned char shared[];

/* What one CTA works on: one chunk of one KV head, up to ROWS rows. */
struct Work {
    Sequence sequence;
    int head, chunk;         /* KV head; chunk of absolute positions */
    int first_row, rows;     /* of the sequence's tokens * GROUP rows */
    int first, end;          /* positions that the rows may read */
    int min_position, max_position; /* of the rows */
};

/* One warp's share: 16 tokens of every step, 8 * N_TILES rows. */
struct Partial {
    float o[D_TILES][N_TILES][4];
    float max[N_TILES][2], sum[N_TILES][2];
};

__device__ __forceinline__ bool find_work(const VerifyArgs &args, Work &work)
{
    work.chunk = blockIdx.x / args.row_groups;
    work.head = blockIdx.y;
    work.sequence = sequence_of(args, blockIdx.z);
    work.first_row = (blockIdx.x % args.row_groups) * ROWS;
    work.rows = work.sequence.tokens * GROUP;
    if (work.first_row >= work.rows)
        return false;
    int first_token = work.first_row / GROUP;
    int last_token = (min(work.first_row + ROWS, work.rows) - 1) / GROUP;
//% if TREE then
    int token = min(first_token + static_cast<int>(threadIdx.x % 32), last_token);
    int position = position_of(args, work.sequence, token);
    work.min_position = __reduce_min_sync(~0u, position);
    work.max_position = __reduce_max_sync(~0u, position);
//% else
    work.min_position = position_of(args, work.sequence, first_token);
    work.max_position = position_of(args, work.sequence, last_token);
//% end
    work.first = work.chunk * CHUNK;
    work.end = min(work.first + CHUNK, work.max_position + 1);
//% if WINDOW then
    work.first = max(work.first, work.min_position - args.window + 1);
//% end
    return work.first < work.end;
}

//% if PAGE_SIZE > 0 then
/* Pages of the positions that this CTA reads. */
__device__ __forceinline__ void load_pages(const VerifyArgs &args,
                                           const Work &work)
{
    int *pages = reinterpret_cast<int *>(shared + PAGES_OFFSET);
    const int *table =
        args.page_table +
        static_cast<long long>(blockIdx.z) * args.page_table_stride;
    int first = work.chunk * CHUNK / PAGE_SIZE;
    int last = (work.end - 1) / PAGE_SIZE;
    for (int page = work.first / PAGE_SIZE + threadIdx.x; page <= last;
         page += THREADS)
        pages[page - first] = table[page];
}

//% end
/* Where a slot's K and V stand, in elements. */
__device__ __forceinline__ long long slot_offset(const VerifyArgs &args,
                                                 const Work &work, int slot)
{
//% if PAGE_SIZE > 0 then
    const int *pages = reinterpret_cast<const int *>(shared + PAGES_OFFSET);
    int page = pages[slot / PAGE_SIZE - work.chunk * CHUNK / PAGE_SIZE];
    return page * args.kv_page_stride + slot % PAGE_SIZE * args.kv_token_stride +
           work.head * args.kv_head_stride;
//% else
    return (args.kv_start[blockIdx.z] + slot) * args.kv_token_stride +
           work.head * args.kv_head_stride;
//% end
}

/* Rows of queries; rows past the last one become zeros. */
__device__ __forceinline__ void load_queries(const VerifyArgs &args,
                                             const Work &work)
{
    unsigned base = shared_address(shared + Q_OFFSET);
#pragma unroll 1
    for (int i = threadIdx.x; i < ROWS * PIECES; i += THREADS) {
        int row = i / PIECES, piece = i % PIECES;
        int packed = work.first_row + row;
        bool take = packed < work.rows;
        int token = work.sequence.first + packed / GROUP;
        int head = work.head * GROUP + packed % GROUP;
        long long offset = take ? token * args.q_token_stride + head * HEAD_DIM + piece * 8 : 0;
        cp_async16(base + row * ROW_BYTES + piece * 16, args.q + offset, take);
    }
    int *positions = reinterpret_cast<int *>(shared + POSITION_OFFSET);
    for (int row = threadIdx.x; row < ROWS; row += THREADS)
        positions[row] = position_of(args, work.sequence, (work.first_row + row) / GROUP);
}

/* K and V of one step; what no row may read becomes zeros (NaN * 0). */
__device__ __forceinline__ void load_step(const VerifyArgs &args,
                                          const Work &work, int position,
                                          int end, unsigned stage)
{
    constexpr int TOTAL = STEP * PIECES;
#pragma unroll 4
    for (int j = 0; j < (TOTAL + THREADS - 1) / THREADS; j++) {
        int i = threadIdx.x + j * THREADS;
        if (TOTAL % THREADS != 0 && i >= TOTAL)
            break;
        int row = i / PIECES, piece = i % PIECES;
        int slot = position + row;
        bool take = slot >= work.first && slot < end;
        long long offset = take ? slot_offset(args, work, slot) + piece * 8 : 0;
        unsigned dst = stage + row * ROW_BYTES + piece * 16;
        cp_async16(dst, args.k + offset, take);
        cp_async16(dst + STEP * ROW_BYTES, args.v + offset, take);
    }
}

/* The queries' mma fragments: two k steps of an n-tile, or the last odd one. */
struct Queries {
//% if Q_IN_REGISTERS then
    unsigned fragments[N_TILES][(K_STEPS + 1) / 2][4];

    __device__ __forceinline__ void load()
    {
#pragma unroll
        for (int tile = 0; tile < N_TILES; tile++)
#pragma unroll
            for (int k = 0; k < K_STEPS; k += 2)
                read(fragments[tile][k / 2], tile, k);
    }

    __device__ __forceinline__ void pair(unsigned (&b)[4], int tile,
                                         int k) const
    {
#pragma unroll
        for (int i = 0; i < 4; i++)
            b[i] = fragments[tile][k / 2][i];
    }

//% else
    __device__ __forceinline__ void load()
    {
    }

    __device__ __forceinline__ void pair(unsigned (&b)[4], int tile,
                                         int k) const
    {
        read(b, tile, k);
    }

//% end
    static __device__ __forceinline__ void read(unsigned (&b)[4], int tile,
                                                int k)
    {
        int lane = threadIdx.x % 32;
        int row_warp = threadIdx.x / 32 / KV_WARPS;
        int row = (row_warp * N_TILES + tile) * 8 + lane % 8;
        unsigned address = shared_address(shared + Q_OFFSET) + row * ROW_BYTES + k * 32;
        if (k + 1 < K_STEPS) {
            ldmatrix_x4(b, address + lane / 8 * 16);
        } else {
            unsigned last[2];
            ldmatrix_x2(last, address + lane / 8 % 2 * 16);
            b[0] = last[0], b[1] = last[1];
            b[2] = b[3] = 0;
        }
    }
};

/*
 * Scores of 16 tokens by the n-tiles [FIRST, FIRST + COUNT), k ascending.
 * k_row: the lane's ldmatrix row, token lane % 16, piece lane / 16.
 */
template <int FIRST, int COUNT>
__device__ __forceinline__ void score(float (&s)[COUNT][4],
                                      const Queries &queries, unsigned k_row)
{
#pragma unroll
    for (int tile = 0; tile < COUNT; tile++)
        s[tile][0] = s[tile][1] = s[tile][2] = s[tile][3] = 0.0f;
#pragma unroll
    for (int k = 0; k < K_STEPS; k += 2) {
        unsigned a[2][4];
        ldmatrix_x4(a[0], k_row + k * 32);
        if (k + 1 < K_STEPS)
            ldmatrix_x4(a[1], k_row + k * 32 + 32);
#pragma unroll
        for (int tile = 0; tile < COUNT; tile++) {
            unsigned b[4];
            queries.pair(b, FIRST + tile, k);
            const unsigned lower[2] = {b[0], b[1]}, upper[2] = {b[2], b[3]};
            mma(s[tile], a[0], lower, s[tile]);
            if (k + 1 < K_STEPS)
                mma(s[tile], a[1], upper, s[tile]);
        }
    }
}

/* The logit of a score, in units of log2. */
__device__ __forceinline__ float logit(const VerifyArgs &args, float score)
{
//% if SOFTCAP then
    /* cap * tanh(x) by tanh(x) = 1 - 2 / (exp(2 x) + 1) */
    float e = exp2_approx(__fmul_rn(score, args.cap));
    float t = __fmaf_rn(-2.0f, __frcp_rn(__fadd_rn(e, 1.0f)), 1.0f);
    return __fmul_rn(t, args.cap_log2);
//% else
    return __fmul_rn(score, args.scale_log2);
//% end
}

/*
 * One softmax update: scores become weights, as mma fragments, and what was
 * gathered so far is scaled to the new maximum. position: that of the lane's
 * token in the upper half of the 16; the other one is 8 further.
 */
template <bool MASKED>
__device__ __forceinline__ void update(const VerifyArgs &args,
                                       Partial &partial,
                                       const float (&s)[N_TILES][4],
                                       unsigned (&p)[N_TILES][2], int position)
{
    int lane = threadIdx.x % 32;
    int row_warp = threadIdx.x / 32 / KV_WARPS;
    const int *positions = reinterpret_cast<const int *>(shared + POSITION_OFFSET) + row_warp * N_TILES * 8 + lane % 4 * 2;
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
        float weight[4];
#pragma unroll
        for (int column = 0; column < 2; column++) {
            float upper = logit(args, s[tile][column]);
            float lower = logit(args, s[tile][column + 2]);
            if (MASKED) {
                int row_position = positions[tile * 8 + column];
                int last = row_position - position;
                bool see_upper = last >= 0, see_lower = last >= 8;
//% if WINDOW then
                see_upper = see_upper && last < args.window;
                see_lower = see_lower && last - 8 < args.window;
//% end
                upper = see_upper ? upper : MINUS_INFINITY;
                lower = see_lower ? lower : MINUS_INFINITY;
            }
            float old = partial.max[tile][column];
            float top = fmaxf(upper, lower);
            top = fmaxf(top, __shfl_xor_sync(~0u, top, 4));
            top = fmaxf(top, __shfl_xor_sync(~0u, top, 8));
            top = fmaxf(top, __shfl_xor_sync(~0u, top, 16));
            top = fmaxf(top, old);
            partial.max[tile][column] = top;
            /* A row that has seen nothing yet must not meet inf - inf. */
            float base = top == MINUS_INFINITY ? 0.0f : top;
            float scale = exp2_approx(__fsub_rn(old, base));
            weight[column] = exp2_approx(__fsub_rn(upper, base));
            weight[column + 2] = exp2_approx(__fsub_rn(lower, base));
            partial.sum[tile][column] = __fmaf_rn(partial.sum[tile][column], scale, __fadd_rn(weight[column], weight[column + 2]));
#pragma unroll
            for (int d = 0; d < D_TILES; d++) {
                partial.o[d][tile][column] = __fmul_rn(partial.o[d][tile][column], scale);
                partial.o[d][tile][column + 2] = __fmul_rn(partial.o[d][tile][column + 2], scale);
            }
        }
        p[tile][0] = transpose8x8(pack2(weight[0], weight[1]));
        p[tile][1] = transpose8x8(pack2(weight[2], weight[3]));
    }
}

/* Adds 16 tokens' weighted V rows. v_row: token lane % 8 + lane / 16 * 8. */
__device__ __forceinline__ void accumulate(Partial &partial,
                                           const unsigned (&p)[N_TILES][2],
                                           unsigned v_row)
{
#pragma unroll
    for (int d = 0; d < D_TILES; d++) {
        unsigned a[4];
        ldmatrix_x4_trans(a, v_row + d * 32);
#pragma unroll
        for (int tile = 0; tile < N_TILES; tile++)
            mma(partial.o[d][tile], a, p[tile], partial.o[d][tile]);
    }
}

/* Whether an infinity or a NaN stands in 16 tokens' V rows. */
__device__ __forceinline__ bool not_finite(unsigned v_row)
{
    unsigned bad = 0;
#pragma unroll 1
    for (int d = 0; d < D_TILES; d++) {
        unsigned a[4];
        ldmatrix_x4_trans(a, v_row + d * 32);
#pragma unroll
        for (int i = 0; i < 4; i++)
            bad |= ((a[i] & EXPONENT) + EXPONENT_ONE) & 0x80008000;
    }
    return __any_sync(~0u, bad);
}

/*
 * accumulate() where V is not finite: a token that a row must not see has
 * weight zero, but zero times infinity is NaN. Each column of the n-tiles gets
 * V with zeros for what its row does not see, as when it is computed alone.
 */
__device__ __forceinline__ void accumulate_seen(const VerifyArgs &args,
                                                Partial &partial,
                                                const unsigned (&p)[N_TILES][2],
                                                unsigned v_row, int position)
{
    int lane = threadIdx.x % 32;
    int row_warp = threadIdx.x / 32 / KV_WARPS;
    const int *positions = reinterpret_cast<const int *>(shared + POSITION_OFFSET) + row_warp * N_TILES * 8;
#pragma unroll 1
    for (int column = 0; column < 8; column++) {
        bool left = lane % 4 * 2 == column, right = lane % 4 * 2 + 1 == column;
#pragma unroll
        for (int tile = 0; tile < N_TILES; tile++) {
            /* Tokens position + token + {0, 1, 8, 9} are this lane's. */
            int last = positions[tile * 8 + column] - position - lane % 4 * 2;
            unsigned seen[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                bool low = last >= i * 8, high = last >= i * 8 + 1;
//% if WINDOW then
                low = low && last - i * 8 < args.window;
                high = high && last - i * 8 - 1 < args.window;
//% end
                seen[i] = (low ? 0x0000ffff : 0) | (high ? 0xffff0000 : 0);
            }
#pragma unroll
            for (int d = 0; d < D_TILES; d++) {
                unsigned a[4];
                float own[4];
                ldmatrix_x4_trans(a, v_row + d * 32);
                a[0] &= seen[0], a[1] &= seen[0];
                a[2] &= seen[1], a[3] &= seen[1];
                mma(own, a, p[tile], partial.o[d][tile]);
                keep_columns(partial.o[d][tile], own, left, right);
            }
        }
    }
}

/* One KV step in shared memory, for positions without branches. */
__device__ __forceinline__ void attend(const VerifyArgs &args,
                                       const Work &work, Partial &partial,
                                       const Queries &queries, unsigned stage,
                                       int position)
{
    int lane = threadIdx.x % 32;
    int token = threadIdx.x / 32 % KV_WARPS * 16;
    float s[N_TILES][4];
    score<0, N_TILES>(s, queries, stage + (token + lane % 16) * ROW_BYTES + lane / 16 * 16);
    unsigned p[N_TILES][2];
    bool masked = position + STEP - 1 > work.min_position;
//% if WINDOW then
    masked = masked || position <= work.max_position - args.window;
//% end
    if (masked)
        update<true>(args, partial, s, p, position + token + lane / 4);
    else
        update<false>(args, partial, s, p, position + token + lane / 4);
    unsigned v = stage + STEP * ROW_BYTES;
    unsigned v_row = v + (token + lane % 8 + lane / 16 * 8) * ROW_BYTES + lane / 8 % 2 * 16;
    if (masked && not_finite(v_row))
        accumulate_seen(args, partial, p, v_row, position + token);
    else
        accumulate(partial, p, v_row);
}

//% if TREE then
/* The context's rest and the draft block, by slot; one more row is zero. */
__device__ __forceinline__ void load_block(const VerifyArgs &args,
                                           const Work &work, int position,
                                           unsigned base)
{
    load_step(args, work, position, work.sequence.context, base);
    int tokens = work.sequence.tokens;
    unsigned nodes = base + NODE_OFFSET;
    for (int i = threadIdx.x; i < (MAX_NODES + 1) * PIECES; i += THREADS) {
        int node = i / PIECES, piece = i % PIECES;
        int slot = work.sequence.context + node;
        bool take = node < tokens && slot >= 0;
        if (node >= tokens && node < MAX_NODES)
            continue;
        long long offset = 0;
        if (take) {
//% if PAGE_SIZE > 0 then
            int page = args.page_table[static_cast<long long>(blockIdx.z) * args.page_table_stride + slot / PAGE_SIZE];
            offset = page * args.kv_page_stride + slot % PAGE_SIZE * args.kv_token_stride + work.head * args.kv_head_stride;
//% else
            offset = slot_offset(args, work, slot);
//% end
            offset += piece * 8;
        }
        unsigned dst = nodes + node * ROW_BYTES + piece * 16;
        cp_async16(dst, args.k + offset, take);
        cp_async16(dst + NODE_V, args.v + offset, take);
    }
}

/*
 * Where a path's token at a position stands: in the step, in the draft block
 * at the ancestor of that depth, or nowhere (the zero row).
 */
__device__ __forceinline__ unsigned path_row(const VerifyArgs &args, unsigned base, unsigned path,
                                             int context, int step,
                                             int position, bool v)
{
    int depth = position - context;
//% if WINDOW then
    if (position <= context + __popc(path) - 1 - args.window)
        return base + NODE_OFFSET + MAX_NODES * ROW_BYTES + (v ? NODE_V : 0);
//% end
    if (depth < 0)
        return base + (position - step) * ROW_BYTES + (v ? STEP * ROW_BYTES : 0);
    int node = MAX_NODES;
    if (depth < __popc(path)) {
        for (; depth > 0; depth--)
            path &= path - 1;
        node = __ffs(path) - 1;
    }
    return base + NODE_OFFSET + node * ROW_BYTES + (v ? NODE_V : 0);
}

/*
 * A KV step that holds draft positions. Each root path brings its own tokens,
 * so each n-tile goes over the paths of its rows and keeps, of every product,
 * the columns that belong to the path: a row meets the same tokens at the same
 * positions as in the chain that leads to it.
 */
__device__ __forceinline__ void attend_paths(const VerifyArgs &args,
                                             const Work &work,
                                             Partial &partial,
                                             const Queries &queries,
                                             unsigned base, int position)
{
    int lane = threadIdx.x % 32;
    int kv_warp = threadIdx.x / 32 % KV_WARPS;
    int first_row = work.first_row + threadIdx.x / 32 / KV_WARPS * N_TILES * 8;
    int token = position + kv_warp * 16;
    const unsigned *paths = args.tree + work.sequence.first;
    float s[N_TILES][4];
//% for tile = 0, N_TILES - 1 do
    {
        constexpr int TILE = ${tile};
        int row = first_row + TILE * 8;
        int last = (min(row + 8, work.rows) - 1) / GROUP;
        int left = (row + lane % 4 * 2) / GROUP;
        int right = (row + lane % 4 * 2 + 1) / GROUP;
        s[TILE][0] = s[TILE][1] = s[TILE][2] = s[TILE][3] = 0.0f;
        for (int node = row / GROUP; node <= last; node++) {
            float own[1][4];
            score<TILE, 1>(own, queries, path_row(args, base, paths[node], work.sequence.context, position, token + lane % 16, false) + lane / 16 * 16);
            keep_columns(s[TILE], own[0], left == node, right == node);
        }
    }
//% end
    unsigned p[N_TILES][2];
    update<true>(args, partial, s, p, token + lane / 4);
//% for tile = 0, N_TILES - 1 do
    {
        constexpr int TILE = ${tile};
        int row = first_row + TILE * 8;
        int last = (min(row + 8, work.rows) - 1) / GROUP;
        int left = (row + lane % 4 * 2) / GROUP;
        int right = (row + lane % 4 * 2 + 1) / GROUP;
        for (int node = row / GROUP; node <= last; node++) {
            unsigned v_row = path_row(args, base, paths[node], work.sequence.context, position, token + lane % 8 + lane / 16 * 8, true) + lane / 8 % 2 * 16;
#pragma unroll
            for (int d = 0; d < D_TILES; d++) {
                unsigned a[4];
                float own[4];
                ldmatrix_x4_trans(a, v_row + d * 32);
                mma(own, a, p[TILE], partial.o[d][TILE]);
                keep_columns(partial.o[d][TILE], own, left == node, right == node);
            }
        }
    }
//% end
}

/* The steps of this chunk that hold draft positions; the pipeline is empty. */
__device__ __forceinline__ void attend_block(const VerifyArgs &args,
                                             const Work &work,
                                             Partial &partial,
                                             const Queries &queries)
{
    int first = max(work.sequence.context / STEP * STEP, work.chunk * CHUNK);
    if (first >= work.end)
        return;
    unsigned base = shared_address(shared);
    __syncthreads();
    load_block(args, work, first, base);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    for (int position = first; position < work.end; position += STEP)
        attend_paths(args, work, partial, queries, base, position);
}

//% end
/* The pipeline over the chunk's steps, the queries in front. */
__device__ __forceinline__ void attend_chunk(const VerifyArgs &args,
                                             const Work &work,
                                             Partial &partial)
{
    unsigned base = shared_address(shared);
    cp_async_commit();
    int first = work.first / STEP * STEP;
//% if TREE then
    int end = min(work.end, max(work.sequence.context, 0) / STEP * STEP);
//% else
    int end = work.end;
//% end
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; stage++) {
        if (first + stage * STEP < end)
            load_step(args, work, first + stage * STEP, end, base + stage * STAGE_BYTES);
        cp_async_commit();
    }
    cp_async_wait<STAGES - 1>();
    __syncthreads();
    Queries queries;
    queries.load();
    int stage = 0;
    for (int position = first; position < end; position += STEP) {
        cp_async_wait<STAGES - 2>();
        __syncthreads();
        int next = position + (STAGES - 1) * STEP;
        if (next < end)
            load_step(args, work, next, end, base + (stage + STAGES - 1) % STAGES * STAGE_BYTES);
        cp_async_commit();
        attend(args, work, partial, queries, base + stage * STAGE_BYTES, position);
        stage = stage + 1 < STAGES ? stage + 1 : 0;
    }
    cp_async_wait<0>();
//% if TREE then
    attend_block(args, work, partial, queries);
//% end
}

/* Merges the KV warps in order and writes the chunk's partial result. */
__device__ __forceinline__ void finish(const VerifyArgs &args,
                                       const Work &work, Partial &partial)
{
    int lane = threadIdx.x % 32;
    int kv_warp = threadIdx.x / 32 % KV_WARPS;
    int first_row = threadIdx.x / 32 / KV_WARPS * N_TILES * 8;
    float *o = reinterpret_cast<float *>(shared);
    float2 *ml = reinterpret_cast<float2 *>(shared + ROWS * O_STRIDE * 4);
    __syncthreads();
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++)
#pragma unroll
        for (int column = 0; column < 2; column++) {
            float sum = partial.sum[tile][column];
            sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, 4));
            sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, 8));
            sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, 16));
            if (lane < 4)
                ml[kv_warp * ROWS + first_row + tile * 8 + lane * 2 + column] = make_float2(partial.max[tile][column], sum);
        }
    __syncthreads();
    float weight[N_TILES][2];
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++)
#pragma unroll
        for (int column = 0; column < 2; column++) {
            int row = first_row + tile * 8 + lane % 4 * 2 + column;
            float top = MINUS_INFINITY;
#pragma unroll
            for (int warp = 0; warp < KV_WARPS; warp++)
                top = fmaxf(top, ml[warp * ROWS + row].x);
            float base = top == MINUS_INFINITY ? 0.0f : top;
            weight[tile][column] = exp2_approx(__fsub_rn(partial.max[tile][column], base));
        }
    for (int warp = 0; warp < KV_WARPS; warp++) {
        if (warp == kv_warp) {
#pragma unroll
            for (int tile = 0; tile < N_TILES; tile++)
#pragma unroll
                for (int d = 0; d < D_TILES; d++)
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        float *at = o + (first_row + tile * 8 + lane % 4 * 2 + i % 2) * O_STRIDE + d * 16 + lane / 4 + i / 2 * 8;
                        float before = warp == 0 ? 0.0f : *at;
                        *at = __fmaf_rn(weight[tile][i % 2], partial.o[d][tile][i], before);
                    }
        }
        __syncthreads();
    }
    long long out = ((static_cast<long long>(blockIdx.z) * gridDim.y + work.head) * args.chunks + work.chunk) * args.rows + work.first_row;
    int rows = min(ROWS, work.rows - work.first_row);
    for (int i = threadIdx.x; i < rows * (HEAD_DIM / 4); i += THREADS) {
        int row = i / (HEAD_DIM / 4), d = i % (HEAD_DIM / 4) * 4;
        *reinterpret_cast<float4 *>(args.partial_o + (out + row) * HEAD_DIM + d) = *reinterpret_cast<const float4 *>(o + row * O_STRIDE + d);
    }
    for (int row = threadIdx.x; row < rows; row += THREADS) {
        float top = MINUS_INFINITY, sum = 0.0f;
#pragma unroll
        for (int warp = 0; warp < KV_WARPS; warp++)
            top = fmaxf(top, ml[warp * ROWS + row].x);
        float base = top == MINUS_INFINITY ? 0.0f : top;
#pragma unroll
        for (int warp = 0; warp < KV_WARPS; warp++)
            sum = __fmaf_rn(ml[warp * ROWS + row].y, exp2_approx(__fsub_rn(ml[warp * ROWS + row].x, base)), sum);
        args.partial_ml[out + row] = make_float2(top, sum);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, ${MIN_CTAS})
${SYMBOL}(const __grid_constant__ VerifyArgs args)
{
    Work work;
    if (!find_work(args, work))
        return;
    Partial partial;
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
#pragma unroll
        for (int column = 0; column < 2; column++) {
            partial.max[tile][column] = MINUS_INFINITY;
            partial.sum[tile][column] = 0.0f;
        }
#pragma unroll
        for (int d = 0; d < D_TILES; d++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                partial.o[d][tile][i] = 0.0f;
    }
    load_queries(args, work);
//% if PAGE_SIZE > 0 then
    load_pages(args, work);
    __syncthreads();
//% end
    attend_chunk(args, work, partial);
    finish(args, work, partial);
}
