// Sorts and prints numbers: calls through pointers, library code, repeated string instructions.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned state = 1;

static unsigned next(void) {
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state;
}

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

int main(int count, char **words) {
  int rounds = count > 1 ? atoi(words[1]) : 1, n = 5000;
  long sum = 0;
  int *numbers = malloc(n * sizeof *numbers);
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i < n; i++)
      numbers[i] = next() & 0xfffffff;
    qsort(numbers, n, sizeof *numbers, compare);
    for (int i = 0; i < n; i++) {
      char text[4100];
      snprintf(text, sizeof text, "%d", numbers[i]);
      memset(text + 100, i, 3000 + i % 1000);
      sum += strlen(text) + text[2000 + i % 2000];
    }
  }
  printf("%ld\n", sum);
}
