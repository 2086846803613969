// The body of a parallel loop is a function of its own.
#include <stdio.h>
static int square(int x) { return x * x + /*@square*/2; }
__attribute__((noinline)) int spread(int *p, int n) {
#pragma omp parallel for
  for (int i = 0; i < n; i++) p[i] = square(p[i]) ^ /*@spread*/5;
  return p[0];
}
int main(int c, char **v) {
  (void)v;
  int a[64];
  for (int i = 0; i < 64; i++) a[i] = i * c;
  return printf("%d\n", spread(a, 64)) < 0;
}
