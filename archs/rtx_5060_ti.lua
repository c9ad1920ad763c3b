-- NVIDIA GeForce RTX 5060 Ti 16 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm120",
  title = "NVIDIA GeForce RTX 5060 Ti 16 GB",
  sm_count = {36, "SMs", "product specification"},
  clock_mhz = {2572, "MHz", "boost clock, product specification"},
  dram_gbps = {448, "GB/s", "NVIDIA product page"},
  dram_efficiency = {0.9, "fraction", "assumed: as other GDDR7 boards"},
  l2_gbps = {
    1500, "GB/s",
    "assumed: L40 by SMs and clock with 10 % more per SM",
  },
  l2_bytes = {32 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    15.4 * 2^30, "bytes",
    "total capacity in PyTorch's out-of-memory messages",
  },
  bf16_tflops = {
    47.4, "TFLOPS",
    "derived: 36 SMs, 2572 MHz, 512 FLOP per SM and clock",
  },
  fp8_tflops = {
    94.8, "TFLOPS",
    "derived: 36 SMs, 2572 MHz, 1024 FLOP per SM and clock",
  },
  link_gbps = {32, "GB/s", "PCIe 5.0 x8"},
  l2_latency_ns = {130, "ns", "assumed: L40 and a slower fabric"},
  dram_latency_ns = {280, "ns", "assumed: L40 and GDDR7"},
}
