-- Drafts from the text itself: one CTA a sequence goes over the ends of
-- matches from the most recent one back, a thread an end, and stops at the
-- stretch that holds the last match that is wanted.

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
    return "ngram-2"
  end,
  symbol = function()
    return "ngram"
  end,
}
