//! Where a function of C or C++ ends in its source: braces are matched, without comments, strings
//! and the branches of `#if` that come after the first. Debug information tells only where a
//! function begins.

/// What counts on a line: the depth of braces behind it relative to its begin, and what stands
/// there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Line {
    /// Opening braces.
    opened: u32,
    /// Closing braces.
    closed: u32,
    /// The first of `;`, `{` and `}` in it.
    first: Option<u8>,
    /// Whether it is empty or a directive of the preprocessor: no function's head goes on over it.
    ends_head: bool,
}

/// Prepares a source file.
pub(crate) fn lines(source: &str) -> Vec<Line> {
    let mut found = Vec::new();
    let mut in_comment = false;
    // For each open `#if`: whether its first branch is over.
    let mut branches: Vec<bool> = Vec::new();
    let mut continued = false;
    for text in source.lines() {
        let mut line = Line::default();
        let trimmed = text.trim_start();
        if !in_comment && (continued || trimmed.starts_with('#')) {
            if !continued {
                directive(trimmed, &mut branches);
            }
            line.ends_head = true;
            continued = text.ends_with('\\');
        } else if !branches.contains(&true) {
            code(text, &mut in_comment, &mut line);
            line.ends_head = trimmed.is_empty();
        }
        found.push(line);
    }
    found
}

fn directive(text: &str, branches: &mut Vec<bool>) {
    let word = text.trim_start_matches('#').trim_start();
    if word.starts_with("if") {
        branches.push(false);
    } else if word.starts_with("el") {
        branches.last_mut().into_iter().for_each(|over| *over = true);
    } else if word.starts_with("endif") {
        branches.pop();
    }
}

fn code(text: &str, in_comment: &mut bool, line: &mut Line) {
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        if *in_comment {
            if byte == b'*' && bytes.next_if_eq(&b'/').is_some() {
                *in_comment = false;
            }
            continue;
        }
        match byte {
            b'/' if bytes.peek() == Some(&b'/') => return,
            b'/' if bytes.next_if_eq(&b'*').is_some() => *in_comment = true,
            b'"' | b'\'' => {
                while let Some(inner) = bytes.next() {
                    match inner {
                        b'\\' => drop(bytes.next()),
                        _ if inner == byte => break,
                        _ => {}
                    }
                }
            }
            b'{' => {
                line.opened += 1;
                line.first.get_or_insert(byte);
            }
            b'}' => {
                line.closed += 1;
                line.first.get_or_insert(byte);
            }
            b';' => drop(line.first.get_or_insert(byte)),
            _ => {}
        }
    }
}

/// The line with the brace that closes what begins at line `start` (both counted from 1). `None`
/// when braces do not match, or no body follows.
pub(crate) fn end(lines: &[Line], start: u32) -> Option<u32> {
    let mut depth = 0i64;
    let mut inside = false;
    for (line, number) in lines.get((start as usize).checked_sub(1)?..)?.iter().zip(start..) {
        if !inside && line.first.is_some_and(|first| first != b'{') {
            // A declaration, or the name stands in the middle of something else.
            return None;
        }
        inside |= line.opened > 0;
        depth += i64::from(line.opened) - i64::from(line.closed);
        if inside && depth <= 0 {
            return (depth == 0).then_some(number);
        }
    }
    None
}

/// The first line of the head of what begins at line `start`: types and attributes may stand before
/// the name.
pub(crate) fn head(lines: &[Line], start: u32) -> u32 {
    let mut first = start;
    while let Some(before) = (first as usize).checked_sub(2).and_then(|at| lines.get(at)) {
        if before.ends_head || before.first.is_some() || start - first >= 8 {
            break;
        }
        first -= 1;
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "#define K {\nstatic const\nint\nf(int x)\n{\n  if (x) { /* } */ return \
                          '}'; }\n#if A\n  {\n#else\n  {{\n#endif\n  }\n  return \
                          \"}\\\"}\";\n}\n\nint g(void);\nint h(void) { return 1; }\n";

    #[test]
    fn braces_are_matched_without_comments_strings_and_other_branches() {
        let lines = lines(SOURCE);
        assert_eq!(end(&lines, 4), Some(14));
        assert_eq!(end(&lines, 16), None, "a declaration");
        assert_eq!(end(&lines, 17), Some(17));
        assert_eq!(end(&lines, 99), None);
        assert_eq!(head(&lines, 4), 2);
        assert_eq!(head(&lines, 17), 17);
    }
}
