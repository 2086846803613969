// SPDX-License-Identifier: Apache-2.0 OR MIT
// Training: mappings and page faults.

#define _GNU_SOURCE
#include "workload.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096 };

static char *anonymous(size_t size, int flags)
{
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
}

// Maps 64 pages, reads some (the zero page), writes all, unmaps.
bool section_map_anonymous(struct run *run)
{
    enum { PAGES = 64 };
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        volatile char *bytes = anonymous(PAGES * PAGE, MAP_PRIVATE);
        CHECK(run, bytes != MAP_FAILED);
        for (int page = 0; page < PAGES; page += 4)
            CHECK(run, bytes[page * PAGE] == 0);
        for (int page = 0; page < PAGES; page++)
            bytes[page * PAGE + 1] = (char)page;
        CHECK(run, bytes[(PAGES - 1) * PAGE + 1] == PAGES - 1);
        CHECK(run, munmap((void *)bytes, PAGES * PAGE) == 0);
    }
    finish(run, run->rounds * PAGES);
    return true;
}

// Maps a file, shared and private in turns; writes reach the file or not.
bool section_map_file(struct run *run)
{
    enum { PAGES = 48 };
    char page[PAGE], got;
    int fd = open("mapped", O_RDWR | O_CREAT, 0600);
    CHECK(run, fd >= 0);
    for (int at = 0; at < PAGES; at++) {
        memset(page, at + 1, PAGE);
        CHECK(run, write(fd, page, PAGE) == PAGE);
    }
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        bool shared = round % 2 == 0;
        volatile char *bytes =
            mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, shared ? MAP_SHARED : MAP_PRIVATE, fd, 0);
        CHECK(run, bytes != MAP_FAILED);
        for (int at = 0; at < PAGES; at++)
            CHECK(run, bytes[at * PAGE + 8] == at + 1);
        for (int at = 0; at < PAGES; at += 2)
            bytes[at * PAGE] = (char)(round + 2);
        if (shared)
            CHECK(run, msync((void *)bytes, PAGES * PAGE, MS_SYNC) == 0);
        CHECK(run, munmap((void *)bytes, PAGES * PAGE) == 0);
        CHECK(run, pread(fd, &got, 1, 0) == 1);
        CHECK(run, got == (char)(shared ? round + 2 : round + 1));
    }
    finish(run, run->rounds * PAGES);
    return true;
}

// A child writes half of the pages that it shares with its parent, the parent the other half.
bool section_copy_on_write(struct run *run)
{
    enum { PAGES = 128 };
    volatile char *bytes = anonymous(PAGES * PAGE, MAP_PRIVATE);
    CHECK(run, bytes != MAP_FAILED);
    memset((void *)bytes, 1, PAGES * PAGE);
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        int status = -1;
        char value = (char)(round & 0x3f), before = bytes[0];
        pid_t pid = start_child(run);
        CHECK(run, pid >= 0);
        if (pid == 0) {
            for (int page = 0; page < PAGES; page += 2)
                bytes[page * PAGE] = (char)(value + 100);
            _exit(bytes[PAGE] == bytes[3 * PAGE] ? 0 : 1);
        }
        CHECK(run, waitpid(pid, &status, 0) == pid && status == 0);
        run->child_count = 0;
        CHECK(run, bytes[0] == before);
        for (int page = 1; page < PAGES; page += 2)
            bytes[page * PAGE] = value;
    }
    finish(run, run->rounds * PAGES);
    return true;
}

// Protections, advice, growing and moving, and the heap's end.
bool section_map_change(struct run *run)
{
    enum { PAGES = 16 };
    char *bytes = anonymous(PAGES * PAGE, MAP_PRIVATE);
    char *heap = sbrk(0);
    CHECK(run, bytes != MAP_FAILED && heap != (char *)-1);
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        memset(bytes, 5, PAGES * PAGE);
        CHECK(run, mprotect(bytes + 4 * PAGE, 4 * PAGE, PROT_READ) == 0);
        CHECK(run, bytes[4 * PAGE] == 5);
        CHECK(run, mprotect(bytes + 4 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE) == 0);
        CHECK(run, madvise(bytes, 4 * PAGE, MADV_DONTNEED) == 0 && bytes[0] == 0);
        char *grown = mremap(bytes, PAGES * PAGE, 2 * PAGES * PAGE, MREMAP_MAYMOVE);
        CHECK(run, grown != MAP_FAILED && grown[5 * PAGE] == 5);
        bytes = mremap(grown, 2 * PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE);
        CHECK(run, bytes != MAP_FAILED);
        CHECK(run, sbrk(8 * PAGE) == heap);
        for (int page = 0; page < 8; page++)
            ((volatile char *)heap)[page * PAGE] = 1;
        CHECK(run, sbrk(-8 * PAGE) == heap + 8 * PAGE);
    }
    finish(run, run->rounds * 7);
    return true;
}
