// One kind of work a run: kinds NAME ROUNDS. Prints a number that depends on all of it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t state = 88172645463325252u;

static uint64_t next(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

// x87 registers, in and out of memory, with comparisons and a rounding mode of its own.
static uint64_t floats(long rounds) {
  long double sum = 0;
  for (long i = 1; i <= rounds; i++) {
    long double part = sqrtl((long double)i) / (1.0L + (long double)(next() % 1000));
    sum += part > 0.5L ? part : -part;
    if (i % 64 == 0) sum = fmodl(sum, 17.0L) + sinl((long double)i);
    sum += (long double)lrintl(part * 3.0L);
  }
  return (uint64_t)(int64_t)(sum * 1000.0L);
}

static uint64_t strings(long rounds) {
  static unsigned char a[4096], b[4096];
  uint64_t sum = 0;
  for (unsigned i = 0; i < sizeof b; i++) b[i] = (unsigned char)(i % 61);
  for (long i = 0; i < rounds; i++) {
    unsigned long count = next() % 30 + 1, from = next() % 1000;
    void *to = b + from, *source = a + from;
    unsigned long left = count;
    __asm__ volatile("rep stosb" : "+D"(source), "+c"(left) : "a"((int)i & 255) : "memory");
    source = a + from, left = count;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(source), "+c"(left)::"memory");
    b[from + next() % count] ^= next() % 3 == 0;
    to = b + from, source = a + from, left = count;
    __asm__ volatile("repe cmpsb" : "+D"(to), "+S"(source), "+c"(left)::"memory", "cc");
    sum += left;
    to = b, left = sizeof b;
    __asm__ volatile("repne scasb" : "+D"(to), "+c"(left) : "a"((int)next() & 31) : "memory", "cc");
    sum += left + strlen((char *)memset(a + 2000, 'x', count)) + (unsigned)strcmp((char *)a, (char *)b);
    sum += memchr(b, 7, sizeof b) != NULL;
  }
  return sum;
}

// Bits of a string in memory by numbers in registers, before its middle and behind it, as kernels keep them.
static uint64_t bits(long rounds) {
  static uint64_t map[96];
  uint64_t sum = 0;
  for (long i = 0; i < rounds; i++) {
    int64_t at = (int64_t)(next() % 6000) - 3000;
    unsigned char was, had, is, low;
    __asm__ volatile("btsq %2, %1; setc %0" : "=q"(was), "+m"(map[48]) : "r"(at) : "cc", "memory");
    __asm__ volatile("lock btcl %2, %1; setc %0" : "=q"(had), "+m"(map[48]) : "r"((int)at / 3) : "cc", "memory");
    __asm__ volatile("btrw %2, %1; setc %0" : "=q"(is), "+m"(map[48]) : "r"((short)(at / 2)) : "cc", "memory");
    __asm__ volatile("btl $5, %1; setc %0" : "=q"(low) : "m"(map[48]) : "cc");
    if (was) sum += 3;
    if (had) sum ^= (uint64_t)i;
    sum += is + 2 * low;
    __asm__ volatile("btq %1, %0; jnc 1f; btcq $63, %0; 1:" : "+r"(sum) : "r"(at) : "cc");
  }
  return sum + map[0] + map[48] + map[95];
}

