// Threads that block all signals, which nobody may leave a signal with. Prints the number of signals found waiting.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

static volatile int found;

static void *work(void *unused) {
    volatile unsigned long sum = 0;
    sigset_t pending, all;
    siginfo_t info;
    struct timespec now = {0, 0};
    for (unsigned long i = 0; i < 800000000ul; i++) sum += i;
    sigpending(&pending);
    for (int number = 1; number < 32; number++)
        if (sigismember(&pending, number)) __sync_fetch_and_add(&found, 1);
    sigfillset(&all);
    if (sigtimedwait(&all, &info, &now) > 0) __sync_fetch_and_add(&found, 100);
    // The mask has to be what it was.
    pthread_sigmask(SIG_BLOCK, 0, &all);
    for (int number = 1; number < 32; number++)
        if (number != SIGKILL && number != SIGSTOP && !sigismember(&all, number)) __sync_fetch_and_add(&found, 10000);
    return unused;
}

int main(void) {
    pthread_t thread;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, 0);
    pthread_create(&thread, 0, work, 0);
    work(0);
    pthread_join(thread, 0);
    printf("%d\n", found);
    return 6;
}
