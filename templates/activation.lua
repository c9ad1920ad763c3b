-- Gated activation of rows: a thread takes eight numbers.

local TYPES = { "fp32", "bf16", "fp16" }
local THREADS = 128

return {
  name = "activation",
  title = "gated activation: act(gate) * up",
  problem = {
    { name = "gate", type = "string", values = { "silu", "gelu" },
      default = "silu", doc = "act; gelu is the one by tanh" },
    { name = "in_type", type = "string", values = TYPES, default = "fp32",
      doc = "type of gate and up" },
    { name = "out_type", type = "string", values = TYPES, default = "bf16",
      doc = "type of the result" },
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
