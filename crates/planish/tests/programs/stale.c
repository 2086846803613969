/* A program whose source is edited between two recordings. */
#include <stdio.h>
#include <stdlib.h>
static int sink;
typedef int (*op)(int);
__attribute__((noinline)) static int helper(int x) {
  if (x % 11 == 0)
    return x * 3;
  sink += x;
  return x - 1;
}
static int twice(int x) {
  if (x & 1)
    return x + x;
  return x * 2 + 1;
}
static int add_one(int x) { return x + 1; }
static int negate(int x) { return -x; }
static op ops[] = {add_one, negate, twice};
__attribute__((noinline)) int rarely(int x) {
  if (x > 90)
    return helper(x);
  return sink;
}
__attribute__((noinline)) int unused(int x) {
  int r = x;
  for (int i = 0; i < 3; i++)
    r += helper(i);
  return r;
}
__attribute__((noinline)) int work(int x) {
  int r = 0;
  for (int i = 0; i < x; i++) {
    if (i % 3 == 0)
      r += helper(i);
    else if (i % 7 == 1)
      r ^= i * 3;
    else
      r -= 2;
    r += twice(r);
    if (r > 1000) {
      sink++;
      r -= 5;
    }
    switch (i & 7) {
    case 0:
      r++;
      break;
    case 1:
      r += 2;
      break;
    case 2:
      r ^= 7;
      break;
    case 5:
      r *= 3;
      break;
    default:
      break;
    }
    r += ops[i % 3](r);
  }
  /* This comment goes
   * in the newer source. */
  return r + rarely(r & 127);
}
__attribute__((noinline)) int digest(int *a, int n) {
  int h = 7;
  for (int i = 0; i < n; i++) {
    h = h * 31 + a[i];
    if (h & 64)
      h ^= twice(h);
  }
  h += helper(h & 255);
  return h;
}
static int compare(const void *a, const void *b) {
  return *(const int *)a - *(const int *)b;
}
int main(int argc, char **argv) {
  int s = 0, a[64] = {0};
  for (int i = 0; i < argc * 3000; i++) {
    s += work(i & 63);
    a[i & 63] = s & 1023;
    if ((i & 63) == 63) {
      qsort(a, 64, sizeof *a, compare);
      s ^= digest(a, 64);
    }
  }
  printf("%d\n", s + sink);
  return 0;
}
