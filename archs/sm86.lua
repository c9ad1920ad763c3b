-- NVIDIA Ampere, graphics: limits and launch costs.
-- Fields, units and bounds: gen/facts.def; form: archs/README.md.
local GUIDE = "CUDA C++ Programming Guide, compute capabilities"

return {
  kind = "arch",
  title = "NVIDIA Ampere, graphics",
  target = "sm_86",
  default_board = "rtx_3090",
  cc_major = {8, "number", GUIDE},
  cc_minor = {6, "number", GUIDE},
  max_threads_per_sm = {1536, "threads", GUIDE},
  max_warps_per_sm = {48, "warps", GUIDE},
  max_ctas_per_sm = {16, "CTAs", GUIDE},
  max_threads_per_cta = {1024, "threads", GUIDE},
  registers_per_sm = {65536, "registers", GUIDE},
  max_registers_per_thread = {255, "registers", GUIDE},
  register_unit = {256, "registers", "CUDA occupancy header: per warp"},
  shared_per_sm_bytes = {100 * 1024, "bytes", GUIDE},
  shared_per_cta_bytes = {99 * 1024, "bytes", GUIDE},
  shared_reserved_bytes = {1024, "bytes", GUIDE},
  mma_sync_fraction = {
    1.0, "fraction",
    "NVIDIA GA102 white paper: mma.sync is the full rate",
  },
  shared_latency_cycles = {29, "cycles", "assumed: as sm80"},
  launch_us = {1.34, "us", "assumed: as sm80"},
  launch_eager_us = {2.62, "us", "assumed: as sm80"},
  wave_us = {2.5, "us", "assumed: as sm80"},
  matrix = {
    {
      instruction = "mma.sync", shape = "m16n8k16",
      row_step = 8, max_rows = 8, fraction = 1.0,
      source = "PTX ISA, warp-level matrix instructions",
    },
  },
}
