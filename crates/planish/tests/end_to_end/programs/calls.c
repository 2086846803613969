// An indirect call with three targets, one of them hot, and a static helper.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef unsigned (*operation)(unsigned, unsigned);
static unsigned add(unsigned a, unsigned b) { return a + b * 3; }
static unsigned mix(unsigned a, unsigned b) { return (a ^ (b << 5)) * 2654435761u; }
static unsigned rare(unsigned a, unsigned b) { return a > b ? a - b : b / (a | 1); }
static unsigned helper(unsigned x) {
  unsigned r = 0;
  if (x % 5 == 4) { for (unsigned i = 0; i < x % 16; i++) r += (x >> i) & 1; }
  else if (x % 5 == 3) r = x * 7 + 1;
  else r = x / 3;
  return r;
}
__attribute__((noinline)) unsigned work(const operation *table, unsigned n, unsigned seed) {
  unsigned sum = seed;
  for (unsigned i = 0; i < n; i++) {
    operation f = table[(i & 63) == 63 ? 2 : (i & 7) == 7 ? 0 : 1];
    sum = f(sum, i) + helper(sum ^ i);
    if (sum == 12345u) printf("never %u\n", i);
  }
  return sum;
}
int main(int argc, char **argv) {
  volatile operation v[3] = {add, mix, rare};
  operation table[3] = {v[0], v[1], v[2]};
  printf("%u\n", work(table, argc > 1 ? (unsigned)atoi(argv[1]) : 1000, 7));
  return 0;
}
