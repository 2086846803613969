// SPDX-License-Identifier: Apache-2.0 OR MIT
// Held out: the files of a compiler's run, logs that several processes append to, bytes that move inside the kernel.

#define _GNU_SOURCE
#include "workload.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <unistd.h>

enum { DIRECTORIES = 3, SOURCES = 12 };

static bool compile_one(struct run *run, const char *source, unsigned seed)
{
    char text[3000], object[80], temporary[96], missing[96];
    struct stat about;
    int input = open(source, O_RDONLY | O_CLOEXEC);
    CHECK(run, input >= 0 && fstat(input, &about) == 0 && about.st_size == sizeof(text));
    CHECK(run, read_all(input, text, sizeof(text)) && close(input) == 0);
    CHECK(run, text[0] == (char)seed);
    // Headers are looked for where they are not.
    for (int path = 0; path < 6; path++) {
        snprintf(missing, sizeof(missing), "%s.include-%d/header.h", source, path);
        CHECK(run, open(missing, O_RDONLY) == -1 && errno == ENOENT);
    }
    errno = 0;
    snprintf(object, sizeof(object), "%s.o", source);
    snprintf(temporary, sizeof(temporary), "%s.tmp", object);
    int output = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    CHECK(run, output >= 0);
    struct iovec parts[3] = {{text, 64}, {text + 64, 1936}, {text + 2000, 1000}};
    CHECK(run, writev(output, parts, 3) == 3000);
    CHECK(run, pwrite(output, "head", 4, 0) == 4 && fchmod(output, 0644) == 0 && close(output) == 0);
    CHECK(run, rename(temporary, object) == 0);
    return true;
}

// A tree of sources comes into being, is compiled to objects, archived, checked for what is newer, and removed.
bool section_compile_tree(struct run *run)
{
    char path[64], text[3000];
    uint64_t operations = 0;
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        char *roots[] = {"tree", NULL};
        int objects = 0;
        CHECK(run, mkdir("tree", 0777) == 0);
        for (int directory = 0; directory < DIRECTORIES; directory++) {
            snprintf(path, sizeof(path), "tree/part%d", directory);
            CHECK(run, mkdir(path, 0777) == 0);
            for (int source = 0; source < SOURCES; source++) {
                unsigned seed = (unsigned)(directory * SOURCES + source) & 0x7f;
                snprintf(path, sizeof(path), "tree/part%d/unit%d.c", directory, source);
                fill(text, sizeof(text), seed);
                int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
                CHECK(run, fd >= 0 && write_all(fd, text, sizeof(text)) && close(fd) == 0);
                if (!compile_one(run, path, seed))
                    return false;
            }
        }
        int archive = open("tree/all.a", O_WRONLY | O_CREAT | O_APPEND, 0666);
        FTS *walk = fts_open(roots, FTS_PHYSICAL, NULL);
        CHECK(run, archive >= 0 && walk != NULL);
        for (FTSENT *entry; (entry = fts_read(walk));) {
            if (entry->fts_info == FTS_DP) {
                if (entry->fts_level > 0)
                    CHECK(run, rmdir(entry->fts_accpath) == 0);
                continue;
            }
            if (entry->fts_info != FTS_F || strcmp(entry->fts_name, "all.a") == 0)
                continue;
            if (strstr(entry->fts_name, ".o")) {
                int fd = open(entry->fts_accpath, O_RDONLY);
                CHECK(run, fd >= 0 && read_all(fd, text, sizeof(text)) && memcmp(text, "head", 4) == 0);
                CHECK(run, write_all(archive, text, sizeof(text)) && close(fd) == 0);
                objects++;
            }
            CHECK(run, unlink(entry->fts_accpath) == 0);
        }
        fts_close(walk);
        struct stat about;
        CHECK(run, objects == DIRECTORIES * SOURCES && fstat(archive, &about) == 0);
        CHECK(run, about.st_size == (off_t)objects * (off_t)sizeof(text) && close(archive) == 0);
        CHECK(run, unlink("tree/all.a") == 0 && rmdir("tree") == 0);
        operations += DIRECTORIES * SOURCES * 26;
    }
    finish(run, operations);
    return true;
}

