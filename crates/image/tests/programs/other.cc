// A second unit, so that references may cross units under link-time optimisation.
static inline int step(int value, int by) {
  if (value & 1) return value * 3 + by;
  return value / 2;
}

__attribute__((noinline)) static int rarely(int value) {
  int sum = 0;
  for (int i = 0; i < value; i++) sum += step(i, value);
  return sum;
}

int other_unit(int a, int b) {
  int steps = 0;
  while (a > 1 && steps < 1000) { a = step(a, b); steps++; }
  if (__builtin_expect(b > 100, 0)) return rarely(b);
  return steps;
}
