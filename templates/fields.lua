-- Values that several kernels are asked for: rows of their problem.

local fields = {
  group = { name = "group", type = "int", min = 1, max = 128,
    doc = "query heads per KV head" },
  -- Of attention; others take any.
  head_dim = { name = "head_dim", type = "int",
    values = { 64, 80, 96, 128, 256 }, doc = "numbers per head" },
  page_size = { name = "page_size", type = "int", min = 0, max = 65536,
    default = 0, doc = "tokens per KV page; 0 = contiguous KV" },
  tree = { name = "tree", type = "bool", default = false,
    doc = "the draft block is a tree, given by ancestor bits" },
  window = { name = "window", type = "bool", default = false,
    doc = "a row sees only the last positions" },
}

-- One of the 16-bit types.
function fields.half(name, doc)
  return { name = name, type = "string", values = { "bf16", "fp16" },
    default = "bf16", doc = doc }
end

-- Or fp32.
function fields.float(name, default, doc)
  return { name = name, type = "string", values = { "fp32", "bf16", "fp16" },
    default = default, doc = doc }
end

return fields
