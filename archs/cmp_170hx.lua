-- NVIDIA CMP 170HX 8 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm80",
  title = "NVIDIA CMP 170HX 8 GB",
  sm_count = {70, "SMs", "product specification"},
  clock_mhz = {1410, "MHz", "boost clock, product specification"},
  dram_gbps = {1493, "GB/s", "product specification"},
  dram_efficiency = {
    0.87, "fraction",
    "assumed: as a100_sxm",
  },
  l2_gbps = {3500, "GB/s", "assumed: A100 by SMs"},
  l2_bytes = {8 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    7.9 * 2^30, "bytes",
    "assumed: the share of other boards",
  },
  bf16_tflops = {202, "TFLOPS", "assumed: A100 by SMs, not cut"},
  fp8_tflops = {0, "TFLOPS", "none"},
  link_gbps = {0.8, "GB/s", "PCIe 1.1 x4"},
  l2_latency_ns = {146, "ns", "assumed: as a100_sxm"},
  dram_latency_ns = {392, "ns", "assumed: as a100_sxm"},
}
