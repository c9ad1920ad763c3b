/*
 * Arguments of verify attention and of its combine, laid out as
 * spt_verify_args (runtime/kernels/verify.h). Strides count elements.
 */
struct VerifyArgs {
    const half_t *q;        /* (token, query head, head dim) */
    const half_t *k, *v;    /* (page, slot, KV head, head dim), or without pages
                               (token, KV head, head dim), by strides */
    const int *page_table;  /* (sequence, page) */
    const int *q_start;     /* (sequences + 1): first token of each in q */
    const int *kv_len;      /* (sequence): KV tokens, draft block included */
    const long long *kv_start; /* (sequence): first KV token, without pages */
    const unsigned *tree;   /* (token): bits of its ancestors and itself */
    const float *sinks;     /* (query head): logits */
    float *partial_o;       /* (sequence, KV head, chunk, row, head dim) */
    float2 *partial_ml;     /* (sequence, KV head, chunk, row): max, sum */
    half_t *out;            /* (token, query head, head dim) */
    float *lse;             /* (token, query head), natural logarithm */
    long long q_token_stride, kv_page_stride, kv_token_stride, kv_head_stride;
    int page_table_stride;  /* pages per sequence */
    int chunks, rows;       /* of partial_o: chunks and rows per KV head */
    int row_groups;         /* CTAs that share a chunk's rows */
    int window;             /* a row sees this many last positions */
    float scale_log2;       /* softmax scale * log2(e) */
    float cap, cap_log2;    /* scale / softcap, softcap * log2(e) */
};

//% include("sequence.cu")
