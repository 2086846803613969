/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the parts of the workload share: a section's run, its checks, its children. */
#ifndef PLANISH_WORKLOAD_H
#define PLANISH_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum needs { NOTHING, LOOPBACK };
enum load { ANY, LOW, HIGH };

/* Clients of the sections under high load. */
#define MANY 16
/* The first number of a held-out section. */
#define FIRST_HELD 101
/* Children of a section that may live at once. */
#define MOST_CHILDREN 64

struct run;

struct section {
    int number;
    const char *name;
    enum needs needs;
    enum load load;
    uint64_t rounds;
    uint64_t reference;
    /* Executes the marker of this section. */
    void (*mark)(void);
    bool (*body)(struct run *);
};

/* One run of one section. */
struct run {
    const struct section *section;
    uint64_t rounds;
    uint64_t start;
    uint64_t nanoseconds;
    uint64_t operations;
    pid_t children[MOST_CHILDREN];
    int child_count;
    char failure[160];
};

extern const struct section SECTIONS[];
extern const size_t SECTION_COUNT;

/* commands.c */
bool has_commands(void);
int run_commands(void);

/* runner.c */
const char *kind_of(const struct section *section);
bool is_chosen(const struct section *section, const char *sections, const char *load);
int run_sections(bool in_guest);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * support.c. A section leaves descriptors and children that it does not need any more to the runner, which closes and
 * kills them, and the files of its directory, which the runner removes.
 */

/* Everything before begin() and after finish() is set-up and not counted. */
void begin(struct run *run);
void finish(struct run *run, uint64_t operations);

/* Notes why the section failed, with errno; always false. */
bool fail(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define CHECK(run, condition)                                                                       \
    do {                                                                                            \
        if (!(condition))                                                                           \
            return fail((run), "%s, line %d: not so: %s", __FILE__, __LINE__, #condition);          \
    } while (0)

/* In a child: ends it unless the condition holds; wait_for() sees it. */
#define INSIST(condition)                                                                           \
    do {                                                                                            \
        if (!(condition))                                                                           \
            insist_failed(__FILE__, __LINE__, #condition);                                          \
    } while (0)
void insist_failed(const char *file, int line, const char *condition) __attribute__((noreturn));

/* fork(), with the child noted in the run and bound to its parent's life. */
pid_t start_child(struct run *run);
/* All noted children ended by themselves with status 0. */
bool wait_for_children(struct run *run);

/* Holds children back until the measured part begins, and says when they are done. */
struct gate {
    int go[2];
    int done[2];
};
bool gate_make(struct run *run, struct gate *gate);
void gate_wait(struct gate *gate);
void gate_done(struct gate *gate);
bool gate_open(struct run *run, struct gate *gate, int children);
bool gate_join(struct run *run, struct gate *gate, int children);

/* All bytes, or false. */
bool read_all(int fd, void *bytes, size_t size);
bool write_all(int fd, const void *bytes, size_t size);

/* Removes a directory and all in it. */
bool remove_tree(const char *path);

/* A pattern that depends on the seed, and whether the bytes hold it. */
void fill(void *bytes, size_t size, unsigned seed);
bool filled(const void *bytes, size_t size, unsigned seed);

/* A listening or bound socket on the loopback device, at a port of the kernel's choice. */
int loopback_socket(int type, uint16_t *port);
int loopback_connect(int type, uint16_t port);

/* What the program does when it is started as `--exit` or `--filter`; see shell_pipeline and exec. */
int filter_main(const char *shift);

/* odd.c: as many children as PLANISH_ODD says make system calls with arguments that fit badly. */
void odd_calls(void);

/* stacks.c: a process that collects the stacks that the kernel unwinds, where PLANISH_STACKS is set, else 0. */
pid_t collect_stacks(void);
/* It prints what it has collected and ends. */
void end_stacks(pid_t collector);

#endif
