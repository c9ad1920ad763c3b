/*
 * One unit of packed weights, 16 outputs x 64 inputs, as a lane sees it, and
 * its decoding. A number of ${BITS} bits becomes a 16-bit float by being put
 * into the mantissa of a power of two; that constant (BIAS, with what the
 * format subtracts) is taken off the sums, where it costs one product a group.
 */
//% if WEIGHT ~= "half" then
constexpr float BIAS = ${BIAS};
constexpr int SCALES_OFFSET = ${SCALES_OFFSET}; /* behind the numbers */
//% end
//% if DTYPE == "bf16" then
constexpr unsigned ONES = 0x3f803f80u;  /* 1.0, twice */
//% else
constexpr unsigned ONES = 0x3c003c00u;  /* 1.0, twice */
//% end

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
//% if BITS < 8 then
    unsigned low[4];    /* (pair of mma, output half): four bits of 8 numbers */
//% end
//% if BITS == 5 then
    unsigned high[1];   /* the fifth bits */
//% elseif BITS == 6 then
    unsigned high[2];   /* (pair of mma): two bits of 16 numbers */
//% end
//% if PAIR and not SMALL then
    unsigned scale[4];  /* (output half, group): fp16 scale, minimum */
//% elseif WEIGHT ~= "half" then
    unsigned scale[2];  /* (output half): fp16 or 8-bit, of all groups */
//% end
//% if BLOCK_BYTES > 0 then
    unsigned block[2];  /* fp16 scales (and minima) of the block */
//% end
    unsigned address;   /* of the unit in shared memory */

    __device__ __forceinline__ void load(unsigned at)
    {
        int lane = threadIdx.x % 32;
        address = at + lane * 16;
//% if BITS < 8 then
        load_shared4(low, address);
//% end
//% if BITS == 5 then
        load_shared(high[0], at + 512 + lane * 4);
//% elseif BITS == 6 then
        load_shared2(high[0], high[1], at + 512 + lane * 8);
//% end
//% if PAIR and not SMALL then
        load_shared4(scale, at + SCALES_OFFSET + lane / 4 * 16);
//% elseif WEIGHT ~= "half" then
        load_shared2(scale[0], scale[1], at + SCALES_OFFSET + lane / 4 * 8);
//% end
//% if BLOCK_BYTES == 64 then
        load_shared2(block[0], block[1], at + UNIT_BYTES + lane / 4 * 8);
//% elseif BLOCK_BYTES == 32 then
        load_shared(block[0], at + UNIT_BYTES + lane / 4 * 4);
//% end
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

//% if BITS < 8 then
//% if DTYPE == "bf16" then
constexpr int FIELD = 0;                  /* where a number stands */
constexpr unsigned POWER = 0x43004300u;   /* 128.0, twice: bit 0 is 1 */
//% else
constexpr int FIELD = 4;                  /* where a number stands */
constexpr unsigned POWER = 0x54005400u;   /* 64.0, twice: bit 4 is 1 */
//% end

/* Numbers 2 * pair and 2 * pair + 1 of mma i of a block, one output half. */
__device__ __forceinline__ unsigned decode(const Unit &unit, int block, int i, int half, int pair)
{
    unsigned low = block ? unit.low[2 + half] : unit.low[half];
    int place = i * 2 + pair;
    unsigned numbers = pick(shift_right(low, 4 * place - FIELD), 0x000f000fu << FIELD, POWER);
//% if BITS == 5 then
    unsigned high = unit.high[0] >> (8 * block);
    numbers = pick(shift_right(high, 4 * half + place - 4 - FIELD), 0x00100010u << FIELD, numbers);
//% elseif BITS == 6 then
    unsigned high = block ? unit.high[1] : unit.high[0];
    numbers = pick(shift_right(high, 8 * half + 2 * place - 4 - FIELD), 0x00300030u << FIELD, numbers);
//% end
    return numbers;
}

/* The A operands of both mma of a block of 32 inputs. */
__device__ __forceinline__ void weights(unsigned (&a)[2][1][4], const Unit &unit, int block)
{
#pragma unroll
    for (int i = 0; i < 8; i++)
        a[i / 4][0][i % 4] = decode(unit, block, i / 4, i % 2, i / 2 % 2);
}
//% elseif BITS == 8 then
/*
 * Bytes, 128 above their value. In fp16 one float holds a byte; in bf16 two
 * floats hold its nibbles, and two mma add them.
 */
__device__ __forceinline__ void weights(unsigned (&a)[2][${PLANES}][4], const Unit &unit, int block)
{
    unsigned words[4]; /* (mma, output half) */
    load_shared4(words, unit.address + block * 512);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        unsigned word = words[i / 4 * 2 + i % 2];
        int shift = i / 2 % 2 * 8;
//% if DTYPE == "bf16" then
        a[i / 4][0][i % 4] = pick(word >> shift, 0x000f000fu, 0x43004300u);
        a[i / 4][1][i % 4] = pick(word >> (shift + 4), 0x000f000fu, 0x45004500u);
//% else
        a[i / 4][0][i % 4] = pick(word >> shift, 0x00ff00ffu, 0x64006400u);
//% end
    }
}
//% else
__device__ __forceinline__ void weights(unsigned (&a)[2][1][4], const Unit &unit, int block)
{
    load_shared4(a[0][0], unit.address + block * 1024);
    load_shared4(a[1][0], unit.address + block * 1024 + 512);
}
//% end
//% if WEIGHT ~= "half" then

