-- Drafts from the text itself: one CTA a sequence goes over the ends of
-- matches from the most recent one back, a thread an end, and stops at the
-- first stretch that holds the answer.

local THREADS = 512

return {
  name = "ngram",
  title = "drafts from what followed the last tokens before",
  problem = {},
  params = {},
  constraints = {},
  launch = function()
    return { threads = THREADS, shared_bytes = 0, min_ctas = 0 }
  end,
  key = function()
    return "ngram-1"
  end,
  symbol = function()
    return "ngram"
  end,
}
