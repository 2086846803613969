// A thousand waits with timeouts and some work between, and now and then enough of it for several periods in a row: a
// thread that blocks all signals is only stopped while it runs. With an argument all signals are blocked. No handler
// is installed, so no wait may be interrupted. Prints how many were.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    volatile unsigned long sum = 0;
    struct epoll_event event;
    int interrupted = 0, poll_fd = epoll_create1(0);
    (void)argv;
    if (argc > 1) {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, 0);
    }
    for (int i = 0; i < 1000; i++) {
        struct timespec short_time = {0, 100000};
        for (int j = 0; j < 300000; j++) sum += j;
        for (int j = 0; i % 25 == 0 && j < 20000000; j++) sum += j;
        if (epoll_wait(poll_fd, &event, 1, 1) < 0) interrupted += errno == EINTR;
        for (int j = 0; j < 30000; j++) sum += j;
        if (i % 4 == 0 && nanosleep(&short_time, 0) < 0) interrupted += errno == EINTR;
        if (i % 4 == 1 && poll(0, 0, 1) < 0) interrupted += errno == EINTR;
    }
    printf("%d\n", interrupted);
    return 2;
}