static int by_value(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

// Tables of a switch, calls through pointers, jumps out of functions.
static jmp_buf out;
__attribute__((noinline)) static void leave(uint64_t by) {
  if (by % 5 == 0) longjmp(out, 1 + (int)(by % 7));
}

static uint64_t jumps(long rounds) {
  static uint64_t values[64];
  volatile uint64_t sum = 0;
  for (volatile long i = 0; i < rounds; i++) {
    int back = setjmp(out);
    if (back == 0) leave(next());
    switch (next() % 9) {
      case 0: sum += 3; break;
      case 1: sum ^= 77; break;
      case 2: sum = sum * 5 + 1; break;
      case 3: sum -= back; break;
      case 4: sum += sum >> 3; break;
      case 5: sum |= 1; break;
      case 6: sum = sum / 7 + i; break;
      case 7: sum = (sum << 9) | (sum >> 55); break;
      default: sum += 11;
    }
    if (i % 16 == 0) {
      for (int at = 0; at < 64; at++) values[at] = next();
      qsort(values, 64, sizeof *values, by_value);
      sum += values[31];
    }
  }
  return sum;
}

static volatile sig_atomic_t alarms;
static void on_alarm(int signal) { alarms += signal != 0; }

static uint64_t signals(long rounds) {
  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  sigaction(SIGVTALRM, &action, NULL);
  // By the program's own time and by the clock, which goes on while the program stands still.
  struct itimerval own = {{0, 2500}, {0, 2500}}, clock = {{0, 90000}, {0, 9000}};
  setitimer(ITIMER_VIRTUAL, &own, NULL);
  setitimer(ITIMER_REAL, &clock, NULL);
  uint64_t sum = jumps(rounds);
  return alarms > 0 ? sum : 0;
}

// Children in every way there is.
static uint64_t children(long rounds) {
  uint64_t sum = 0;
  for (long i = 0; i < rounds; i++) {
    sum += (uint64_t)system("i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; exit 3");
    pid_t pid = vfork();
    if (pid == 0) {
      execl("/bin/sh", "sh", "-c", "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; exit 4", (char *)NULL);
      _exit(1);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    sum += (uint64_t)status;
    pid = fork();
    if (pid == 0) _exit((int)(jumps(20000) & 0x3f));
    waitpid(pid, &status, 0);
    sum += (uint64_t)status + jumps(2000);
  }
  return sum;
}

// Code that is written, called, and written again where it was.
static uint64_t jit(long rounds) {
  unsigned char *code = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (code == MAP_FAILED) return 0;
  uint64_t sum = 0;
  for (long i = 0; i < rounds; i++) {
    // Each version counts to another number, and jumps another way.
    unsigned char *at = code + (i % 3) * 64;
    unsigned char made[] = {0xb8, 0, 0, 0, 0, 0xb9, 0, 0, 0, 0, 0x83, 0xc0, 3, 0xff, 0xc9, 0x75, 0xf9, 0xc3};
    made[1] = (unsigned char)i;
    made[6] = (unsigned char)(1 + next() % 4);
    made[12] = (unsigned char)(next() % 100);
    made[11] = next() % 2 ? 0xc0 : 0xe8;
    memcpy(at, made, sizeof made);
    uint32_t (*function)(void) = (uint32_t (*)(void))(void *)at;
    sum += function();
  }
  return sum;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_ulong shared;
static uint64_t under_lock;

static void *thread(void *rounds) {
  struct timespec now;
  uint64_t local = 1;
  for (long i = 0; i < *(long *)rounds; i++) {
    for (int j = 0; j < 900; j++) local = local * 6364136223846793005u + (local % 7 == 3 ? 1442695040888963407u : 1);
    atomic_fetch_add(&shared, 1);
    if (i % 64 == 0) {
      pthread_mutex_lock(&lock);
      under_lock += local & 1;
      pthread_mutex_unlock(&lock);
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    local += now.tv_sec != 0;
  }
  return NULL;
}

static uint64_t threads(long rounds) {
  pthread_t made[4];
  for (int i = 0; i < 4; i++) pthread_create(&made[i], NULL, thread, &rounds);
  for (int i = 0; i < 4; i++) pthread_join(made[i], NULL);
  return atomic_load(&shared);
}

// Loads one library, forgets it, and loads another: it is placed where the first was.
static uint64_t libraries(long rounds) {
  uint64_t sum = 0;
  void *last = NULL;
  int again = 0;
  for (long i = 0; i < rounds; i++) {
    void *library = dlopen(i % 2 ? "./second.so" : "./first.so", RTLD_NOW);
    if (library == NULL) return 0;
    uint64_t (*work)(uint64_t) = (uint64_t (*)(uint64_t))dlsym(library, "work");
    again += (void *)work == last;
    last = (void *)work;
    sum += work((uint64_t)i);
    dlclose(library);
  }
  return again > 0 ? sum : 0;
}

int main(int argc, char **argv) {
  static const struct { const char *name; uint64_t (*work)(long); } kinds[] = {
      {"floats", floats}, {"strings", strings}, {"bits", bits}, {"jumps", jumps}, {"signals", signals}, {"children", children},
      {"jit", jit}, {"threads", threads}, {"libraries", libraries}};
  for (size_t i = 0; argc == 3 && i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i].name, argv[1]) == 0) {
      printf("%llu\n", (unsigned long long)kinds[i].work(atol(argv[2])));
      return 0;
    }
  return 2;
}
