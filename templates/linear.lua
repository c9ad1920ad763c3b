-- Rows of x times a matrix of weights. Outputs stand on the M side of mma.sync
-- (panels of 16), rows on its N side in steps of 8. Weights come packed
-- (runtime/kernels/linear.h) and are decoded in registers; scales are applied
-- to the sums of their inputs in fp32, so that decoding rounds nothing.

local fields = include("fields")

local UNIT = 64 -- inputs of a unit, one pipeline step of a warp

-- bits: of a number; pair: with minimum; small: scales are products with the
-- scale of a block of 256; group: inputs per scale; scales, block: bytes per
-- unit and per block; zero: what is subtracted from the number.
local FORMATS = {
  half = { bits = 16, scales = 0, block = 0, group = 32, zero = 0 },
  q4_0 = { bits = 4, scales = 64, block = 0, group = 32, zero = 8 },
  q4_1 = { bits = 4, scales = 128, block = 0, group = 32, zero = 0, pair = true },
  q5_0 = { bits = 5, scales = 64, block = 0, group = 32, zero = 16 },
  q5_1 = { bits = 5, scales = 128, block = 0, group = 32, zero = 0, pair = true },
  q8_0 = { bits = 8, scales = 64, block = 0, group = 32, zero = 128 },
  q4_k = { bits = 4, scales = 64, block = 64, group = 32, zero = 0,
    pair = true, small = true },
  q5_k = { bits = 5, scales = 64, block = 64, group = 32, zero = 0,
    pair = true, small = true },
  q6_k = { bits = 6, scales = 64, block = 32, group = 16, zero = 32, small = true },
}

local function unit_bytes(p)
  local f = FORMATS[p.weight]
  return 128 * f.bits + f.scales
end

-- One unit of x and of all panels, as one warp stages it.
local function stage_bytes(p)
  return p.rows * UNIT * 2
    + p.panels * (unit_bytes(p) + FORMATS[p.weight].block)
end

local function shared_bytes(p)
  local merge = p.k_warps * p.rows * (16 * p.panels + 4) * 4
  return math.max(p.k_warps * p.stages * stage_bytes(p), merge)
end

-- The two blocks of a unit are one text where it is short enough.
local function unrolled(p)
  return p.rows * p.panels <= 64
end

-- Mma that make up one product: bf16 holds a byte as two floats.
local function planes(p)
  return FORMATS[p.weight].bits == 8 and p.dtype == "bf16" and 2 or 1
end

-- Accumulators, a decoded block of every panel, and what the assembler takes
-- to overlap tiles: it spills when it has not got it.
local function registers(p)
  local base = (unrolled(p) and 56 or 36) + 40 * planes(p)
  return p.rows // 2 * p.panels + 24 * p.panels + base
end

-- How many CTAs shared memory and registers leave room for.
local function min_ctas(p, b)
  local shared = shared_bytes(p) + b.shared_reserved_bytes
  return math.max(1, math.min(b.shared_per_sm_bytes // shared,
    b.registers_per_sm // (32 * p.k_warps * registers(p))))
end

-- The constant that the decoded numbers carry: the exponent that holds them,
-- and what the format subtracts.
local function bias(p)
  local f = FORMATS[p.weight]
  if p.dtype == "fp16" then
    return (f.bits == 8 and 1024 or 64) + f.zero
  end
  return (f.bits == 8 and 128 + 2048 or 128) + f.zero
end

return {
  name = "linear",
  title = "rows times a matrix of packed weights",
  problem = {
    fields.half("dtype", "type of x"),
    { name = "weight", type = "string",
      values = { "half", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k",
        "q6_k" },
      default = "half", doc = "format of the weights; half = dtype" },
    fields.float("out_type", "fp32", "type of the result"),
    { name = "gate", type = "string", values = { "none", "silu", "gelu" },
      default = "none", doc = "the result is this of a first matrix, times a second" },
    { name = "softcap", type = "bool", default = false,
      doc = "results are capped: c tanh(x / c)" },
  },
  params = {
    { name = "rows", type = "int", values = { 8, 16, 24, 32, 40, 48, 56, 64 },
      doc = "rows of x per CTA" },
    { name = "k_warps", type = "int", values = { 4, 8, 2, 1 },
      doc = "warps that share out the inputs; part of the key" },
    { name = "panels", type = "int", values = { 2, 4, 1 },
      doc = "of 16 outputs per CTA" },
    { name = "stages", type = "int", values = { 4, 3, 2 },
      doc = "units of a warp in shared memory" },
  },
  constraints = {
    { "gate and up are panels of one CTA", function(p)
      return p.gate == "none" or p.panels % 2 == 0
    end },
    { "accumulators of a thread: rows * panels at most 128", function(p)
      return p.rows * p.panels <= 128
    end },
    { "shared memory of a CTA", function(p, b)
      return shared_bytes(p) <= b.shared_per_cta_bytes
    end },
  },
  launch = function(p, b)
    return { threads = 32 * p.k_warps, shared_bytes = shared_bytes(p),
      min_ctas = min_ctas(p, b) }
  end,
  key = function(p)
    return string.format("linear-1 %s %s unit%d warps%d m16n8k16 %s %s%s", p.dtype,
      p.weight, UNIT, p.k_warps, p.out_type, p.gate,
      p.softcap and " softcap" or "")
  end,
  symbol = function(p)
    return string.format("linear_%s_%s_%s%s%s_r%d_k%d_p%d_s%d", p.dtype, p.weight,
      p.out_type, p.gate == "none" and "" or "_" .. p.gate,
      p.softcap and "_softcap" or "", p.rows, p.k_warps, p.panels, p.stages)
  end,
  derive = function(p, b)
    local f = FORMATS[p.weight]
    return {
      UNIT_BYTES = unit_bytes(p),
      BLOCK_BYTES = f.block,
      BITS = f.bits,
      SCALES_OFFSET = 128 * f.bits,
      PAIR = f.pair or false,
      SMALL = f.small or false,
      GROUPS = UNIT // f.group,
      BIAS = bias(p),
      BLOCK_UNROLL = unrolled(p) and 2 or 1,
      MIN_CTAS = min_ctas(p, b),
      PLANES = planes(p),
      MMA_TYPE = p.dtype == "bf16" and "bf16" or "f16",
      OUT_MMA_TYPE = p.out_type == "bf16" and "bf16" or "f16",
      FLOAT_OUT = p.out_type == "fp32",
    }
  end,
}
