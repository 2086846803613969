// Forks three children under a ticking timer: one ends, one becomes another program, one is killed.
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned long sink;
static volatile int ticks;

__attribute__((noinline)) static unsigned long work(unsigned long n) {
  unsigned long sum = 0;
  for (unsigned long i = 0; i < n; i++)
    if (i % 3 == 0)
      sum += i;
    else
      sum ^= i;
  return sum;
}

static void tick(int signal) {
  (void)signal;
  ticks++;
  sink += work(7);
}

int main(void) {
  struct sigaction action = {0};
  action.sa_handler = tick;
  sigaction(SIGALRM, &action, 0);
  struct itimerval every = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &every, 0);
  for (int child = 0; child < 3; child++) {
    if (fork() == 0) {
      sink = work(300000);
      if (child == 1)
        execl("/bin/true", "true", (char *)0);
      if (child == 2)
        kill(getpid(), SIGKILL);
      _exit(0);
    }
  }
  sink = work(500000);
  while (wait(0) > 0 || ticks < 20)
    sink = work(100);
  return 0;
}
