// On one CPU two threads hand a turn to each other through a futex, then two spin; prints the process's voluntary and
// involuntary context switches from the begin of main on.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_int turn;
static int rounds = 1000;

__attribute__((noinline)) void wait_turn(int mine) {
  for (int seen; (seen = atomic_load(&turn)) != mine;)
    syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, seen, 0, 0, 0);
}

__attribute__((noinline)) void give_turn(int other) {
  atomic_store(&turn, other);
  syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

static void *play(void *mine) {
  int me = (int)(long)mine;
  for (int i = 0; i < rounds; i++) {
    wait_turn(me);
    give_turn(1 - me);
  }
  return 0;
}

static double cpu_seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

__attribute__((noinline)) double spin(double seconds) {
  while (cpu_seconds() < seconds)
    for (volatile int i = 0; i < 100000; i++)
      ;
  return seconds;
}

static void *crowd(void *none) {
  (void)none;
  spin(0.2);
  return 0;
}

static void pair(void *(*run)(void *)) {
  pthread_t threads[2];
  for (long i = 0; i < 2; i++)
    pthread_create(threads + i, 0, run, (void *)i);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], 0);
}

int main(int count, char **words) {
  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  if (count > 1)
    rounds = atoi(words[1]);
  cpu_set_t all, one;
  sched_getaffinity(0, sizeof all, &all);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
    if (CPU_ISSET(cpu, &all))
      CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof one, &one);
  // On one CPU the other player cannot answer before it was switched to, however busy the machine is: of each two turns
  // one is waited for.
  pair(play);
  pair(crowd);
  getrusage(RUSAGE_SELF, &after);
  printf("%ld %ld\n", after.ru_nvcsw - before.ru_nvcsw, after.ru_nivcsw - before.ru_nivcsw);
}
