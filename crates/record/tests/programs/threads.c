// Starts twelve threads, four at a time, so that numbers of virtual CPUs are used again.
#include <pthread.h>
#include <stdio.h>

static volatile unsigned long sink[4];

__attribute__((noinline)) static unsigned long work(unsigned long n) {
  unsigned long sum = 0;
  for (unsigned long i = 0; i < n; i++)
    sum = i % 3 == 0 ? sum + i : sum ^ i;
  return sum;
}

static void *run(void *number) {
  sink[(long)number] = work(300000);
  return 0;
}

int main(void) {
  for (int round = 0; round < 3; round++) {
    pthread_t threads[4];
    for (long i = 0; i < 4; i++)
      pthread_create(threads + i, 0, run, (void *)i);
    for (int i = 0; i < 4; i++)
      pthread_join(threads[i], 0);
  }
  printf("%lu\n", sink[0]);
}
