-- NVIDIA Blackwell Ultra, data centre: limits and launch costs.
-- Fields, units and bounds: gen/facts.def; form: archs/README.md.
local GUIDE = "CUDA C++ Programming Guide, compute capabilities"

return {
  kind = "arch",
  title = "NVIDIA Blackwell Ultra, data centre",
  target = "sm_103a",
  default_board = "b300_sxm",
  cc_major = {10, "number", GUIDE},
  cc_minor = {3, "number", GUIDE},
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
  mma_sync_fraction = {0.25, "fraction", "assumed: as sm100"},
  shared_latency_cycles = {29, "cycles", "assumed: as sm90"},
  launch_us = {1.26, "us", "assumed: as sm90"},
  launch_eager_us = {2.43, "us", "assumed: as sm90"},
  wave_us = {0.9, "us", "assumed: as sm100"},
  matrix = {
    {
      instruction = "mma.sync", shape = "m16n8k16",
      row_step = 8, max_rows = 8, fraction = 0.25,
      source = "PTX ISA, warp-level matrix instructions",
    },
    {
      instruction = "tcgen05", shape = "m64nNk16",
      row_step = 8, max_rows = 256, fraction = 0.5,
      source = "PTX ISA, tcgen05.mma kind::f16; CUTLASS mma_sm100_umma.hpp",
    },
    {
      instruction = "tcgen05", shape = "m128nNk16",
      row_step = 16, max_rows = 256, fraction = 1.0,
      source = "PTX ISA, tcgen05.mma kind::f16; CUTLASS mma_sm100_umma.hpp",
    },
  },
}
