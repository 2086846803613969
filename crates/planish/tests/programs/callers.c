// One function with several callers, recursion, tail calls and inlined calls.
typedef int (*step)(int);

static volatile int sink;

__attribute__((noinline)) int work(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        if ((i * 7 + n) % 5 == 0)
            sum += i;
        else
            sum ^= n;
    return sum;
}

// Inlined into each of its callers.
static inline __attribute__((always_inline)) int twice(int n) {
    int first = work(n);
    if (n % 3 == 0)
        sink++;
    return first + work(n + 1);
}

__attribute__((noinline)) int often(int n) {
    return twice(n) + 1;
}

__attribute__((noinline)) int seldom(int n) {
    if (n % 16 != 0)
        return n;
    return twice(n + 9) - 1;
}

// The call of work is a tail call: no frame of this function stands below it.
__attribute__((noinline)) int passes_on(int n) {
    if (n % 2)
        return work(n + 3);
    return work(n / 2);
}

__attribute__((noinline)) int tree(int depth) {
    if (depth == 0)
        return work(4);
    int left = tree(depth - 1);
    int right = depth > 1 ? tree(depth - 2) : 0;
    return left + right + 1;
}

__attribute__((noinline)) int even(int n);

__attribute__((noinline)) int odd(int n) {
    if (n == 0)
        return 0;
    sink += n;
    return even(n - 1) + 1;
}

__attribute__((noinline)) int even(int n) {
    if (n == 0)
        return work(3);
    sink -= n;
    return odd(n - 1) + 2;
}

static step steps[] = {often, seldom, passes_on};

__attribute__((noinline)) int by_pointer(int i) {
    return steps[i % 3](i % 40) + 1;
}

int main(void) {
    int sum = 0;
    for (int i = 0; i < 4000; i++) {
        sum += often(i % 20);
        sum += seldom(i);
        sum += passes_on(i % 12) + 1;
        if (i % 8 == 0)
            sum += tree(6);
        if (i % 5 == 0)
            sum += even(i % 9);
        sum += by_pointer(i);
    }
    sink = sum;
    return 0;
}
