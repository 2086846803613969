// SPDX-License-Identifier: Apache-2.0 OR MIT
// Chooses sections, runs each with its markers and a clean end, prints results and indexes.

#define _GNU_SOURCE
#include "marker.h"
#include "workload.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Seconds of the guest's clock after which a section hangs, at 100 percent of its rounds or less.
#define PATIENCE 120

#define SECTION(number, name, needs, load, rounds, reference)                                       \
    bool section_##name(struct run *);                                                              \
    static __attribute__((noinline)) void mark_##name(void)                                         \
    {                                                                                               \
        MARK(number);                                                                               \
    }
#include "sections.h"
#undef SECTION

static __attribute__((noinline)) void mark_nothing(void)
{
    MARK(0);
}

#define SECTION(number, name, needs, load, rounds, reference)                                       \
    {number, #name, needs, load, rounds, reference, mark_##name, section_##name},
const struct section SECTIONS[] = {
#include "sections.h"
};
#undef SECTION
const size_t SECTION_COUNT = sizeof(SECTIONS) / sizeof(SECTIONS[0]);

// The section that runs, for the handler of the alarm.
static volatile int current;

void say(const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int used = vsnprintf(line, sizeof(line) - 1, format, arguments);
    va_end(arguments);
    if (used < 0)
        return;
    size_t size = (size_t)used < sizeof(line) - 1 ? (size_t)used : sizeof(line) - 2;
    line[size] = '\n';
    // One write a line, so that lines of several processes do not mix.
    write_all(STDOUT_FILENO, line, size + 1);
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

void begin(struct run *run)
{
    run->start = now();
    run->section->mark();
}

void finish(struct run *run, uint64_t operations)
{
    mark_nothing();
    run->nanoseconds = now() - run->start;
    run->operations = operations;
}

const char *kind_of(const struct section *section)
{
    return section->number < FIRST_HELD ? "train" : "held";
}

// Whether `word` is one of the comma separated words of `list`.
static bool listed(const char *list, const char *word)
{
    size_t size = strlen(word);
    while (*list) {
        size_t length = strcspn(list, ",");
        if (length == size && strncmp(list, word, size) == 0)
            return true;
        list += length + (list[length] == ',');
    }
    return false;
}

bool is_chosen(const struct section *section, const char *sections, const char *load)
{
    if (load && strcmp(load, "low") == 0 && section->load == HIGH)
        return false;
    if (load && strcmp(load, "high") == 0 && section->load == LOW)
        return false;
    return !sections || listed(sections, "all") || listed(sections, kind_of(section)) ||
           listed(sections, section->name);
}

static void end_children(struct run *run)
{
    for (int index = 0; index < run->child_count; index++)
        kill(run->children[index], SIGKILL);
    for (int index = 0; index < run->child_count; index++)
        while (waitpid(run->children[index], NULL, 0) < 0 && errno == EINTR)
            ;
    run->child_count = 0;
}

static void hanging(int signal)
{
    (void)signal;
    char line[64];
    int size = snprintf(line, sizeof(line), "planish: failed %d does not end\n", current);
    write_all(STDOUT_FILENO, line, (size_t)size);
    _exit(1);
}

// Runs one section in a directory of its own.
static bool run_section(struct run *run, uint64_t percent)
{
    const struct section *section = run->section;
    uint64_t rounds = section->rounds * percent / 100;
    run->rounds = rounds > 0 ? rounds : 1;
    current = section->number;
    say("planish: section %d %s %s", section->number, kind_of(section), section->name);
    if (mkdir(section->name, 0755) != 0 || chdir(section->name) != 0)
        return fail(run, "no directory of its own");
    struct sigaction action = {.sa_handler = hanging};
    sigaction(SIGALRM, &action, NULL);
    alarm(PATIENCE * (percent > 100 ? (unsigned)(percent / 100) + 1 : 1));
    errno = 0;
    bool fine = section->body(run);
    mark_nothing();
    if (fine && run->operations == 0)
        fine = fail(run, "it measured nothing");
    end_children(run);
    alarm(0);
    close_range(3, ~0u, 0);
    if (chdir("..") != 0)
        return fail(run, "its directory has no parent");
    remove_tree(section->name);
    return fine;
}

// log2(number) in units of 2^-32, digit by digit: no floating point, the same everywhere.
static uint64_t log2_fixed(uint64_t number)
{
    uint64_t whole = 63 - (uint64_t)__builtin_clzll(number | 1);
    // The mantissa in [1, 2), in units of 2^-31.
    uint64_t mantissa = whole > 31 ? number >> (whole - 31) : number << (31 - whole);
    uint64_t digits = 0;
    for (int bit = 0; bit < 32; bit++) {
        mantissa = (mantissa * mantissa) >> 31;
        digits <<= 1;
        if (mantissa >> 32) {
            mantissa >>= 1;
            digits |= 1;
        }
    }
    return whole << 32 | digits;
}

struct index {
    uint64_t logarithms;
    uint64_t sections;
};

static void add_score(struct index *index, const struct run *run)
{
    // 100 where the rate is the reference: UnixBench's 10 points, in tenths.
    unsigned __int128 rate = (unsigned __int128)run->operations * 1000000000u * 100u;
    uint64_t nanoseconds = run->nanoseconds ? run->nanoseconds : 1;
    uint64_t score = (uint64_t)(rate / nanoseconds / run->section->reference);
    index->logarithms += log2_fixed(score ? score : 1);
    index->sections++;
}

// The geometric mean of the scores: the largest number whose logarithm is not above their mean.
static void print_index(const struct index *index, const char *name)
{
    if (index->sections == 0)
        return;
    uint64_t mean = index->logarithms / index->sections;
    uint64_t low = 1, high = UINT64_C(1) << 40;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (log2_fixed(middle) <= mean)
            low = middle;
        else
            high = middle;
    }
    say("planish: index %s %llu", name, (unsigned long long)low);
}

static bool has_loopback(void)
{
    uint16_t port = 0;
    int listener = loopback_socket(SOCK_STREAM, &port);
    int client = listener < 0 ? -1 : loopback_connect(SOCK_STREAM, port);
    close_range(3, ~0u, 0);
    return client >= 0;
}

int run_sections(bool in_guest)
{
    const char *sections = getenv("PLANISH_SECTIONS");
    const char *load = getenv("PLANISH_LOAD");
    const char *rounds = getenv("PLANISH_ROUNDS");
    unsigned long percent = rounds ? strtoul(rounds, NULL, 10) : 100;
    if (percent == 0 || percent > 100000)
        percent = 100;
    struct index train = {0}, held = {0};
    int failures = 0;
    signal(SIGPIPE, SIG_IGN);
    bool loopback = in_guest || has_loopback();
    say("planish: begin 1");
    for (size_t index = 0; index < SECTION_COUNT; index++) {
        const struct section *section = &SECTIONS[index];
        struct run run = {.section = section};
        if (!is_chosen(section, sections, load))
            continue;
        if (section->needs == LOOPBACK && !loopback) {
            say("planish: skipped %d there is no loopback network here", section->number);
            continue;
        }
        if (run_section(&run, percent)) {
            say("planish: result %d %llu %llu", section->number, (unsigned long long)run.operations,
                (unsigned long long)run.nanoseconds);
            add_score(section->number < FIRST_HELD ? &train : &held, &run);
        } else {
            say("planish: failed %d %s", section->number, run.failure);
            failures++;
        }
    }
    print_index(&train, "train");
    print_index(&held, "held");
    if (in_guest)
        odd_calls();
    say("planish: end");
    return failures == 0 ? 0 : 1;
}
