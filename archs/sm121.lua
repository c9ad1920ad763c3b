-- NVIDIA Blackwell, GB10: limits and launch costs.
-- Fields, units and bounds: gen/facts.def; form: archs/README.md.
local GUIDE = "CUDA C++ Programming Guide, compute capabilities"

return {
  kind = "arch",
  title = "NVIDIA Blackwell, GB10",
  target = "sm_121a",
  default_board = "gb10",
  cc_major = {12, "number", GUIDE},
  cc_minor = {1, "number", GUIDE},
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
  mma_sync_fraction = {1.0, "fraction", "assumed: as sm120"},
  shared_latency_cycles = {30.1, "cycles", "assumed: as sm89"},
  launch_us = {0.94, "us", "assumed: as sm89"},
  launch_eager_us = {1.64, "us", "assumed: as sm89"},
  wave_us = {1.6, "us", "assumed: as sm89"},
  matrix = {
    {
      instruction = "mma.sync", shape = "m16n8k16",
      row_step = 8, max_rows = 8, fraction = 1.0,
      source = "PTX ISA, warp-level matrix instructions",
    },
  },
}
