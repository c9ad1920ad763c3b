-- NVIDIA Ada Lovelace: limits and launch costs.
-- Fields, units and bounds: gen/facts.def; form: archs/README.md.
local GUIDE = "CUDA C++ Programming Guide, compute capabilities"

return {
  kind = "arch",
  title = "NVIDIA Ada Lovelace",
  target = "sm_89",
  default_board = "l40s",
  cc_major = {8, "number", GUIDE},
  cc_minor = {9, "number", GUIDE},
  max_threads_per_sm = {1536, "threads", GUIDE},
  max_warps_per_sm = {48, "warps", GUIDE},
  max_ctas_per_sm = {24, "CTAs", GUIDE},
  max_threads_per_cta = {1024, "threads", GUIDE},
  registers_per_sm = {65536, "registers", GUIDE},
  max_registers_per_thread = {255, "registers", GUIDE},
  register_unit = {256, "registers", "CUDA occupancy header: per warp"},
  shared_per_sm_bytes = {100 * 1024, "bytes", GUIDE},
  shared_per_cta_bytes = {99 * 1024, "bytes", GUIDE},
  shared_reserved_bytes = {1024, "bytes", GUIDE},
  mma_sync_fraction = {
    1.0, "fraction",
    "NVIDIA Ada white paper: mma.sync is the full rate",
  },
  shared_latency_cycles = {
    30.1, "cycles",
    "arXiv 2402.13499, shared memory latency of RTX 4090",
  },
  launch_us = {
    0.94, "us",
    "RRZE-HPC/gpu-benches gpu-small-kernels, L40, graph node",
  },
  launch_eager_us = {
    1.64, "us",
    "RRZE-HPC/gpu-benches gpu-small-kernels, L40, stream",
  },
  wave_us = {
    1.6, "us",
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
