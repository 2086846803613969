// Four threads beside the first.
#include <pthread.h>

static void *work(void *argument) {
    volatile long sum = 0;
    for (long at = 0; at < 100000; at++)
        sum += at;
    return argument;
}

int main(void) {
    pthread_t threads[4];
    for (int at = 0; at < 4; at++)
        pthread_create(&threads[at], 0, work, 0);
    for (int at = 0; at < 4; at++)
        pthread_join(threads[at], 0);
    return 0;
}
