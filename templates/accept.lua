-- Which drafts become text: one warp a sequence walks from the anchor to the
-- child that has the target's token, as long as there is one. A lane is a node.

return {
  name = "accept",
  title = "accepted path of draft blocks, by the target's tokens",
  problem = {
    { name = "tree", type = "bool", default = false,
      doc = "draft blocks are trees, given by parents" },
  },
  params = {},
  constraints = {},
  launch = function()
    return { threads = 32, shared_bytes = 0, min_ctas = 0 }
  end,
  key = function()
    return "accept-1"
  end,
  symbol = function(p)
    return p.tree and "accept_tree" or "accept"
  end,
}
