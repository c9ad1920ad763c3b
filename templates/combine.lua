-- Merges the chunks' partial results of verify_attention, row by row, in an
-- order that positions alone decide, and writes output and LSE.

local fields = include("fields")

local WAYS = 4 -- chunk c is summed by way c % 4, ways are added in order

return {
  name = "combine",
  title = "merge of verify attention's chunks",
  problem = {
    fields.group,
    fields.head_dim,
    fields.half("dtype", "type of the output"),
    fields.tree,
    fields.window,
    { name = "sinks", type = "bool", default = false,
      doc = "one more logit per query head in the denominator" },
    { name = "chunk", type = "int", values = { 256, 512, 1024 },
      doc = "KV tokens per partial result" },
  },
  params = {},
  constraints = {},
  launch = function(p)
    return { threads = p.head_dim // 4 * WAYS, shared_bytes = 0, min_ctas = 0 }
  end,
  key = function(p)
    return string.format("combine-1 %s d%d chunk%d ways%d%s%s", p.dtype,
      p.head_dim, p.chunk, WAYS, p.window and " window" or "",
      p.sinks and " sinks" or "")
  end,
  symbol = function(p)
    return string.format("combine_%s_d%d_g%d%s%s%s_c%d", p.dtype, p.head_dim,
      p.group, p.tree and "_tree" or "", p.window and "_window" or "",
      p.sinks and "_sinks" or "", p.chunk)
  end,
  derive = function(p)
    return {
      MERGE_WAYS = WAYS,
      MMA_TYPE = p.dtype == "bf16" and "bf16" or "f16",
    }
  end,
}
