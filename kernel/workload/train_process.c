// SPDX-License-Identifier: Apache-2.0 OR MIT
// Training: processes and threads come and go.

#define _GNU_SOURCE
#include "workload.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

// UnixBench's `spawn`: a child at a time.
bool section_fork_wait(struct run *run)
{
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        int status = -1, code = (int)(round & 0x3f);
        pid_t pid = fork();
        CHECK(run, pid >= 0);
        if (pid == 0)
            _exit(code);
        CHECK(run, waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == code);
    }
    finish(run, run->rounds);
    return true;
}

// MANY children are alive at once, and are waited for in any order.
bool section_fork_many(struct run *run)
{
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        int hold[2];
        CHECK(run, pipe(hold) == 0);
        for (int child = 0; child < MANY; child++) {
            char byte;
            pid_t pid = start_child(run);
            CHECK(run, pid >= 0);
            if (pid == 0)
                _exit(read(hold[0], &byte, 1) == 1 ? 0 : 1);
        }
        char bytes[MANY] = {0};
        CHECK(run, write(hold[1], bytes, MANY) == MANY);
        for (int child = 0; child < MANY; child++) {
            int status = -1;
            CHECK(run, wait(&status) > 0 && status == 0);
        }
        CHECK(run, waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
        errno = 0;
        run->child_count = 0;
        close(hold[0]), close(hold[1]);
    }
    finish(run, run->rounds * MANY);
    return true;
}

// UnixBench's `execl`, by posix_spawn (a vfork) and by fork and exec in turns; the program ends at once.
bool section_exec(struct run *run)
{
    char *words[] = {"init", "--exit", NULL};
    char *const none[] = {"NAME=value", NULL};
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        int status = -1;
        pid_t pid;
        if (round % 4 != 3) {
            CHECK(run, posix_spawn(&pid, "/proc/self/exe", NULL, NULL, words, environ) == 0);
        } else {
            pid = fork();
            CHECK(run, pid >= 0);
            if (pid == 0) {
                execve("/proc/self/exe", words, none);
                _exit(9);
            }
        }
        CHECK(run, waitpid(pid, &status, 0) == pid && status == 0);
    }
    finish(run, run->rounds);
    return true;
}

static void *add_one(void *argument)
{
    __atomic_add_fetch((uint64_t *)argument, 1, __ATOMIC_RELAXED);
    return argument;
}

// Four threads are made and joined a round.
bool section_thread(struct run *run)
{
    enum { THREADS = 4 };
    // On arm64 they must be larger.
    size_t stack = 65536 < (size_t)PTHREAD_STACK_MIN ? (size_t)PTHREAD_STACK_MIN : 65536;
    uint64_t count = 0;
    pthread_attr_t attributes;
    CHECK(run, pthread_attr_init(&attributes) == 0);
    CHECK(run, pthread_attr_setstacksize(&attributes, stack) == 0);
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        pthread_t threads[THREADS];
        for (int thread = 0; thread < THREADS; thread++)
            CHECK(run, pthread_create(&threads[thread], &attributes, add_one, &count) == 0);
        for (int thread = 0; thread < THREADS; thread++) {
            void *result = NULL;
            CHECK(run, pthread_join(threads[thread], &result) == 0 && result == &count);
        }
    }
    finish(run, run->rounds * THREADS);
    CHECK(run, count == run->rounds * THREADS);
    return true;
}
