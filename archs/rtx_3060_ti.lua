-- NVIDIA GeForce RTX 3060 Ti 8 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm86",
  title = "NVIDIA GeForce RTX 3060 Ti 8 GB",
  sm_count = {38, "SMs", "product specification"},
  clock_mhz = {1665, "MHz", "boost clock, product specification"},
  dram_gbps = {448, "GB/s", "product specification"},
  dram_efficiency = {0.9, "fraction", "assumed: as rtx_3090"},
  l2_gbps = {1300, "GB/s", "assumed: 21 bytes per SM and clock"},
  l2_bytes = {4 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    7.6 * 2^30, "bytes",
    "assumed: the share of other boards of the series",
  },
  bf16_tflops = {
    32.4, "TFLOPS",
    "derived: 38 SMs, 1665 MHz, 512 FLOP per SM and clock",
  },
  fp8_tflops = {0, "TFLOPS", "none"},
  link_gbps = {32, "GB/s", "PCIe 4.0 x16"},
  l2_latency_ns = {140, "ns", "assumed: as A100"},
  dram_latency_ns = {300, "ns", "assumed: between L40 and A100"},
}
