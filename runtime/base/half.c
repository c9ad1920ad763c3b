#include "half.h"

#include <math.h>
#include <string.h>

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint16_t bf16_from_float(float value)
{
    uint32_t bits = bits_of(value);
    if (value != value)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static uint16_t fp16_from_float(float value)
{
    uint16_t sign = (uint16_t)(bits_of(value) >> 16 & 0x8000);
    float size = fabsf(value);
    if (value != value)
        return sign | 0x7e00;
    if (size >= 65520.0f)
        return sign | 0x7c00;
    /* Adding a power of two leaves just the bits that the type keeps. */
    int exponent = -14;
    if (size >= 0x1p-14f)
        frexpf(size, &exponent), exponent -= 1;
    float unit = ldexpf(1.0f, exponent - 10);
    float steps = rintf(size / unit);
    return (uint16_t)(sign |
                      ((unsigned)(exponent + 14) * 1024 + (unsigned)steps));
}

uint16_t spt_half_from_float(spt_dtype dtype, float value)
{
    return dtype == SPT_BF16 ? bf16_from_float(value) : fp16_from_float(value);
}

float spt_half_to_float(spt_dtype dtype, uint16_t bits)
{
    if (dtype == SPT_BF16)
        return float_of((uint32_t)bits << 16);
    int exponent = bits >> 10 & 31;
    unsigned fraction = bits & 1023;
    float size = exponent == 31 ? (fraction ? NAN : INFINITY)
                 : exponent == 0
                     ? ldexpf((float)fraction, -24)
                     : ldexpf((float)(fraction + 1024), exponent - 25);
    return bits & 0x8000 ? -size : size;
}

double spt_half_roundoff(spt_dtype dtype)
{
    return dtype == SPT_BF16 ? 0x1p-8 : 0x1p-11;
}

const char *spt_half_name(spt_dtype dtype)
{
    return dtype == SPT_BF16 ? "bf16" : "fp16";
}
