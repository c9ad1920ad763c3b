-- What log-probabilities are made of: each row's highest logit, the exact sum of
-- its integer probabilities, a token's logit and the most probable tokens. One
-- CTA a row; the host takes the logarithm of the sum.

return {
  name = "logprobs",
  title = "sums and most probable tokens of rows of logits",
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
    return "logprobs-1"
  end,
  symbol = function(p)
    return string.format("logprobs_t%d", p.threads)
  end,
}
