// Threads that add under one mutex: `threads COUNT ROUNDS`. Prints the sum, exits with 5.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long sum, rounds;

static void *work(void *unused) {
    for (long i = 0; i < rounds; i++) {
        volatile long part = 0;
        for (int j = 0; j < 300; j++) part += j;
        pthread_mutex_lock(&lock);
        sum += part;
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 4;
    pthread_t threads[256];
    rounds = argc > 2 ? atol(argv[2]) : 200000;
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], 0, work, 0)) return 1;
    for (int i = 0; i < count; i++) pthread_join(threads[i], 0);
    printf("%ld\n", sum);
    return 5;
}
