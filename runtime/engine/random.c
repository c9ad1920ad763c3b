#include "random.h"

void spt_philox(const uint32_t counter[4], const uint32_t key[2],
                uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2];
    uint32_t c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = UINT64_C(0xD2511F53) * c0;
        uint64_t p1 = UINT64_C(0xCD9E8D57) * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

double spt_random(uint64_t seed, int64_t position, spt_random_use use)
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t counter[4] = {(uint32_t)position,
                           (uint32_t)((uint64_t)position >> 32), use, 0};
    uint32_t bits[4];
    spt_philox(counter, key, bits);
    uint64_t high = bits[0] >> 5, low = bits[1] >> 6; /* 27 + 26 bits */
    return (double)(high << 26 | low) * 0x1p-53;
}
