// Works until a timer has rung 400 times, and counts what sleeping calls say. Prints the number of rings.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

static volatile int rings;

static void ring(int number) {
    rings += number == SIGALRM;
}

int main(void) {
    volatile unsigned long sum = 0;
    struct itimerval every = {{0, 1000}, {0, 1000}};
    signal(SIGALRM, ring);
    setitimer(ITIMER_REAL, &every, 0);
    while (rings < 400) sum += rings;
    every.it_value.tv_usec = every.it_interval.tv_usec = 0;
    setitimer(ITIMER_REAL, &every, 0);
    printf("%d\n", rings >= 400);
    return 8;
}
