// Expressions of nodes: templates, virtual calls, recursion in circles, one comparison for many
// callers.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

struct Node {
    virtual ~Node() {}
    virtual long value(long x) const = 0;
    virtual bool simple() const { return true; }
};

static long evaluate(const Node& node, long x);

struct Leaf : Node {
    long number;
    explicit Leaf(long n) : number(n) {}
    long value(long x) const override { return number % 7 == 0 ? number * x : number - x; }
};

struct Sum : Node {
    std::vector<std::unique_ptr<Node>> parts;
    long value(long x) const override {
        long sum = 0;
        for (const auto& part : parts)
            sum += evaluate(*part, x + 1);
        return sum;
    }
    bool simple() const override { return parts.size() < 2; }
};

static std::map<long, long> known;

__attribute__((noinline)) static long remembered(const Node& node, long x) {
    auto [at, fresh] = known.try_emplace(x % 64, 0);
    if (fresh || at->second % 5 == 0)
        at->second = node.value(x);
    return at->second;
}

__attribute__((noinline)) static long evaluate(const Node& node, long x) {
    return node.simple() ? node.value(x) : x % 3 == 0 ? remembered(node, x) : node.value(x);
}

template <typename T>
static void mix(std::vector<T>& values, unsigned seed) {
    for (auto& value : values) {
        seed = seed * 1103515245u + 12345u;
        std::swap(value, values[seed / 65536u % values.size()]);
    }
}

static std::unique_ptr<Node> grow(int depth, long n) {
    if (depth == 0 || n % 11 == 3)
        return std::make_unique<Leaf>(n);
    auto sum = std::make_unique<Sum>();
    for (long part = 0; part < n % 4 + 1; part++)
        sum->parts.push_back(grow(depth - 1, n + part * 3));
    return sum;
}

int main() {
    auto tree = grow(6, 2);
    std::vector<long> numbers;
    std::vector<std::string> words;
    for (long n = 0; n < 400; n++) {
        numbers.push_back(n * n % 353);
        words.push_back(std::to_string(n * 7919));
    }
    long sum = 0;
    for (unsigned round = 0; round < 12; round++) {
        mix(numbers, round);
        mix(words, round + 1);
        std::sort(numbers.begin(), numbers.end());
        std::stable_sort(words.begin(), words.end());
        sum += evaluate(*tree, round) + numbers[round] + (long)words[round].size();
    }
    return sum == 42;
}
