-- NVIDIA H200 SXM 141 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm90",
  title = "NVIDIA H200 SXM 141 GB",
  sm_count = {132, "SMs", "product specification"},
  clock_mhz = {
    1830, "MHz",
    "derived: dense bf16 TFLOPS over SMs and FLOP per clock",
  },
  dram_gbps = {4800, "GB/s", "NVIDIA H200 data sheet"},
  dram_efficiency = {0.82, "fraction", "RRZE-HPC/gpu-benches: 3890 GB/s read"},
  l2_gbps = {9700, "GB/s", "RRZE-HPC/gpu-benches"},
  l2_bytes = {50 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    139.8 * 2^30, "bytes",
    "total capacity in PyTorch's out-of-memory messages",
  },
  bf16_tflops = {989, "TFLOPS", "NVIDIA H200 data sheet"},
  fp8_tflops = {1979, "TFLOPS", "NVIDIA H200 data sheet"},
  link_gbps = {450, "GB/s", "NVIDIA H200 data sheet"},
  l2_latency_ns = {142, "ns", "RRZE-HPC/gpu-benches"},
  dram_latency_ns = {344, "ns", "RRZE-HPC/gpu-benches, GH200"},
}
