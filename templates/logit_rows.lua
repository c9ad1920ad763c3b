-- The descriptor of a kernel over rows of logits: one CTA a row.

local logit_rows = {}

function logit_rows.kernel(name, version, title, threads)
  return {
    name = name,
    title = title,
    problem = {},
    params = {
      { name = "threads", type = "int", values = threads,
        doc = "per row of logits" },
    },
    constraints = {},
    launch = function(p)
      return { threads = p.threads, shared_bytes = 0, min_ctas = 1 }
    end,
    key = function()
      return name .. "-" .. version
    end,
    symbol = function(p)
      return string.format("%s_t%d", name, p.threads)
    end,
  }
end

return logit_rows
