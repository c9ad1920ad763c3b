-- NVIDIA RTX PRO 5000 Blackwell 48 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm120",
  title = "NVIDIA RTX PRO 5000 Blackwell 48 GB",
  sm_count = {110, "SMs", "product specification"},
  clock_mhz = {2617, "MHz", "boost clock, product specification"},
  dram_gbps = {1344, "GB/s", "product specification"},
  dram_efficiency = {0.9, "fraction", "assumed: as rtx_5090"},
  l2_gbps = {
    4600, "GB/s",
    "assumed: L40 by SMs and clock with 10 % more per SM",
  },
  l2_bytes = {96 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    47.4 * 2^30, "bytes",
    "assumed: the share of other boards of the series",
  },
  bf16_tflops = {
    294.8, "TFLOPS",
    "derived: 110 SMs, 2617 MHz, 1024 FLOP per SM and clock",
  },
  fp8_tflops = {
    589.6, "TFLOPS",
    "derived: 110 SMs, 2617 MHz, 2048 FLOP per SM and clock",
  },
  link_gbps = {64, "GB/s", "PCIe 5.0 x16"},
  l2_latency_ns = {130, "ns", "assumed: L40 and a larger die"},
  dram_latency_ns = {280, "ns", "assumed: L40 and GDDR7"},
}
