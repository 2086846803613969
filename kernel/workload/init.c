// SPDX-License-Identifier: Apache-2.0 OR MIT
// The first process of a guest: mounts, console, where the kernel lies, the sections, and the end of the machine.
//
// As `init --here` it is an ordinary program that runs the sections in a temporary directory, without privileges.

#define _GNU_SOURCE
#include "workload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Where modules are in the archive.
#define MODULES "/planish/modules"

static void mount_at(const char *type, const char *path, const char *options)
{
    mkdir(path, 0755);
    if (mount(type, path, type, 0, options) != 0)
        say("planish: cannot mount %s: %s", path, strerror(errno));
}

static void set(const char *path, const char *value)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (!write_all(fd, value, strlen(value)))
        say("planish: cannot write %s: %s", path, strerror(errno));
    close(fd);
}

static void raise_loopback(void)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) != 0)
        say("planish: cannot bring up lo: %s", strerror(errno));
    close(fd);
}

// In its first second a kernel may not trust its clock yet, and timers fire at ticks only; `tsc=reliable` on its command
// line spares the wait.
static void await_clock(void)
{
    static const char path[] = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    const struct timespec pause = {0, 50000000};
    for (int tries = 0; tries < 60; tries++) {
        char name[32] = "";
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t size = fd < 0 ? -1 : read(fd, name, sizeof(name) - 1);
        close(fd);
        if (size <= 0 || strncmp(name, "tsc-early", 9) != 0)
            break;
        nanosleep(&pause, NULL);
    }
    // The timers change over at the tick after the clock.
    nanosleep(&pause, NULL);
}

// Where the kernel's text lies, from /proc/kallsyms. On arm64 `_text` is listed with all other symbols or not at all;
// where only `_stext` is, a third word says so.
static void say_text(void)
{
    FILE *symbols = fopen("/proc/kallsyms", "re");
    char line[512], text[32] = "", start[32] = "", end[32] = "";
    if (!symbols)
        return;
    while ((!text[0] || !end[0]) && fgets(line, sizeof(line), symbols)) {
        char address[32], name[256], type;
        if (sscanf(line, "%31s %c %255s", address, &type, name) != 3)
            continue;
        if (strcmp(name, "_text") == 0)
            strcpy(text, address);
        else if (strcmp(name, "_stext") == 0)
            strcpy(start, address);
        else if (strcmp(name, "_etext") == 0)
            strcpy(end, address);
    }
    fclose(symbols);
    if (text[0] && end[0])
        say("planish-text %s %s", text, end);
    else if (start[0] && end[0])
        say("planish-text %s %s _stext", start, end);
}

// A line that ends in ELF notes, which hold a build ID; false where there are none.
static bool say_notes(const char *word, const char *path)
{
    unsigned char notes[4096];
    char line[2 * sizeof(notes) + 512];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, notes, sizeof(notes));
    close(fd);
    if (size <= 0)
        return false;
    size_t at = (size_t)snprintf(line, 500, "%.490s ", word);
    for (ssize_t index = 0; index < size; index++)
        at += (size_t)sprintf(line + at, "%02x", notes[index]);
    line[at++] = '\n';
    return write_all(STDOUT_FILENO, line, at);
}

// The modules of the archive, whose names are in the order to load them in.
static void load_modules(void)
{
    struct dirent **entries;
    int count = scandir(MODULES, &entries, NULL, alphasort);
    for (int index = 0; index < count; index++) {
        char path[512];
        const char *name = entries[index]->d_name;
        if (name[0] == '.')
            continue;
        snprintf(path, sizeof(path), MODULES "/%s", name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) != 0 && errno != EEXIST))
            say("planish: failed 0 cannot load the module %s: %s", name, strerror(errno));
        close(fd);
        // The kernel keeps a copy of its own.
        unlink(path);
    }
}

