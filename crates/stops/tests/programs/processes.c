// Makes processes in every way, each of which works and becomes this program again: `processes DEPTH`. Prints how many
// ended as they should, exits with 3.
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char *self, depth[16];

static void work(void) {
    volatile unsigned long sum = 0;
    for (unsigned long i = 0; i < 20000000ul; i++) sum += i;
}

static int ends_well(pid_t pid) {
    int status = 0;
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 3;
}

static void *become(void *unused) {
    work();
    execl(self, self, depth, (char *)0);
    return unused;
}

int main(int argc, char **argv) {
    int good = 0, levels = argc > 1 ? atoi(argv[1]) : 2;
    char *const words[] = {argv[0], depth, 0};
    self = argv[0];
    work();
    if (levels <= 0) return 3;
    snprintf(depth, sizeof depth, "%d", levels - 1);
    pid_t pid = fork();
    if (pid == 0) {
        work();
        execl(self, self, depth, (char *)0);
        _exit(1);
    }
    good += ends_well(pid);
    pid = vfork();
    if (pid == 0) {
        execl(self, self, depth, (char *)0);
        _exit(1);
    }
    good += ends_well(pid);
    if (posix_spawn(&pid, self, 0, 0, words, environ)) pid = -1;
    good += ends_well(pid);
    pid = fork();
    if (pid == 0) {
        pthread_t thread;
        pthread_create(&thread, 0, become, 0);
        for (;;) work();
    }
    good += ends_well(pid);
    if (levels == (argc > 2 ? atoi(argv[2]) : -1)) printf("%d\n", good);
    return good == 4 ? 3 : 1;
}
