// Copies for processors.
#include <stdio.h>
__attribute__((target_clones("default", "avx2"))) int sum(const int *p, int n) {
  int s = 0;
  for (int i = 0; i < n; i++) s += p[i] * /*@sum*/3;
  return s;
}
int main(int c, char **v) {
  (void)v;
  int a[64];
  for (int i = 0; i < 64; i++) a[i] = i * c;
  return printf("%d\n", sum(a, 64)) < 0;
}
