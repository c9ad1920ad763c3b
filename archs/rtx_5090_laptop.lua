-- NVIDIA GeForce RTX 5090 Laptop 24 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm120",
  title = "NVIDIA GeForce RTX 5090 Laptop 24 GB",
  sm_count = {82, "SMs", "product specification"},
  clock_mhz = {2160, "MHz", "boost clock, product specification"},
  dram_gbps = {896, "GB/s", "product specification"},
  dram_efficiency = {0.9, "fraction", "assumed: as rtx_5090"},
  l2_gbps = {
    2900, "GB/s",
    "assumed: L40 by SMs and clock with 10 % more per SM",
  },
  l2_bytes = {64 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    23.4 * 2^30, "bytes",
    "assumed: the share of other boards of the series",
  },
  bf16_tflops = {
    90.7, "TFLOPS",
    "derived: 82 SMs, 2160 MHz, 512 FLOP per SM and clock",
  },
  fp8_tflops = {
    181.4, "TFLOPS",
    "derived: 82 SMs, 2160 MHz, 1024 FLOP per SM and clock",
  },
  link_gbps = {32, "GB/s", "PCIe 5.0 x8"},
  l2_latency_ns = {130, "ns", "assumed: L40 and a larger die"},
  dram_latency_ns = {280, "ns", "assumed: L40 and GDDR7"},
}
