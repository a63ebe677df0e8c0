/* MD5 (RFC 1321) of bytes in memory, in hexadecimal digits: the checksum of bodies that SQS has in its answers.
 *
 * hashlib makes an object, looks up an algorithm and takes locks for each body, which costs as much as hashing a short one.
 */
#include <stdint.h>
#include <string.h>

#define MD5_BLOCK 64
#define MD5_LENGTH_AT 56 /* in the last block: how many bits there were */

/* The integer part of 2**32 * abs(sin(i + 1)). */
static const uint32_t md5_sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};
static const int md5_shifts[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

#define MD5_ROUND(number, mixed, word)                                                   \
    _Pragma("GCC unroll 16") for (int i = 0; i < 16; i++) {                              \
        uint32_t sum = a + (mixed) + md5_sines[16 * (number) + i] + words[(word) & 15];  \
        int shift = md5_shifts[number][i & 3];                                           \
        a = d, d = c, c = b;                                                             \
        b += sum << shift | sum >> (32 - shift);                                         \
    }

static void md5_block(uint32_t state[4], const unsigned char *data) {
    uint32_t words[16], a = state[0], b = state[1], c = state[2], d = state[3];
    for (int i = 0; i < 16; i++, data += 4)
        words[i] = (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
    MD5_ROUND(0, d ^ (b & (c ^ d)), i)
    MD5_ROUND(1, c ^ (d & (b ^ c)), 5 * i + 1)
    MD5_ROUND(2, b ^ c ^ d, 3 * i + 5)
    MD5_ROUND(3, c ^ (b | ~d), 7 * i)
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
}

static void md5_hex(const unsigned char *data, size_t size, char out[32]) {
    uint32_t state[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    unsigned char last[2 * MD5_BLOCK] = {0};
    uint64_t bits = (uint64_t)size * 8;
    size_t left = size;
    for (; left >= MD5_BLOCK; left -= MD5_BLOCK, data += MD5_BLOCK)
        md5_block(state, data);
    memcpy(last, data, left);
    last[left] = 0x80;
    unsigned char *end = last + (left < MD5_LENGTH_AT ? 0 : MD5_BLOCK);
    for (int i = 0; i < 8; i++)
        end[MD5_LENGTH_AT + i] = (unsigned char)(bits >> 8 * i);
    for (unsigned char *block = last; block <= end; block += MD5_BLOCK)
        md5_block(state, block);
    for (int i = 0; i < 32; i++)
        out[i] = "0123456789abcdef"[state[i / 8] >> (8 * (i % 8 / 2) + (i % 2 ? 0 : 4)) & 15];
}