enum { LINE = 80 };

// A line goes to the end of one log, a counter in another file goes up under a lock.
static bool append_line(int log, int counter, int writer)
{
    char line[LINE];
    uint64_t count = 0;
    memset(line, 'a' + writer, LINE);
    line[LINE - 1] = '\n';
    if (write(log, line, LINE) != LINE || flock(counter, LOCK_EX) != 0)
        return false;
    ssize_t got = pread(counter, &count, sizeof(count), 0);
    count++;
    return got >= 0 && pwrite(counter, &count, sizeof(count), 0) == sizeof(count) &&
           flock(counter, LOCK_UN) == 0;
}

static bool log_append(struct run *run, int writers)
{
    uint64_t share = run->rounds / (uint64_t)writers, count = 0;
    share = share ? share : 1;
    begin(run);
    for (int writer = 0; writer < writers; writer++) {
        pid_t pid = start_child(run);
        CHECK(run, pid >= 0);
        if (pid == 0) {
            int log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0600);
            int counter = open("counter", O_RDWR | O_CREAT, 0600);
            INSIST(log >= 0 && counter >= 0);
            for (uint64_t round = 0; round < share; round++)
                INSIST(append_line(log, counter, writer));
            _exit(0);
        }
    }
    if (!wait_for_children(run))
        return false;
    finish(run, share * (uint64_t)writers * 5);
    struct stat about;
    int counter = open("counter", O_RDONLY);
    CHECK(run, read(counter, &count, sizeof(count)) == sizeof(count) && count == share * (uint64_t)writers);
    CHECK(run, stat("log", &about) == 0 && about.st_size == (off_t)(count * LINE));
    return true;
}

bool section_log_append(struct run *run)
{
    return log_append(run, 1);
}

bool section_log_append_many(struct run *run)
{
    return log_append(run, 8);
}

// A file to a socket, a file through a pipe into another, gathered and scattered vectors.
bool section_splice(struct run *run)
{
    enum { SIZE = 24000 };
    static char bytes[SIZE], got[SIZE];
    int fds[2], pair[2];
    int from = open("from", O_RDWR | O_CREAT, 0600), to = open("to", O_RDWR | O_CREAT, 0600);
    fill(bytes, SIZE, 9);
    CHECK(run, from >= 0 && to >= 0 && write_all(from, bytes, SIZE));
    CHECK(run, pipe(fds) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        off_t at = 0;
        loff_t in = 0, out = 0;
        while (at < SIZE) {
            ssize_t sent = sendfile(pair[0], from, &at, 8000);
            CHECK(run, sent > 0 && read_all(pair[1], got, (size_t)sent));
        }
        while (in < SIZE) {
            ssize_t moved = splice(from, &in, fds[1], NULL, 12000, 0);
            CHECK(run, moved > 0);
            for (ssize_t left = moved; left > 0;) {
                ssize_t put = splice(fds[0], NULL, to, &out, (size_t)left, SPLICE_F_MOVE);
                CHECK(run, put > 0);
                left -= put;
            }
        }
        struct iovec parts[4];
        for (int part = 0; part < 4; part++)
            parts[part] = (struct iovec){got + part * (SIZE / 4), SIZE / 4};
        CHECK(run, preadv(to, parts, 4, 0) == SIZE);
        CHECK(run, pwritev(to, parts, 4, 0) == SIZE);
        loff_t source = 0, target = SIZE;
        CHECK(run, copy_file_range(from, &source, to, &target, SIZE, 0) > 0);
        struct statfs about;
        CHECK(run, fstatfs(to, &about) == 0 && ftruncate(to, SIZE) == 0);
    }
    finish(run, run->rounds * 16);
    CHECK(run, memcmp(bytes, got, SIZE) == 0);
    return true;
}
