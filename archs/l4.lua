-- NVIDIA L4 24 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm89",
  title = "NVIDIA L4 24 GB",
  sm_count = {58, "SMs", "product specification"},
  clock_mhz = {2040, "MHz", "boost clock, product specification"},
  dram_gbps = {300, "GB/s", "product specification"},
  dram_efficiency = {0.91, "fraction", "assumed: as l40s"},
  l2_gbps = {1700, "GB/s", "assumed: L40 by SMs and clock"},
  l2_bytes = {48 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    22.1 * 2^30, "bytes",
    "assumed: the share of other boards of the series",
  },
  bf16_tflops = {
    121.2, "TFLOPS",
    "derived: 58 SMs, 2040 MHz, 1024 FLOP per SM and clock",
  },
  fp8_tflops = {
    242.4, "TFLOPS",
    "derived: 58 SMs, 2040 MHz, 2048 FLOP per SM and clock",
  },
  link_gbps = {32, "GB/s", "PCIe 4.0 x16"},
  l2_latency_ns = {113, "ns", "assumed: as rtx_4090"},
  dram_latency_ns = {226, "ns", "assumed: as rtx_4090"},
}
