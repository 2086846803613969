// SPDX-License-Identifier: Apache-2.0 OR MIT
// Held out: a shell's pipelines, a list of processes, servers that share a socket, a supervisor's events.

#define _GNU_SOURCE
#include "workload.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// One stage of a pipeline: this program, as a filter, with its standard streams changed.
static pid_t stage(struct run *run, int input, int output, const char *shift)
{
    pid_t pid = start_child(run);
    if (pid == 0) {
        INSIST(dup2(input, STDIN_FILENO) == 0 && dup2(output, STDOUT_FILENO) == 1);
        close_range(3, ~0u, 0);
        execl("/proc/self/exe", "filter", "--filter", shift, (char *)NULL);
        _exit(127);
    }
    return pid;
}

// `filter 1 < input | filter 2 | filter 253 > output`: the output is the input again.
bool section_shell_pipeline(struct run *run)
{
    enum { SIZE = 40000 };
    static char text[SIZE], got[SIZE];
    int input = open("input", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    fill(text, SIZE, 5);
    CHECK(run, input >= 0 && write_all(input, text, SIZE));
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        int first[2], second[2];
        int output = open("output", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        CHECK(run, output >= 0 && pipe2(first, O_CLOEXEC) == 0 && pipe2(second, O_CLOEXEC) == 0);
        CHECK(run, lseek(input, 0, SEEK_SET) == 0);
        CHECK(run, stage(run, input, first[1], "1") > 0);
        CHECK(run, stage(run, first[0], second[1], "2") > 0);
        CHECK(run, stage(run, second[0], output, "253") > 0);
        close(first[0]), close(first[1]), close(second[0]), close(second[1]);
        if (!wait_for_children(run))
            return false;
        CHECK(run, pread(output, got, SIZE, 0) == SIZE && close(output) == 0);
    }
    finish(run, run->rounds);
    CHECK(run, memcmp(text, got, SIZE) == 0);
    return true;
}

static bool describe(struct run *run, const char *pid)
{
    static const char *const FILES[] = {"stat", "cmdline", "statm"};
    char path[300], text[2048];
    snprintf(path, sizeof(path), "/proc/%s", pid);
    int directory = open(path, O_RDONLY | O_DIRECTORY);
    // A process may have gone since the listing.
    if (directory < 0)
        return true;
    for (int file = 0; file < 3; file++) {
        int fd = openat(directory, FILES[file], O_RDONLY);
        ssize_t size = fd < 0 ? 0 : pread(fd, text, sizeof(text) - 1, 0);
        text[size > 0 ? size : 0] = 0;
        if (file == 0 && size > 0)
            CHECK(run, atol(text) == atol(pid));
        if (fd >= 0)
            close(fd);
    }
    snprintf(path, sizeof(path), "/proc/%s/fd", pid);
    DIR *fds = opendir(path);
    while (fds && readdir(fds))
        ;
    if (fds)
        closedir(fds);
    close(directory);
    errno = 0;
    return true;
}

// What `ps` does: all processes that there are, with 24 of our own among them.
bool section_process_list(struct run *run)
{
    enum { OWN = 24, MOST = 64 };
    uint64_t operations = 0;
    for (int own = 0; own < OWN; own++) {
        pid_t pid = start_child(run);
        CHECK(run, pid >= 0);
        if (pid == 0)
            for (;;)
                pause();
    }
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        DIR *processes = opendir("/proc");
        struct dirent *entry;
        int found = 0, described = 0;
        CHECK(run, processes != NULL);
        while ((entry = readdir(processes))) {
            if (!isdigit((unsigned char)entry->d_name[0]))
                continue;
            pid_t pid = (pid_t)atol(entry->d_name);
            bool own = false;
            for (int at = 0; at < OWN; at++)
                own |= run->children[at] == pid;
            found += own;
            // Outside a guest there may be thousands.
            if ((own || described < MOST) && !describe(run, entry->d_name))
                return false;
            described++;
        }
        closedir(processes);
        CHECK(run, found == OWN);
        operations += OWN * 6;
    }
    finish(run, operations);
    return true;
}

