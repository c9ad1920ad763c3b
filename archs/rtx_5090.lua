-- NVIDIA GeForce RTX 5090 32 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm120",
  title = "NVIDIA GeForce RTX 5090 32 GB",
  sm_count = {170, "SMs", "product specification"},
  clock_mhz = {2407, "MHz", "boost clock, product specification"},
  dram_gbps = {1792, "GB/s", "NVIDIA RTX Blackwell white paper"},
  dram_efficiency = {
    0.9, "fraction",
    "assumed: neighbours of sparkinfer pull request 863 reach 0.87",
  },
  l2_gbps = {
    6600, "GB/s",
    "assumed: L40 by SMs and clock with 10 % more per SM",
  },
  l2_bytes = {96 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    31.3 * 2^30, "bytes",
    "total capacity in PyTorch's out-of-memory messages",
  },
  bf16_tflops = {
    209.5, "TFLOPS",
    "NVIDIA RTX Blackwell white paper, fp32 accumulate",
  },
  fp8_tflops = {
    419, "TFLOPS",
    "NVIDIA RTX Blackwell white paper, fp32 accumulate",
  },
  link_gbps = {64, "GB/s", "PCIe 5.0 x16"},
  l2_latency_ns = {130, "ns", "assumed: L40 and a larger die"},
  dram_latency_ns = {280, "ns", "assumed: L40 and GDDR7"},
}
