// A fork, a program started in it after one that does not exist, and a signal to itself.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int seen;

static void handler(int signal) { seen = signal; }

int main(void) {
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    if (fork() == 0) {
        execl("/no/such/program", "none", (char *)0);
        execl("/bin/true", "true", (char *)0);
        _exit(1);
    }
    if (fork() == 0)
        _exit(0);
    int first = 1, second = 1;
    wait(&first);
    wait(&second);
    return seen != SIGUSR1 || first || second;
}
