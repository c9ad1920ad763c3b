-- Logit bias and penalties: the few logits that they change, in place, before a
-- token is drawn; afterwards put back where the logits as they were are asked
-- for. One CTA a row.

return {
  name = "adjust",
  title = "logit bias and penalties on rows of logits",
  problem = {},
  params = {
    { name = "threads", type = "int", values = { 128, 64, 256 },
      doc = "per row of logits" },
  },
  constraints = {},
  launch = function(p)
    return { threads = p.threads, shared_bytes = 0, min_ctas = 1 }
  end,
  key = function()
    return "adjust-1"
  end,
  symbol = function(p)
    return string.format("adjust_t%d", p.threads)
  end,
}
