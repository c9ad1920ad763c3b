-- NVIDIA GeForce RTX 3080 Ti 12 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm86",
  title = "NVIDIA GeForce RTX 3080 Ti 12 GB",
  sm_count = {80, "SMs", "product specification"},
  clock_mhz = {1665, "MHz", "boost clock, product specification"},
  dram_gbps = {912, "GB/s", "product specification"},
  dram_efficiency = {0.9, "fraction", "assumed: as rtx_3090"},
  l2_gbps = {2800, "GB/s", "assumed: 21 bytes per SM and clock"},
  l2_bytes = {6 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    11.6 * 2^30, "bytes",
    "assumed: the share of other boards of the series",
  },
  bf16_tflops = {
    68.2, "TFLOPS",
    "derived: 80 SMs, 1665 MHz, 512 FLOP per SM and clock",
  },
  fp8_tflops = {0, "TFLOPS", "none"},
  link_gbps = {32, "GB/s", "PCIe 4.0 x16"},
  l2_latency_ns = {140, "ns", "assumed: as A100"},
  dram_latency_ns = {300, "ns", "assumed: between L40 and A100"},
}
