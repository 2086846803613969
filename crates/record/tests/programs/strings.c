// Work in the C library's string functions, whose path depends on alignment and on the CPU, and in a sort.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

int main(int argc, char **argv) {
    enum { COUNT = 3000 };
    char **words = malloc(COUNT * sizeof *words), buffer[64];
    unsigned state = 1;
    size_t sum = strlen(argv[0]) * 0;
    for (int at = 0; at < COUNT; at++) {
        state = state * 1103515245u + 12345u;
        snprintf(buffer, sizeof buffer, "%x-%d", state >> 8, at);
        words[at] = strdup(buffer);
    }
    qsort(words, COUNT, sizeof *words, compare);
    for (int at = 0; at < COUNT; at++)
        sum += strlen(words[at]) * (strchr(words[at], 'a') != NULL);
    char local[256];
    memset(local, 'x', sizeof local - 1);
    local[255] = 0;
    printf("%zu\n", sum + strlen(local));
    return argc > 1 ? atoi(argv[1]) : 0;
}
