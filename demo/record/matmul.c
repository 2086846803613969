// Fixed work on several threads: matrix products.  matmul [THREADS] [PRODUCTS]
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#define N 128
static int rounds;
static void multiply(double *a, double *b, double *c) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      double s = 0;
      for (int k = 0; k < N; k++) s += a[i * N + k] * b[k * N + j];
      c[i * N + j] = s;
    }
}
static void *worker(void *unused) {
  double *m = malloc(3 * N * N * sizeof(double));
  for (int i = 0; i < 3 * N * N; i++) m[i] = i % 7;
  for (int r = 0; r < rounds; r++) multiply(m, m + N * N, m + 2 * N * N);
  double s = m[2 * N * N];
  free(m);
  return (void *)(long)s;
}
int main(int argc, char **argv) {
  int threads = argc > 1 ? atoi(argv[1]) : 4;
  rounds = argc > 2 ? atoi(argv[2]) : 500;
  pthread_t t[64];
  for (int i = 0; i < threads; i++) pthread_create(&t[i], 0, worker, 0);
  for (int i = 0; i < threads; i++) pthread_join(t[i], 0);
}
