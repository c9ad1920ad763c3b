-- What log-probabilities are made of: each row's highest logit, the exact sum of
-- its integer probabilities, a token's logit and the most probable tokens. One
-- CTA a row; the host takes the logarithm of the sum.

local logit_rows = include("logit_rows")

return logit_rows.kernel("logprobs", 1,
  "sums and most probable tokens of rows of logits", { 512, 1024, 256 })
