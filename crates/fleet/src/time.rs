//! Which second is meant, and how long a time? As users write both; in UTC alone.

const DAY: u64 = 86_400;
/// The last year that is read.
const LAST_YEAR: u64 = 9999;

/// Seconds since 1970 of `1790000000`, `2026-11-26`, or `2026-11-26T17:40:00` with or without `Z`.
pub fn second(text: &str) -> Option<u64> {
    if let Some(seconds) = number(text) {
        return Some(seconds);
    }
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00:00"));
    let numbers = |text: &str, between: char| -> Option<Vec<u64>> {
        text.split(between).map(|part| number(part).filter(|_| part.len() <= 4)).collect()
    };
    let [year, month, day] = numbers(date, '-')?[..] else { return None };
    let (hour, minute, second) = match numbers(time, ':')?[..] {
        [hour, minute] => (hour, minute, 0),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    let in_time = hour < 24 && minute < 60 && second < 60;
    if !in_time || !(1970..=LAST_YEAR).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    let days = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum::<u64>()
        + (1..month).map(|month| length(year, month)).sum::<u64>();
    let in_month = (1..=length(year, month)).contains(&day);
    in_month.then(|| (days + day - 1) * DAY + hour * 3600 + minute * 60 + second)
}

/// Seconds of `90`, `90s`, `15m`, `12h`, `7d` or `2w`.
pub fn seconds(text: &str) -> Option<u64> {
    let (digits, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at_checked(at)?,
        None => (text, "s"),
    };
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => DAY,
        "w" => 7 * DAY,
        _ => return None,
    };
    number(digits)?.checked_mul(unit)
}

/// A second as `2026-11-26 17:40:00`.
pub fn told(second: u64) -> String {
    let (mut days, rest) = (second / DAY, second % DAY);
    let mut year = 1970;
    while year <= LAST_YEAR && days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    if year > LAST_YEAR {
        return format!("second {second}");
    }
    let mut month = 1;
    while days >= length(year, month) {
        days -= length(year, month);
        month += 1;
    }
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year}-{month:02}-{:02} {hour:02}:{minute:02}:{second:02}", days + 1)
}

fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// Days of a month.
fn length(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_and_told() {
        for (text, expected) in [
            ("0", 0),
            ("1970-01-01", 0),
            ("2000-02-29T23:59:59Z", 951_868_799),
            ("2026-11-26 17:40", 1_795_714_800),
            ("9999-12-31T23:59:59", 253_402_300_799),
        ] {
            assert_eq!(second(text), Some(expected), "{text}");
            let again = told(expected);
            assert_eq!(second(&again), Some(expected), "{again}");
        }
        for bad in
            ["", "-1", "2026", "26-11-26x", "2026-13-01", "2026-02-29", "2026-1-1T24:00", "x"]
        {
            assert!(second(bad).is_none_or(|_| bad == "2026"), "{bad}");
        }
        assert_eq!(told(u64::MAX), "second 18446744073709551615");
    }

    #[test]
    fn lengths_have_units() {
        let read = ["90", "90s", "15m", "12h", "7d", "2w"].map(seconds);
        assert_eq!(read, [90, 90, 900, 43_200, 604_800, 1_209_600].map(Some));
        let bad = ["", "d", "1y", "1.5h", "-1", "99999999999999999999", "9999999999999999999w"];
        assert_eq!(bad.map(seconds), [None; 7]);
    }
}
