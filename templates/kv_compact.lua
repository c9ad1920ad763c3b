-- Moves the KV of an accepted path to the front of its draft block. A thread
-- has its own column of 16 bytes and goes along the path, so that no slot is
-- overwritten before it was read.

local fields = include("fields")

local THREADS = 128

return {
  name = "kv_compact",
  title = "KV of an accepted path, made contiguous",
  problem = { fields.page_size },
  params = {},
  constraints = {},
  launch = function()
    return { threads = THREADS, shared_bytes = 0, min_ctas = 0 }
  end,
  key = function()
    return "kv_compact-1"
  end,
  symbol = function(p)
    return string.format("kv_compact_p%d", p.page_size)
  end,
}
