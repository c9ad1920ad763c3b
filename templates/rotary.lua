-- Per-head norm, rotation and KV append of a step's tokens: one warp per
-- (token, head) of q, k and v. A lane takes quads, two pairs each.

local fields = include("fields")

local WARPS = 4

local function rotated(p)
  return p.rotary_dim > 0 and p.rotary_dim or p.head_dim
end

local function flags(p, separator)
  return (p.qk_norm and separator .. "norm" or "")
    .. (p.offset and separator .. "offset" or "")
end

return {
  name = "rotary",
  title = "norm of q and k, rotary embedding, append to the KV cache",
  problem = {
    { name = "head_dim", type = "int", min = 8, max = 512,
      doc = "numbers per head" },
    { name = "rotary_dim", type = "int", min = 0, max = 512, default = 0,
      doc = "numbers of a head that are rotated; 0 = all" },
    { name = "layout", type = "string", values = { "neox", "norm" },
      default = "neox", doc = "pairs are halves apart (neox) or neighbours" },
    fields.float("in_type", "fp32", "type of q, k and v as the linears give them"),
    fields.half("dtype", "type of the rotated queries and of the KV"),
    fields.page_size,
    fields.tree,
    { name = "qk_norm", type = "bool", default = false,
      doc = "RMS norm of each head of q and k first" },
    { name = "offset", type = "bool", default = false,
      doc = "the norm's weight is 1 + w" },
  },
  params = {},
  constraints = {
    { "head_dim is a multiple of 8", function(p)
      return p.head_dim % 8 == 0
    end },
    { "rotary_dim is a multiple of 4, at most head_dim", function(p)
      return rotated(p) % 4 == 0 and rotated(p) <= p.head_dim
    end },
    { "offset needs qk_norm", function(p)
      return p.qk_norm or not p.offset
    end },
  },
  launch = function()
    return { threads = 32 * WARPS, shared_bytes = 0, min_ctas = 0 }
  end,
  key = function(p)
    return string.format("rotary-1 d%d r%d %s %s %s%s", p.head_dim, rotated(p),
      p.layout, p.in_type, p.dtype, flags(p, " "))
  end,
  symbol = function(p)
    return string.format("rotary_d%d_r%d_%s_%s_%s_p%d%s%s", p.head_dim,
      rotated(p), p.layout, p.in_type, p.dtype, p.page_size,
      p.tree and "_tree" or "", flags(p, "_"))
  end,
  derive = function(p)
    local quads = p.head_dim // 4
    return {
      ROTATED = rotated(p),
      WARPS = WARPS,
      QUADS = quads,
      PER_LANE = (quads + 31) // 32,
      NEOX = p.layout == "neox",
    }
  end,
}
