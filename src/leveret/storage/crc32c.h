/* CRC-32C (Castagnoli): the processor's instruction where it has one, eight tables otherwise.
 *
 * Kept in a header so that the compiled modules of the journal can inline the call. The choice is made once per
 * module, at import, because a wheel is built on one machine and runs on others. */
#ifndef LEVERET_CRC32C_H
#define LEVERET_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the journal's structures are little-endian; so must the processor be"
#endif

#define CRC32C_POLYNOMIAL 0x82F63B78u

static uint32_t crc32c_tables[8][256];

static void crc32c_fill_tables(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1) ? CRC32C_POLYNOMIAL : 0);
        crc32c_tables[0][byte] = crc;
    }
    for (uint32_t byte = 0; byte < 256; byte++)
        for (int table = 1; table < 8; table++) {
            uint32_t before = crc32c_tables[table - 1][byte];
            crc32c_tables[table][byte] = (before >> 8) ^ crc32c_tables[0][before & 0xFF];
        }
}

static uint32_t crc32c_by_table(uint32_t crc, const uint8_t *data, size_t size) {
    crc = ~crc;
    for (; size >= 8; data += 8, size -= 8) {
        uint32_t low, high;
        memcpy(&low, data, 4);
        memcpy(&high, data + 4, 4);
        low ^= crc;
        crc = crc32c_tables[7][low & 0xFF] ^ crc32c_tables[6][(low >> 8) & 0xFF] ^
              crc32c_tables[5][(low >> 16) & 0xFF] ^ crc32c_tables[4][low >> 24] ^
              crc32c_tables[3][high & 0xFF] ^ crc32c_tables[2][(high >> 8) & 0xFF] ^
              crc32c_tables[1][(high >> 16) & 0xFF] ^ crc32c_tables[0][high >> 24];
    }
    for (; size; data++, size--)
        crc = (crc >> 8) ^ crc32c_tables[0][(crc ^ *data) & 0xFF];
    return ~crc;
}

static uint32_t (*crc32c_chosen)(uint32_t, const uint8_t *, size_t) = crc32c_by_table;

#if defined(__x86_64__) && defined(__GNUC__)
#include <nmmintrin.h>

/* The instruction takes three cycles and can begin each cycle: three strands of a long run are summed side by side and
 * joined, a sum being moved over the bytes after it by tables. */
#define CRC32C_STRAND 1024

static uint32_t crc32c_over[2][4][256]; /* a sum after one strand of zeros, and after two, by its four bytes */

static void crc32c_fill_over(void) {
    for (int strands = 1; strands <= 2; strands++)
        for (int byte = 0; byte < 4; byte++)
            for (uint32_t value = 0; value < 256; value++) {
                uint32_t *moved = &crc32c_over[strands - 1][byte][value];
                if (value & (value - 1)) { /* the sum of what its lowest bit and the others give */
                    *moved = crc32c_over[strands - 1][byte][value & (value - 1)] ^
                             crc32c_over[strands - 1][byte][value & -value];
                    continue;
                }
                *moved = value << (8 * byte);
                for (int i = 0; i < strands * CRC32C_STRAND; i++)
                    *moved = (*moved >> 8) ^ crc32c_tables[0][*moved & 0xFF];
            }
}

static inline uint32_t crc32c_moved(int strands, uint64_t sum) {
    uint32_t (*over)[256] = crc32c_over[strands - 1];
    return over[0][sum & 0xFF] ^ over[1][(sum >> 8) & 0xFF] ^ over[2][(sum >> 16) & 0xFF] ^ over[3][(sum >> 24) & 0xFF];
}

static inline uint64_t crc32c_word(const uint8_t *data) {
    uint64_t word;
    memcpy(&word, data, 8);
    return word;
}

__attribute__((target("sse4.2"))) static uint32_t crc32c_by_instruction(uint32_t crc, const uint8_t *data,
                                                                        size_t size) {
    uint64_t sum = ~crc;
    for (; size >= 3 * CRC32C_STRAND; data += 3 * CRC32C_STRAND, size -= 3 * CRC32C_STRAND) {
        uint64_t second = 0, third = 0;
        for (size_t i = 0; i < CRC32C_STRAND; i += 8) {
            sum = _mm_crc32_u64(sum, crc32c_word(data + i));
            second = _mm_crc32_u64(second, crc32c_word(data + CRC32C_STRAND + i));
            third = _mm_crc32_u64(third, crc32c_word(data + 2 * CRC32C_STRAND + i));
        }
        sum = crc32c_moved(2, sum) ^ crc32c_moved(1, second) ^ third;
    }
    for (; size >= 8; data += 8, size -= 8)
        sum = _mm_crc32_u64(sum, crc32c_word(data));
    for (; size; data++, size--)
        sum = _mm_crc32_u8((uint32_t)sum, *data);
    return ~(uint32_t)sum;
}
#endif

/* Prepare the tables and choose the fastest way; call once before crc32c_of. */
static void crc32c_prepare(void) {
    crc32c_fill_tables();
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2")) {
        crc32c_fill_over();
        crc32c_chosen = crc32c_by_instruction;
    }
#endif
}

static inline uint32_t crc32c_of(uint32_t crc, const void *data, size_t size) {
    return crc32c_chosen(crc, (const uint8_t *)data, size);
}

#endif
