-- NVIDIA L40S 48 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm89",
  title = "NVIDIA L40S 48 GB",
  sm_count = {142, "SMs", "product specification"},
  clock_mhz = {
    2490, "MHz",
    "derived: 362 TFLOPS over 142 SMs at 1024 FLOP per clock",
  },
  dram_gbps = {864, "GB/s", "NVIDIA L40S data sheet"},
  dram_efficiency = {
    0.92, "fraction",
    "RRZE-HPC/gpu-benches, L40: 800 to 850 GB/s",
  },
  l2_gbps = {5200, "GB/s", "RRZE-HPC/gpu-benches, L40"},
  l2_bytes = {96 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    44.4 * 2^30, "bytes",
    "total capacity in PyTorch's out-of-memory messages",
  },
  bf16_tflops = {362, "TFLOPS", "NVIDIA L40S data sheet"},
  fp8_tflops = {733, "TFLOPS", "NVIDIA L40S data sheet"},
  link_gbps = {32, "GB/s", "PCIe 4.0 x16"},
  l2_latency_ns = {110, "ns", "RRZE-HPC/gpu-benches, L40"},
  dram_latency_ns = {251, "ns", "RRZE-HPC/gpu-benches, L40"},
}
