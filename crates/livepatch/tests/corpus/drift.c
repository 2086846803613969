// What is inlined follows the profile: `blend` goes into the caller that ran.
#include <stdio.h>
#include <string.h>
static unsigned blend(unsigned a, unsigned b, const unsigned char *table) {
  unsigned sum = a ^ (b << 3);
  for (int i = 0; i < 4; i++) {
    sum += table[(sum >> i) & 63] * 31u;
    if (sum & 1) sum ^= 0x9e3779b9u; else sum += b >> 2;
    if (sum & 64) sum -= table[sum & 31];
  }
  if (a > b) sum = (sum << 5) | (sum >> 27);
  return sum + table[(a + b) & 63];
}
__attribute__((noinline)) unsigned first(unsigned n, const unsigned char *table) {
  unsigned sum = 1;
  for (unsigned i = 0; i < n; i++) sum += blend(sum, i, table) ^ blend(i, sum, table);
  return sum;
}
__attribute__((noinline)) unsigned second(unsigned n, const unsigned char *table) {
  unsigned sum = 2;
  for (unsigned i = 0; i < n; i++) sum ^= blend(i, sum, table) + blend(sum, n, table);
  return sum;
}
int main(int c, char **v) {
  unsigned char table[64];
  for (int i = 0; i < 64; i++) table[i] = (unsigned char)(i * 37);
  unsigned n = 2000000;
  unsigned sum = c > 1 && strcmp(v[1], "second") == 0 ? second(n, table) : first(n, table);
  return printf("%u\n", sum) < 0;
}
