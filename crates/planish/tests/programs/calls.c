/* Time in one function that is called in three ways: from main, through another, and below a recursion. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) long leaf(long rounds)
{
	volatile long sum = 0;
	for (long i = 0; i < rounds; i++)
		sum += i * i;
	return sum;
}

__attribute__((noinline)) long middle(long rounds)
{
	return leaf(rounds) + leaf(rounds / 2);
}

__attribute__((noinline)) long again(int depth, long rounds)
{
	return depth ? again(depth - 1, rounds) + 1 : middle(rounds);
}

int main(int argc, char **argv)
{
	long sum = 0;
	int times = argc > 1 ? atoi(argv[1]) : 20;
	for (int i = 0; i < times; i++) {
		sum += middle(4000000);
		sum += again(5, 2000000);
		sum += leaf(1000000);
	}
	printf("%ld\n", sum);
	return 0;
}
