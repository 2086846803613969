// Three threads share one CPU, sleep and work in turns; prints how long they stood in line for it, in ns by the
// scheduler's own account (/proc/self/task/TID/schedstat).
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long waited[3];

__attribute__((noinline)) void work(void) {
  for (volatile int i = 0; i < 400000; i++)
    ;
}

static long stood_in_line(void) {
  char name[64];
  long ran = 0, waited = -1;
  snprintf(name, sizeof name, "/proc/self/task/%ld/schedstat", syscall(SYS_gettid));
  FILE *file = fopen(name, "r");
  if (file && fscanf(file, "%ld %ld", &ran, &waited) != 2)
    waited = -1;
  if (file)
    fclose(file);
  return waited;
}

static void *worker(void *number) {
  struct timespec nap = {0, 300000};
  for (int i = 0; i < 60; i++) {
    work();
    nanosleep(&nap, 0);
  }
  waited[(long)number] = stood_in_line();
  return 0;
}

int main(void) {
  cpu_set_t all, one;
  sched_getaffinity(0, sizeof all, &all);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
    if (CPU_ISSET(cpu, &all))
      CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof one, &one);
  pthread_t threads[3];
  for (long i = 0; i < 3; i++)
    pthread_create(threads + i, 0, worker, (void *)i);
  for (int i = 0; i < 3; i++)
    pthread_join(threads[i], 0);
  printf("%ld\n", waited[0] < 0 ? -1 : waited[0] + waited[1] + waited[2]);
}
