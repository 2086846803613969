// The caller of a function in another file.
#include <stdio.h>
#include <stdlib.h>
unsigned far_helper(unsigned x);
unsigned far_rare(unsigned x);
__attribute__((noinline)) unsigned work(unsigned n) { unsigned s = 1; for (unsigned i = 0; i < n; i++) { s += far_helper(s ^ i); if (s == 77777u) s += far_rare(i); } return s; }
int main(int argc, char **argv) { printf("%u\n", work(argc > 1 ? (unsigned)atoi(argv[1]) : 10000)); return 0; }
