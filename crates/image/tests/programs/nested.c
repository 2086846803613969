/* Functions inside functions, as GNU C has them, and a loop worth unrolling. */
int apply(int (*f)(int), int n) {
  int sum = 0;
  for (int i = 0; i < n; i++) sum += f(i);
  return sum;
}

static inline int square(int v) { return v * v; }

int outer(int base) {
  __attribute__((noinline)) int inner(int v) {
    if (v > 5) return square(v) + base;
    return base - v;
  }
  return apply(inner, base) + inner(square(base));
}

int sum(const int *v, int n) {
  int s = 0;
  for (int i = 0; i < n; i++) { if (v[i] > 3) s += square(v[i]); else s -= v[i]; }
  return s;
}

int main(int argc, char **argv) {
  (void)argv;
  int v[8] = {1, 2, 3, 4, 5, 6, 7, argc};
  return outer(argc) + sum(v, 8) == 42;
}
