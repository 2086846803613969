// SPDX-License-Identifier: Apache-2.0 OR MIT
// Checks, children, gates and small input and output for the sections.

#define _GNU_SOURCE
#include "workload.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

bool fail(struct run *run, const char *format, ...)
{
    int number = errno;
    size_t size = sizeof(run->failure);
    if (run->failure[0])
        return false;
    va_list arguments;
    va_start(arguments, format);
    int used = vsnprintf(run->failure, size, format, arguments);
    va_end(arguments);
    if (number && used >= 0 && (size_t)used < size)
        snprintf(run->failure + used, size - (size_t)used, " (errno: %s)", strerror(number));
    return false;
}

void insist_failed(const char *file, int line, const char *condition)
{
    int number = errno;
    say("planish: child %s, line %d: not so: %s (errno: %s)", file, line, condition, strerror(number));
    _exit(1);
}

pid_t start_child(struct run *run)
{
    if (run->child_count == MOST_CHILDREN) {
        errno = EAGAIN;
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    else if (pid > 0)
        run->children[run->child_count++] = pid;
    return pid;
}

bool wait_for_children(struct run *run)
{
    while (run->child_count > 0) {
        int status = 0;
        pid_t pid = run->children[run->child_count - 1];
        CHECK(run, waitpid(pid, &status, 0) == pid);
        run->child_count--;
        errno = 0;
        if (status != 0)
            return fail(run, "a child ended with status %#x", status);
    }
    return true;
}

bool gate_make(struct run *run, struct gate *gate)
{
    CHECK(run, pipe(gate->go) == 0);
    CHECK(run, pipe(gate->done) == 0);
    return true;
}

void gate_wait(struct gate *gate)
{
    char byte;
    close(gate->done[0]);
    INSIST(read(gate->go[0], &byte, 1) == 1);
}

void gate_done(struct gate *gate)
{
    INSIST(write(gate->done[1], "d", 1) == 1);
    close(gate->done[1]);
}

bool gate_open(struct run *run, struct gate *gate, int children)
{
    char bytes[MOST_CHILDREN] = {0};
    // Children that fail must not leave the reader of `done` waiting.
    close(gate->done[1]);
    CHECK(run, write(gate->go[1], bytes, (size_t)children) == children);
    return true;
}

bool gate_join(struct run *run, struct gate *gate, int children)
{
    char bytes[MOST_CHILDREN];
    for (ssize_t got = 0; got < children;) {
        ssize_t more = read(gate->done[0], bytes, (size_t)(children - got));
        CHECK(run, more > 0);
        got += more;
    }
    return true;
}

bool read_all(int fd, void *bytes, size_t size)
{
    for (char *at = bytes; size > 0;) {
        ssize_t got = read(fd, at, size);
        if (got <= 0)
            return false;
        at += got;
        size -= (size_t)got;
    }
    return true;
}

bool write_all(int fd, const void *bytes, size_t size)
{
    for (const char *at = bytes; size > 0;) {
        ssize_t put = write(fd, at, size);
        if (put <= 0)
            return false;
        at += put;
        size -= (size_t)put;
    }
    return true;
}

void fill(void *bytes, size_t size, unsigned seed)
{
    unsigned char *at = bytes;
    for (size_t index = 0; index < size; index++)
        at[index] = (unsigned char)(seed + index * 7);
}

bool filled(const void *bytes, size_t size, unsigned seed)
{
    const unsigned char *at = bytes;
    for (size_t index = 0; index < size; index++)
        if (at[index] != (unsigned char)(seed + index * 7))
            return false;
    return true;
}

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = port};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

int loopback_socket(int type, uint16_t *port)
{
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, type, 0);
    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&address, size) != 0 || (type == SOCK_STREAM && listen(fd, 128) != 0) ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
        close(fd);
        return -1;
    }
    *port = address.sin_port;
    return fd;
}

int loopback_connect(int type, uint16_t port)
{
    struct sockaddr_in address = loopback(port);
    int fd = socket(AF_INET, type, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *walk)
{
    (void)stat, (void)type, (void)walk;
    return remove(path);
}

bool remove_tree(const char *path)
{
    return nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0;
}

int filter_main(const char *shift)
{
    unsigned char bytes[4096];
    unsigned add = (unsigned)strtoul(shift, NULL, 10);
    for (;;) {
        ssize_t got = read(STDIN_FILENO, bytes, sizeof(bytes));
        if (got <= 0)
            return got == 0 ? 0 : 1;
        for (ssize_t index = 0; index < got; index++)
            bytes[index] = (unsigned char)(bytes[index] + add);
        if (!write_all(STDOUT_FILENO, bytes, (size_t)got))
            return 1;
    }
}
