// 32-bit code without a library: works, writes a line, exits with 9.
static long call(long number, long one, long two, long three) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(one), "c"(two), "d"(three) : "memory");
    return result;
}

void _start(void) {
    volatile unsigned sum = 0;
    for (unsigned i = 0; i < 200000000u; i++) sum += i;
    call(4, 1, (long)"old\n", 4);
    call(1, 9, 0, 0);
    for (;;) {}
}
