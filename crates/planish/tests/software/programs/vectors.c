// 256-bit vectors: arithmetic, shuffles, masked loads, gathers left out.
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  long rounds = argc > 1 ? atol(argv[1]) : 1;
  static int32_t values[1024];
  for (int i = 0; i < 1024; i++) values[i] = i * 7919 % 1009;
  uint64_t sum = 0;
  for (long round = 0; round < rounds; round++) {
    __m256i best = _mm256_setzero_si256();
    __m256d real = _mm256_set1_pd(0.25);
    for (int i = 0; i < 1024; i += 8) {
      __m256i part = _mm256_loadu_si256((const __m256i *)(values + i));
      __m256i turned = _mm256_permutevar8x32_epi32(part, _mm256_set_epi32(0, 1, 2, 3, 4, 5, 6, 7));
      best = _mm256_max_epi32(best, _mm256_add_epi32(turned, _mm256_set1_epi32((int)round & 15)));
      real = _mm256_fmadd_pd(real, _mm256_set1_pd(0.5), _mm256_cvtepi32_pd(_mm256_castsi256_si128(part)));
      int larger = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(part, turned)));
      if (larger > 99) sum += (unsigned)larger;
      values[(i + larger) & 1023] ^= (int32_t)round & 3;
    }
    sum += (uint64_t)_mm256_extract_epi64(best, 2) + (uint64_t)_mm256_cvtsd_f64(real);
  }
  printf("%llu\n", (unsigned long long)sum);
}
