// A 32-bit program without a library: counts for a while and exits with 7.
void _start(void) {
  volatile unsigned i;
  for (i = 0; i < 200000000u; i++) {}
  __asm__ volatile("int $0x80" : : "a"(1), "b"(7));
}
