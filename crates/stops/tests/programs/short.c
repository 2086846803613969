// Short threads, one after the other: `short COUNT`. Prints how many ran, exits with 6.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static long ran;

static void *work(void *unused) {
    ran++;
    return unused;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 1000;
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, work, 0)) return 1;
        pthread_join(thread, 0);
    }
    printf("%ld\n", ran);
    return 6;
}
