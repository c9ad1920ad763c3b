-- NVIDIA Hopper: limits and launch costs.
-- Fields, units and bounds: gen/facts.def; form: archs/README.md.
local GUIDE = "CUDA C++ Programming Guide, compute capabilities"

return {
  kind = "arch",
  title = "NVIDIA Hopper",
  target = "sm_90a",
  default_board = "h100_sxm",
  cc_major = {9, "number", GUIDE},
  cc_minor = {0, "number", GUIDE},
  max_threads_per_sm = {2048, "threads", GUIDE},
  max_warps_per_sm = {64, "warps", GUIDE},
  max_ctas_per_sm = {32, "CTAs", GUIDE},
  max_threads_per_cta = {1024, "threads", GUIDE},
  registers_per_sm = {65536, "registers", GUIDE},
  max_registers_per_thread = {255, "registers", GUIDE},
  register_unit = {256, "registers", "CUDA occupancy header: per warp"},
  shared_per_sm_bytes = {228 * 1024, "bytes", GUIDE},
  shared_per_cta_bytes = {227 * 1024, "bytes", GUIDE},
  shared_reserved_bytes = {1024, "bytes", GUIDE},
  mma_sync_fraction = {
    0.62, "fraction",
    "arXiv 2402.13499: mma.sync reaches about 62 % of wgmma on Hopper",
  },
  shared_latency_cycles = {
    29, "cycles",
    "arXiv 2402.13499, shared memory latency of H100",
  },
  launch_us = {
    1.26, "us",
    "RRZE-HPC/gpu-benches gpu-small-kernels, H200, graph node",
  },
  launch_eager_us = {
    2.43, "us",
    "RRZE-HPC/gpu-benches gpu-small-kernels, H200, stream",
  },
  wave_us = {
    1.9, "us",
    "derived: AI Configurator's small GEMMs less launch and latency",
  },
  matrix = {
    {
      instruction = "mma.sync", shape = "m16n8k16",
      row_step = 8, max_rows = 8, fraction = 0.62,
      source = "PTX ISA, warp-level matrix instructions",
    },
    {
      instruction = "wgmma", shape = "m64nNk16",
      row_step = 8, max_rows = 256, fraction = 1.0,
      source = "PTX ISA, wgmma.mma_async: n in steps of 8",
    },
  },
}
