-- Copies rows that an index names, 16 bytes a thread.

local THREADS = 128

return {
  name = "gather",
  title = "rows by an index",
  problem = {},
  params = {},
  constraints = {},
  launch = function()
    return { threads = THREADS, shared_bytes = 0, min_ctas = 0 }
  end,
  key = function()
    return "gather-1"
  end,
  symbol = function()
    return "gather"
  end,
}
