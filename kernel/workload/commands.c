// SPDX-License-Identifier: Apache-2.0 OR MIT
// Commands of other people as sections: what /planish/commands names, in place of the sections here.
//
// A line is one section, its parts separated by tabs: number, name, and the words of the command.

#define _GNU_SOURCE
#include "marker.h"
#include "workload.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIST "/planish/commands"
#define MOST_WORDS 128
#define LINE 4096
// Seconds of the guest's clock after which a command hangs.
#define PATIENCE 300
// What a command prints goes here; its end is told where it fails.
#define OUTPUT "/tmp/planish-output"

#define MARKER(number)                                                                              \
    static __attribute__((noinline)) void mark_##number(void)                                       \
    {                                                                                               \
        MARK(number);                                                                               \
    }
// Twenty commands to train with and twenty that are held out.
#define ALL(each)                                                                                   \
    each(1) each(2) each(3) each(4) each(5) each(6) each(7) each(8) each(9) each(10) each(11)       \
    each(12) each(13) each(14) each(15) each(16) each(17) each(18) each(19) each(20) each(101)      \
    each(102) each(103) each(104) each(105) each(106) each(107) each(108) each(109) each(110)       \
    each(111) each(112) each(113) each(114) each(115) each(116) each(117) each(118) each(119)       \
    each(120)
ALL(MARKER)

static const struct {
    int number;
    void (*mark)(void);
} MARKS[] = {
#define ENTRY(number) {number, mark_##number},
    ALL(ENTRY)
#undef ENTRY
};

bool has_commands(void)
{
    return access(LIST, R_OK) == 0;
}

static pid_t running;

static void hanging(int signal)
{
    (void)signal;
    kill(-running, SIGKILL);
}

static void child(char **words)
{
    int output = open(OUTPUT, O_WRONLY | O_CREAT | O_TRUNC, 0600), input = open("/dev/null", O_RDONLY);
    setpgid(0, 0);
    dup2(input, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    close_range(3, ~0u, 0);
    signal(SIGPIPE, SIG_DFL);
    setenv("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:/usr/games", 1);
    setenv("HOME", "/tmp", 1);
    execvp(words[0], words);
    dprintf(STDERR_FILENO, "cannot start %s: %s", words[0], strerror(errno));
    _exit(127);
}

// The last line that the command printed.
static void last_words(char *text, size_t size)
{
    int fd = open(OUTPUT, O_RDONLY | O_CLOEXEC);
    off_t end = lseek(fd, 0, SEEK_END);
    ssize_t got = pread(fd, text, size - 1, end > (off_t)size - 1 ? end - (off_t)size + 1 : 0);
    close(fd);
    text[got > 0 ? got : 0] = 0;
    while (got > 0 && (text[got - 1] == '\n' || text[got - 1] == ' '))
        text[--got] = 0;
    char *line = strrchr(text, '\n');
    if (line)
        memmove(text, line + 1, strlen(line));
}

static bool run_command(struct run *run, char **words)
{
    int status = 0;
    char said[100];
    struct sigaction action = {.sa_handler = hanging};
    sigaction(SIGALRM, &action, NULL);
    begin(run);
    running = fork();
    if (running == 0)
        child(words);
    CHECK(run, running > 0);
    setpgid(running, running);
    alarm(PATIENCE);
    while (waitpid(running, &status, 0) < 0)
        CHECK(run, errno == EINTR);
    bool hangs = alarm(0) == 0;
    finish(run, 1);
    // What it left behind, servers that went their own way too; the first process is not meant by this.
    kill(-1, SIGKILL);
    errno = 0;
    last_words(said, sizeof(said));
    if (hangs)
        return fail(run, "does not end: %s", said);
    if (WIFSIGNALED(status))
        return fail(run, "ended by signal %d: %s", WTERMSIG(status), said);
    if (WEXITSTATUS(status) != 0)
        return fail(run, "exit code %d: %s", WEXITSTATUS(status), said);
    return true;
}

static bool run_line(char *line, const char *sections)
{
    char *words[MOST_WORDS + 3], *rest = line;
    size_t count = 0;
    while (count < MOST_WORDS + 2 && (words[count] = strsep(&rest, "\t")))
        count++;
    words[count] = NULL;
    if (count < 3)
        return true;
    struct section section = {.number = atoi(words[0]), .name = words[1], .reference = 1};
    for (size_t at = 0; at < sizeof(MARKS) / sizeof(MARKS[0]); at++)
        if (MARKS[at].number == section.number)
            section.mark = MARKS[at].mark;
    if (!section.mark || !is_chosen(&section, sections, NULL))
        return true;
    struct run run = {.section = &section};
    say("planish: section %d %s %s", section.number, kind_of(&section), section.name);
    if (!run_command(&run, words + 2)) {
        say("planish: failed %d %s", section.number, run.failure);
        return false;
    }
    say("planish: result %d %llu %llu", section.number, (unsigned long long)run.operations,
        (unsigned long long)run.nanoseconds);
    return true;
}

int run_commands(void)
{
    char line[LINE];
    int failures = 0;
    const char *sections = getenv("PLANISH_SECTIONS");
    FILE *list = fopen(LIST, "re");
    say("planish: begin 1");
    while (list && fgets(line, sizeof(line), list)) {
        line[strcspn(line, "\n")] = 0;
        failures += !run_line(line, sections);
    }
    if (list)
        fclose(list);
    say("planish: end");
    return failures == 0 ? 0 : 1;
}
