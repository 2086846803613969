//! Programs that tests compile, with a map of their blocks.

use std::path::{Path, PathBuf};
use std::process::Command;

use image::Image;

/// The compiler whose maps are understood.
const CLANG: &str = "clang-22";

/// Several shapes of control flow: loops, a switch, recursion, tail calls, calls through pointers.
pub const SHAPES: &str = r#"
int printf(const char *, ...);
extern int sink;
int sink;
__attribute__((noinline)) static int leaf(int a) { return a * 7 + sink; }
__attribute__((noinline)) int loops(int n, const int *values) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        if (values[i] > 100) sum += leaf(values[i]);
        else if (values[i] < -100) sum -= leaf(sum);
        else sum ^= i;
        for (int j = 0; j < (values[i] & 7); j++) sum += sink * j;
    }
    return sum;
}
__attribute__((noinline)) int chooses(int kind, int a) {
    switch (kind) {
    case 0: return leaf(a) + 1;
    case 1: sink = a; return a / 3;
    case 2: return leaf(a + 5) * leaf(a - 5);
    case 3: while (a > 9) { a = a / 2 - sink; } return a;
    case 4: printf("four %d\n", a); return 4;
    default: return -1;
    }
}
__attribute__((noinline)) int recurses(int n) { return n < 2 ? n + sink : recurses(n - 1) + recurses(n - 2); }
__attribute__((noinline)) int ends_with_a_call(int n) { if (n & 1) return loops(n, &sink); return chooses(n, n); }
__attribute__((noinline)) int finds(const char *text, int wanted) {
    int at = 0;
    while (text[at] && text[at] != wanted) at++;
    if (!text[at]) return -1;
    if (wanted == 'x') { sink++; return leaf(at); }
    return at;
}
int main(int count, char **words) {
    int total = 0;
    for (int i = 0; i < count; i++) {
        total += ends_with_a_call(i) + recurses(i) + finds(words[i], 'x');
    }
    return total & 1;
}
"#;

/// Compiles a source into `directory` and opens the result; `None`, with a note, when clang is not
/// installed.
pub fn compiled(directory: &Path, name: &str, source: &str, options: &[&str]) -> Option<Image> {
    let file = directory.join(format!("{name}.c"));
    std::fs::write(&file, source).unwrap();
    let output: PathBuf = directory.join(name);
    let mut command = Command::new(CLANG);
    command
        .args(["-O2", "-fbasic-block-address-map"])
        .args(options)
        .arg("-o")
        .arg(&output)
        .arg(&file);
    let Ok(result) = command.output() else {
        eprintln!("skipped: {CLANG} is not installed");
        return None;
    };
    assert!(
        result.status.success(),
        "{CLANG} {options:?}: {}",
        String::from_utf8_lossy(&result.stderr)
    );
    Some(Image::open(&output).unwrap())
}
