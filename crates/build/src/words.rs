//! How is a command line cut into words without a shell, and how are words written for one?

/// Whether build commands would cut a flag with this text in it, or a shell take a sign of it for itself.
pub(crate) fn is_cut(text: &str) -> bool {
    text.contains(|c: char| c.is_whitespace() || "*?[]\\'\"$`;&|<>()#".contains(c))
}

/// Splits as a shell does: blanks separate, quotes and backslashes keep together.
///
/// No shell runs, because a recording of `sh -c` would be one of the shell, and its start is noise
/// in every measurement. What only a shell can do (pipes, variables, redirections) is refused with
/// the way out.
pub fn split_words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' => take_quoted(&mut letters, '\'', word.get_or_insert_default(), line)?,
            '"' => take_quoted(&mut letters, '"', word.get_or_insert_default(), line)?,
            '\\' => match letters.next() {
                Some(next) => word.get_or_insert_default().push(next),
                None => return Err(format!("the command {line:?} ends in a backslash")),
            },
            '|' | '&' | ';' | '<' | '>' | '$' | '`' | '*' | '?' => {
                return Err(format!(
                    "the command {line:?} needs a shell for {letter:?}, but commands of \
                     [workload] and [evaluate] are started without one, lest its start be \
                     measured with every run; quote the sign, or write the file names out, or \
                     write a script and start that: sh run.sh {{bin}}"
                ));
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    if words.is_empty() {
        return Err("the command is empty".into());
    }
    Ok(words)
}

fn take_quoted(
    letters: &mut std::str::Chars,
    quote: char,
    word: &mut String,
    line: &str,
) -> Result<(), String> {
    while let Some(letter) = letters.next() {
        match letter {
            l if l == quote => return Ok(()),
            '\\' if quote == '"' => match letters.next() {
                Some(next @ ('"' | '\\' | '$' | '`')) => word.push(next),
                Some(next) => word.extend(['\\', next]),
                None => break,
            },
            l => word.push(l),
        }
    }
    Err(format!("the command {line:?} has a {quote} without its partner"))
}

/// A word as a shell takes it literally.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%{}".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_as_a_shell_cuts_them() {
        let words = split_words(r#" {bin}  -x 'a b' "c \" d"e \$1 '' "#).unwrap();
        assert_eq!(words, ["{bin}", "-x", "a b", "c \" de", "$1", ""]);
    }

    #[test]
    fn what_only_a_shell_can_do_is_refused() {
        assert!(split_words("{bin} < file").unwrap_err().contains("needs a shell for '<'"));
        assert!(split_words("{bin} 'x").unwrap_err().contains("without its partner"));
        assert!(split_words("  ").unwrap_err().contains("empty"));
        assert!(split_words("x \\").is_err());
    }
}
