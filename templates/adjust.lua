-- Logit bias and penalties: the few logits that they change, in place, before a
-- token is drawn; afterwards put back where the logits as they were are asked
-- for. One CTA a row.

local logit_rows = include("logit_rows")

return logit_rows.kernel("adjust", 1, "logit bias and penalties on rows of logits",
  { 128, 64, 256 })
