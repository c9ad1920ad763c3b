/*
 * fp16 and bf16 as the memory instructions need them, one value at a time.
 */
#ifndef SPT_SIM_ACCESS_HALF_H
#define SPT_SIM_ACCESS_HALF_H

#include <stdint.h>
#include <string.h>

static inline float sim_half_value(uint32_t h)
{
    uint32_t magnitude = h & 0x7fff, bits = magnitude << 13;
    float f;
    memcpy(&f, &bits, 4);
    f *= 0x1p112f;
    memcpy(&bits, &f, 4);
    if (magnitude >= 0x7c00)
        bits |= 0x7f800000;
    bits |= (h & 0x8000) << 16;
    memcpy(&f, &bits, 4);
    return f;
}

/* Rounded to nearest even; NaN is 0x7fff. */
static inline uint32_t sim_half_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return 0x7fff;
    if (magnitude >= 0x47800000)
        return sign | 0x7c00;
    if (magnitude < 0x33000000)
        return sign;
    int exponent = (int)(magnitude >> 23) - 127;
    uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
    int drop = exponent < -14 ? -1 - exponent : 13;
    uint32_t kept = mantissa >> drop, rest = mantissa & ((1u << drop) - 1);
    kept += rest > 1u << (drop - 1) || (rest == 1u << (drop - 1) && (kept & 1));
    if (exponent >= -14)
        kept += (uint32_t)(exponent + 14) << 10;
    return sign | kept;
}

static inline float sim_bf16_value(uint32_t h)
{
    uint32_t bits = h << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static inline uint32_t sim_bf16_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return 0x7fff;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

#endif
