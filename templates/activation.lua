-- Gated activation of rows: a thread takes eight numbers.

local fields = include("fields")
local THREADS = 128

return {
  name = "activation",
  title = "gated activation: act(gate) * up",
  problem = {
    { name = "gate", type = "string", values = { "silu", "gelu" },
      default = "silu", doc = "act; gelu is the one by tanh" },
    fields.float("in_type", "fp32", "type of gate and up"),
    fields.float("out_type", "bf16", "type of the result"),
  },
  params = {},
  constraints = {},
  launch = function()
    return { threads = THREADS, shared_bytes = 0, min_ctas = 0 }
  end,
  key = function(p)
    return string.format("activation-1 %s %s %s", p.gate, p.in_type, p.out_type)
  end,
  symbol = function(p)
    return string.format("activation_%s_%s_%s", p.gate, p.in_type, p.out_type)
  end,
}
