// Makes two functions while it runs, names them in a map as language runtimes do, and runs them.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifdef __x86_64__
// mov ecx, 20000; dec ecx; jnz -4; ret
static const unsigned char code[] = {0xb9, 0x20, 0x4e, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
#else
// mov w0, 20000; subs w0, w0, 1; b.ne -4; ret
static const unsigned char code[] = {0x00, 0xc4, 0x89, 0x52, 0x00, 0x04, 0x00, 0x71,
                                     0xe1, 0xff, 0xff, 0x54, 0xc0, 0x03, 0x5f, 0xd6};
#endif

// With `clock`, it asks for the time instead.
int main(int words, char **word) {
  if (words > 1 && strcmp(word[1], "clock") == 0) {
    struct timespec now, begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
      for (int i = 0; i < 1000; i++) clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < 300000000L);
    return 0;
  }
  char *memory = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 2;
  memcpy(memory, code, sizeof code);
  memcpy(memory + 4096, code, sizeof code);
  __builtin___clear_cache(memory, memory + 8192);
  char name[64];
  snprintf(name, sizeof name, "/tmp/perf-%d.map", (int)getpid());
  FILE *map = fopen(name, "wx");
  if (!map) return 2;
  fprintf(map, "%lx 2000 replaced\n%lx 1000 warm <b>loop</b> \033[31m\nno place at all\n%lx 1000 hot loop\n",
          (long)memory, (long)memory, (long)memory + 4096);
  if (fclose(map)) return 2;
  for (int round = 0; round < 40000; round++) {
    ((void (*)(void))memory)();
    for (int i = 0; i < 5; i++) ((void (*)(void))(memory + 4096))();
  }
  return 0;
}
