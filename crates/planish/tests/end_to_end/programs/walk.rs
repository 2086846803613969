//! A program with a hot loop, a small helper and a function that is called from it.

use std::hint::black_box;
#[inline(never)]
fn step(x: u64) -> u64 {
    if x % 7 == 3 {
        x / 3
    } else if x % 2 == 1 {
        3 * x + 1
    } else {
        x / 2
    }
}
fn helper(x: u64) -> u64 {
    let mut r = 0;
    let mut i = 0;
    while i < x % 13 {
        r += (x >> i) & 1;
        i += 1;
    }
    r
}
#[inline(never)]
fn walk(mut x: u64) -> u64 {
    let mut n = 0;
    while x > 4 && n < 200 {
        x = step(x);
        n += helper(x);
        n += 1;
        if x == 4_000_000_001 {
            println!("rare {x}");
        }
    }
    n
}
fn main() {
    let n: u64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(1000);
    let mut sum = 0u64;
    for i in 1..n {
        sum = sum.wrapping_add(walk(black_box(i * 77)));
    }
    println!("{sum}");
}
