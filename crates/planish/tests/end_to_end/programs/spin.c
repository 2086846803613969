// Nothing but a loop around a branch.
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) unsigned leaf(unsigned x) { return x % 7 == 3 ? x / 3 : x * 5 + 1; }
__attribute__((noinline)) unsigned turn(unsigned n) { unsigned s = 1; for (unsigned i = 0; i < n; i++) s += leaf(s ^ i); return s; }
int main(int argc, char **argv) { unsigned s = 0; for (int i = 0; i < 40; i++) s += turn(argc > 1 ? atoi(argv[1]) : 2000000); printf("%u\n", s); return 0; }
