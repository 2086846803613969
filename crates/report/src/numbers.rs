//! How are numbers written for people? With a unit, three to four digits, and no false precision.

/// A duration given in nanoseconds.
pub fn duration_ns(ns: f64) -> String {
    match ns {
        n if n >= 100e9 => format!("{:.0} s", n / 1e9),
        n if n >= 1e9 => format!("{:.2} s", n / 1e9),
        n if n >= 1e6 => format!("{:.1} ms", n / 1e6),
        n if n >= 1e3 => format!("{:.1} µs", n / 1e3),
        n => format!("{n:.0} ns"),
    }
}

/// A number of bytes, in powers of 1024.
pub fn bytes(bytes: f64) -> String {
    match bytes {
        b if b >= 1073741824.0 => format!("{:.2} GiB", b / 1073741824.0),
        b if b >= 1048576.0 => format!("{:.1} MiB", b / 1048576.0),
        b if b >= 1024.0 => format!("{:.1} KiB", b / 1024.0),
        b => format!("{b:.0} B"),
    }
}

/// A value in the unit a metric has: `ns`, `bytes`, or none.
pub fn value(number: f64, unit: &str) -> String {
    match unit {
        "ns" => duration_ns(number),
        "bytes" => bytes(number),
        _ => format!("{number:.4}"),
    }
}

/// A count with its digits in groups of three.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with what is counted: `1 function`, `1,200 functions`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), noun(number, one, many))
}

/// The same with its digits in one group, for lines that scripts read: `1200 samples`.
pub fn numbered(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", noun(number, one, many))
}

fn noun<'n>(number: u64, one: &'n str, many: &'n str) -> &'n str {
    if number == 1 { one } else { many }
}

/// A share as a percentage.
pub fn pct(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            (duration_ns(1.5e9).as_str(), duration_ns(2.25e6).as_str()),
            ("1.50 s", "2.2 ms")
        );
        assert_eq!((bytes(512.0).as_str(), bytes(1536.0).as_str()), ("512 B", "1.5 KiB"));
        assert_eq!(
            (count(0).as_str(), count(999).as_str(), count(1234567).as_str()),
            ("0", "999", "1,234,567")
        );
        assert_eq!(pct(0.9876), "98.8 %");
    }
}
