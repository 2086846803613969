// SPDX-License-Identifier: Apache-2.0 OR MIT
// Held out: a key-value server, batches of datagrams, descriptors passed between processes.

#define _GNU_SOURCE
#include "workload.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { KEYS = 64, VALUE = 1200, COMMAND = 24 };

// A client's command is 24 bytes, "set KEY SIZE" or "get KEY", a set being followed by SIZE bytes.
static void key_value_client(uint16_t port, int client, uint64_t rounds)
{
    char command[COMMAND], value[VALUE], got[VALUE];
    uint32_t size;
    int fd = loopback_connect(SOCK_STREAM, port);
    INSIST(fd >= 0);
    for (uint64_t round = 0; round < rounds; round++) {
        // No two clients share a key.
        int key = client * 4 + (int)(round / 5 % 4);
        size = (uint32_t)(40 + (round / 5) * 97 % (VALUE - 40));
        memset(command, 0, COMMAND);
        if (round % 5 == 0) {
            snprintf(command, COMMAND, "set %d %u", key, size);
            fill(value, size, (unsigned)round);
            struct iovec parts[2] = {{command, COMMAND}, {value, size}};
            INSIST(writev(fd, parts, 2) == (ssize_t)(COMMAND + size));
            INSIST(read_all(fd, &size, sizeof(size)) && size == 0);
        } else {
            uint32_t expected = size;
            snprintf(command, COMMAND, "get %d", key);
            INSIST(send(fd, command, COMMAND, 0) == COMMAND);
            INSIST(recv(fd, &size, sizeof(size), MSG_WAITALL) == sizeof(size) && size == expected);
            INSIST(recv(fd, got, size, MSG_WAITALL) == (ssize_t)size && memcmp(got, value, size) == 0);
        }
    }
    shutdown(fd, SHUT_RDWR);
    _exit(0);
}

static struct {
    uint32_t size;
    char bytes[VALUE];
} store[KEYS];

struct connection {
    int fd;
    size_t used;
    char input[COMMAND + VALUE];
};

// Answers one whole command at the start of the input; how many bytes it had, 0 if more must come, -1 if wrong.
static ssize_t answer(struct connection *connection)
{
    int key = -1;
    unsigned size = 0;
    uint32_t nothing = 0;
    if (connection->used < COMMAND)
        return 0;
    if (sscanf(connection->input, "set %d %u", &key, &size) == 2 && size <= VALUE && key >= 0 && key < KEYS) {
        if (connection->used < COMMAND + size)
            return 0;
        store[key].size = size;
        memcpy(store[key].bytes, connection->input + COMMAND, size);
        return write(connection->fd, &nothing, 4) == 4 ? (ssize_t)(COMMAND + size) : -1;
    }
    if (sscanf(connection->input, "get %d", &key) != 1 || key < 0 || key >= KEYS)
        return -1;
    struct iovec parts[2] = {{&store[key].size, 4}, {store[key].bytes, store[key].size}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    return sendmsg(connection->fd, &message, MSG_NOSIGNAL) == (ssize_t)(4 + store[key].size) ? COMMAND : -1;
}

// Edge-triggered: reads until there is nothing more. 1 open, 0 closed by the peer, -1 wrong.
static int drain(struct connection *connection, uint64_t *answered)
{
    for (;;) {
        ssize_t got = read(connection->fd, connection->input + connection->used,
                           sizeof(connection->input) - connection->used);
        if (got < 0)
            return errno == EAGAIN ? 1 : -1;
        if (got == 0)
            return 0;
        connection->used += (size_t)got;
        ssize_t taken;
        while ((taken = answer(connection)) > 0) {
            connection->used -= (size_t)taken;
            memmove(connection->input, connection->input + taken, connection->used);
            *answered += 1;
        }
        if (taken < 0)
            return -1;
    }
}

static bool key_value(struct run *run, int clients)
{
    static struct connection connections[MANY];
    uint16_t port = 0;
    uint64_t share = run->rounds / (uint64_t)clients, answered = 0;
    int open = 0, seen = 0, listener = loopback_socket(SOCK_STREAM, &port), poller = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[4];
    share = share ? share : 1;
    CHECK(run, listener >= 0 && poller >= 0 && fcntl(listener, F_SETFL, O_NONBLOCK) == 0);
    CHECK(run, epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event) == 0);
    begin(run);
    for (int client = 0; client < clients; client++) {
        pid_t pid = start_child(run);
        CHECK(run, pid >= 0);
        if (pid == 0)
            key_value_client(port, client, share);
    }
    while (seen < clients || open > 0) {
        int ready = epoll_wait(poller, events, 4, -1);
        CHECK(run, ready > 0);
        for (int at = 0; at < ready; at++) {
            struct connection *connection = events[at].data.ptr;
            if (!connection) {
                connection = &connections[seen];
                connection->used = 0;
                connection->fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
                CHECK(run, connection->fd >= 0);
                event = (struct epoll_event){.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = connection};
                CHECK(run, epoll_ctl(poller, EPOLL_CTL_ADD, connection->fd, &event) == 0);
                seen++, open++;
                continue;
            }
            int state = drain(connection, &answered);
            CHECK(run, state >= 0);
            if (state == 0) {
                CHECK(run, close(connection->fd) == 0);
                open--;
            }
        }
    }
    errno = 0;
    if (!wait_for_children(run))
        return false;
    finish(run, answered);
    CHECK(run, answered == share * (uint64_t)clients);
    return true;
}

