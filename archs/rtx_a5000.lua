-- NVIDIA RTX A5000 24 GB. Fields, units and bounds: gen/facts.def.
return {
  kind = "board",
  arch = "sm86",
  title = "NVIDIA RTX A5000 24 GB",
  sm_count = {64, "SMs", "product specification"},
  clock_mhz = {1695, "MHz", "boost clock, product specification"},
  dram_gbps = {768, "GB/s", "NVIDIA RTX A5000 data sheet"},
  dram_efficiency = {0.9, "fraction", "assumed: as other GDDR6 boards"},
  l2_gbps = {2300, "GB/s", "assumed: 21 bytes per SM and clock"},
  l2_bytes = {6 * 2^20, "bytes", "product specification"},
  memory_bytes = {
    23.6 * 2^30, "bytes",
    "total capacity in PyTorch's out-of-memory messages",
  },
  bf16_tflops = {
    111, "TFLOPS",
    "NVIDIA RTX A5000 data sheet: 222 with sparsity",
  },
  fp8_tflops = {0, "TFLOPS", "none"},
  link_gbps = {32, "GB/s", "PCIe 4.0 x16"},
  l2_latency_ns = {140, "ns", "assumed: as A100"},
  dram_latency_ns = {300, "ns", "assumed: between L40 and A100"},
}
