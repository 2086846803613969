// Chains of inlining through functions that keep no body.
#include <stdio.h>
static int tiny(int x) { return x * 3 + /*@tiny*/1; }
static int middle(int x) { return tiny(x) - /*@middle*/4; }
__attribute__((noinline)) int left(int x) { return middle(x) * 2; }
__attribute__((noinline)) int right(int x) { return middle(x + 1) + tiny(x); }
__attribute__((noinline)) int apart(int x) { return x ^ /*@apart*/21; }
int main(int c, char **v) { (void)v; return printf("%d\n", left(c) + right(c) + apart(c)) < 0; }
