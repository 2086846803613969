// SPDX-License-Identifier: Apache-2.0 OR MIT
// Training: unix sockets.

#define _GNU_SOURCE
#include "workload.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

// Each of the children answers on its own pair of sockets; its answer is the request with one byte changed.
static bool unix_stream(struct run *run, int children)
{
    enum { SIZE = 512 };
    char request[SIZE], answer[SIZE];
    int pairs[MANY][2];
    for (int child = 0; child < children; child++)
        CHECK(run, socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[child]) == 0);
    for (int child = 0; child < children; child++) {
        pid_t pid = start_child(run);
        CHECK(run, pid >= 0);
        if (pid == 0) {
            for (int other = 0; other < children; other++)
                close(pairs[other][0]);
            while (read_all(pairs[child][1], request, SIZE)) {
                request[0]++;
                INSIST(write_all(pairs[child][1], request, SIZE));
            }
            _exit(0);
        }
    }
    for (int child = 0; child < children; child++)
        close(pairs[child][1]);
    uint64_t rounds = run->rounds / (uint64_t)children;
    rounds = rounds ? rounds : 1;
    memset(request, 7, SIZE);
    begin(run);
    for (uint64_t round = 0; round < rounds; round++) {
        for (int child = 0; child < children; child++)
            CHECK(run, write_all(pairs[child][0], request, SIZE));
        for (int child = 0; child < children; child++) {
            CHECK(run, read_all(pairs[child][0], answer, SIZE));
            CHECK(run, answer[0] == 8 && answer[SIZE - 1] == 7);
        }
    }
    finish(run, rounds * (uint64_t)children);
    for (int child = 0; child < children; child++)
        close(pairs[child][0]);
    return wait_for_children(run);
}

bool section_unix_stream(struct run *run)
{
    return unix_stream(run, 1);
}

bool section_unix_stream_many(struct run *run)
{
    return unix_stream(run, MANY);
}

// Datagrams to a socket with a name, which answers the sender by its name.
bool section_unix_dgram(struct run *run)
{
    struct sockaddr_un server = {.sun_family = AF_UNIX, .sun_path = "server"};
    struct sockaddr_un client = {.sun_family = AF_UNIX, .sun_path = "client"};
    int to = socket(AF_UNIX, SOCK_DGRAM, 0), from = socket(AF_UNIX, SOCK_DGRAM, 0);
    char data[256], got[256];
    CHECK(run, to >= 0 && bind(to, (struct sockaddr *)&server, sizeof(server)) == 0);
    CHECK(run, from >= 0 && bind(from, (struct sockaddr *)&client, sizeof(client)) == 0);
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        struct sockaddr_un peer;
        socklen_t size = sizeof(peer);
        ssize_t length = (ssize_t)(16 + round % 240);
        memset(data, (int)(round & 0x7f), sizeof(data));
        CHECK(run, sendto(from, data, (size_t)length, 0, (struct sockaddr *)&server, sizeof(server)) == length);
        CHECK(run, recvfrom(to, got, sizeof(got), 0, (struct sockaddr *)&peer, &size) == length);
        CHECK(run, got[length - 1] == data[0] && strcmp(peer.sun_path, "client") == 0);
        CHECK(run, sendto(to, got, (size_t)length, 0, (struct sockaddr *)&peer, size) == length);
        CHECK(run, recv(from, got, sizeof(got), 0) == length);
    }
    finish(run, run->rounds * 2);
    return true;
}
