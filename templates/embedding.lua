-- Embedding lookup: a thread decodes eight neighbouring weights.

local THREADS = 128

-- Weights and bytes of a block; the plain types have eight weights to a block
-- here, as many as a thread takes. low: bytes before the nibbles; middle: what
-- is subtracted from the number, nil for types with an offset of their own.
local FORMATS = {
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

return {
  name = "embedding",
  title = "rows of an embedding table into the residual stream",
  problem = {
    { name = "weight", type = "string",
      values = { "f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0",
        "q4_k", "q5_k", "q6_k" },
      doc = "format of the table" },
  },
  params = {},
  constraints = {},
  launch = function()
    return { threads = THREADS, shared_bytes = 0, min_ctas = 0 }
  end,
  key = function(p)
    return "embedding-1 " .. p.weight
  end,
  symbol = function(p)
    return "embedding_" .. p.weight
  end,
  derive = function(p)
    local f = FORMATS[p.weight]
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
  end,
}
