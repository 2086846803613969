// Chains as in the answers that kgraft-analysis-tool prints: inlined into what was inlined or copied, twice into one.
#include <stdlib.h>
struct scatter { int offset, length; void *page; };
extern void flush(void *);
extern int work(void *, int);
static inline int bits(unsigned long x) {
  int n = 0;
  while (x) n++, x >>= 1;
  return n;
}
static inline int order_of(unsigned long size) { return bits(size) - 1; }
__attribute__((noinline)) static void *request(unsigned long size, int flags) {
  void *p = malloc(1ul << order_of(size));
  if (flags & 1) flush(p);
  if (flags & 6) work(p, flags);
  return p;
}
static void unmap(struct scatter *s, int out, int more) {
  if (out) flush(s->page);
  if (more) work(s->page, out);
}
static int grow(struct scatter *s, int depth) {
  if (depth == 0) return s->length;
  return grow(s + 1, depth - 1) + s->offset;
}
int encrypt(struct scatter *s, unsigned long n) {
  void *p = request(n, 1);
  unmap(s, 1, 0);
  return work(p, order_of(n));
}
int decrypt(struct scatter *s, unsigned long n) {
  void *p = request(n * 2, 1);
  unmap(s, 0, 1);
  unmap(s + 1, 0, 1);
  return work(p, order_of(n) + grow(s, 3));
}
int total(struct scatter *s) { return grow(s, 9) + grow(s + 1, 4); }
