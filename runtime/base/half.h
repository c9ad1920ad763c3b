/*
 * 16-bit floats on the host: round to nearest even, NaN stays NaN.
 */
#ifndef SPT_HALF_H
#define SPT_HALF_H

#include <stdint.h>

typedef enum spt_dtype { SPT_BF16, SPT_FP16 } spt_dtype;

uint16_t spt_half_from_float(spt_dtype dtype, float value);
float spt_half_to_float(spt_dtype dtype, uint16_t bits);

/* Unit roundoff: the largest relative error of rounding to the type. */
double spt_half_roundoff(spt_dtype dtype);

/* "bf16" or "fp16". */
const char *spt_half_name(spt_dtype dtype);

#endif
