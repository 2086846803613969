// Under a seccomp filter: alone, everything but write and exit_group kills; with a command, the command runs and cannot
// open perf events.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALL BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define IF(number, action) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, action)

static struct sock_filter strict[] = {
    CALL, IF(SYS_write, SECCOMP_RET_ALLOW), IF(SYS_exit_group, SECCOMP_RET_ALLOW),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};
static struct sock_filter no_events[] = {
    CALL, IF(SYS_perf_event_open, SECCOMP_RET_ERRNO | EACCES), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

int main(int argc, char **argv) {
    volatile unsigned long sum = 0;
    struct sock_fprog program = {sizeof strict / sizeof *strict, strict};
    if (argc > 1) program = (struct sock_fprog){sizeof no_events / sizeof *no_events, no_events};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 1;
    if (argc > 1) {
        execvp(argv[1], argv + 1);
        return 1;
    }
    for (unsigned long i = 0; i < 300000000ul; i++) sum += i;
    write(1, "done\n", 5);
    _exit(9);
}
