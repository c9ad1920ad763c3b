-- NVIDIA GeForce RTX 3090 Ti 24 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm86",
  title = "NVIDIA GeForce RTX 3090 Ti 24 GB",
  sm_count = {84, "SMs", "product specification"},
  clock_mhz = {1860, "MHz", "boost clock, product specification"},
  dram_gbps = {1008, "GB/s", "product specification"},
  dram_efficiency = {0.9, "fraction", "assumed: as rtx_3090"},
  l2_gbps = {3300, "GB/s", "assumed: 21 bytes per SM and clock"},
  l2_bytes = {6 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    23.6 * 2^30, "bytes",
    "assumed: the share of other boards of the series",
  },
  bf16_tflops = {
    80, "TFLOPS",
    "derived: 84 SMs, 1860 MHz, 512 FLOP per SM and clock",
  },
  fp8_tflops = {0, "TFLOPS", "none"},
  link_gbps = {32, "GB/s", "PCIe 4.0 x16"},
  l2_latency_ns = {140, "ns", "assumed: as A100"},
  dram_latency_ns = {300, "ns", "assumed: between L40 and A100"},
}