bool section_key_value(struct run *run)
{
    return key_value(run, 1);
}

bool section_key_value_many(struct run *run)
{
    return key_value(run, MANY);
}

enum { BATCH = 16, QUERY = 40 };

static void batch(struct mmsghdr *messages, struct iovec *parts, char bytes[BATCH][QUERY * 3], size_t size)
{
    for (int at = 0; at < BATCH; at++) {
        parts[at] = (struct iovec){bytes[at], size};
        messages[at].msg_hdr.msg_iov = &parts[at];
        messages[at].msg_hdr.msg_iovlen = 1;
    }
}

// A server that takes what came in one call and answers in one, each answer three times as long as its question.
bool section_dns_batch(struct run *run)
{
    static char asked[BATCH][QUERY * 3], answers[BATCH][QUERY * 3];
    static struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    uint16_t port = 0;
    int server = loopback_socket(SOCK_DGRAM, &port), client = loopback_connect(SOCK_DGRAM, port);
    CHECK(run, server >= 0 && client >= 0);
    pid_t pid = start_child(run);
    CHECK(run, pid >= 0);
    if (pid == 0) {
        static struct sockaddr_in peers[BATCH];
        for (;;) {
            struct pollfd readable = {.fd = server, .events = POLLIN};
            INSIST(poll(&readable, 1, -1) == 1);
            memset(messages, 0, sizeof(messages));
            batch(messages, parts, asked, QUERY);
            for (int at = 0; at < BATCH; at++) {
                messages[at].msg_hdr.msg_name = &peers[at];
                messages[at].msg_hdr.msg_namelen = sizeof(peers[at]);
            }
            int count = recvmmsg(server, messages, BATCH, MSG_DONTWAIT, NULL);
            INSIST(count > 0);
            for (int at = 0; at < count; at++) {
                memset(asked[at] + QUERY, asked[at][0], 2 * QUERY);
                parts[at].iov_len = 3 * QUERY;
            }
            INSIST(sendmmsg(server, messages, (unsigned)count, 0) == count);
        }
    }
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        memset(messages, 0, sizeof(messages));
        batch(messages, parts, asked, QUERY);
        for (int at = 0; at < BATCH; at++)
            memset(asked[at], at + 1, QUERY);
        CHECK(run, sendmmsg(client, messages, BATCH, 0) == BATCH);
        int sum = 0;
        for (int got = 0; got < BATCH;) {
            batch(messages, parts, answers, 3 * QUERY);
            int more = recvmmsg(client, messages, (unsigned)(BATCH - got), MSG_WAITFORONE, NULL);
            CHECK(run, more > 0);
            for (int at = 0; at < more; at++) {
                CHECK(run, messages[at].msg_len == 3 * QUERY);
                sum += answers[at][3 * QUERY - 1];
            }
            got += more;
        }
        CHECK(run, sum == BATCH * (BATCH + 1) / 2);
    }
    finish(run, run->rounds * BATCH * 2);
    return true;
}

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static bool send_descriptor(int socket, int fd)
{
    union control control;
    char byte = 'f';
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    memset(&control, 0, sizeof(control));
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof(control.bytes);
    control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET};
    control.header.cmsg_type = SCM_RIGHTS;
    memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
    return sendmsg(socket, &message, 0) == 1;
}

static int receive_descriptor(int socket)
{
    union control control;
    char byte;
    int fd = -1;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof(control.bytes);
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1 && message.msg_controllen >= CMSG_LEN(sizeof(int)))
        memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
    return fd;
}

// A pipe's end goes to a helper process, which writes into it and closes it.
bool section_pass_descriptor(struct run *run)
{
    int pair[2];
    CHECK(run, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    pid_t pid = start_child(run);
    CHECK(run, pid >= 0);
    if (pid == 0) {
        close(pair[0]);
        for (uint64_t round = 0; round < run->rounds; round++) {
            int fd = receive_descriptor(pair[1]);
            INSIST(fd >= 0 && write(fd, &round, sizeof(round)) == sizeof(round) && close(fd) == 0);
        }
        _exit(0);
    }
    close(pair[1]);
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        uint64_t number = 0;
        int fds[2];
        CHECK(run, pipe2(fds, O_CLOEXEC) == 0 && send_descriptor(pair[0], fds[1]) && close(fds[1]) == 0);
        CHECK(run, read(fds[0], &number, sizeof(number)) == sizeof(number) && number == round);
        CHECK(run, read(fds[0], &number, 1) == 0 && close(fds[0]) == 0);
    }
    finish(run, run->rounds * 8);
    return wait_for_children(run);
}
