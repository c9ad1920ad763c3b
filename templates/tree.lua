-- Ancestor bits of draft trees: one warp a sequence, a lane a node.

return {
  name = "tree",
  title = "ancestor bits of draft trees, from parents",
  problem = {},
  params = {},
  constraints = {},
  launch = function()
    return { threads = 32, shared_bytes = 0, min_ctas = 0 }
  end,
  key = function()
    return "tree-1"
  end,
  symbol = function()
    return "tree"
  end,
}
