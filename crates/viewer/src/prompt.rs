//! A line that is typed: what to search for, a limit, a part of the time.

/// What a typed line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Search,
    Percent,
    Time,
}

impl Purpose {
    /// What stands before it.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Purpose::Search => "search: ",
            Purpose::Percent => "leave out what is below (percent): ",
            Purpose::Time => "seconds FROM-TO, as 2.5-4 (empty: all): ",
        }
    }
}

/// A line being typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prompt {
    pub purpose: Purpose,
    pub text: String,
}

/// Nobody types more.
const LONGEST: usize = 1000;

impl Prompt {
    pub(crate) fn new(purpose: Purpose) -> Prompt {
        Prompt { purpose, text: String::new() }
    }

    /// Takes a character.
    pub(crate) fn push(&mut self, c: char) {
        if !c.is_control() && self.text.len() < LONGEST {
            self.text.push(c);
        }
    }
}

/// Whether a name holds what is searched for: capital letters count if there is one in it.
pub(crate) fn matches(name: &str, wanted: &str) -> bool {
    if wanted.is_empty() {
        return false;
    }
    if wanted.chars().any(char::is_uppercase) {
        return name.contains(wanted);
    }
    name.to_lowercase().contains(wanted)
}

/// A percentage from 0 to 100, with or without its sign.
pub(crate) fn percentage(text: &str) -> Option<f64> {
    let number = text.trim().trim_end_matches('%').trim_end().parse::<f64>().ok()?;
    (0.0..=100.0).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_letters_find_both_and_capital_ones_themselves() {
        assert!(matches("ThreadPool::run", "pool"));
        assert!(matches("ThreadPool::run", "Pool") && !matches("threadpool", "Pool"));
        assert!(!matches("a", ""));
    }

    #[test]
    fn percentages_are_numbers_from_0_to_100() {
        assert_eq!([percentage("0.5"), percentage(" 5 % ")], [Some(0.5), Some(5.0)]);
        for wrong in ["", "-1", "101", "nan", "inf", "x"] {
            assert_eq!(percentage(wrong), None, "{wrong}");
        }
    }
}
