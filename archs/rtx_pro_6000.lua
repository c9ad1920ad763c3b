-- NVIDIA RTX PRO 6000 Blackwell 96 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm120",
  title = "NVIDIA RTX PRO 6000 Blackwell 96 GB",
  sm_count = {188, "SMs", "product specification"},
  clock_mhz = {2617, "MHz", "boost clock, product specification"},
  dram_gbps = {1792, "GB/s", "NVIDIA RTX PRO 6000 Blackwell data sheet"},
  dram_efficiency = {
    0.92, "fraction",
    "FlashInfer pull request 3655: 1510 to 1700 GB/s",
  },
  l2_gbps = {
    7900, "GB/s",
    "assumed: L40 by SMs and clock with 10 % more per SM",
  },
  l2_bytes = {128 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    94.9 * 2^30, "bytes",
    "total capacity in PyTorch's out-of-memory messages",
  },
  bf16_tflops = {
    503.8, "TFLOPS",
    "derived: 188 SMs, 2617 MHz, 1024 FLOP per SM and clock",
  },
  fp8_tflops = {
    1007, "TFLOPS",
    "derived: 188 SMs, 2617 MHz, 2048 FLOP per SM and clock",
  },
  link_gbps = {64, "GB/s", "PCIe 5.0 x16"},
  l2_latency_ns = {130, "ns", "assumed: L40 and a larger die"},
  dram_latency_ns = {280, "ns", "assumed: L40 and GDDR7"},
}
