/* SipHash-2-4 with 16 bytes of output: a proof over a few bytes that only the owner of the key can make.
 *
 * Made for short messages, where hashlib takes longer to make an object than to hash.
 */
#include <stddef.h>
#include <stdint.h>

static uint64_t sip_word(const unsigned char *data, size_t size) {
    uint64_t word = 0;
    for (size_t i = 0; i < size; i++)
        word |= (uint64_t)data[i] << 8 * i;
    return word;
}

static void sip_rounds(uint64_t v[4], int count) {
    for (; count; count--) {
        v[0] += v[1], v[1] = v[1] << 13 | v[1] >> 51, v[1] ^= v[0], v[0] = v[0] << 32 | v[0] >> 32;
        v[2] += v[3], v[3] = v[3] << 16 | v[3] >> 48, v[3] ^= v[2];
        v[0] += v[3], v[3] = v[3] << 21 | v[3] >> 43, v[3] ^= v[0];
        v[2] += v[1], v[1] = v[1] << 17 | v[1] >> 47, v[1] ^= v[2], v[2] = v[2] << 32 | v[2] >> 32;
    }
}

static void siphash_128(const unsigned char key[16], const unsigned char *data, size_t size, unsigned char out[16]) {
    uint64_t first = sip_word(key, 8), second = sip_word(key + 8, 8);
    uint64_t v[4] = {first ^ 0x736f6d6570736575, second ^ 0x646f72616e646f6d ^ 0xee, first ^ 0x6c7967656e657261,
                     second ^ 0x7465646279746573};
    size_t left = size;
    for (;; data += 8, left -= 8) {
        uint64_t word = left >= 8 ? sip_word(data, 8) : sip_word(data, left) | (uint64_t)size << 56;
        v[3] ^= word;
        sip_rounds(v, 2);
        v[0] ^= word;
        if (left < 8)
            break;
    }
    v[2] ^= 0xee;
    for (int half = 0; half < 2; half++) {
        sip_rounds(v, 4);
        uint64_t word = v[0] ^ v[1] ^ v[2] ^ v[3];
        for (int i = 0; i < 8; i++)
            out[8 * half + i] = (unsigned char)(word >> 8 * i);
        v[1] ^= 0xdd;
    }
}
