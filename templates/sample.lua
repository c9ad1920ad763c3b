-- The token of each row of logits: the highest, or drawn with a random number
-- that belongs to (seed, position). One CTA a row; probabilities are integers,
-- so that no sum depends on its order.

local logit_rows = include("logit_rows")

return logit_rows.kernel("sample", 3, "tokens from rows of logits",
  { 512, 1024, 256 })
