-- Copies rows that an index names, to rows that another one names, in another
-- type; a thread has eight neighbouring numbers.

local fields = include("fields")

local THREADS = 128

return {
  name = "gather",
  title = "rows by an index, in another type",
  problem = {
    fields.float("in_type", "fp32", "type of the rows"),
    fields.float("out_type", "fp32", "type of their copies"),
  },
  params = {},
  constraints = {},
  launch = function()
    return { threads = THREADS, shared_bytes = 0, min_ctas = 0 }
  end,
  key = function(p)
    return string.format("gather-2 %s %s", p.in_type, p.out_type)
  end,
  symbol = function(p)
    return string.format("gather_%s_%s", p.in_type, p.out_type)
  end,
}
