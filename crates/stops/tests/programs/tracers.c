// Traces children of its own as a debugger does: `tracers COUNT`. Each asks to be traced, stops, is stepped a thousand times and
// counts on alone. Prints the sum of what they return, and how many were refused; exits with 8.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static int child(void) {
    // What debuggers do first.
    setpgid(0, 0);
    signal(SIGTTOU, SIG_DFL);
    if (ptrace(PTRACE_TRACEME, 0, 0, 0)) return 99;
    raise(SIGSTOP);
    volatile long sum = 0;
    for (int i = 0; i < 20000000; i++) sum += i;
    return 3;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 1, sum = 0, refused = 0;
    for (int i = 0; i < count; i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) _exit(child());
        waitpid(pid, &status, 0);
        for (int step = 0; step < 1000 && WIFSTOPPED(status); step++) {
            ptrace(PTRACE_SINGLESTEP, pid, 0, 0);
            waitpid(pid, &status, 0);
        }
        if (WIFSTOPPED(status)) {
            ptrace(PTRACE_DETACH, pid, 0, 0);
            waitpid(pid, &status, 0);
        }
        refused += WIFEXITED(status) && WEXITSTATUS(status) == 99;
        sum += WEXITSTATUS(status);
    }
    volatile long busy = 0;
    for (int i = 0; i < 50000000; i++) busy += i;
    printf("%d %d\n", sum, refused);
    return 8;
}
