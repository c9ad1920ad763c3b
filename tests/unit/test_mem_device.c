/*
 * Device memory: windows, sparse allocations, written bits, freed memory.
 */
#include "check.h"

#include <stdlib.h>

#include "memory.h"
#include "memory_bits.h"

static void big_is_sparse(void)
{
    uint64_t capacity = UINT64_C(80) << 30, va = 0;
    sim_memory *mem = sim_memory_new(&capacity, 1, true);
    uint64_t size = UINT64_C(40) << 30;
    CHECK(sim_memory_alloc(mem, 0, size, &va) == SPT_OK, "40 GiB at once");
    uint32_t in = 0x12345678, out = 0;
    uint64_t far = va + (UINT64_C(5) << 32) + 12;
    CHECK(sim_memory_write(mem, far, &in, 4) == SPT_OK &&
              sim_memory_read(mem, &out, far, 4) == SPT_OK && out == in,
          "bytes past 2^32 are kept");
    CHECK(sim_memory_read(mem, &out, far + 4, 4) == SPT_OK && out == 0xffffffff,
          "bytes never written read as poison");
    uint64_t more;
    CHECK(sim_memory_alloc(mem, 0, size + 1, &more) == SPT_E_MEMORY,
          "more than there is is refused");
    uint64_t used, all;
    sim_memory_info(mem, 0, &used, &all);
    CHECK(used == size && all == capacity, "used and capacity");
    sim_memory_delete(mem);
}

static void bounds_and_free(void)
{
    uint64_t capacity[2] = {1 << 20, 1 << 20}, a, b;
    sim_memory *mem = sim_memory_new(capacity, 2, true);
    sim_range r, near;
    char byte = 1;
    sim_memory_alloc(mem, 0, 100, &a);
    sim_memory_alloc(mem, 1, 100, &b);
    CHECK(a >> 40 == 1 && b >> 40 == 2, "each device has its window");
    CHECK(a % 256 == 0 && b % 256 == 0, "allocations are aligned");
    CHECK(sim_memory_write(mem, a + 99, &byte, 1) == SPT_OK, "last byte");
    CHECK(sim_memory_write(mem, a + 99, "xy", 2) == SPT_E_USAGE,
          "one past the end is refused");
    CHECK(!sim_memory_find(mem, a + 100, &r, &near) && near.va == a,
          "the allocation before an address is named");
    CHECK(sim_memory_release(mem, a + 1) == SPT_E_USAGE,
          "only a start is freed");
    CHECK(sim_memory_release(mem, a) == SPT_OK &&
              sim_memory_release(mem, a) == SPT_E_USAGE,
          "once and not twice");
    CHECK(sim_memory_find(mem, a, &r, NULL) && r.freed &&
              sim_memory_read(mem, &byte, a, 1) == SPT_E_USAGE,
          "freed memory is known as such");
    uint64_t c;
    sim_memory_alloc(mem, 0, 100, &c);
    CHECK(c != a, "freed addresses are not given out again");
    sim_memory_delete(mem);
}

static void copies(void)
{
    uint64_t capacity = 1 << 24, a, b;
    sim_memory *mem = sim_memory_new(&capacity, 1, true);
    uint32_t pattern = 0x01020304, out[3] = {0};
    sim_memory_alloc(mem, 0, 4096, &a);
    sim_memory_alloc(mem, 0, 4096, &b);
    CHECK(sim_memory_fill(mem, a, &pattern, 4, 1000) == SPT_OK, "fill");
    CHECK(sim_memory_fill(mem, a, &pattern, 4, 1025) == SPT_E_USAGE,
          "fill past the end is refused");
    CHECK(sim_memory_copy(mem, b, a + 3992, 104) == SPT_OK, "copy");
    sim_memory_read(mem, out, b, 12);
    CHECK(out[0] == pattern && out[1] == pattern && out[2] == 0xffffffff,
          "a copy takes along what was never written");
    char text[16] = "host";
    sim_memory_map(mem, text, sizeof text);
    sim_memory_write(mem, (uint64_t)(uintptr_t)text, "HO", 2);
    CHECK(strcmp(text, "HOst") == 0, "host memory at its own address");
    CHECK(sim_memory_release(mem, (uint64_t)(uintptr_t)text) == SPT_OK,
          "host memory is unmapped");
    sim_memory_delete(mem);
}

static void many(void)
{
    uint64_t capacity = UINT64_C(1) << 36, va, wrong = 0;
    sim_memory *mem = sim_memory_new(&capacity, 1, false);
    for (int i = 0; i < 20000; i++) {
        if (sim_memory_alloc(mem, 0, UINT64_C(1) << 30, &va) != SPT_OK ||
            sim_memory_write(mem, va, "x", 1) != SPT_OK ||
            sim_memory_release(mem, va) != SPT_OK)
            wrong++;
    }
    CHECK(wrong == 0, "a window's addresses come back when used up");
    sim_memory_delete(mem);
}

static void bits(void)
{
    uint64_t words[4] = {0};
    bits_set(words, 60, 10);
    CHECK(bits_all(words, 60, 10) && !bits_get(words, 59) &&
              !bits_get(words, 70),
          "a run across two words");
    bits_set(words, 64, 128);
    CHECK(bits_all(words, 60, 132) && !bits_all(words, 60, 133), "whole words");
    bits_clear(words, 61, 120);
    CHECK(bits_get(words, 60) && !bits_any(words, 61, 120) &&
              bits_get(words, 181),
          "cleared");
}

int main(void)
{
    big_is_sparse();
    bounds_and_free();
    copies();
    many();
    bits();
    return check_done();
}
