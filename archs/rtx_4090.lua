-- NVIDIA GeForce RTX 4090 24 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm89",
  title = "NVIDIA GeForce RTX 4090 24 GB",
  sm_count = {128, "SMs", "product specification"},
  clock_mhz = {2520, "MHz", "boost clock, product specification"},
  dram_gbps = {1008, "GB/s", "NVIDIA Ada white paper"},
  dram_efficiency = {0.91, "fraction", "assumed: as l40s"},
  l2_gbps = {4750, "GB/s", "assumed: L40 by SMs and clock"},
  l2_bytes = {72 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    23.6 * 2^30, "bytes",
    "total capacity in PyTorch's out-of-memory messages",
  },
  bf16_tflops = {165, "TFLOPS", "NVIDIA Ada white paper, fp32 accumulate"},
  fp8_tflops = {330, "TFLOPS", "NVIDIA Ada white paper, fp32 accumulate"},
  link_gbps = {32, "GB/s", "PCIe 4.0 x16"},
  l2_latency_ns = {113, "ns", "HPMLL/NVIDIA-Hopper-Benchmark: 285 cycles"},
  dram_latency_ns = {226, "ns", "HPMLL/NVIDIA-Hopper-Benchmark: 570 cycles"},
}
