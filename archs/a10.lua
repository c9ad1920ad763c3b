-- NVIDIA A10 24 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm86",
  title = "NVIDIA A10 24 GB",
  sm_count = {72, "SMs", "product specification"},
  clock_mhz = {1695, "MHz", "boost clock, product specification"},
  dram_gbps = {600, "GB/s", "product specification"},
  dram_efficiency = {0.9, "fraction", "assumed: as rtx_3090"},
  l2_gbps = {2600, "GB/s", "assumed: 21 bytes per SM and clock"},
  l2_bytes = {6 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    22.1 * 2^30, "bytes",
    "assumed: the share of other boards of the series",
  },
  bf16_tflops = {
    125, "TFLOPS",
    "derived: 72 SMs, 1695 MHz, 1024 FLOP per SM and clock",
  },
  fp8_tflops = {0, "TFLOPS", "none"},
  link_gbps = {32, "GB/s", "PCIe 4.0 x16"},
  l2_latency_ns = {140, "ns", "assumed: as A100"},
  dram_latency_ns = {300, "ns", "assumed: between L40 and A100"},
}
