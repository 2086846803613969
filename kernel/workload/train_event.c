// SPDX-License-Identifier: Apache-2.0 OR MIT
// Training: waiting for events, futexes, signals.

#define _GNU_SOURCE
#include "workload.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

// 128 descriptors in one epoll set, of which three are ready at a time.
bool section_epoll(struct run *run)
{
    enum { COUNT = 128 };
    int fds[COUNT], poller = epoll_create1(0);
    CHECK(run, poller >= 0);
    for (int at = 0; at < COUNT; at++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)at};
        fds[at] = eventfd(0, EFD_NONBLOCK);
        CHECK(run, fds[at] >= 0 && epoll_ctl(poller, EPOLL_CTL_ADD, fds[at], &event) == 0);
    }
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        struct epoll_event events[8];
        uint64_t value = round + 1, sum = 0;
        for (uint64_t at = 0; at < 3; at++)
            CHECK(run, write(fds[(round * 5 + at * 40) % COUNT], &value, sizeof(value)) == sizeof(value));
        CHECK(run, epoll_wait(poller, events, 8, -1) == 3);
        for (int at = 0; at < 3; at++) {
            CHECK(run, read(fds[events[at].data.u32], &value, sizeof(value)) == sizeof(value));
            sum += value;
        }
        CHECK(run, sum == 3 * (round + 1));
        CHECK(run, epoll_wait(poller, events, 8, 0) == 0);
        int changed = (int)(round % COUNT);
        struct epoll_event event = {.events = EPOLLIN | EPOLLPRI, .data.u32 = (uint32_t)changed};
        if (round % 4 == 0) {
            CHECK(run, epoll_ctl(poller, EPOLL_CTL_DEL, fds[changed], NULL) == 0);
            CHECK(run, epoll_ctl(poller, EPOLL_CTL_ADD, fds[changed], &event) == 0);
        } else {
            CHECK(run, epoll_ctl(poller, EPOLL_CTL_MOD, fds[changed], &event) == 0);
        }
    }
    finish(run, run->rounds * 9);
    return true;
}

// Counters, semaphores, and timers that have run out already.
bool section_event_timer(struct run *run)
{
    int counter = eventfd(0, 0), semaphore = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK);
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    CHECK(run, counter >= 0 && semaphore >= 0 && timer >= 0);
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        uint64_t value = 2;
        CHECK(run, write(counter, &value, sizeof(value)) == sizeof(value));
        CHECK(run, write(counter, &value, sizeof(value)) == sizeof(value));
        CHECK(run, read(counter, &value, sizeof(value)) == sizeof(value) && value == 4);
        value = 1;
        CHECK(run, write(semaphore, &value, sizeof(value)) == sizeof(value));
        CHECK(run, read(semaphore, &value, sizeof(value)) == sizeof(value) && value == 1);
        CHECK(run, read(semaphore, &value, sizeof(value)) == -1 && errno == EAGAIN);
        errno = 0;
        if (round % 4 == 0) {
            struct itimerspec past = {.it_value = {0, 1}}, later = {.it_value = {100, 0}}, left;
            // The guest may be idle until the timer fires, so not often.
            if (round % 64 == 0) {
                CHECK(run, timerfd_settime(timer, TFD_TIMER_ABSTIME, &past, NULL) == 0);
                CHECK(run, read(timer, &value, sizeof(value)) == sizeof(value) && value == 1);
            }
            CHECK(run, timerfd_settime(timer, 0, &later, NULL) == 0);
            CHECK(run, timerfd_gettime(timer, &left) == 0 && left.it_value.tv_sec > 0);
        }
    }
    finish(run, run->rounds * 7);
    return true;
}

// poll and select over 32 pipes, with the ready one moving.
bool section_poll_select(struct run *run)
{
    enum { COUNT = 32 };
    int pipes[COUNT][2], highest = 0;
    struct pollfd polled[COUNT];
    struct timeval nothing = {0, 0};
    for (int at = 0; at < COUNT; at++) {
        CHECK(run, pipe(pipes[at]) == 0);
        polled[at] = (struct pollfd){.fd = pipes[at][0], .events = POLLIN};
        highest = pipes[at][0] > highest ? pipes[at][0] : highest;
    }
    CHECK(run, highest < FD_SETSIZE);
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        int at = (int)(round * 7 % COUNT);
        char byte = (char)round;
        fd_set readable;
        CHECK(run, poll(polled, COUNT, 0) == 0);
        CHECK(run, write(pipes[at][1], &byte, 1) == 1);
        CHECK(run, poll(polled, COUNT, -1) == 1 && polled[at].revents == POLLIN);
        FD_ZERO(&readable);
        for (int fd = 0; fd < COUNT; fd++)
            FD_SET(pipes[fd][0], &readable);
        CHECK(run, select(highest + 1, &readable, NULL, NULL, NULL) == 1);
        CHECK(run, FD_ISSET(pipes[at][0], &readable));
        CHECK(run, read(pipes[at][0], &byte, 1) == 1 && byte == (char)round);
        FD_SET(pipes[at][0], &readable);
        CHECK(run, select(highest + 1, &readable, NULL, NULL, &nothing) == 0);
    }
    finish(run, run->rounds * 6);
    return true;
}

