// Adds numbers for as many millions of rounds as the argument says, prints the sum, exits with 7.
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    unsigned long rounds = (argc > 1 ? strtoul(argv[1], 0, 10) : 300) * 1000000ul;
    volatile unsigned long sum = 0;
    for (unsigned long i = 0; i < rounds; i++) sum += i;
    printf("%lu\n", sum);
    return 7;
}
