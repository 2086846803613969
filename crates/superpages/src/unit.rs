//! What does a systemd unit look like that holds text in memory?

/// A unit that runs a command for as long as the machine runs.
pub fn unit(words: &[String]) -> String {
    let command = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    format!(
        "[Unit]\nDescription=Program text held on superpages\n\n[Service]\nExecStart={command}\n\
         Restart=always\nRestartSec=5\nLimitMEMLOCK=infinity\nNice=10\n\n\
         [Install]\nWantedBy=multi-user.target\n"
    )
}

/// A word as systemd takes it literally: it expands % and $, and splits at blanks outside of quotes
/// (systemd.service(5), "Command lines"; systemd.syntax(7), "Quoting").
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,=:@".contains(c);
    if word.chars().all(plain) {
        return word.to_owned();
    }
    let mut text = String::from('"');
    for c in word.chars() {
        match c {
            '%' | '$' => text.extend([c, c]),
            // systemd knows the same escapes of these as Rust.
            '"' | '\\' | '\n' | '\t' | '\r' => text.extend(c.escape_default()),
            _ => text.push(c),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_with_signs_that_mean_something_to_systemd_are_quoted() {
        assert_eq!(quoted("/usr/lib/a-1.so"), "/usr/lib/a-1.so");
        assert_eq!(quoted("/a b/it's"), "\"/a b/it's\"");
        assert_eq!(quoted("/100%/$HOME"), "\"/100%%/$$HOME\"");
        assert_eq!(quoted("a\"b\\c\nd"), "\"a\\\"b\\\\c\\nd\"");
    }
}
