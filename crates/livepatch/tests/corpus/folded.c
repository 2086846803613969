// Identical functions, static ones that one body serves.
#include <stdio.h>
__attribute__((noinline)) static int one(int a) { printf("y %d\n", a); return a * 9 + 3; }
__attribute__((noinline)) static int two(int a) { printf("y %d\n", a); return a * 9 + 3; }
__attribute__((noinline)) static int other(int a) { printf("z %d\n", a); return a * 9 + /*@other*/3; }
int main(int c, char **v) { (void)v; return one(c) + two(c + 1) + other(c) == 1234567; }
