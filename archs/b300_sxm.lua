-- NVIDIA B300 SXM 270 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm103",
  title = "NVIDIA B300 SXM 270 GB",
  sm_count = {148, "SMs", "assumed: as b200_sxm"},
  clock_mhz = {
    1856, "MHz",
    "derived: dense bf16 TFLOPS over SMs and FLOP per clock",
  },
  dram_gbps = {7672, "GB/s", "assumed: as b200_sxm; data sheet says 8 TB/s"},
  dram_efficiency = {0.93, "fraction", "assumed: as b200_sxm"},
  l2_gbps = {13000, "GB/s", "assumed: as b200_sxm"},
  l2_bytes = {126 * 2^20, "bytes", "assumed: as b200_sxm"},
  memory_bytes = {
    267.6 * 2^30, "bytes",
    "total capacity in PyTorch's out-of-memory messages",
  },
  bf16_tflops = {2250, "TFLOPS", "NVIDIA HGX B300 data sheet"},
  fp8_tflops = {4500, "TFLOPS", "NVIDIA HGX B300 data sheet"},
  link_gbps = {900, "GB/s", "NVIDIA HGX B300 data sheet"},
  l2_latency_ns = {190, "ns", "assumed: as b200_sxm"},
  dram_latency_ns = {420, "ns", "assumed: as b200_sxm"},
}
