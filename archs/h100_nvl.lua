-- NVIDIA H100 NVL 94 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm90",
  title = "NVIDIA H100 NVL 94 GB",
  sm_count = {132, "SMs", "product specification"},
  clock_mhz = {
    1545, "MHz",
    "derived: 835 TFLOPS over 132 SMs at 4096 FLOP per SM and clock",
  },
  dram_gbps = {3938, "GB/s", "NVIDIA H100 NVL data sheet"},
  dram_efficiency = {0.85, "fraction", "assumed: between H100 SXM5 and H200"},
  l2_gbps = {8200, "GB/s", "assumed: GH200 by clock"},
  l2_bytes = {50 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    93.1 * 2^30, "bytes",
    "total capacity in PyTorch's out-of-memory messages",
  },
  bf16_tflops = {835, "TFLOPS", "NVIDIA H100 NVL data sheet"},
  fp8_tflops = {1671, "TFLOPS", "NVIDIA H100 NVL data sheet"},
  link_gbps = {300, "GB/s", "NVIDIA H100 NVL data sheet"},
  l2_latency_ns = {170, "ns", "assumed: GH200 by clock"},
  dram_latency_ns = {355, "ns", "assumed: as h100_sxm"},
}
