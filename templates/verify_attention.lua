-- Attention of 1 + D draft rows per sequence over its KV cache: one partial
-- result per (sequence, KV head, chunk of positions, row), merged by combine.
-- KV tokens stand on the M side of mma.sync, query rows on its N side, so that
-- rows come in steps of 8. See templates/README.md for what fixes the bits.

local fields = include("fields")

local HALF = 2 -- bytes of a bf16 or fp16 number

-- KV warps belong to the reduction key: chosen by head dim alone.
local function kv_warps(p)
  return p.head_dim > 128 and 2 or 4
end

local function row_bytes(p)
  return p.head_dim * HALF + 16
end

local function stage_bytes(p)
  return 2 * 16 * kv_warps(p) * row_bytes(p)
end

local function threads(p)
  return 32 * kv_warps(p) * p.row_warps
end

local function pages_bytes(p)
  return p.page_size > 0 and 4 * (p.chunk // p.page_size + 2) or 0
end

-- Stages, the merge of the KV warps and the draft block share one region.
local function queries_offset(p)
  local merge = p.rows * (p.head_dim + 4) * 4 + kv_warps(p) * p.rows * 8
  local bytes = math.max(p.stages * stage_bytes(p), merge)
  if p.tree then
    bytes = math.max(bytes, stage_bytes(p) + 2 * 33 * row_bytes(p))
  end
  return (bytes + 127) // 128 * 128
end

local function shared_bytes(p)
  local bytes = queries_offset(p) + p.rows * row_bytes(p) + p.rows * 4
  return bytes + pages_bytes(p)
end

local function tiles(p)
  return p.rows // p.row_warps // 8
end

-- Accumulators, scores, queries kept in registers, and about 72 more.
local function registers(p)
  local output = p.head_dim // 16 * tiles(p) * 4
  local queries = tiles(p) * p.head_dim // 8
  return output + 4 * tiles(p) + (queries <= 32 and queries or 8) + 72
end

return {
  name = "verify_attention",
  title = "attention of a draft block over a KV cache, by chunks",
  problem = {
    fields.group,
    fields.head_dim,
    fields.half("dtype", "type of queries, KV, weights and output"),
    fields.page_size,
    fields.tree,
    fields.window,
    { name = "softcap", type = "bool", default = false,
      doc = "logits pass cap * tanh(x / cap)" },
  },
  params = {
    { name = "chunk", type = "int", values = { 256, 512, 1024 },
      doc = "KV tokens per CTA, at absolute positions; part of the key" },
    { name = "rows", type = "int",
      values = { 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 128 },
      doc = "query rows per CTA" },
    { name = "row_warps", type = "int", values = { 1, 2, 4 },
      doc = "warps that share out the rows" },
    { name = "stages", type = "int", values = { 2, 3, 4, 5 },
      doc = "KV steps in shared memory" },
  },
  constraints = {
    { "rows are a multiple of 8 * row_warps", function(p)
      return p.rows % (8 * p.row_warps) == 0
    end },
    { "shared memory of a CTA", function(p, b)
      return shared_bytes(p) <= b.shared_per_cta_bytes
    end },
    { "registers of a thread and of a multiprocessor", function(p, b)
      return registers(p) <= b.max_registers_per_thread
        and registers(p) * threads(p) <= b.registers_per_sm
    end },
    { "no row warps without need: 16 rows each, 8 above head dim 128", function(p)
      return p.row_warps == 1
        or p.rows >= (p.head_dim > 128 and 8 or 16) * p.row_warps
    end },
  },
  launch = function(p)
    return { threads = threads(p), shared_bytes = shared_bytes(p),
      min_ctas = 1 }
  end,
  key = function(p)
    return string.format(
      "attention-1 %s d%d chunk%d step%d warps%d m16n8k16 ex2%s%s", p.dtype,
      p.head_dim, p.chunk, 16 * kv_warps(p), kv_warps(p),
      p.window and " window" or "", p.softcap and " softcap" or "")
  end,
  symbol = function(p)
    return string.format("verify_attention_%s_d%d_g%d_p%d%s%s%s_c%d_r%dx%d_s%d",
      p.dtype, p.head_dim, p.group, p.page_size, p.tree and "_tree" or "",
      p.window and "_window" or "", p.softcap and "_softcap" or "", p.chunk,
      p.rows, p.row_warps, p.stages)
  end,
  derive = function(p)
    return {
      KV_WARPS = kv_warps(p),
      N_TILES = tiles(p),
      MMA_TYPE = p.dtype == "bf16" and "bf16" or "f16",
      Q_OFFSET = queries_offset(p),
      Q_IN_REGISTERS = tiles(p) * p.head_dim // 8 <= 32,
      MIN_CTAS = 1,
      EXPONENT = p.dtype == "bf16" and 0x7f807f80 or 0x7c007c00,
      EXPONENT_ONE = p.dtype == "bf16" and 0x00800080 or 0x04000400,
    }
  end,
}
