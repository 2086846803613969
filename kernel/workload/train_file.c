// SPDX-License-Identifier: Apache-2.0 OR MIT
// Training: files and directories on tmpfs, and reading /proc.

#define _GNU_SOURCE
#include "workload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// UnixBench's `fstime`: write, read and copy a file of 32 KiB in pieces of 256, 1024 and 4096 bytes.
bool section_file_copy(struct run *run)
{
    enum { SIZE = 32768 };
    static const size_t PIECES[] = {256, 1024, 4096};
    char piece[4096], got[4096];
    uint64_t operations = 0;
    int from = open("from", O_RDWR | O_CREAT | O_TRUNC, 0600);
    int to = open("to", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(run, from >= 0 && to >= 0);
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        size_t size = PIECES[round % 3];
        fill(piece, size, (unsigned)round);
        CHECK(run, lseek(from, 0, SEEK_SET) == 0 && lseek(to, 0, SEEK_SET) == 0);
        for (size_t at = 0; at < SIZE; at += size)
            CHECK(run, write(from, piece, size) == (ssize_t)size);
        CHECK(run, lseek(from, 0, SEEK_SET) == 0);
        for (size_t at = 0; at < SIZE; at += size) {
            CHECK(run, read(from, got, size) == (ssize_t)size);
            CHECK(run, write(to, got, size) == (ssize_t)size);
        }
        CHECK(run, read(from, got, 1) == 0);
        operations += 3 * (SIZE / size);
    }
    finish(run, operations);
    size_t last = PIECES[(run->rounds - 1) % 3];
    CHECK(run, pread(to, got, last, SIZE - (off_t)last) == (ssize_t)last);
    CHECK(run, filled(got, last, (unsigned)(run->rounds - 1)));
    return true;
}

// Records at scattered places of a sparse file, with fsync and truncation between.
bool section_file_random(struct run *run)
{
    enum { RECORDS = 257, RECORD = 700 };
    char record[RECORD], got[RECORD];
    struct stat stat;
    int fd = open("records", O_RDWR | O_CREAT, 0600);
    CHECK(run, fd >= 0);
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        off_t at = (off_t)(round * 101 % RECORDS) * RECORD;
        memset(record, (int)(round & 0x7f) + 1, RECORD);
        CHECK(run, pwrite(fd, record, RECORD, at) == RECORD);
        CHECK(run, lseek(fd, at, SEEK_SET) == at);
        CHECK(run, read(fd, got, RECORD) == RECORD);
        CHECK(run, got[0] == record[0] && got[RECORD - 1] == record[0]);
        if (round % 64 == 63)
            CHECK(run, fsync(fd) == 0 && fstat(fd, &stat) == 0);
        if (round % 512 == 511)
            CHECK(run, ftruncate(fd, RECORD) == 0 && ftruncate(fd, RECORD * RECORDS) == 0);
    }
    finish(run, run->rounds * 3);
    return true;
}

// Looks up paths that are there and paths that are not.
bool section_path_walk(struct run *run)
{
    struct stat found;
    CHECK(run, mkdir("a", 0755) == 0 && mkdir("a/bb", 0755) == 0 && mkdir("a/bb/ccc", 0755) == 0);
    int fd = open("a/bb/ccc/leaf", O_WRONLY | O_CREAT, 0640);
    CHECK(run, fd >= 0 && write(fd, "leaf", 4) == 4 && close(fd) == 0);
    CHECK(run, symlink("../bb/ccc", "a/bb/link") == 0);
    char here[256];
    CHECK(run, getcwd(here, sizeof(here) - 32) != NULL);
    strcat(here, "/a/bb/ccc/leaf");
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        CHECK(run, stat("a/bb/ccc/leaf", &found) == 0 && found.st_size == 4);
        CHECK(run, lstat("a/bb/link", &found) == 0 && S_ISLNK(found.st_mode));
        CHECK(run, access("a/./bb/link/leaf", R_OK) == 0);
        CHECK(run, stat("a/bb/none", &found) == -1 && errno == ENOENT);
        errno = 0;
        fd = open(here, O_RDONLY);
        CHECK(run, fd >= 0 && fstat(fd, &found) == 0 && close(fd) == 0);
        fd = openat(AT_FDCWD, "a/bb/../bb/ccc/leaf", O_RDONLY | O_CLOEXEC);
        CHECK(run, fd >= 0 && close(fd) == 0);
    }
    finish(run, run->rounds * 9);
    return true;
}

static bool entries_counted(struct run *run, const char *path, int expected)
{
    DIR *directory = opendir(path);
    int entries = 0;
    CHECK(run, directory != NULL);
    while (readdir(directory))
        entries++;
    closedir(directory);
    CHECK(run, entries == expected + 2);
    return true;
}

// A directory of 24 files comes into being, is listed and changed, and goes.
bool section_directory(struct run *run)
{
    enum { FILES = 24 };
    char name[32], other[32];
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        CHECK(run, mkdir("d", 0700) == 0);
        for (int file = 0; file < FILES; file++) {
            snprintf(name, sizeof(name), "d/file-%d", file);
            int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
            CHECK(run, fd >= 0 && close(fd) == 0);
        }
        CHECK(run, open("d/file-0", O_CREAT | O_EXCL | O_WRONLY, 0600) == -1 && errno == EEXIST);
        errno = 0;
        if (!entries_counted(run, "d", FILES))
            return false;
        for (int file = 0; file < FILES; file++) {
            snprintf(name, sizeof(name), "d/file-%d", file);
            snprintf(other, sizeof(other), "d/other-%d", file);
            if (file % 4 == 0)
                CHECK(run, link(name, other) == 0 && unlink(name) == 0);
            else
                CHECK(run, rename(name, other) == 0);
            CHECK(run, chmod(other, 0400) == 0);
        }
        CHECK(run, rmdir("d") == -1 && errno == ENOTEMPTY);
        errno = 0;
        for (int file = 0; file < FILES; file++) {
            snprintf(other, sizeof(other), "d/other-%d", file);
            CHECK(run, unlink(other) == 0);
        }
        CHECK(run, rmdir("d") == 0);
    }
    finish(run, run->rounds * (FILES * 5 + 2));
    return true;
}

// Files that the kernel writes when they are read.
bool section_proc_read(struct run *run)
{
    static const char *const PATHS[] = {"/proc/self/stat",   "/proc/self/maps", "/proc/meminfo", "/proc/stat",
                                        "/proc/self/status", "/proc/loadavg",   "/proc/uptime"};
    enum { COUNT = sizeof(PATHS) / sizeof(PATHS[0]) };
    static char text[65536];
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        for (int path = 0; path < COUNT; path++) {
            int fd = open(PATHS[path], O_RDONLY);
            CHECK(run, fd >= 0);
            ssize_t size = 0, more;
            while ((more = read(fd, text + size, sizeof(text) - 1 - (size_t)size)) > 0)
                size += more;
            CHECK(run, more == 0 && size > 0 && close(fd) == 0);
            text[size] = 0;
            if (path == 0)
                CHECK(run, strchr(text, ')') != NULL);
            if (path == 1)
                CHECK(run, strstr(text, "[stack]") != NULL);
            if (path == 2)
                CHECK(run, strncmp(text, "MemTotal:", 9) == 0);
        }
    }
    finish(run, run->rounds * COUNT);
    return true;
}
