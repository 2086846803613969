// Templates and a virtual call with one frequent target.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <string>
struct Shape { virtual ~Shape() {} virtual unsigned area(unsigned) const = 0; };
struct Square : Shape { unsigned area(unsigned x) const override { return x * x + 1; } };
struct Line : Shape { unsigned area(unsigned x) const override { return x / 3; } };
template <typename T> static T fold(const std::vector<T> &values, T seed) {
  T out = seed;
  for (const T &v : values) out = out * 31 + (v % 7 == 3 ? v / 5 : v ^ out);
  return out;
}
__attribute__((noinline)) unsigned run(const std::vector<Shape *> &shapes, unsigned n) {
  unsigned sum = 0;
  for (unsigned i = 0; i < n; i++) sum += shapes[i % shapes.size()]->area(sum ^ i);
  return sum;
}
int main(int argc, char **argv) {
  unsigned n = argc > 1 ? atoi(argv[1]) : 1000;
  std::vector<unsigned> a(64); std::vector<unsigned long> b(64);
  for (unsigned i = 0; i < 64; i++) { a[i] = i * 7919; b[i] = i * 104729ul; }
  std::vector<Shape *> shapes;
  for (int i = 0; i < 16; i++) shapes.push_back(i == 15 ? (Shape *)new Line : new Square);
  unsigned sum = run(shapes, n);
  for (unsigned i = 0; i < n / 64; i++) { sum += fold<unsigned>(a, sum); sum += (unsigned)fold<unsigned long>(b, sum); }
  printf("%u\n", sum);
}
