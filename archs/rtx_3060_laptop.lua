-- NVIDIA GeForce RTX 3060 Laptop 6 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm86",
  title = "NVIDIA GeForce RTX 3060 Laptop 6 GB",
  sm_count = {30, "SMs", "product specification"},
  clock_mhz = {1703, "MHz", "boost clock, product specification"},
  dram_gbps = {336, "GB/s", "product specification"},
  dram_efficiency = {0.9, "fraction", "assumed: as rtx_3090"},
  l2_gbps = {1100, "GB/s", "assumed: 21 bytes per SM and clock"},
  l2_bytes = {3 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    5.7 * 2^30, "bytes",
    "assumed: the share of other boards of the series",
  },
  bf16_tflops = {
    26.2, "TFLOPS",
    "derived: 30 SMs, 1703 MHz, 512 FLOP per SM and clock",
  },
  fp8_tflops = {0, "TFLOPS", "none"},
  link_gbps = {16, "GB/s", "PCIe 4.0 x8"},
  l2_latency_ns = {140, "ns", "assumed: as A100"},
  dram_latency_ns = {300, "ns", "assumed: between L40 and A100"},
}
