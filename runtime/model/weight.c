/*
 * Decoders of the block formats: byte layouts are told at each function, d is
 * a block's fp16 scale, m its fp16 offset. Results are exactly those of ggml's
 * reference, operation by operation.
 */
#include "weight.h"

#include <string.h>

#include "half.h"

typedef void decode_fn(const uint8_t *block, float *out);

static float half_at(const uint8_t *p)
{
    return spt_half_to_float(SPT_FP16, (uint16_t)(p[0] | p[1] << 8));
}

static void decode_f32(const uint8_t *block, float *out)
{
    memcpy(out, block, sizeof *out);
}

static void decode_f16(const uint8_t *block, float *out)
{
    *out = half_at(block);
}

static void decode_bf16(const uint8_t *block, float *out)
{
    *out = spt_half_to_float(SPT_BF16, (uint16_t)(block[0] | block[1] << 8));
}

/* d; 16 bytes: low nibbles are weights 0-15, high ones 16-31. */
static void decode_q4_0(const uint8_t *block, float *out)
{
    float d = half_at(block);
    for (int i = 0; i < 16; i++) {
        out[i] = (float)((block[2 + i] & 15) - 8) * d;
        out[i + 16] = (float)((block[2 + i] >> 4) - 8) * d;
    }
}

/* d, m; 16 bytes as in q4_0. */
static void decode_q4_1(const uint8_t *block, float *out)
{
    float d = half_at(block), m = half_at(block + 2);
    for (int i = 0; i < 16; i++) {
        out[i] = (float)(block[4 + i] & 15) * d + m;
        out[i + 16] = (float)(block[4 + i] >> 4) * d + m;
    }
}

/* The fifth bit of each weight: bit i of a 32-bit word, moved to value 16. */
static int fifth_bit(const uint8_t *word, int i)
{
    return (word[i / 8] >> (i % 8) & 1) << 4;
}

/* d; fifth bits (4 bytes); 16 bytes as in q4_0. */
static void decode_q5_0(const uint8_t *block, float *out)
{
    float d = half_at(block);
    const uint8_t *high = block + 2, *q = block + 6;
    for (int i = 0; i < 16; i++) {
        int low = (q[i] & 15) | fifth_bit(high, i);
        int upper = q[i] >> 4 | fifth_bit(high, i + 16);
        out[i] = (float)(low - 16) * d;
        out[i + 16] = (float)(upper - 16) * d;
    }
}

/* d, m; fifth bits (4 bytes); 16 bytes as in q4_0. */
static void decode_q5_1(const uint8_t *block, float *out)
{
    float d = half_at(block), m = half_at(block + 2);
    const uint8_t *high = block + 4, *q = block + 8;
    for (int i = 0; i < 16; i++) {
        out[i] = (float)((q[i] & 15) | fifth_bit(high, i)) * d + m;
        out[i + 16] = (float)(q[i] >> 4 | fifth_bit(high, i + 16)) * d + m;
    }
}

/* d; 32 signed bytes. */
static void decode_q8_0(const uint8_t *block, float *out)
{
    float d = half_at(block);
    for (int i = 0; i < 32; i++)
        out[i] = (float)(int8_t)block[2 + i] * d;
}

/*
 * Scale and offset j (0-7) of a 256-block: six bits each, packed in 12 bytes;
 * the first four plain, of the others the upper two bits are the top bits of
 * the first four.
 */
static void six_bits(const uint8_t *packed, int j, int *scale, int *offset)
{
    if (j < 4) {
        *scale = packed[j] & 63;
        *offset = packed[j + 4] & 63;
    } else {
        *scale = (packed[j + 4] & 15) | packed[j - 4] >> 6 << 4;
        *offset = packed[j + 4] >> 4 | packed[j] >> 6 << 4;
    }
}

/*
 * d, dmin; 12 bytes of scales; 128 bytes: each run of 32 gives the weights of
 * two groups of 32, low nibbles first. high (or NULL) has the fifth bits, of
 * group g in bit g of byte i.
 */
static void decode_k_nibbles(const uint8_t *block, const uint8_t *high,
                             const uint8_t *q, float *out)
{
    float d = half_at(block), dmin = half_at(block + 2);
    for (int g = 0; g < 8; g++) {
        int scale, offset;
        six_bits(block + 4, g, &scale, &offset);
        float step = d * (float)scale, least = dmin * (float)offset;
        for (int i = 0; i < 32; i++) {
            uint8_t byte = q[g / 2 * 32 + i];
            int value = g & 1 ? byte >> 4 : byte & 15;
            if (high)
                value += (high[i] >> g & 1) << 4;
            out[g * 32 + i] = step * (float)value - least;
        }
    }
}

static void decode_q4_k(const uint8_t *block, float *out)
{
    decode_k_nibbles(block, NULL, block + 16, out);
}

static void decode_q5_k(const uint8_t *block, float *out)
{
    decode_k_nibbles(block, block + 16, block + 48, out);
}

/*
 * 128 bytes of low nibbles, 64 of upper bit pairs, 16 signed scales, d. Each
 * half of 128 weights is four runs of 32: run r has its nibbles in bytes
 * r%2*32 on (low nibble for r < 2) and its upper bits at bits 2r.
 */
static void decode_q6_k(const uint8_t *block, float *out)
{
    float d = half_at(block + 208);
    for (int n = 0; n < 256; n++) {
        int half = n / 128, run = n % 128 / 32, i = n % 32;
        int low = block[half * 64 + run % 2 * 32 + i] >> (run < 2 ? 0 : 4) & 15;
        int high = block[128 + half * 32 + i] >> (2 * run) & 3;
        int8_t scale = (int8_t)block[192 + n / 16];
        out[n] = d * (float)scale * (float)((low | high << 4) - 32);
    }
}

static const spt_weight_format formats[] = {
#define SPT_WEIGHT_TYPE(number, NAME, name, weights, bytes, decoder) \
    {name, number, weights, bytes, (decoder) != (decode_fn *)NULL},
#include "weight_types.def"
#undef SPT_WEIGHT_TYPE
};

static decode_fn *const decoders[] = {
#define SPT_WEIGHT_TYPE(number, NAME, name, weights, bytes, decoder) decoder,
#include "weight_types.def"
#undef SPT_WEIGHT_TYPE
};

const spt_weight_format *spt_weight_format_of(spt_weight_type type)
{
    return &formats[type];
}

bool spt_weight_from_gguf(uint32_t number, spt_weight_type *type)
{
    for (int i = 0; i < SPT_WEIGHT_TYPES; i++)
        if (formats[i].gguf == number) {
            *type = (spt_weight_type)i;
            return true;
        }
    return false;
}

bool spt_weight_from_name(const char *name, spt_weight_type *type)
{
    for (int i = 0; i < SPT_WEIGHT_TYPES; i++)
        if (strcmp(formats[i].name, name) == 0) {
            *type = (spt_weight_type)i;
            return true;
        }
    return false;
}

uint64_t spt_weight_bytes(spt_weight_type type, uint64_t weights)
{
    const spt_weight_format *f = &formats[type];
    return weights / (uint64_t)f->block_weights * (uint64_t)f->block_bytes;
}

void spt_weight_row_f32(spt_weight_type type, const void *row, size_t weights,
                        float *out)
{
    const spt_weight_format *f = &formats[type];
    size_t blocks = weights / (size_t)f->block_weights;
    const uint8_t *block = row;
    for (size_t i = 0; i < blocks; i++)
        decoders[type](block + i * (size_t)f->block_bytes,
                       out + i * (size_t)f->block_weights);
}
