-- The token of each row of logits: the highest, or drawn with a random number
-- that belongs to (seed, position). One CTA a row; probabilities are integers,
-- so that no sum depends on its order.

return {
  name = "sample",
  title = "tokens from rows of logits",
  problem = {},
  params = {
    { name = "threads", type = "int", values = { 512, 1024, 256 },
      doc = "per row of logits" },
  },
  constraints = {},
  launch = function(p)
    return { threads = p.threads, shared_bytes = 0, min_ctas = 1 }
  end,
  key = function()
    return "sample-3"
  end,
  symbol = function(p)
    return string.format("sample_t%d", p.threads)
  end,
}
