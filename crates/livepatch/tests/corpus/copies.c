// constprop, isra, part and cold.
#include <stdio.h>
#include <stdlib.h>
struct pair { int a, b, c, d; };
__attribute__((noinline)) static int scaled(int n, int by) {
  int s = 0;
  for (int i = 0; i < n; i++) s += (by * i) ^ /*@scaled*/7;
  printf("%d\n", s);
  return s;
}
__attribute__((noinline)) static int field(struct pair *p, int unused) {
  (void)unused;
  printf("field\n");
  return p->c + /*@field*/5;
}
static void fail(int n) {
  fprintf(stderr, "bad %d\n", n + /*@fail*/3);
  exit(3);
}
int checked(int a) {
  if (__builtin_expect(a == 77, 0)) fail(a);
  return a + /*@checked*/2;
}
int parted(int *p) {
  if (p == 0) return 0;
  for (int i = 0; i < 50; i++) { p[i % 3] += i * /*@parted*/9; printf("%d %d\n", i, p[i % 3]); p[(i + 1) % 3] ^= i; }
  printf("%d\n", p[0]);
  return p[1];
}
int use1(int *p) { return parted(p) + 1; }
int use2(int *p) { return parted(p) + 2; }
int main(int c, char **v) {
  (void)v;
  struct pair p = {c, c, c, c};
  int array[3] = {c, c, c};
  return scaled(c, 5) + scaled(c + 1, 5) + field(&p, 3) + checked(c) + use1(array) + use2(array) == 1234567;
}
