// SPDX-License-Identifier: Apache-2.0 OR MIT
// Does the kernel unwind its own stacks to where it was entered, and through the cold parts of its functions?
//
// With `PLANISH_STACKS=1` a process collects, on every CPU and from the kernel's own unwinder, the call chain of each
// context switch, of each page fault in the kernel, and five thousand times a second of whatever the kernel does. At
// the end it prints, with names from /proc/kallsyms,
//
//   planish-stacks SAMPLES CHAINS LOST UNKEPT                     chains are distinct, unkept are those without room
//   planish-stack-end NAME SAMPLES CHAINS COLD-SAMPLES COLD-CHAINS    by the function of the outermost frame
//   planish-stack-cold NAME SAMPLES CHAINS                            by cold part, wherever in a chain it stands
//   planish-stack NAME+0xOFFSET < ...                                 an example for each of both, innermost frame first
//
// What of it is right is for the reader to say.

#define _GNU_SOURCE
#include "workload.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_CPUS 8
#define RING_PAGES 1024u
#define PAGE 4096u
#define MOST_CHAINS (1u << 16)
#define MOST_FRAMES (1u << 21)
#define MOST_SYMBOLS 400000u
// What the kernel keeps of a chain by default, /proc/sys/kernel/perf_event_max_stack, and the mark before it.
#define DEEPEST 128u

// A distinct chain: where it stands in the pool, and how often it was seen.
struct chain {
    uint32_t start, length;
    uint64_t hash, samples;
};

struct symbol {
    uint64_t address;
    char *name;
    uint64_t samples, chains, cold_samples, cold_chains;
    bool shown;
};

static struct chain *chains;
static uint64_t *pool;
static struct symbol *symbols;
static uint32_t chain_count, pool_used, symbol_count;
static uint64_t sample_count, lost, unkept;
static volatile sig_atomic_t ending;

static void end_now(int signal)
{
    (void)signal;
    ending = 1;
}

static void count_chain(const uint64_t *frames, uint32_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    sample_count++;
    for (uint32_t index = 0; index < length; index++)
        hash = (hash ^ frames[index]) * UINT64_C(0x9e3779b97f4a7c15), hash ^= hash >> 29;
    for (uint32_t slot = (uint32_t)hash % MOST_CHAINS;; slot = (slot + 1) % MOST_CHAINS) {
        struct chain *chain = &chains[slot];
        bool same = chain->samples && chain->hash == hash && chain->length == length;
        if (same && memcmp(pool + chain->start, frames, length * sizeof(*frames)) == 0) {
            chain->samples++;
            return;
        }
        if (chain->samples)
            continue;
        if (chain_count >= MOST_CHAINS / 2 || pool_used + length > MOST_FRAMES) {
            unkept++;
            return;
        }
        memcpy(pool + pool_used, frames, length * sizeof(*frames));
        *chain = (struct chain){pool_used, length, hash, 1};
        pool_used += length;
        chain_count++;
        return;
    }
}

// A sample is a count of addresses and the addresses; the first tells that they are the kernel's.
static void read_record(const unsigned char *record, uint32_t type, uint32_t size)
{
    uint64_t words[2 + DEEPEST + 8];
    if (type == PERF_RECORD_LOST && size >= 24) {
        memcpy(words, record + 8, 16);
        lost += words[1];
    }
    if (type != PERF_RECORD_SAMPLE || size < 24 || size - 8 > sizeof(words))
        return;
    memcpy(words, record + 8, size - 8);
    uint64_t count = words[0];
    // Without frames there was none of the kernel, as where a task ends.
    if (count >= 2 && count * 8 + 16 <= size && words[1] == (uint64_t)PERF_CONTEXT_KERNEL)
        count_chain(words + 2, (uint32_t)count - 1);
}