// Where modules lie: their lines of /proc/modules, each with the module's notes.
static void say_modules(void)
{
    FILE *modules = fopen("/proc/modules", "re");
    char text[400];
    while (modules && fgets(text, sizeof(text), modules)) {
        char line[512], path[300], name[100];
        text[strcspn(text, "\n")] = '\0';
        snprintf(line, sizeof(line), "planish-module %s", text);
        if (sscanf(text, "%99s", name) != 1)
            continue;
        snprintf(path, sizeof(path), "/sys/module/%s/notes/.note.gnu.build-id", name);
        if (!say_notes(line, path))
            say("%s", line);
    }
    if (modules)
        fclose(modules);
}

static void in_guest(void)
{
    mount_at("proc", "/proc", NULL);
    mount_at("sysfs", "/sys", NULL);
    // Without devtmpfs the two devices of the archive have to do.
    mkdir("/dev", 0755);
    mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
    int console = open("/dev/console", O_RDWR);
    if (console >= 0)
        for (int fd = 0; fd <= 2; fd++)
            dup2(console, fd);
    if (console > 2)
        close(console);
    mount_at("tmpfs", "/tmp", "size=256m");
    set("/proc/sys/kernel/kptr_restrict", "0");
    set("/proc/sys/kernel/perf_event_paranoid", "-1");
    // Or stacks would be taken less often the longer an emulated machine takes for one.
    set("/proc/sys/kernel/perf_cpu_time_max_percent", "0");
    load_modules();
    raise_loopback();
    await_clock();
    say_text();
    say_notes("planish-notes", "/sys/kernel/notes");
    say_modules();
    if (chdir("/tmp") != 0)
        say("planish: cannot go to /tmp: %s", strerror(errno));
}

// The first process must not end: the kernel would panic.
static void end_machine(void)
{
    sync();
    reboot(RB_AUTOBOOT);
    reboot(RB_POWER_OFF);
    for (;;)
        pause();
}

// The sections run in a child: should one crash or hang, its parent still tidies up. The status is 0 if all succeeded.
static int run_and_wait(bool in_guest)
{
    pid_t worker = fork();
    if (worker == 0)
        _exit(in_guest && has_commands() ? run_commands() : run_sections(in_guest));
    int status = 0;
    pid_t pid;
    // Orphans of sections come to the first process too.
    while ((pid = wait(&status)) != worker)
        if (pid < 0 && errno != EINTR)
            break;
    if (pid != worker)
        say("planish: failed 0 no process for the sections: %s", strerror(errno));
    else if (WIFSIGNALED(status))
        say("planish: failed 0 the process of the sections was ended by signal %d", WTERMSIG(status));
    return pid == worker && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int here(void)
{
    const char *chosen = getenv("TMPDIR");
    const char *parent = chosen && *chosen ? chosen : access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    char directory[256];
    int size = snprintf(directory, sizeof(directory), "%s/planish-workload-XXXXXX", parent);
    if (size < 0 || (size_t)size >= sizeof(directory) || !mkdtemp(directory) || chdir(directory) != 0) {
        say("planish: cannot make a directory in %s: %s; set TMPDIR", parent, strerror(errno));
        return 2;
    }
    say("planish: skipped 0 mounts, the network device, the kernel's addresses and the reboot");
    int status = run_and_wait(false);
    if (chdir("/") != 0 || !remove_tree(directory))
        say("planish: %s was not removed: %s", directory, strerror(errno));
    return status;
}

int main(int count, char **words)
{
    if (count > 1 && strcmp(words[1], "--exit") == 0)
        return 0;
    if (count > 2 && strcmp(words[1], "--filter") == 0)
        return filter_main(words[2]);
    if (count > 1 && strcmp(words[1], "--here") == 0)
        return here();
    if (getpid() != 1) {
        say("usage: %s --here (or as the first process of a guest)", words[0]);
        return 2;
    }
    in_guest();
    pid_t collector = collect_stacks();
    run_and_wait(true);
    end_stacks(collector);
    end_machine();
}
