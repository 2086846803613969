// Waits for a byte, touches 300 new pages, sleeps 20 times; prints its own page faults and voluntary switches since.
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

int main(void) {
  char byte;
  struct rusage before, after;
  if (read(0, &byte, 1) != 1)
    return 1;
  getrusage(RUSAGE_SELF, &before);
  volatile char *pages = mmap(0, 300 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise((void *)pages, 300 * 4096, MADV_NOHUGEPAGE);
  for (int i = 0; i < 300; i++)
    pages[i * 4096] = 1;
  for (int i = 0; i < 20; i++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, 0);
  for (volatile int i = 0; i < 20000000; i++)
    ;
  getrusage(RUSAGE_SELF, &after);
  printf("%ld %ld\n", after.ru_minflt - before.ru_minflt, after.ru_nvcsw - before.ru_nvcsw);
}
