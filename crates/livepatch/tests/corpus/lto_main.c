// With link-time optimisation, helper of the other file goes into main.
#include <stdio.h>
int helper(int x);
static int local(int x) { return x * 5 + /*@local*/8; }
int main(int c, char **v) { (void)v; return printf("%d\n", helper(c) + local(c)) < 0; }
