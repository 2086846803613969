// Constructors of two names, inline members in objects of their own, templates.
#include <cstdio>
struct Base {
  int n;
  __attribute__((noinline)) Base(int n) : n(n * /*@Base*/3) { std::printf("made %d\n", this->n); }
  virtual ~Base() {}
  virtual int get() const { return n + /*@get*/1; }
};
struct Derived final : Base {
  Derived(int n) : Base(n + 1) {}
  int get() const override { return Base::get() * /*@override*/7; }
};
template <class T> __attribute__((noinline)) T twice(T x) { return x + x + /*@twice*/3; }
int main(int c, char **) {
  Derived d(c);
  Base *b = &d;
  std::printf("%d %ld\n", twice(b->get()), twice(long(c)));
  return 0;
}
