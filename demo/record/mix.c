// Fixed work with many context switches: pairs that hand a futex to and fro, and threads that yield.  mix [ROUNDS]
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static int rounds = 40000;
struct pair { atomic_int turn; };
static void hand_over(struct pair *p, int own) {
  for (int i = 0; i < rounds; i++) {
    while (atomic_load(&p->turn) != own) syscall(SYS_futex, &p->turn, FUTEX_WAIT, !own, 0, 0, 0);
    for (volatile int work = 0; work < 300; work++) {}
    atomic_store(&p->turn, !own);
    syscall(SYS_futex, &p->turn, FUTEX_WAKE, 1, 0, 0, 0);
  }
}
static void *first(void *p) { hand_over(p, 0); return 0; }
static void *second(void *p) { hand_over(p, 1); return 0; }
static void *yielding(void *unused) {
  for (int i = 0; i < rounds; i++) {
    for (volatile int work = 0; work < 2000; work++) {}
    sched_yield();
  }
  return unused;
}
int main(int argc, char **argv) {
  if (argc > 1) rounds = atoi(argv[1]);
  struct pair p = {0};
  pthread_t t[4];
  pthread_create(&t[0], 0, first, &p);
  pthread_create(&t[1], 0, second, &p);
  pthread_create(&t[2], 0, yielding, 0);
  pthread_create(&t[3], 0, yielding, 0);
  for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
}
