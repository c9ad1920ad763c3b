-- NVIDIA GeForce RTX 4070 Ti SUPER 16 GB. Fields, units and bounds:
-- gen/facts.def.
return {
  kind = "board",
  arch = "sm89",
  title = "NVIDIA GeForce RTX 4070 Ti SUPER 16 GB",
  sm_count = {66, "SMs", "product specification"},
  clock_mhz = {2610, "MHz", "boost clock, product specification"},
  dram_gbps = {672, "GB/s", "product specification"},
  dram_efficiency = {0.91, "fraction", "assumed: as l40s"},
  l2_gbps = {2500, "GB/s", "assumed: L40 by SMs and clock"},
  l2_bytes = {48 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    15.6 * 2^30, "bytes",
    "assumed: the share of other boards of the series",
  },
  bf16_tflops = {
    88.2, "TFLOPS",
    "derived: 66 SMs, 2610 MHz, 512 FLOP per SM and clock",
  },
  fp8_tflops = {
    176.4, "TFLOPS",
    "derived: 66 SMs, 2610 MHz, 1024 FLOP per SM and clock",
  },
  link_gbps = {32, "GB/s", "PCIe 4.0 x16"},
  l2_latency_ns = {113, "ns", "assumed: as rtx_4090"},
  dram_latency_ns = {226, "ns", "assumed: as rtx_4090"},
}
