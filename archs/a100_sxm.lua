-- NVIDIA A100 SXM4 80 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm80",
  title = "NVIDIA A100 SXM4 80 GB",
  sm_count = {108, "SMs", "NVIDIA A100 data sheet"},
  clock_mhz = {1410, "MHz", "boost clock, product specification"},
  dram_gbps = {2039, "GB/s", "NVIDIA A100 data sheet"},
  dram_efficiency = {
    0.87, "fraction",
    "RRZE-HPC/gpu-benches: 1730 to 1900 GB/s read",
  },
  l2_gbps = {5400, "GB/s", "RRZE-HPC/gpu-benches, up to 20 MB"},
  l2_bytes = {40 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    79.1 * 2^30, "bytes",
    "total capacity in PyTorch's out-of-memory messages",
  },
  bf16_tflops = {312, "TFLOPS", "NVIDIA A100 data sheet"},
  fp8_tflops = {0, "TFLOPS", "none"},
  link_gbps = {300, "GB/s", "NVIDIA A100 data sheet"},
  l2_latency_ns = {146, "ns", "RRZE-HPC/gpu-benches, near partition"},
  dram_latency_ns = {392, "ns", "RRZE-HPC/gpu-benches"},
}
