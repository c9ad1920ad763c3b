-- Rows of logits in the ids of another vocabulary, a thread an id.

local THREADS = 256

return {
  name = "translate",
  title = "rows of logits in the ids of another vocabulary",
  problem = {},
  params = {},
  constraints = {},
  launch = function()
    return { threads = THREADS, shared_bytes = 0, min_ctas = 0 }
  end,
  key = function()
    return "translate-1"
  end,
  symbol = function()
    return "translate"
  end,
}