static void drain(struct perf_event_mmap_page *ring)
{
    static unsigned char record[1 << 16];
    const unsigned char *data = (unsigned char *)ring + PAGE;
    uint64_t size = RING_PAGES * PAGE;
    uint64_t head = __atomic_load_n(&ring->data_head, __ATOMIC_ACQUIRE);
    uint64_t tail = ring->data_tail;
    while (tail < head) {
        struct perf_event_header header;
        memcpy(&header, data + tail % size, sizeof(header));
        if (header.size < sizeof(header) || tail + header.size > head)
            break;
        for (uint32_t at = 0; at < header.size; at += 8)
            memcpy(record + at, data + (tail + at) % size, 8);
        read_record(record, header.type, header.size);
        tail += header.size;
    }
    __atomic_store_n(&ring->data_tail, head, __ATOMIC_RELEASE);
}

static int open_event(uint64_t which, uint64_t period, int cpu)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = which};
    attr.sample_period = period;
    attr.sample_type = PERF_SAMPLE_CALLCHAIN;
    attr.exclude_user = 1;
    attr.exclude_callchain_user = 1;
    attr.watermark = 1;
    attr.wakeup_watermark = RING_PAGES * PAGE / 4;
    return (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static struct perf_event_mmap_page *watch_cpu(int cpu)
{
    // Nanoseconds for the clock; the others are each counted.
    int clock = open_event(PERF_COUNT_SW_CPU_CLOCK, 200000, cpu);
    if (clock < 0)
        return NULL;
    void *ring = mmap(NULL, (RING_PAGES + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, clock, 0);
    int others[] = {open_event(PERF_COUNT_SW_CONTEXT_SWITCHES, 1, cpu), open_event(PERF_COUNT_SW_PAGE_FAULTS, 1, cpu)};
    if (ring == MAP_FAILED)
        return NULL;
    for (int index = 0; index < 2; index++)
        if (others[index] < 0 || ioctl(others[index], PERF_EVENT_IOC_SET_OUTPUT, clock) != 0)
            return NULL;
    return ring;
}

static int by_address(const void *one, const void *other)
{
    uint64_t left = ((const struct symbol *)one)->address, right = ((const struct symbol *)other)->address;
    return left < right ? -1 : left > right;
}

static bool read_symbols(void)
{
    FILE *file = fopen("/proc/kallsyms", "re");
    char line[512];
    while (file && symbol_count < MOST_SYMBOLS && fgets(line, sizeof(line), file)) {
        char *rest, kind, name[256];
        uint64_t address = strtoull(line, &rest, 16);
        if (sscanf(rest, " %c %255s", &kind, name) != 2 || !strchr("tTwW", kind))
            continue;
        symbols[symbol_count++] = (struct symbol){.address = address, .name = strdup(name)};
    }
    if (file)
        fclose(file);
    qsort(symbols, symbol_count, sizeof(*symbols), by_address);
    return symbol_count > 0;
}

// The last symbol at or before the address, the first of several at one place.
static struct symbol *symbol_of(uint64_t address)
{
    uint32_t low = 0, high = symbol_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (symbols[middle].address <= address)
            low = middle;
        else
            high = middle;
    }
    while (low > 0 && symbols[low - 1].address == symbols[low].address)
        low--;
    return &symbols[low];
}

// All frames but the innermost are where a call returns to, which may be the next function's begin.
static struct symbol *symbol_of_frame(const struct chain *chain, uint32_t index)
{
    return symbol_of(pool[chain->start + index] - (index > 0));
}

static bool is_cold(const struct symbol *symbol)
{
    size_t length = strlen(symbol->name);
    return length > 5 && strcmp(symbol->name + length - 5, ".cold") == 0;
}

static void show(const struct chain *chain)
{
    char line[8192] = "planish-stack";
    size_t used = strlen(line);
    for (uint32_t index = 0; index < chain->length && used + 300 < sizeof(line); index++) {
        const struct symbol *symbol = symbol_of_frame(chain, index);
        unsigned long long offset = pool[chain->start + index] - symbol->address;
        used += (size_t)sprintf(line + used, "%s %s+%#llx", index ? " <" : "", symbol->name, offset);
    }
    line[used++] = '\n';
    write_all(STDOUT_FILENO, line, used);
}

static void count_symbols(const struct chain *chain)
{
    struct symbol *end = symbol_of_frame(chain, chain->length - 1);
    bool cold = false, told = end->shown;
    for (uint32_t index = 0; index < chain->length; index++) {
        struct symbol *symbol = symbol_of_frame(chain, index);
        bool again = false;
        for (uint32_t before = 0; before < index; before++)
            again |= symbol_of_frame(chain, before) == symbol;
        if (!is_cold(symbol) || again)
            continue;
        cold = true;
        told &= symbol->shown;
        symbol->shown = true;
        // A cold part is no end of a chain, unless something is wrong: then both counts say so.
        symbol->cold_samples += chain->samples;
        symbol->cold_chains++;
    }
    end->shown = true;
    end->samples += chain->samples;
    end->chains++;
    if (cold && !is_cold(end)) {
        end->cold_samples += chain->samples;
        end->cold_chains++;
    }
    if (!told)
        show(chain);
}

static void tell(void)
{
    say("planish-stacks %llu %u %llu %llu", (unsigned long long)sample_count, chain_count, (unsigned long long)lost,
        (unsigned long long)unkept);
    for (uint32_t slot = 0; slot < MOST_CHAINS; slot++)
        if (chains[slot].samples)
            count_symbols(&chains[slot]);
    for (uint32_t index = 0; index < symbol_count; index++) {
        const struct symbol *symbol = &symbols[index];
        unsigned long long samples = symbol->samples, cold_samples = symbol->cold_samples;
        unsigned long long all = symbol->chains, cold = symbol->cold_chains;
        if (all)
            say("planish-stack-end %s %llu %llu %llu %llu", symbol->name, samples, all, cold_samples, cold);
        if (cold && is_cold(symbol))
            say("planish-stack-cold %s %llu %llu", symbol->name, cold_samples, cold);
    }
}

static void collect(int ready)
{
    struct perf_event_mmap_page *rings[MOST_CPUS];
    int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    chains = calloc(MOST_CHAINS, sizeof(*chains));
    pool = calloc(MOST_FRAMES, sizeof(*pool));
    symbols = calloc(MOST_SYMBOLS, sizeof(*symbols));
    if (cpus > MOST_CPUS || !chains || !pool || !symbols) {
        say("planish-stacks: no room, or more than %d CPUs", MOST_CPUS);
        return;
    }
    for (int cpu = 0; cpu < cpus; cpu++) {
        rings[cpu] = watch_cpu(cpu);
        if (!rings[cpu]) {
            say("planish-stacks: no events on CPU %d: %s", cpu, strerror(errno));
            return;
        }
    }
    close(ready);
    // Woken by the signal, not by the rings: they are large, and the reader must not be what is seen most.
    while (!ending) {
        poll(NULL, 0, 20);
        for (int cpu = 0; cpu < cpus; cpu++)
            drain(rings[cpu]);
    }
    if (read_symbols())
        tell();
    else
        say("planish-stacks: /proc/kallsyms has no names");
}

pid_t collect_stacks(void)
{
    const char *wanted = getenv("PLANISH_STACKS");
    int ready[2];
    char byte;
    if (!wanted || strcmp(wanted, "1") != 0 || pipe(ready) != 0)
        return 0;
    pid_t pid = fork();
    if (pid == 0) {
        struct sigaction action = {.sa_handler = end_now};
        sigaction(SIGTERM, &action, NULL);
        close(ready[0]);
        collect(ready[1]);
        _exit(0);
    }
    close(ready[1]);
    // Until the other end is closed, at the latest by the process's end.
    while (pid > 0 && read(ready[0], &byte, 1) < 0 && errno == EINTR)
        ;
    close(ready[0]);
    return pid > 0 ? pid : 0;
}

void end_stacks(pid_t collector)
{
    if (collector == 0 || kill(collector, SIGTERM) != 0)
        return;
    while (waitpid(collector, NULL, 0) < 0 && errno == EINTR)
        ;
}
