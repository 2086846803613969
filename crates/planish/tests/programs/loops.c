/* Loops that turn a known number of times: INNER of each of the outer ones, a call in each, and a
 * branch that goes one way once in four. */
#include <stdio.h>
#include <stdlib.h>

#define INNER 7

__attribute__((noinline)) long called(long x)
{
	return x ^ 5;
}

static inline __attribute__((always_inline)) long square(long x)
{
	return x * x;
}

__attribute__((noinline)) long work(long outer)
{
	volatile long sum = 0;
	for (long i = 0; i < outer; i++) {
		for (long j = 0; j < INNER; j++)
			sum += square(j);
		if (i % 4 == 0)
			sum += 3;
		sum = called(sum);
	}
	return sum;
}

int main(int argc, char **argv)
{
	long sum = 0;
	int times = argc > 1 ? atoi(argv[1]) : 20;
	long outer = argc > 2 ? atol(argv[2]) : 1000;
	for (int i = 0; i < times; i++)
		sum += work(outer);
	printf("%ld\n", sum);
	return 0;
}
