-- NVIDIA GB10 (DGX Spark) 128 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm121",
  title = "NVIDIA GB10 (DGX Spark) 128 GB",
  sm_count = {48, "SMs", "product specification"},
  clock_mhz = {2418, "MHz", "boost clock, product specification"},
  dram_gbps = {273, "GB/s", "NVIDIA DGX Spark data sheet"},
  dram_efficiency = {
    0.85, "fraction",
    "FlashInfer pull request 3655: 233 GB/s; 234 for Marlin",
  },
  l2_gbps = {
    1900, "GB/s",
    "assumed: L40 by SMs and clock with 10 % more per SM",
  },
  l2_bytes = {24 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    119.6 * 2^30, "bytes",
    "total capacity in PyTorch's out-of-memory messages",
  },
  bf16_tflops = {
    119, "TFLOPS",
    "derived: 48 SMs, 2418 MHz, 1024 FLOP per SM and clock",
  },
  fp8_tflops = {
    238, "TFLOPS",
    "derived: 48 SMs, 2418 MHz, 2048 FLOP per SM and clock",
  },
  link_gbps = {25, "GB/s", "ConnectX-7, 200 Gbit/s"},
  l2_latency_ns = {150, "ns", "assumed: L40 and LPDDR5X"},
  dram_latency_ns = {400, "ns", "assumed: LPDDR5X"},
}
