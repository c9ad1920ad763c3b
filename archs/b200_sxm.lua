-- NVIDIA B200 SXM 180 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm100",
  title = "NVIDIA B200 SXM 180 GB",
  sm_count = {148, "SMs", "deviceQuery, pytorch/ao pull request 4002"},
  clock_mhz = {
    1856, "MHz",
    "derived: dense bf16 TFLOPS over SMs and FLOP per clock",
  },
  dram_gbps = {
    7672, "GB/s",
    "driver: 7680 bit at 3996 MHz, pytorch/ao pull request 4002",
  },
  dram_efficiency = {
    0.93, "fraction",
    "FlashInfer pull request 3360: 7100 to 7200 GB/s",
  },
  l2_gbps = {
    13000, "GB/s",
    "assumed: GH200 by SMs and clock with 20 % more per SM",
  },
  l2_bytes = {126 * 2^20, "bytes", "deviceQuery, pytorch/ao pull request 4002"},
  memory_bytes = {
    178.3 * 2^30, "bytes",
    "total capacity in PyTorch's out-of-memory messages",
  },
  bf16_tflops = {2250, "TFLOPS", "NVIDIA HGX B200 data sheet"},
  fp8_tflops = {4500, "TFLOPS", "NVIDIA HGX B200 data sheet"},
  link_gbps = {900, "GB/s", "NVIDIA HGX B200 data sheet"},
  l2_latency_ns = {
    190, "ns",
    "assumed: two dies; between near and far of Hopper",
  },
  dram_latency_ns = {
    420, "ns",
    "SemiAnalysisAI/microbench-blackwell, smallest loads",
  },
}
