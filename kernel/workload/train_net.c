// SPDX-License-Identifier: Apache-2.0 OR MIT
// Training: TCP and UDP over the loopback device, in the manner of Neper: streams, requests and responses, and
// connections made anew for each request, by one client and by MANY.

#define _GNU_SOURCE
#include "workload.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CHUNK = 16384, REQUEST = 64 };

// Starts clients that wait for the gate; each runs `client` with its share of the rounds.
static bool start_clients(struct run *run, struct gate *gate, int clients, uint16_t port,
                          void (*client)(uint16_t port, uint64_t rounds))
{
    uint64_t share = run->rounds / (uint64_t)clients;
    run->rounds = (share ? share : 1) * (uint64_t)clients;
    CHECK(run, gate_make(run, gate));
    for (int at = 0; at < clients; at++) {
        pid_t pid = start_child(run);
        CHECK(run, pid >= 0);
        if (pid == 0) {
            gate_wait(gate);
            client(port, run->rounds / (uint64_t)clients);
            gate_done(gate);
            _exit(0);
        }
    }
    return true;
}

static bool accept_into(struct run *run, int listener, int poller)
{
    int one = 1;
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    CHECK(run, fd >= 0);
    CHECK(run, setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    CHECK(run, epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) == 0);
    return true;
}

// Reads what is there; answers requests if `answer`. Adds the bytes; closes the connection at its end.
static bool serve(struct run *run, int fd, bool answer, uint64_t *bytes, int *open)
{
    static char buffer[65536];
    ssize_t got = recv(fd, buffer, sizeof(buffer), 0);
    CHECK(run, got >= 0);
    if (got == 0) {
        CHECK(run, close(fd) == 0);
        *open -= 1;
        return true;
    }
    *bytes += (uint64_t)got;
    if (answer)
        CHECK(run, send(fd, buffer, (size_t)got, 0) == got);
    return true;
}

// An epoll server until `connections` clients have come and gone.
static bool epoll_server(struct run *run, int listener, int connections, bool answer, uint64_t *bytes)
{
    struct epoll_event events[MANY + 1], event = {.events = EPOLLIN, .data.fd = listener};
    int open = connections, poller = epoll_create1(EPOLL_CLOEXEC);
    CHECK(run, poller >= 0 && epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event) == 0);
    while (open > 0) {
        int ready = epoll_wait(poller, events, MANY + 1, -1);
        CHECK(run, ready > 0);
        for (int at = 0; at < ready; at++) {
            int fd = events[at].data.fd;
            if (!(fd == listener ? accept_into(run, listener, poller) : serve(run, fd, answer, bytes, &open)))
                return false;
        }
    }
    return true;
}

static void stream_client(uint16_t port, uint64_t rounds)
{
    static char chunk[CHUNK];
    int fd = loopback_connect(SOCK_STREAM, port);
    INSIST(fd >= 0);
    for (uint64_t round = 0; round < rounds; round++)
        INSIST(write_all(fd, chunk, CHUNK));
    close(fd);
}

static bool tcp_stream(struct run *run, int clients)
{
    struct gate gate;
    uint16_t port = 0;
    uint64_t bytes = 0;
    int listener = loopback_socket(SOCK_STREAM, &port);
    CHECK(run, listener >= 0);
    if (!start_clients(run, &gate, clients, port, stream_client))
        return false;
    begin(run);
    if (!gate_open(run, &gate, clients) || !epoll_server(run, listener, clients, false, &bytes) ||
        !gate_join(run, &gate, clients))
        return false;
    finish(run, run->rounds);
    CHECK(run, bytes == run->rounds * CHUNK);
    return wait_for_children(run);
}

bool section_tcp_stream(struct run *run)
{
    return tcp_stream(run, 1);
}

bool section_tcp_stream_many(struct run *run)
{
    return tcp_stream(run, MANY);
}

static void request_client(uint16_t port, uint64_t rounds)
{
    char request[REQUEST], answer[REQUEST];
    int one = 1, fd = loopback_connect(SOCK_STREAM, port);
    INSIST(fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0);
    for (uint64_t round = 0; round < rounds; round++) {
        fill(request, REQUEST, (unsigned)round);
        INSIST(send(fd, request, REQUEST, 0) == REQUEST);
        INSIST(read_all(fd, answer, REQUEST));
        INSIST(memcmp(request, answer, REQUEST) == 0);
    }
    close(fd);
}

