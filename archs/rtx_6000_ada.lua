-- NVIDIA RTX 6000 Ada 48 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm89",
  title = "NVIDIA RTX 6000 Ada 48 GB",
  sm_count = {142, "SMs", "product specification"},
  clock_mhz = {2505, "MHz", "boost clock, product specification"},
  dram_gbps = {960, "GB/s", "product specification"},
  dram_efficiency = {0.91, "fraction", "assumed: as l40s"},
  l2_gbps = {5200, "GB/s", "assumed: L40 by SMs and clock"},
  l2_bytes = {96 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    47.4 * 2^30, "bytes",
    "assumed: the share of other boards of the series",
  },
  bf16_tflops = {
    364.2, "TFLOPS",
    "derived: 142 SMs, 2505 MHz, 1024 FLOP per SM and clock",
  },
  fp8_tflops = {
    728.4, "TFLOPS",
    "derived: 142 SMs, 2505 MHz, 2048 FLOP per SM and clock",
  },
  link_gbps = {32, "GB/s", "PCIe 4.0 x16"},
  l2_latency_ns = {113, "ns", "assumed: as rtx_4090"},
  dram_latency_ns = {226, "ns", "assumed: as rtx_4090"},
}
