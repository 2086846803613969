// Follows the Collatz sequence through a table of functions, without any library.
static volatile unsigned long sink;

__attribute__((noinline)) static unsigned long odd(unsigned long i) { return i * 3 + 1; }
__attribute__((noinline)) static unsigned long even(unsigned long i) { return i / 2; }
static unsigned long (*const table[2])(unsigned long) = {even, odd};

void _start(void) {
  for (unsigned long start = 1; start < 3000; start++) {
    unsigned long n = start;
    while (n != 1)
      n = table[n & 1](n);
    sink += n;
  }
  register long number __asm__("x8") = 93;
  register long code __asm__("x0") = 0;
  __asm__ volatile("svc 0" ::"r"(number), "r"(code));
}
