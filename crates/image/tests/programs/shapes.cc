// A program with much inlining: templates, lambdas, local classes, namespaces, exceptions, several blocks on a line.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

int other_unit(int, int);

namespace shapes {
namespace {
struct Point {
  double x, y;
  double norm() const { return x * x + y * y; }
};

template <typename T> inline T clamp(T v, T lo, T hi) { return v < lo ? lo : v > hi ? hi : v; }

inline int both(int a, int b) { for (int i = 0; i < b; i++) { if (a % (i + 2) == 0) a += i; else a -= i / 2; } return a; }
} // namespace

class Shape {
public:
  explicit Shape(int n) : n_(n) {
    if (n < 0) throw std::runtime_error("negative");
  }
  virtual ~Shape() = default;
  virtual double area() const = 0;
  int corners() const { return both(n_, n_ & 3); }

protected:
  int n_;
};

class Polygon final : public Shape {
public:
  explicit Polygon(std::vector<Point> p) : Shape(static_cast<int>(p.size())), points_(std::move(p)) {}
  double area() const override {
    double sum = 0;
    for (const auto &p : points_)
      sum += clamp(p.norm(), 0.25, 100.0);
    return sum;
  }

private:
  std::vector<Point> points_;
};

static int __attribute__((noinline)) tally(const std::map<std::string, int> &names) {
  int total = 0;
  auto add = [&](const std::pair<const std::string, int> &e) {
    struct Local {
      static int twice(int v) { return v > 3 ? both(v, 3) : v * 2; }
    };
    total += Local::twice(e.second);
  };
  std::for_each(names.begin(), names.end(), add);
  return total;
}
} // namespace shapes

int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 7;
  std::vector<shapes::Point> points;
  for (int i = 0; i < n; i++) points.push_back({i * 0.5, n - i * 0.25});
  std::sort(points.begin(), points.end(), [](const auto &a, const auto &b) { return a.norm() < b.norm(); });
  std::map<std::string, int> names;
  for (int i = 0; i < n; i++) names[std::to_string(i * 7919 % 13)] += i;
  try {
    shapes::Polygon polygon(points);
    printf("%d %f %d %d\n", polygon.corners(), polygon.area(), shapes::tally(names), other_unit(n, argc));
  } catch (const std::exception &e) {
    puts(e.what());
    return 1;
  }
  return 0;
}
