/* Short functions that call each other all the time, so that the last branches hold whole calls. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) long third(long x)
{
	volatile long sum = x;
	for (int i = 0; i < 10; i++)
		sum += i * x;
	return sum;
}

__attribute__((noinline)) long second(long x)
{
	return third(x) + third(x + 1) + 1;
}

__attribute__((noinline)) long first(long x)
{
	return second(x) + second(x + 2) + 1;
}

int main(int argc, char **argv)
{
	long sum = 0;
	long rounds = argc > 1 ? atol(argv[1]) : 12000000;
	for (long i = 0; i < rounds; i++)
		sum += first(i);
	printf("%ld\n", sum);
	return 0;
}
