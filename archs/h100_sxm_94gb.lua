-- NVIDIA H100 SXM5 94 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm90",
  title = "NVIDIA H100 SXM5 94 GB",
  sm_count = {132, "SMs", "product specification"},
  clock_mhz = {
    1830, "MHz",
    "derived: dense bf16 TFLOPS over SMs and FLOP per clock",
  },
  dram_gbps = {
    2400, "GB/s",
    "assumed: HBM2e; decoding moves 1900 in tomasruizt/vllm-scripts",
  },
  dram_efficiency = {0.9, "fraction", "assumed: as h100_sxm"},
  l2_gbps = {9700, "GB/s", "RRZE-HPC/gpu-benches, GH200 (same chip)"},
  l2_bytes = {50 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    93.1 * 2^30, "bytes",
    "total capacity in PyTorch's out-of-memory messages",
  },
  bf16_tflops = {989, "TFLOPS", "NVIDIA H100 data sheet"},
  fp8_tflops = {1979, "TFLOPS", "NVIDIA H100 data sheet"},
  link_gbps = {450, "GB/s", "NVIDIA H100 data sheet"},
  l2_latency_ns = {142, "ns", "RRZE-HPC/gpu-benches, GH200"},
  dram_latency_ns = {355, "ns", "HPMLL/NVIDIA-Hopper-Benchmark: 650 cycles"},
}
