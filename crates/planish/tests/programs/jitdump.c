// Makes functions while it runs, one in the place of another, tells of them in a jitdump as language
// runtimes do, and runs them.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifdef __x86_64__
// mov ecx, 20000; dec ecx; jnz -4; ret
static const unsigned char code[] = {0xb9, 0x20, 0x4e, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
static const uint32_t loop_at = 5, machine = 62;
#else
// mov w0, 20000; subs w0, w0, 1; b.ne -4; ret
static const unsigned char code[] = {0x00, 0xc4, 0x89, 0x52, 0x00, 0x04, 0x00, 0x71,
                                     0xe1, 0xff, 0xff, 0x54, 0xc0, 0x03, 0x5f, 0xd6};
static const uint32_t loop_at = 4, machine = 183;
#endif

static FILE *dump;

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void word(uint32_t value) { fwrite(&value, 4, 1, dump); }
static void number(uint64_t value) { fwrite(&value, 8, 1, dump); }

static void head(uint32_t kind, uint32_t bytes) {
  word(kind);
  word(16 + bytes);
  number(now());
}

static void lines(void *at, const char *file) {
  uint32_t entry = 16 + strlen(file) + 1;
  head(2, 16 + entry + 16 + 2);
  number((uintptr_t)at);
  number(2);
  number((uintptr_t)at);
  word(1);
  word(0);
  fputs(file, dump);
  fputc(0, dump);
  number((uintptr_t)at + loop_at);
  word(3);
  word(0);
  // The file before.
  fputs("\xff", dump);
  fputc(0, dump);
}

static void load(void *at, uint64_t index, const char *name) {
  head(0, 40 + strlen(name) + 1 + sizeof code);
  word(getpid());
  word(getpid());
  number((uintptr_t)at);
  number((uintptr_t)at);
  number(sizeof code);
  number(index);
  fputs(name, dump);
  fputc(0, dump);
  fwrite(code, sizeof code, 1, dump);
}

static void move(void *from, void *to, uint64_t index) {
  head(1, 48);
  word(getpid());
  word(getpid());
  number((uintptr_t)to);
  number((uintptr_t)from);
  number((uintptr_t)to);
  number(sizeof code);
  number(index);
}

static void run(void *at, int milliseconds) {
  uint64_t end = now() + milliseconds * 1000000ull;
  while (now() < end)
    for (int i = 0; i < 20; i++) ((void (*)(void))at)();
}

int main(void) {
  char *memory = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 2;
  memcpy(memory, code, sizeof code);
  memcpy(memory + 4096, code, sizeof code);
  __builtin___clear_cache(memory, memory + 8192);
  char name[64];
  snprintf(name, sizeof name, "jit-%d.dump", (int)getpid());
  dump = fopen(name, "w+");
  if (!dump) return 2;
  // By this mapping a recording tells of the dump.
  if (mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0) == MAP_FAILED) return 2;
  word(0x4a695444);
  word(1);
  word(40);
  word(machine);
  word(0);
  word(getpid());
  number(now());
  number(0);
  lines(memory, "/no/such/first.js");
  load(memory, 1, "first <b>");
  fflush(dump);
  run(memory, 160);
  load(memory, 2, "second");
  fflush(dump);
  run(memory, 80);
  move(memory, memory + 4096, 2);
  fflush(dump);
  run(memory + 4096, 40);
  // A table for unwinding, and an end.
  head(4, 24);
  number(0);
  number(0);
  number(0);
  head(3, 0);
  return fclose(dump) ? 2 : 0;
}
