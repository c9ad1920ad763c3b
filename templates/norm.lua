-- RMS norm of rows: one CTA a row, the row in registers between the sum of its
-- squares and the result. Threads follow from the width alone.

local fields = include("fields")

local function threads(p)
  local vectors = p.width // 8
  return math.min(512, (vectors + 31) // 32 * 32)
end

local function flags(p, separator)
  return (p.offset and separator .. "offset" or "")
    .. (p.add and separator .. "add" or "")
    .. (p.next_type ~= "none" and separator .. "then" .. separator
      .. p.next_type or "")
end

return {
  name = "norm",
  title = "RMS norm of rows, into or onto the residual stream",
  problem = {
    { name = "width", type = "int", min = 8, max = 32768,
      doc = "numbers per row" },
    fields.float("in_type", "fp32", "type of the rows that are normed"),
    fields.float("out_type", "bf16", "type of the result"),
    { name = "offset", type = "bool", default = false,
      doc = "the weight is 1 + w" },
    { name = "add", type = "bool", default = false,
      doc = "the result is added to what out holds" },
    { name = "next_type", type = "string", values = { "none", "bf16", "fp16" },
      default = "none",
      doc = "type of the sum's own norm, by a second weight, which is written too" },
    { name = "gather", type = "bool", default = false,
      doc = "rows of in are named by an index" },
  },
  params = {},
  constraints = {
    { "width is a multiple of 8", function(p)
      return p.width % 8 == 0
    end },
    { "next_type needs add and out_type fp32", function(p)
      return p.next_type == "none" or p.add and p.out_type == "fp32"
    end },
  },
  launch = function(p)
    return { threads = threads(p), shared_bytes = 0, min_ctas = 0 }
  end,
  key = function(p)
    return string.format("norm-1 w%d t%d %s %s%s", p.width, threads(p),
      p.in_type, p.out_type, flags(p, " "))
  end,
  symbol = function(p)
    return string.format("norm_w%d_%s_%s%s%s", p.width, p.in_type, p.out_type,
      flags(p, "_"), p.gather and "_gather" or "")
  end,
  derive = function(p)
    local vectors = p.width // 8
    return {
      VECTORS = vectors,
      PER_THREAD = (vectors + threads(p) - 1) // threads(p),
      WARPS = threads(p) // 32,
      NEXT = p.next_type ~= "none",
      NORMS = p.next_type ~= "none" and 2 or 1,
    }
  end,
}