//% if PAIR then
/* The floats of both halves of a word. */
__device__ __forceinline__ void halves_of(float &lower, float &upper, unsigned word)
{
    asm("{.reg .b16 lo, hi;\n"
        "mov.b32 {lo, hi}, %2;\n"
        "cvt.f32.f16 %0, lo;\n"
        "cvt.f32.f16 %1, hi;}\n"
        : "=f"(lower), "=f"(upper)
        : "r"(word));
}
//% else
/* The float of the lower or upper half of a word; which is known here. */
__device__ __forceinline__ float half_of(unsigned word, int upper)
{
    float f;
    if (upper)
        asm("{.reg .b16 lo, hi;\n"
            "mov.b32 {lo, hi}, %1;\n"
            "cvt.f32.f16 %0, hi;}\n"
            : "=f"(f)
            : "r"(word));
    else
        asm("{.reg .b16 lo, hi;\n"
            "mov.b32 {lo, hi}, %1;\n"
            "cvt.f32.f16 %0, lo;}\n"
            : "=f"(f)
            : "r"(word));
    return f;
}
//% end

/* Of output half `half`: the scale of a group and what its sum of x weighs. */
__device__ __forceinline__ void scales(float &scale, float &offset, const Unit &unit, int group, int half)
{
//% if SMALL and PAIR then
    unsigned small = unit.scale[half] >> (16 * group);
    float step, least;
    halves_of(step, least, unit.block[half]);
    scale = __fmul_rn(step, __uint2float_rn(small & 0xff));
    float minimum = __fmul_rn(least, __uint2float_rn(small >> 8 & 0xff));
    offset = __fmaf_rn(-BIAS, scale, -minimum);
//% elseif SMALL then
    int small = static_cast<int>(unit.scale[half] << (24 - 8 * group)) >> 24;
    scale = __fmul_rn(half_of(unit.block[0], half), __int2float_rn(small));
    offset = __fmul_rn(-BIAS, scale);
//% elseif PAIR then
    float minimum;
    halves_of(scale, minimum, group ? unit.scale[half * 2 + 1] : unit.scale[half * 2]);
    offset = __fmaf_rn(-BIAS, scale, minimum);
//% else
    scale = half_of(unit.scale[half], group);
    offset = __fmul_rn(-BIAS, scale);
//% end
}
//% end
