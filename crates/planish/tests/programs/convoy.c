// Four threads queue for one mutex that its owner sleeps with; prints the CPU time that the process used, in us.
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) void spin(int rounds) {
  for (volatile int i = 0; i < rounds; i++)
    ;
}

__attribute__((noinline)) void take_the_lock(void) {
  struct timespec nap = {0, 200000};
  pthread_mutex_lock(&lock);
  nanosleep(&nap, 0);
  spin(100000);
  pthread_mutex_unlock(&lock);
  spin(1000);
}

static void *queue(void *none) {
  for (int i = 0; i < 100; i++)
    take_the_lock();
  return none;
}

int main(void) {
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    pthread_create(threads + i, 0, queue, 0);
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], 0);
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  printf("%ld\n", (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 + used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}
