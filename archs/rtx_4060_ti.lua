-- NVIDIA GeForce RTX 4060 Ti 16 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm89",
  title = "NVIDIA GeForce RTX 4060 Ti 16 GB",
  sm_count = {34, "SMs", "product specification"},
  clock_mhz = {2535, "MHz", "boost clock, product specification"},
  dram_gbps = {288, "GB/s", "product specification"},
  dram_efficiency = {0.91, "fraction", "assumed: as l40s"},
  l2_gbps = {1300, "GB/s", "assumed: L40 by SMs and clock"},
  l2_bytes = {32 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    15.6 * 2^30, "bytes",
    "assumed: the share of other boards of the series",
  },
  bf16_tflops = {
    44.1, "TFLOPS",
    "derived: 34 SMs, 2535 MHz, 512 FLOP per SM and clock",
  },
  fp8_tflops = {
    88.2, "TFLOPS",
    "derived: 34 SMs, 2535 MHz, 1024 FLOP per SM and clock",
  },
  link_gbps = {16, "GB/s", "PCIe 4.0 x8"},
  l2_latency_ns = {113, "ns", "assumed: as rtx_4090"},
  dram_latency_ns = {226, "ns", "assumed: as rtx_4090"},
}
