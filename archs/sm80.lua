-- NVIDIA Ampere, data centre: limits and launch costs.
-- Fields, units and bounds: gen/facts.def; form: archs/README.md.
local GUIDE = "CUDA C++ Programming Guide, compute capabilities"

return {
  kind = "arch",
  title = "NVIDIA Ampere, data centre",
  target = "sm_80",
  default_board = "a100_sxm",
  cc_major = {8, "number", GUIDE},
  cc_minor = {0, "number", GUIDE},
  max_threads_per_sm = {2048, "threads", GUIDE},
  max_warps_per_sm = {64, "warps", GUIDE},
  max_ctas_per_sm = {32, "CTAs", GUIDE},
  max_threads_per_cta = {1024, "threads", GUIDE},
  registers_per_sm = {65536, "registers", GUIDE},
  max_registers_per_thread = {255, "registers", GUIDE},
  register_unit = {256, "registers", "CUDA occupancy header: per warp"},
  shared_per_sm_bytes = {164 * 1024, "bytes", GUIDE},
  shared_per_cta_bytes = {163 * 1024, "bytes", GUIDE},
  shared_reserved_bytes = {1024, "bytes", GUIDE},
  mma_sync_fraction = {
    1.0, "fraction",
    "NVIDIA A100 architecture white paper: mma.sync is the full rate",
  },
  shared_latency_cycles = {
    29, "cycles",
    "arXiv 2402.13499, shared memory latency of A100",
  },
  launch_us = {
    1.34, "us",
    "RRZE-HPC/gpu-benches gpu-small-kernels, A100, graph node",
  },
  launch_eager_us = {
    2.62, "us",
    "RRZE-HPC/gpu-benches gpu-small-kernels, A100, stream",
  },
  wave_us = {
    2.5, "us",
    "derived: AI Configurator's small GEMMs less launch and latency",
  },
  matrix = {
    {
      instruction = "mma.sync", shape = "m16n8k16",
      row_step = 8, max_rows = 8, fraction = 1.0,
      source = "PTX ISA, warp-level matrix instructions",
    },
  },
}