static void futex_wait(uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

struct table {
    uint32_t turn;
    uint64_t rounds;
};

static void *second_player(void *argument)
{
    struct table *table = argument;
    for (uint64_t round = 0; round < table->rounds; round++) {
        while (__atomic_load_n(&table->turn, __ATOMIC_ACQUIRE) == 0)
            futex_wait(&table->turn, 0);
        __atomic_store_n(&table->turn, 0, __ATOMIC_RELEASE);
        futex_wake(&table->turn);
    }
    return NULL;
}

// Two threads take turns.
bool section_futex(struct run *run)
{
    struct table table = {0, run->rounds};
    pthread_t thread;
    CHECK(run, pthread_create(&thread, NULL, second_player, &table) == 0);
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        __atomic_store_n(&table.turn, 1, __ATOMIC_RELEASE);
        futex_wake(&table.turn);
        while (__atomic_load_n(&table.turn, __ATOMIC_ACQUIRE) == 1)
            futex_wait(&table.turn, 1);
    }
    finish(run, run->rounds);
    CHECK(run, pthread_join(thread, NULL) == 0);
    return true;
}

static struct {
    pthread_mutex_t lock;
    pthread_cond_t turned;
    uint64_t next, end;
} round_table;

static void *sitting(void *argument)
{
    uint64_t seat = *(uint64_t *)argument;
    pthread_mutex_lock(&round_table.lock);
    while (round_table.next < round_table.end) {
        if (round_table.next % MANY == seat) {
            round_table.next++;
            pthread_cond_broadcast(&round_table.turned);
        } else {
            pthread_cond_wait(&round_table.turned, &round_table.lock);
        }
    }
    pthread_mutex_unlock(&round_table.lock);
    return NULL;
}

// MANY threads at a table with a mutex and a condition variable; all wake, one goes on.
bool section_futex_many(struct run *run)
{
    pthread_t threads[MANY];
    uint64_t seats[MANY];
    pthread_mutex_init(&round_table.lock, NULL);
    pthread_cond_init(&round_table.turned, NULL);
    round_table.next = 0;
    round_table.end = (run->rounds + MANY - 1) / MANY * MANY;
    pthread_mutex_lock(&round_table.lock);
    for (int at = 0; at < MANY; at++) {
        seats[at] = (uint64_t)at;
        CHECK(run, pthread_create(&threads[at], NULL, sitting, &seats[at]) == 0);
    }
    begin(run);
    pthread_mutex_unlock(&round_table.lock);
    for (int at = 0; at < MANY; at++)
        CHECK(run, pthread_join(threads[at], NULL) == 0);
    finish(run, round_table.end);
    CHECK(run, round_table.next == round_table.end);
    return true;
}

static volatile sig_atomic_t arrived;

static void on_signal(int number)
{
    (void)number;
    arrived++;
}

// Signals to itself, held back and let through, on the stack and on another.
bool section_signal(struct run *run)
{
    static char other_stack[65536];
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof(other_stack)};
    struct sigaction plain = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct sigaction aside = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigset_t user2, before;
    CHECK(run, sigaltstack(&stack, NULL) == 0);
    CHECK(run, sigaction(SIGUSR2, &aside, NULL) == 0);
    sigemptyset(&user2);
    sigaddset(&user2, SIGUSR2);
    arrived = 0;
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        sig_atomic_t expected = (sig_atomic_t)(2 * round);
        CHECK(run, sigaction(SIGUSR1, &plain, NULL) == 0);
        CHECK(run, kill(getpid(), SIGUSR1) == 0 && arrived == expected + 1);
        CHECK(run, sigprocmask(SIG_BLOCK, &user2, &before) == 0);
        CHECK(run, raise(SIGUSR2) == 0 && arrived == expected + 1);
        CHECK(run, sigprocmask(SIG_SETMASK, &before, NULL) == 0 && arrived == expected + 2);
    }
    finish(run, run->rounds * 5);
    signal(SIGUSR1, SIG_DFL);
    signal(SIGUSR2, SIG_DFL);
    stack.ss_flags = SS_DISABLE;
    CHECK(run, sigaltstack(&stack, NULL) == 0);
    return true;
}
