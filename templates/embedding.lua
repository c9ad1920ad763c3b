-- Embedding lookup: a thread decodes eight neighbouring weights, of rows as a
-- file has them or of the packed matrix that a tied head is.

local THREADS = 128

-- Weights and bytes of a block; the plain types have eight weights to a block
-- here, as many as a thread takes. low: bytes before the nibbles; middle: what
-- is subtracted from the number, nil for types with an offset of their own.
local STORED = {
  f32 = { weights = 8, bytes = 32 },
  f16 = { weights = 8, bytes = 16 },
  bf16 = { weights = 8, bytes = 16 },
  q4_0 = { weights = 32, bytes = 18, low = 2, middle = 8 },
  q4_1 = { weights = 32, bytes = 20, low = 4 },
  q5_0 = { weights = 32, bytes = 22, low = 6, middle = 16, fifth = true },
  q5_1 = { weights = 32, bytes = 24, low = 8, fifth = true },
  q8_0 = { weights = 32, bytes = 34 },
  q4_k = { weights = 256, bytes = 144, low = 16, k = true },
  q5_k = { weights = 256, bytes = 176, low = 48, k = true, fifth = true },
  q6_k = { weights = 256, bytes = 210 },
}

-- Bits of a number, bytes of scales of a unit and of a block
-- (runtime/kernels/linear_formats.def).
local PACKED = {
  f16 = { bits = 16, scales = "none", scale = 0, block = 0 },
  bf16 = { bits = 16, scales = "none", scale = 0, block = 0 },
  q4_0 = { bits = 4, scales = "one", scale = 64, block = 0, middle = 8 },
  q4_1 = { bits = 4, scales = "pair", scale = 128, block = 0 },
  q5_0 = { bits = 5, scales = "one", scale = 64, block = 0, middle = 16 },
  q5_1 = { bits = 5, scales = "pair", scale = 128, block = 0 },
  q8_0 = { bits = 8, scales = "one", scale = 64, block = 0, middle = 128 },
  q4_k = { bits = 4, scales = "small_pair", scale = 64, block = 64 },
  q5_k = { bits = 5, scales = "small_pair", scale = 64, block = 64 },
  q6_k = { bits = 6, scales = "small", scale = 64, block = 32, middle = 32 },
}

local function packed_values(f)
  return {
    BITS = f.bits,
    SCALES = f.scales,
    SCALE_BYTES = f.scale,
    BLOCK_BYTES = f.block,
    MIDDLE = f.middle or 0,
  }
end

local function stored_values(f)
  return {
    BLOCK_WEIGHTS = f.weights,
    BLOCK_BYTES = f.bytes,
    LOW_BYTES = f.low or 0,
    MIDDLE = f.middle or 0,
    FIFTH = f.fifth or false,
    OFFSETS = f.low ~= nil and not f.middle,
    NIBBLES = f.low ~= nil and not f.k,
    K_NIBBLES = f.k or false,
  }
end

return {
  name = "embedding",
  title = "rows of an embedding table into the residual stream",
  problem = {
    { name = "weight", type = "string",
      values = { "f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0",
        "q4_k", "q5_k", "q6_k" },
      doc = "format of the table" },
    { name = "packed", type = "bool", default = false,
      doc = "the table is a matrix that was packed for linear" },
  },
  params = {},
  constraints = {
    { "f32 is packed as another type", function(p)
      return not p.packed or p.weight ~= "f32"
    end },
  },
  launch = function()
    return { threads = THREADS, shared_bytes = 0, min_ctas = 0 }
  end,
  -- Packed or not, a weight is the same number.
  key = function(p)
    return "embedding-1 " .. p.weight
  end,
  symbol = function(p)
    return "embedding_" .. p.weight .. (p.packed and "_packed" or "")
  end,
  derive = function(p)
    return p.packed and packed_values(PACKED[p.weight])
      or stored_values(STORED[p.weight])
  end,
}
