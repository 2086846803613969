// Throws through several frames, with destructors on the way.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>

struct Counted {
  explicit Counted(long &count) : count(count) {}
  ~Counted() { ++count; }
  long &count;
};

__attribute__((noinline)) static long inner(long value, long &count) {
  Counted counted(count);
  if (value % 3 == 0) throw std::runtime_error("three");
  if (value % 5 == 0) throw value;
  return value * 2;
}

__attribute__((noinline)) static long outer(long value, long &count) {
  Counted counted(count);
  return inner(value, count) + 1;
}

int main(int argc, char **argv) {
  long rounds = argc > 1 ? std::atol(argv[1]) : 1, sum = 0, count = 0;
  std::map<std::string, long> seen;
  for (long i = 0; i < rounds; i++) {
    try {
      sum += outer(i, count);
    } catch (const std::runtime_error &error) {
      seen[error.what() + std::to_string(i % 50)]++;
    } catch (long value) {
      sum -= value;
    }
  }
  std::printf("%ld %ld %zu\n", sum, count, seen.size());
}
