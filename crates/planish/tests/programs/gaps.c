/* Time below code of which no rules tell who called it, below a signal, and in a thread. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

void bare(void);
void framed(void);
void spin(void);

/* Written by hand: a frame without a pointer, one with it, and none at all. */
__asm__(".text\n"
        ".type bare, @function\n"
        "bare: sub $24, %rsp\n call work\n add $24, %rsp\n ret\n"
        ".size bare, . - bare\n"
        ".type framed, @function\n"
        "framed: push %rbp\n mov %rsp, %rbp\n sub $256, %rsp\n call work\n leave\n ret\n"
        ".size framed, . - framed\n"
        ".type spin, @function\n"
        "spin: mov $200000, %ecx\n 1: dec %ecx\n jnz 1b\n ret\n"
        ".size spin, . - spin\n");

static volatile long sum;

__attribute__((noinline)) void work(void)
{
	for (long i = 0; i < 100000; i++)
		sum += i;
}

__attribute__((noinline)) static void handler(int number)
{
	(void)number;
	for (int i = 0; i < 20; i++)
		work();
}

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

__attribute__((noinline)) static void *all(void *nothing)
{
	double end = seconds() + 0.15;
	while (seconds() < end) {
		bare();
		framed();
		for (int i = 0; i < 4; i++)
			spin();
		raise(SIGUSR1);
	}
	return nothing;
}

int main(void)
{
	pthread_t thread;
	signal(SIGUSR1, handler);
	all(0);
	if (pthread_create(&thread, 0, all, 0) || pthread_join(thread, 0))
		return 2;
	printf("%ld\n", sum);
	return 0;
}
