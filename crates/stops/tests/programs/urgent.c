// Handles SIGURG (and with an argument SIGWINCH too) and sends it to itself: every signal has to arrive, and none that
// it did not send. Prints how many did.
#include <signal.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

static volatile int urgent, window;

static void handle(int number) {
    if (number == SIGURG) urgent++;
    else window++;
}

int main(int argc, char **argv) {
    volatile unsigned long sum = 0;
    (void)argv;
    signal(SIGURG, handle);
    if (argc > 1) signal(SIGWINCH, handle);
    for (int i = 0; i < 2000; i++) {
        for (int j = 0; j < 400000; j++) sum += j;
        kill(getpid(), SIGURG);
        if (argc > 1) kill(getpid(), SIGWINCH);
    }
    printf("%d %d\n", urgent, window);
    return 4;
}
