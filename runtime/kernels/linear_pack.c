/*
 * From a file's blocks to the order of templates/linear.cu.
 *
 * A panel is 16 outputs: all its units of 64 inputs, one after the other, then
 * the blocks of 256 inputs (k formats). Lane g * 4 + q of a warp takes the
 * outputs g and g + 8 of a panel; fields of a unit stand in the order of
 * unit_order() and are described where they are placed.
 */
#include <math.h>
#include <string.h>

#include "linear.h"

enum { PANEL = 16, UNIT = 64, BLOCK = 256, UNITS_PER_BLOCK = BLOCK / UNIT };

/* One output's part of a unit, unpacked. */
typedef struct unit_row {
    uint16_t value[UNIT]; /* unsigned numbers, or 16-bit floats */
    uint16_t scale[2], min[2]; /* fp16, of each 32 inputs */
    uint8_t small_scale[4], small_min[2]; /* k formats */
    uint16_t block_scale, block_min; /* fp16, k formats */
} unit_row;

/* Unpacks inputs [64 * unit, ...) of a row; absent inputs stay zero. */
typedef void unpack_unit(const spt_linear_shape *shape, const uint8_t *row,
                         spt_weight_type type, int64_t unit, unit_row *out);

static uint16_t read16(const uint8_t *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

static uint32_t read32(const uint8_t *at)
{
    return (uint32_t)read16(at) | (uint32_t)read16(at + 2) << 16;
}

static float half_value(const uint8_t *row, spt_weight_type type, int64_t i)
{
    uint32_t bits;
    float value;
    switch (type) {
    case SPT_WEIGHT_F16:
        return spt_half_to_float(SPT_FP16, read16(row + 2 * i));
    case SPT_WEIGHT_BF16:
        return spt_half_to_float(SPT_BF16, read16(row + 2 * i));
    default:
        bits = read32(row + 4 * i);
        memcpy(&value, &bits, sizeof value);
        return value;
    }
}

static void unpack_half(const spt_linear_shape *shape, const uint8_t *row,
                        spt_weight_type type, int64_t unit, unit_row *out)
{
    bool same =
        type == (shape->dtype == SPT_BF16 ? SPT_WEIGHT_BF16 : SPT_WEIGHT_F16);
    for (int i = 0; i < UNIT && unit * UNIT + i < shape->inputs; i++) {
        int64_t at = unit * UNIT + i;
        out->value[i] =
            same ? read16(row + 2 * at)
                 : spt_half_from_float(shape->dtype, half_value(row, type, at));
    }
}

/* The 32 numbers of 16 bytes of nibbles: low ones first. */
static void nibbles(const uint8_t *bytes, uint16_t *value)
{
    for (int i = 0; i < 16; i++) {
        value[i] = bytes[i] & 15;
        value[i + 16] = bytes[i] >> 4;
    }
}

static void fifth_bits(uint32_t bits, uint16_t *value)
{
    for (int i = 0; i < 32; i++)
        value[i] = (uint16_t)(value[i] | (bits >> i & 1) << 4);
}

/* The blocks of 32: scale, minimum, fifth bits, nibbles or bytes. */
static void unpack_32(const spt_linear_shape *shape, const uint8_t *row,
                      spt_weight_type type, int64_t unit, unit_row *out)
{
    bool min = type == SPT_WEIGHT_Q4_1 || type == SPT_WEIGHT_Q5_1;
    bool fifth = type == SPT_WEIGHT_Q5_0 || type == SPT_WEIGHT_Q5_1;
    int bytes = spt_weight_format_of(type)->block_bytes;
    for (int b = 0; b < 2 && unit * UNIT + 32 * b < shape->inputs; b++) {
        const uint8_t *at = row + (2 * unit + b) * bytes;
        uint16_t *value = out->value + 32 * b;
        out->scale[b] = read16(at);
        at += 2;
        if (min)
            out->min[b] = read16(at);
        at += min ? 2 : 0;
        if (type == SPT_WEIGHT_Q8_0) {
            for (int i = 0; i < 32; i++)
                value[i] = at[i] ^ 0x80;
            continue;
        }
        nibbles(at + (fifth ? 4 : 0), value);
        if (fifth)
            fifth_bits(read32(at), value);
    }
}

/* Scale and minimum j of the twelve bytes that hold eight of each. */
static void six_bits(const uint8_t *bytes, int j, uint8_t *scale, uint8_t *min)
{
    if (j < 4) {
        *scale = bytes[j] & 63;
        *min = bytes[j + 4] & 63;
    } else {
        *scale = (uint8_t)((bytes[j + 4] & 15) | bytes[j - 4] >> 6 << 4);
        *min = (uint8_t)(bytes[j + 4] >> 4 | bytes[j] >> 6 << 4);
    }
}

/* q4_k and q5_k: two scales, 12 bytes of small ones, fifth bits, nibbles. */
static void unpack_45k(const spt_linear_shape *shape, const uint8_t *row,
                       spt_weight_type type, int64_t unit, unit_row *out)
{
    (void)shape;
    bool fifth = type == SPT_WEIGHT_Q5_K;
    int part = (int)(unit % UNITS_PER_BLOCK);
    const uint8_t *at =
        row + unit / UNITS_PER_BLOCK * spt_weight_format_of(type)->block_bytes;
    const uint8_t *low = at + 16 + (fifth ? 32 : 0) + 32 * part;
    out->block_scale = read16(at);
    out->block_min = read16(at + 2);
    for (int b = 0; b < 2; b++)
        six_bits(at + 4, 2 * part + b, &out->small_scale[b],
                 &out->small_min[b]);
    for (int i = 0; i < 32; i++) {
        int high = fifth ? at[16 + i] >> (2 * part) : 0;
        out->value[i] = (uint16_t)((low[i] & 15) | (high & 1) << 4);
        out->value[i + 32] = (uint16_t)(low[i] >> 4 | (high & 2) << 3);
    }
}

/* 128 bytes of nibbles, 64 of pairs of bits, 16 scales, one scale. */
static void unpack_q6k(const spt_linear_shape *shape, const uint8_t *row,
                       spt_weight_type type, int64_t unit, unit_row *out)
{
    (void)shape;
    int part = (int)(unit % UNITS_PER_BLOCK);
    const uint8_t *at =
        row + unit / UNITS_PER_BLOCK * spt_weight_format_of(type)->block_bytes;
    const uint8_t *low = at + 64 * (part / 2);
    const uint8_t *high = at + 128 + 32 * (part / 2);
    bool upper = part % 2;
    for (int i = 0; i < UNIT; i++) {
        int pair = high[i % 32] >> (4 * upper + i / 32 * 2) & 3;
        int nibble = upper ? low[i] >> 4 : low[i] & 15;
        out->value[i] = (uint16_t)(nibble | pair << 4);
    }
    memcpy(out->small_scale, at + 192 + 4 * part, 4);
    out->block_scale = read16(at + 208);
}

typedef struct packing {
    const char *name;
    int bits;
    enum { NONE, ONE, PAIR, SMALL_PAIR, SMALL } scales;
    int scale_bytes, block_bytes;
    unpack_unit *unpack;
} packing;

#define unpack_NONE unpack_half
#define unpack_ONE unpack_32
#define unpack_PAIR unpack_32
#define unpack_SMALL_PAIR unpack_45k
#define unpack_SMALL unpack_q6k
static const packing formats[SPT_LINEAR_FORMATS] = {
#define SPT_LINEAR_FORMAT(NAME, name, bits, SCALES, scales, block) \
    {name, bits, SCALES, scales, block, unpack_##SCALES},
#include "linear_formats.def"
#undef SPT_LINEAR_FORMAT
};

const char *spt_linear_format_name(spt_linear_format format)
{
    return formats[format].name;
}

bool spt_linear_format_of(spt_weight_type type, spt_linear_format *format)
{
    const char *name = spt_weight_format_of(type)->name;
    bool floats = type == SPT_WEIGHT_F32 || type == SPT_WEIGHT_F16 ||
                  type == SPT_WEIGHT_BF16;
    for (int i = 0; i < SPT_LINEAR_FORMATS; i++)
        if (strcmp(formats[i].name, floats ? "half" : name) == 0) {
            *format = (spt_linear_format)i;
            return true;
        }
    return false;
}

static void write16(uint8_t *at, uint16_t value)
{
    memcpy(at, &value, sizeof value);
}

/* Sets bits of a word that is zero there. */
static void or32(uint8_t *at, uint32_t bits)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    word |= bits;
    memcpy(at, &word, sizeof word);
}

/*
 * Which of the four mma (16 inputs each) takes input i of a unit, which lane
 * of a quad, and which of its four numbers there it is. Blocks of 32 give each
 * lane 8 inputs in a row, which two mma share; those of 16 stay in one mma.
 */
static void unit_order(bool blocks_of_16, int i, int *mma, int *q, int *number)
{
    *number = i % 4;
    *mma = blocks_of_16 ? i / 16 : i / 32 * 2 + i / 4 % 2;
    *q = blocks_of_16 ? i / 4 % 4 : i / 8 % 4;
}

/* Floats: for each mma the lanes' registers a0 to a3. */
static void place_half(uint8_t *unit, int output, const unit_row *from)
{
    for (int i = 0; i < UNIT; i++) {
        int mma, q, number;
        unit_order(false, i, &mma, &q, &number);
        int lane = output % 8 * 4 + q, reg = number / 2 * 2 + output / 8;
        write16(unit + ((mma * 32 + lane) * 4 + reg) * 4 + number % 2 * 2,
                from->value[i]);
    }
}

/*
 * Bytes: for each 32 inputs the lanes' words (mma, output half); numbers 0 and
 * 1 are the bytes 0 and 2, numbers 2 and 3 the bytes 1 and 3.
 */
static void place_bytes(uint8_t *unit, int output, const unit_row *from)
{
    for (int i = 0; i < UNIT; i++) {
        int mma, q, number;
        unit_order(false, i, &mma, &q, &number);
        int lane = output % 8 * 4 + q;
        int word = (mma / 2 * 32 + lane) * 4 + mma % 2 * 2 + output / 8;
        unit[word * 4 + number % 2 * 2 + number / 2] = (uint8_t)from->value[i];
    }
}

/*
 * Nibbles: the lanes' words (pair of mma, output half), each half of a word
 * having the even or odd numbers. Behind them the higher bits: fifth bits in
 * one word of each lane, or pairs of bits in two.
 */
static void place_nibbles(uint8_t *unit, int output, const unit_row *from,
                          int bits)
{
    for (int i = 0; i < UNIT; i++) {
        int mma, q, number;
        unit_order(bits == 6, i, &mma, &q, &number);
        int lane = output % 8 * 4 + q, half = number % 2 * 16;
        int pair = mma % 2 * 2 + number / 2;
        int word = mma / 2 * 2 + output / 8;
        uint32_t value = from->value[i], high = value >> 4;
        or32(unit + (lane * 4 + word) * 4, (value & 15) << (half + 4 * pair));
        if (bits == 5)
            or32(unit + 512 + lane * 4, high << (half + 4 * word + pair));
        else if (bits == 6)
            or32(unit + 512 + (lane * 2 + mma / 2) * 4,
                 high << (half + 8 * (output / 8) + 2 * pair));
    }
}

/* Scales stand behind the numbers: for each g those of outputs g and g + 8. */
static void place_scales(const packing *f, uint8_t *unit, int output,
                         const unit_row *from)
{
    int each = f->scale_bytes / PANEL;
    uint8_t *at =
        unit + 128 * f->bits + output % 8 * 2 * each + output / 8 * each;
    for (int b = 0; b < 2; b++)
        switch (f->scales) {
        case ONE:
            write16(at + 2 * b, from->scale[b]);
            break;
        case PAIR:
            write16(at + 4 * b, from->scale[b]);
            write16(at + 4 * b + 2, from->min[b]);
            break;
        case SMALL_PAIR:
            at[2 * b] = from->small_scale[b];
            at[2 * b + 1] = from->small_min[b];
            break;
        case SMALL:
            memcpy(at + 2 * b, from->small_scale + 2 * b, 2);
            break;
        case NONE:
            break;
        }
}

/* What the block has of an output: its scale, and with pairs its minimum. */
static void place_block(const packing *f, uint8_t *block, int output,
                        const unit_row *from)
{
    int each = f->block_bytes / PANEL;
    uint8_t *at = block + output % 8 * 2 * each + output / 8 * each;
    write16(at, from->block_scale);
    if (f->scales == SMALL_PAIR)
        write16(at + 2, from->block_min);
}

static int64_t unit_count(const spt_linear_shape *shape)
{
    return (shape->inputs + UNIT - 1) / UNIT;
}

static int64_t panel_count(const spt_linear_shape *shape)
{
    return (shape->outputs + PANEL - 1) / PANEL * (shape->gated ? 2 : 1);
}

static int unit_bytes(const packing *f)
{
    return 128 * f->bits + f->scale_bytes;
}

size_t spt_linear_panel_bytes(const spt_linear_shape *shape)
{
    const packing *f = &formats[shape->format];
    int64_t units = unit_count(shape);
    int64_t blocks = (units + UNITS_PER_BLOCK - 1) / UNITS_PER_BLOCK;
    return (size_t)(units * unit_bytes(f) + blocks * f->block_bytes);
}

size_t spt_linear_bytes(const spt_linear_shape *shape)
{
    return (size_t)panel_count(shape) * spt_linear_panel_bytes(shape);
}

/* One row of a matrix into its panel. */
static void pack_row(const spt_linear_shape *shape, const uint8_t *row,
                     spt_weight_type type, int output, uint8_t *panel)
{
    const packing *f = &formats[shape->format];
    int64_t units = unit_count(shape);
    uint8_t *blocks = panel + units * unit_bytes(f);
    for (int64_t u = 0; u < units; u++) {
        unit_row values = {0};
        uint8_t *unit = panel + u * unit_bytes(f);
        f->unpack(shape, row, type, u, &values);
        if (f->bits == 16)
            place_half(unit, output, &values);
        else if (f->bits == 8)
            place_bytes(unit, output, &values);
        else
            place_nibbles(unit, output, &values, f->bits);
        place_scales(f, unit, output, &values);
        if (f->block_bytes && u % UNITS_PER_BLOCK == 0)
            place_block(f, blocks + u / UNITS_PER_BLOCK * f->block_bytes,
                        output, &values);
    }
}

/* Numbers that are finite in the file and not in the 16-bit type. */
static spt_status check_half(const spt_linear_shape *shape,
                             const spt_linear_part *part, spt_error *err)
{
    double largest = shape->dtype == SPT_FP16 ? 65519.99 : 3.3961e38;
    if (shape->format != SPT_LINEAR_HALF || part->type == SPT_WEIGHT_F16 ||
        (part->type == SPT_WEIGHT_BF16 && shape->dtype == SPT_BF16))
        return SPT_OK;
    for (int64_t i = 0; i < part->outputs * shape->inputs; i++) {
        float value = half_value(part->data, part->type, i);
        if (isfinite(value) && fabs((double)value) > largest)
            return spt_fail(err, SPT_E_USAGE,
                            "linear: weight %g at row %lld does not fit %s",
                            (double)value, (long long)(i / shape->inputs),
                            spt_half_name(shape->dtype));
    }
    return SPT_OK;
}

static spt_status check_parts(const spt_linear_shape *shape,
                              const spt_linear_part *parts, size_t count,
                              spt_error *err)
{
    int64_t outputs = 0;
    for (size_t i = 0; i < count; i++) {
        const spt_weight_format *type = spt_weight_format_of(parts[i].type);
        spt_linear_format found;
        if (!spt_linear_format_of(parts[i].type, &found) ||
            found != shape->format)
            return spt_fail(err, SPT_E_USAGE,
                            "linear: weights of type %s, expected %s",
                            type->name, spt_linear_format_name(shape->format));
        if (shape->inputs <= 0 || shape->inputs % 8 ||
            shape->inputs % type->block_weights)
            return spt_fail(err, SPT_E_USAGE,
                            "linear: %lld inputs of type %s, expected a "
                            "multiple of %d",
                            (long long)shape->inputs, type->name,
                            type->block_weights > 8 ? type->block_weights : 8);
        if (parts[i].outputs <= 0 ||
            (shape->gated && parts[i].outputs != shape->outputs))
            return spt_fail(err, SPT_E_USAGE, "linear: part %zu has %lld rows",
                            i, (long long)parts[i].outputs);
        outputs += parts[i].outputs;
        SPT_TRY(check_half(shape, &parts[i], err));
    }
    int64_t expected = shape->outputs * (shape->gated ? 2 : 1);
    if (outputs != expected)
        return spt_fail(err, SPT_E_USAGE,
                        "linear: %lld rows in %zu parts, expected %lld",
                        (long long)outputs, count, (long long)expected);
    return SPT_OK;
}

spt_status spt_linear_pack(const spt_linear_shape *shape,
                           const spt_linear_part *parts, size_t count,
                           void *packed, spt_error *err)
{
    SPT_TRY(check_parts(shape, parts, count, err));
    size_t bytes = spt_linear_panel_bytes(shape);
    int64_t n = 0;
    memset(packed, 0, spt_linear_bytes(shape));
    for (size_t i = 0; i < count; i++) {
        size_t row = spt_weight_bytes(parts[i].type, (uint64_t)shape->inputs);
        const uint8_t *data = parts[i].data;
        /* Gate and up panels take turns. */
        int64_t turn = shape->gated ? (int64_t)i : 0;
        n = shape->gated ? 0 : n;
        for (int64_t r = 0; r < parts[i].outputs; r++, n++) {
            int64_t panel = n / PANEL * (shape->gated ? 2 : 1) + turn;
            pack_row(shape, data + (size_t)r * row, parts[i].type,
                     (int)(n % PANEL),
                     (uint8_t *)packed + (size_t)panel * bytes);
        }
    }
    return SPT_OK;
}
