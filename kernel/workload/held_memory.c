// SPDX-License-Identifier: Apache-2.0 OR MIT
// Held out: an allocator's mappings with fork, and a ring in shared memory.

#define _GNU_SOURCE
#include "workload.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096 };

// Arenas of mixed sizes with guard pages; every sixth round a child inherits them, reads all and writes a part.
bool section_allocate(struct run *run)
{
    enum { ARENAS = 24 };
    char *arenas[ARENAS];
    size_t pages[ARENAS];
    uint64_t operations = 0;
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        for (int at = 0; at < ARENAS; at++) {
            pages[at] = (size_t)(2 + (at * 7 + (int)round) % 19);
            arenas[at] = mmap(NULL, (pages[at] + 1) * PAGE, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            CHECK(run, arenas[at] != MAP_FAILED);
            CHECK(run, mprotect(arenas[at], pages[at] * PAGE, PROT_READ | PROT_WRITE) == 0);
            for (size_t page = 0; page < pages[at]; page++)
                ((volatile char *)arenas[at])[page * PAGE + page] = (char)at;
            operations += 2 + pages[at];
        }
        if (round % 6 == 0) {
            int status = -1;
            pid_t pid = start_child(run);
            CHECK(run, pid >= 0);
            if (pid == 0) {
                int wrong = 0;
                for (int at = 0; at < ARENAS; at++) {
                    for (size_t page = 0; page < pages[at]; page++)
                        wrong += ((volatile char *)arenas[at])[page * PAGE + page] != (char)at;
                    memset(arenas[at], 1, PAGE);
                }
                _exit(wrong == 0 ? 0 : 1);
            }
            CHECK(run, waitpid(pid, &status, 0) == pid && status == 0);
            run->child_count = 0;
        }
        for (int at = 0; at < ARENAS; at++) {
            size_t size = pages[at] * PAGE;
            CHECK(run, arenas[at][0] == (char)at);
            if (at % 3 == 0)
                CHECK(run, madvise(arenas[at], size, MADV_DONTNEED) == 0 && arenas[at][0] == 0);
            // From both ends, as allocators give back.
            CHECK(run, munmap(arenas[at] + PAGE, size) == 0 && munmap(arenas[at], PAGE) == 0);
            operations += 2;
        }
    }
    finish(run, operations);
    return true;
}

// A ring of 8 slots of one page in a file of memory, with two counters that both sides wait on.
struct ring {
    uint32_t written, taken;
    char slots[8][PAGE];
};

static void wait_while(uint32_t *word, uint32_t value)
{
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == value)
        syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

static void set(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

bool section_shared_ring(struct run *run)
{
    enum { MESSAGES = 64 };
    begin(run);
    for (uint64_t round = 0; round < run->rounds; round++) {
        int fd = memfd_create("ring", MFD_CLOEXEC), status = -1;
        CHECK(run, fd >= 0 && ftruncate(fd, sizeof(struct ring)) == 0);
        struct ring *ring = mmap(NULL, sizeof(struct ring), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        CHECK(run, ring != MAP_FAILED && close(fd) == 0);
        pid_t pid = start_child(run);
        CHECK(run, pid >= 0);
        if (pid == 0) {
            for (uint32_t message = 0; message < MESSAGES; message++) {
                if (message >= 8)
                    wait_while(&ring->taken, message - 8);
                memset(ring->slots[message % 8], (int)message + 1, 256);
                set(&ring->written, message + 1);
            }
            _exit(0);
        }
        for (uint32_t message = 0; message < MESSAGES; message++) {
            wait_while(&ring->written, message);
            CHECK(run, ring->slots[message % 8][255] == (char)(message + 1));
            set(&ring->taken, message + 1);
        }
        CHECK(run, waitpid(pid, &status, 0) == pid && status == 0);
        run->child_count = 0;
        CHECK(run, munmap(ring, sizeof(struct ring)) == 0);
    }
    finish(run, run->rounds * MESSAGES);
    return true;
}
