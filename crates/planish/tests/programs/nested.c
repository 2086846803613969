// Works in a function three calls below main, none of which is inlined.
static volatile unsigned long sum;

__attribute__((noinline)) void innermost(unsigned long begin) {
    for (unsigned long i = begin; i < begin + 2000; i++) sum += i;
}

__attribute__((noinline)) void inner(unsigned long begin) {
    innermost(begin);
    sum++;
}

__attribute__((noinline)) void middle(unsigned long begin) {
    inner(begin);
    sum++;
}

int main(void) {
    for (unsigned long i = 0; i < 40000; i++) middle(i);
    return 0;
}