static bool tcp_rr(struct run *run, int clients)
{
    struct gate gate;
    uint16_t port = 0;
    uint64_t bytes = 0;
    int listener = loopback_socket(SOCK_STREAM, &port);
    CHECK(run, listener >= 0);
    if (!start_clients(run, &gate, clients, port, request_client))
        return false;
    begin(run);
    if (!gate_open(run, &gate, clients) || !epoll_server(run, listener, clients, true, &bytes) ||
        !gate_join(run, &gate, clients))
        return false;
    finish(run, run->rounds);
    CHECK(run, bytes == run->rounds * REQUEST);
    return wait_for_children(run);
}

bool section_tcp_rr(struct run *run)
{
    return tcp_rr(run, 1);
}

bool section_tcp_rr_many(struct run *run)
{
    return tcp_rr(run, MANY);
}

static void connect_client(uint16_t port, uint64_t rounds)
{
    char answer[REQUEST], request[REQUEST];
    fill(request, REQUEST, 11);
    for (uint64_t round = 0; round < rounds; round++) {
        int fd = loopback_connect(SOCK_STREAM, port);
        INSIST(fd >= 0 && write_all(fd, request, REQUEST) && shutdown(fd, SHUT_WR) == 0);
        INSIST(read_all(fd, answer, REQUEST) && filled(answer, REQUEST, 12));
        INSIST(read(fd, answer, 1) == 0 && close(fd) == 0);
    }
}

static bool tcp_crr(struct run *run, int clients)
{
    struct gate gate;
    uint16_t port = 0;
    char request[REQUEST], answer[REQUEST], more;
    int listener = loopback_socket(SOCK_STREAM, &port);
    CHECK(run, listener >= 0);
    fill(answer, REQUEST, 12);
    if (!start_clients(run, &gate, clients, port, connect_client))
        return false;
    begin(run);
    if (!gate_open(run, &gate, clients))
        return false;
    for (uint64_t round = 0; round < run->rounds; round++) {
        struct sockaddr_in peer;
        socklen_t size = sizeof(peer);
        int fd = accept(listener, (struct sockaddr *)&peer, &size);
        CHECK(run, fd >= 0 && peer.sin_family == AF_INET);
        CHECK(run, read_all(fd, request, REQUEST) && filled(request, REQUEST, 11));
        CHECK(run, write_all(fd, answer, REQUEST));
        CHECK(run, read(fd, &more, 1) == 0 && close(fd) == 0);
    }
    if (!gate_join(run, &gate, clients))
        return false;
    finish(run, run->rounds);
    return wait_for_children(run);
}

bool section_tcp_crr(struct run *run)
{
    return tcp_crr(run, 1);
}

bool section_tcp_crr_many(struct run *run)
{
    return tcp_crr(run, MANY);
}

static void datagram_client(uint16_t port, uint64_t rounds)
{
    uint64_t request[4] = {0}, answer[4];
    int fd = loopback_connect(SOCK_DGRAM, port);
    INSIST(fd >= 0);
    for (uint64_t round = 0; round < rounds; round++) {
        request[0] = round;
        INSIST(send(fd, request, sizeof(request), 0) == sizeof(request));
        INSIST(recv(fd, answer, sizeof(answer), 0) == sizeof(answer) && answer[0] == round + 1);
    }
    close(fd);
}

// Of MANY clients each has one datagram under way, so none is lost.
static bool udp_rr(struct run *run, int clients)
{
    struct gate gate;
    uint16_t port = 0;
    int server = loopback_socket(SOCK_DGRAM, &port);
    CHECK(run, server >= 0);
    if (!start_clients(run, &gate, clients, port, datagram_client))
        return false;
    begin(run);
    if (!gate_open(run, &gate, clients))
        return false;
    for (uint64_t round = 0; round < run->rounds; round++) {
        uint64_t request[4];
        struct sockaddr_in peer;
        socklen_t size = sizeof(peer);
        CHECK(run, recvfrom(server, request, sizeof(request), 0, (struct sockaddr *)&peer, &size) ==
                       sizeof(request));
        request[0]++;
        CHECK(run, sendto(server, request, sizeof(request), 0, (struct sockaddr *)&peer, size) ==
                       sizeof(request));
    }
    if (!gate_join(run, &gate, clients))
        return false;
    finish(run, run->rounds);
    return wait_for_children(run);
}

bool section_udp_rr(struct run *run)
{
    return udp_rr(run, 1);
}

bool section_udp_rr_many(struct run *run)
{
    return udp_rr(run, MANY);
}