static void prefork_worker(int listener)
{
    char line[64];
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        INSIST(fd >= 0);
        ssize_t size = read(fd, line, sizeof(line));
        INSIST(size > 0);
        if (line[0] == 'q')
            _exit(0);
        for (ssize_t at = 0; at < size; at++)
            line[at] = (char)toupper((unsigned char)line[at]);
        INSIST(write_all(fd, line, (size_t)size));
        close(fd);
    }
}

// Eight servers accept from one unix socket; the clients connect for each request.
bool section_prefork(struct run *run)
{
    enum { WORKERS = 8, CLIENTS = 4 };
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "prefork"};
    int ends[CLIENTS][2], listener = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(run, listener >= 0 && bind(listener, (struct sockaddr *)&name, sizeof(name)) == 0);
    CHECK(run, listen(listener, 64) == 0);
    for (int worker = 0; worker < WORKERS; worker++) {
        pid_t pid = start_child(run);
        CHECK(run, pid >= 0);
        if (pid == 0)
            prefork_worker(listener);
    }
    uint64_t share = run->rounds / CLIENTS + 1;
    begin(run);
    for (int client = 0; client < CLIENTS; client++) {
        CHECK(run, pipe(ends[client]) == 0);
        pid_t pid = start_child(run);
        CHECK(run, pid >= 0);
        if (pid == 0) {
            char answer[16];
            for (uint64_t round = 0; round < share; round++) {
                int fd = socket(AF_UNIX, SOCK_STREAM, 0);
                INSIST(connect(fd, (struct sockaddr *)&name, sizeof(name)) == 0);
                INSIST(write_all(fd, "a request", 9));
                INSIST(read_all(fd, answer, 9) && memcmp(answer, "A REQUEST", 9) == 0);
                close(fd);
            }
            _exit(0);
        }
        close(ends[client][1]);
    }
    // The pipe of a client reaches its end when the client and those started after it have ended.
    for (int client = 0; client < CLIENTS; client++) {
        char byte;
        CHECK(run, read(ends[client][0], &byte, 1) == 0);
    }
    finish(run, share * CLIENTS);
    for (int worker = 0; worker < WORKERS; worker++) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(run, connect(fd, (struct sockaddr *)&name, sizeof(name)) == 0 && write_all(fd, "q", 1));
        close(fd);
    }
    return wait_for_children(run);
}

// A supervisor: children end with codes, queued signals carry numbers, a timer fires, all through one signalfd.
bool section_wait_events(struct run *run)
{
    sigset_t watched, before;
    timer_t timer;
    int real_time = SIGRTMIN + 3;
    sigemptyset(&watched);
    sigaddset(&watched, real_time);
    sigaddset(&watched, SIGRTMIN + 4);
    CHECK(run, sigprocmask(SIG_BLOCK, &watched, &before) == 0);
    int fd = signalfd(-1, &watched, SFD_CLOEXEC);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 4};
    event.sigev_value.sival_int = 77;
    CHECK(run, fd >= 0 && timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        struct signalfd_siginfo info[4];
        struct rusage usage;
        for (int value = 0; value < 3; value++) {
            union sigval carried = {.sival_int = value};
            CHECK(run, sigqueue(getpid(), real_time, carried) == 0);
        }
        CHECK(run, read(fd, info, 3 * sizeof(info[0])) == 3 * sizeof(info[0]));
        CHECK(run, info[0].ssi_int == 0 && info[1].ssi_int == 1 && info[2].ssi_int == 2);
        struct itimerspec soon = {.it_value = {0, 1}};
        CHECK(run, timer_settime(timer, TIMER_ABSTIME, &soon, NULL) == 0);
        CHECK(run, read(fd, info, sizeof(info[0])) == sizeof(info[0]) && info[0].ssi_int == 77);
        CHECK(run, getrusage(RUSAGE_SELF, &usage) == 0);
        if (round % 32 == 0) {
            siginfo_t ended = {0};
            pid_t pid = start_child(run);
            CHECK(run, pid >= 0);
            if (pid == 0)
                _exit(21);
            CHECK(run, waitid(P_PID, (id_t)pid, &ended, WEXITED) == 0 && ended.si_status == 21);
            run->child_count = 0;
        }
    }
    finish(run, run->rounds * 7);
    CHECK(run, timer_delete(timer) == 0 && sigprocmask(SIG_SETMASK, &before, NULL) == 0);
    return true;
}
