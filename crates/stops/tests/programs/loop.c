// A loop of known instructions, whose first and last address stand in rbx and r12. Prints how often SIGUSR1 came.
#include <signal.h>
#include <stdio.h>

static volatile int signals;

static void handle(int number) {
    signals += number == SIGUSR1;
}

int main(void) {
    signal(SIGUSR1, handle);
    __asm__ volatile(
        "lea 1f(%%rip), %%rbx\n"
        "lea 2f(%%rip), %%r12\n"
        "mov $400000000, %%rcx\n"
        "xor %%rax, %%rax\n"
        "1: add $1, %%rax\n" // 4 bytes
        "nop\n"              // 1 byte
        "dec %%rcx\n"        // 3 bytes
        "2: jnz 1b\n"
        ::: "rax", "rbx", "rcx", "r12", "cc");
    printf("%d\n", signals);
    return 1;
}
