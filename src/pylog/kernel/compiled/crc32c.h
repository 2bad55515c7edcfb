/* CRC-32C (Castagnoli), by the processor's own instruction where it has one, found out when the module is loaded.

   The instruction gives a result every cycle but takes three, so three parts of a large buffer go through it at once:

       | part A: n bytes | part B: n bytes | part C: n bytes |     crc(ABC) = shift(shift(crc A) ^ crc B) ^ crc C

   where shift moves a CRC over n zero bytes: a linear map of 32 bits, kept as four tables of 256 words for each n.
   Elsewhere eight tables take eight bytes a step. (RFC 3720 B.4; Kounavis and Berry, "A Systematic Approach to
   Building High Performance, Software-Based, CRC Generators"; Gopal et al., "Fast CRC Computation for iSCSI
   Polynomial Using CRC32 Instruction".) */

#ifndef PYLOG_CRC32C_H
#define PYLOG_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#define CRC_TARGET __attribute__((target("sse4.2")))
#define CRC_STEP8(crc, word) ((uint32_t)_mm_crc32_u64((crc), (word)))
#define CRC_STEP4(crc, word) (_mm_crc32_u32((crc), (word)))
#define CRC_STEP1(crc, byte) (_mm_crc32_u8((crc), (byte)))
#elif defined(__aarch64__)
#include <arm_acle.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#if defined(__clang__)
#define CRC_TARGET __attribute__((target("crc")))
#else
#define CRC_TARGET __attribute__((target("+crc")))
#endif
#define CRC_STEP4(crc, word) (__crc32cw((crc), (word)))
#define CRC_STEP8(crc, word) (__crc32cd((crc), (word)))
#define CRC_STEP1(crc, byte) (__crc32cb((crc), (byte)))
#endif

#define CRC_POLYNOMIAL 0x82F63B78u
#define CRC_LARGE 4096
#define CRC_SMALL 128

static uint32_t crc_tables[8][256];
static uint32_t crc_large_shift[4][256];
static uint32_t crc_small_shift[4][256];
static int crc_has_instruction = 0;

/* The CRC register after `size` zero bytes, for each of its 32 bits alone; then, by xor, for every byte of it. */
static void crc_make_shift(uint32_t table[4][256], size_t size)
{
    for (int bit = 0; bit < 32; bit++) {
        uint32_t crc = 1u << bit;
        for (size_t i = 0; i < size; i++)
            crc = (crc >> 8) ^ crc_tables[0][crc & 0xFF];
        table[bit >> 3][1u << (bit & 7)] = crc;
    }
    for (int k = 0; k < 4; k++)
        for (uint32_t n = 1; n < 256; n++)
            table[k][n] = table[k][n & (n - 1)] ^ table[k][n & (0u - n)];
}

static inline uint32_t crc_shift(uint32_t table[4][256], uint32_t crc)
{
    return table[0][crc & 0xFF] ^ table[1][crc >> 8 & 0xFF] ^ table[2][crc >> 16 & 0xFF] ^ table[3][crc >> 24];
}

/* Once, before the first `pylog_crc32c`. */
static void pylog_crc32c_init(void)
{
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t crc = n;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? CRC_POLYNOMIAL : 0);
        crc_tables[0][n] = crc;
    }
    for (uint32_t n = 0; n < 256; n++)
        for (int k = 1; k < 8; k++)
            crc_tables[k][n] = (crc_tables[k - 1][n] >> 8) ^ crc_tables[0][crc_tables[k - 1][n] & 0xFF];
    crc_make_shift(crc_large_shift, CRC_LARGE);
    crc_make_shift(crc_small_shift, CRC_SMALL);
#if defined(__x86_64__)
    __builtin_cpu_init();
    crc_has_instruction = __builtin_cpu_supports("sse4.2");
#elif defined(__aarch64__) && defined(__linux__)
    crc_has_instruction = (getauxval(AT_HWCAP) >> 7) & 1; /* HWCAP_CRC32 */
#elif defined(__aarch64__)
    crc_has_instruction = 1; /* every 64-bit processor of Apple's */
#endif
}

static inline uint64_t crc_word(const uint8_t *data)
{
    uint64_t word;
    memcpy(&word, data, 8);
    return word;
}

static uint32_t crc_by_tables(uint32_t crc, const uint8_t *data, size_t size)
{
    for (; size >= 8; data += 8, size -= 8) {
        crc ^= data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        crc = crc_tables[7][crc & 0xFF] ^ crc_tables[6][crc >> 8 & 0xFF] ^ crc_tables[5][crc >> 16 & 0xFF]
            ^ crc_tables[4][crc >> 24] ^ crc_tables[3][data[4]] ^ crc_tables[2][data[5]] ^ crc_tables[1][data[6]]
            ^ crc_tables[0][data[7]];
    }
    for (; size > 0; data++, size--)
        crc = (crc >> 8) ^ crc_tables[0][(crc ^ *data) & 0xFF];
    return crc;
}

#if defined(CRC_TARGET)
CRC_TARGET static inline const uint8_t *crc_three(
    uint32_t *crc, const uint8_t *data, size_t *size, size_t part, uint32_t shift[4][256])
{
    while (*size >= 3 * part) {
        uint32_t a = *crc, b = 0, c = 0;
        for (size_t i = 0; i < part; i += 8) {
            a = CRC_STEP8(a, crc_word(data + i));
            b = CRC_STEP8(b, crc_word(data + part + i));
            c = CRC_STEP8(c, crc_word(data + 2 * part + i));
        }
        *crc = crc_shift(shift, crc_shift(shift, a) ^ b) ^ c;
        data += 3 * part;
        *size -= 3 * part;
    }
    return data;
}

CRC_TARGET static uint32_t crc_by_instruction(uint32_t crc, const uint8_t *data, size_t size)
{
    data = crc_three(&crc, data, &size, CRC_LARGE, crc_large_shift);
    data = crc_three(&crc, data, &size, CRC_SMALL, crc_small_shift);
    for (; size >= 32; data += 32, size -= 32) {
        crc = CRC_STEP8(crc, crc_word(data));
        crc = CRC_STEP8(crc, crc_word(data + 8));
        crc = CRC_STEP8(crc, crc_word(data + 16));
        crc = CRC_STEP8(crc, crc_word(data + 24));
    }
    for (; size >= 8; data += 8, size -= 8)
        crc = CRC_STEP8(crc, crc_word(data));
    if (size & 4) {
        uint32_t word;
        memcpy(&word, data, 4);
        crc = CRC_STEP4(crc, word);
        data += 4;
    }
    for (size &= 3; size > 0; data++, size--)
        crc = CRC_STEP1(crc, *data);
    return crc;
}
#endif

/* The CRC-32C of bytes that follow others whose CRC is `crc`; 0 at the beginning. */
static uint32_t pylog_crc32c(uint32_t crc, const uint8_t *data, size_t size)
{
#if defined(CRC_TARGET)
    if (crc_has_instruction)
        return ~crc_by_instruction(~crc, data, size);
#endif
    return ~crc_by_tables(~crc, data, size);
}

#endif
