-- NVIDIA RTX PRO 6000 Blackwell Max-Q 96 GB. Fields, units and bounds:
-- gen/facts.def.
return {
  kind = "board",
  arch = "sm120",
  title = "NVIDIA RTX PRO 6000 Blackwell Max-Q 96 GB",
  sm_count = {188, "SMs", "product specification"},
  clock_mhz = {2280, "MHz", "boost clock, product specification"},
  dram_gbps = {1792, "GB/s", "product specification"},
  dram_efficiency = {0.9, "fraction", "assumed: as rtx_5090"},
  l2_gbps = {
    6900, "GB/s",
    "assumed: L40 by SMs and clock with 10 % more per SM",
  },
  l2_bytes = {128 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    94.9 * 2^30, "bytes",
    "assumed: the share of other boards of the series",
  },
  bf16_tflops = {
    438.9, "TFLOPS",
    "derived: 188 SMs, 2280 MHz, 1024 FLOP per SM and clock",
  },
  fp8_tflops = {
    877.8, "TFLOPS",
    "derived: 188 SMs, 2280 MHz, 2048 FLOP per SM and clock",
  },
  link_gbps = {64, "GB/s", "PCIe 5.0 x16"},
  l2_latency_ns = {130, "ns", "assumed: L40 and a larger die"},
  dram_latency_ns = {280, "ns", "assumed: L40 and GDDR7"},
}
