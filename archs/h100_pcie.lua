-- NVIDIA H100 PCIe 80 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm90",
  title = "NVIDIA H100 PCIe 80 GB",
  sm_count = {114, "SMs", "NVIDIA H100 data sheet"},
  clock_mhz = {
    1620, "MHz",
    "derived: dense bf16 TFLOPS over SMs and FLOP per clock",
  },
  dram_gbps = {2000, "GB/s", "NVIDIA H100 data sheet"},
  dram_efficiency = {
    0.9, "fraction",
    "assumed: as h100_sxm",
  },
  l2_gbps = {7400, "GB/s", "assumed: GH200 by SMs and clock"},
  l2_bytes = {50 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    79.1 * 2^30, "bytes",
    "total capacity in PyTorch's out-of-memory messages",
  },
  bf16_tflops = {756, "TFLOPS", "NVIDIA H100 data sheet"},
  fp8_tflops = {1513, "TFLOPS", "NVIDIA H100 data sheet"},
  link_gbps = {64, "GB/s", "PCIe 5.0 x16"},
  l2_latency_ns = {142, "ns", "RRZE-HPC/gpu-benches, GH200"},
  dram_latency_ns = {355, "ns", "HPMLL/NVIDIA-Hopper-Benchmark: 650 cycles"},
}
