// SPDX-License-Identifier: Apache-2.0 OR MIT
// Training: cheap system calls, pipes between processes, switches between processes.

#define _GNU_SOURCE
#include "workload.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// UnixBench's `syscall`: calls that do next to nothing.
bool section_syscall(struct run *run)
{
    int fd = open("file", O_RDWR | O_CREAT, 0600);
    CHECK(run, fd >= 0);
    pid_t parent = getppid();
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        CHECK(run, syscall(SYS_getppid) == parent);
        CHECK(run, syscall(SYS_getuid) == (long)getuid());
        CHECK(run, syscall(SYS_getpid) > 0);
        int copy = dup(fd);
        CHECK(run, copy > fd);
        CHECK(run, close(copy) == 0);
        umask(022);
        CHECK(run, fcntl(fd, F_GETFL) >= 0);
        CHECK(run, lseek(fd, 0, SEEK_CUR) == 0);
    }
    finish(run, run->rounds * 9);
    return true;
}

// UnixBench's `context1`: two processes count up together over two pipes.
bool section_pipe_latency(struct run *run)
{
    int there[2], back[2];
    CHECK(run, pipe(there) == 0 && pipe(back) == 0);
    pid_t pid = start_child(run);
    CHECK(run, pid >= 0);
    if (pid == 0) {
        uint64_t count;
        close(there[1]);
        while (read(there[0], &count, sizeof(count)) == sizeof(count)) {
            count++;
            INSIST(write(back[1], &count, sizeof(count)) == sizeof(count));
        }
        _exit(0);
    }
    close(there[0]), close(back[1]);
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        uint64_t count = round;
        CHECK(run, write(there[1], &count, sizeof(count)) == sizeof(count));
        CHECK(run, read(back[0], &count, sizeof(count)) == sizeof(count) && count == round + 1);
    }
    finish(run, run->rounds);
    close(there[1]);
    return wait_for_children(run);
}

// MANY processes in a ring pass a token on.
bool section_pipe_ring(struct run *run)
{
    int pipes[MANY + 1][2];
    for (int at = 0; at <= MANY; at++)
        CHECK(run, pipe(pipes[at]) == 0);
    for (int at = 0; at < MANY; at++) {
        pid_t pid = start_child(run);
        CHECK(run, pid >= 0);
        if (pid == 0) {
            unsigned token;
            for (uint64_t round = 0; round < run->rounds; round++) {
                INSIST(read(pipes[at][0], &token, sizeof(token)) == sizeof(token));
                token++;
                INSIST(write(pipes[at + 1][1], &token, sizeof(token)) == sizeof(token));
            }
            _exit(0);
        }
    }
    begin(run);
    unsigned token = 0;
    for (uint64_t round = 0; round < run->rounds; round++) {
        CHECK(run, write(pipes[0][1], &token, sizeof(token)) == sizeof(token));
        CHECK(run, read(pipes[MANY][0], &token, sizeof(token)) == sizeof(token));
    }
    finish(run, run->rounds * MANY);
    CHECK(run, token == run->rounds * MANY);
    return wait_for_children(run);
}

// Throughput: a child writes buffers of several sizes, a round is 16 KiB.
bool section_pipe_stream(struct run *run)
{
    static char sent[16384], got[16384];
    int fds[2];
    CHECK(run, pipe(fds) == 0);
    fill(sent, sizeof(sent), 3);
    pid_t pid = start_child(run);
    CHECK(run, pid >= 0);
    if (pid == 0) {
        close(fds[0]);
        for (uint64_t round = 0; round < run->rounds; round++) {
            size_t step = round % 3 == 0 ? 1024 : round % 3 == 1 ? 4096 : sizeof(sent);
            for (size_t at = 0; at < sizeof(sent); at += step)
                INSIST(write_all(fds[1], sent + at, step));
        }
        _exit(0);
    }
    close(fds[1]);
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        CHECK(run, read_all(fds[0], got, sizeof(got)));
        CHECK(run, got[round % sizeof(got)] == sent[round % sizeof(got)]);
    }
    finish(run, run->rounds);
    CHECK(run, filled(got, sizeof(got), 3));
    CHECK(run, read(fds[0], got, 1) == 0);
    return wait_for_children(run);
}

// Processes that yield to each other, and sleeps that are over at once.
bool section_yield(struct run *run)
{
    struct gate gate;
    struct timespec nothing = {0, 0}, past = {0, 1};
    const int children = 3;
    CHECK(run, gate_make(run, &gate));
    for (int at = 0; at < children; at++) {
        pid_t pid = start_child(run);
        CHECK(run, pid >= 0);
        if (pid == 0) {
            gate_wait(&gate);
            for (uint64_t round = 0; round < run->rounds; round++)
                INSIST(sched_yield() == 0);
            gate_done(&gate);
            _exit(0);
        }
    }
    begin(run);
    CHECK(run, gate_open(run, &gate, children));
    for (uint64_t round = 0; round < run->rounds; round++) {
        CHECK(run, sched_yield() == 0);
        CHECK(run, clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &past, NULL) == 0);
        if (round % 16 == 0)
            CHECK(run, clock_nanosleep(CLOCK_MONOTONIC, 0, &nothing, NULL) == 0);
    }
    CHECK(run, gate_join(run, &gate, children));
    finish(run, run->rounds * 5);
    return wait_for_children(run);
}
