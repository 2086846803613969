// Runs a command; appends its wall time, the CPU time of it and all it waited for, its own CPU time, and its status.
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static double seconds(struct timeval t) { return t.tv_sec + t.tv_usec / 1e6; }
int main(int argc, char **argv) {
  struct timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  pid_t pid = fork();
  if (pid == 0) { execvp(argv[2], argv + 2); perror(argv[2]); _exit(127); }
  int status; struct rusage u, s;
  wait4(pid, &status, 0, &u);
  clock_gettime(CLOCK_MONOTONIC, &b);
  getrusage(RUSAGE_SELF, &s);
  FILE *f = fopen(argv[1], "a");
  fprintf(f, "%.6f %.6f %.6f %d\n", b.tv_sec - a.tv_sec + (b.tv_nsec - a.tv_nsec) / 1e9,
          seconds(u.ru_utime) + seconds(u.ru_stime), seconds(s.ru_utime) + seconds(s.ru_stime), status);
  fclose(f);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
