// The first process of a guest: runs the commands of /commands, one a line, `NAME WORDS…`, and says how each ended.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(struct timeval t) { return t.tv_sec + t.tv_usec / 1e6; }

static void write_to(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  if (file) {
    fputs(text, file);
    fclose(file);
  }
}

int main(void) {
  mkdir("/proc", 0755);
  mkdir("/sys", 0755);
  mkdir("/tmp", 0755);
  mkdir("/dev", 0755);
  mount("proc", "/proc", "proc", 0, 0);
  mount("sysfs", "/sys", "sysfs", 0, 0);
  mount("devtmpfs", "/dev", "devtmpfs", 0, 0);
  mount("tmpfs", "/tmp", "tmpfs", 0, 0);
  write_to("/proc/sys/kernel/perf_cpu_time_max_percent", "0");
  setenv("HOME", "/tmp", 1);
  setenv("PATH", "/bin", 1);
  chdir("/tmp");
  FILE *commands = fopen("/commands", "r");
  char *line = 0;
  size_t room = 0;
  while (commands && getline(&line, &room, commands) > 0) {
    char *words[64];
    int count = 0;
    for (char *word = strtok(line, " \n"); word && count < 63; word = strtok(0, " \n")) words[count++] = word;
    words[count] = 0;
    if (count < 2) continue;
    printf("\n@begin %s\n", words[0]);
    fflush(stdout);
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    pid_t child = fork();
    if (child == 0) {
      execv(words[1], words + 1);
      perror(words[1]);
      _exit(127);
    }
    int status = 0;
    struct rusage used;
    wait4(child, &status, 0, &used);
    clock_gettime(CLOCK_MONOTONIC, &after);
    printf("\n@end %s %d %.3f %.3f\n", words[0], WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
           after.tv_sec - before.tv_sec + (after.tv_nsec - before.tv_nsec) / 1e9,
           seconds(used.ru_utime) + seconds(used.ru_stime));
    fflush(stdout);
  }
  printf("\n@done\n");
  fflush(stdout);
  sync();
  // qemu ends on it (-no-reboot).
  reboot(RB_AUTOBOOT);
  return 1;
}
