//! What are the lines of a text that may never end? Each is read to a limit: a stream without line
//! ends would else fill the memory with its first line.

use crate::error::Error;
use std::io::{BufRead, Read};
use std::path::Path;

/// Most bytes of a line: 16 MiB. perf prints a record, which has at most 64 KiB, in a line of some
/// hundred KiB.
const MOST: u64 = 16 << 20;

/// Shows each line of `text`, without its end, with its number from 0; `path` is for messages.
///
/// # Errors
/// Those of `see`; and where the text cannot be read, or a line is longer than any that is
/// understood.
pub(crate) fn each(
    path: &Path,
    mut text: impl BufRead,
    mut see: impl FnMut(u64, &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut line = Vec::new();
    for number in 0u64.. {
        line.clear();
        let fault = |source| Error::Io { path: path.to_owned(), source };
        let read = (&mut text).take(MOST).read_until(b'\n', &mut line).map_err(fault)?;
        if read == 0 {
            break;
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if read as u64 >= MOST {
            return Err(Error::Malformed {
                path: path.to_owned(),
                place: format!("line {}", number + 1),
                expected: format!("a line of less than {} MiB", MOST >> 20),
                found: "a longer one; is this what perf script printed?".to_owned(),
            });
        }
        see(number, &line)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: impl BufRead) -> (Vec<(u64, String)>, Option<String>) {
        let mut found = Vec::new();
        let ended = each(Path::new("text"), text, |number, line| {
            found.push((number, String::from_utf8_lossy(line).into_owned()));
            Ok(())
        });
        (found, ended.err().map(|error| error.to_string()))
    }

    #[test]
    fn lines_are_numbered_with_or_without_a_last_end() {
        let pairs =
            |list: &[(u64, &str)]| list.iter().map(|(n, text)| (*n, (*text).to_owned())).collect();
        assert_eq!(lines(&b"a\n\nb"[..]), (pairs(&[(0, "a"), (1, ""), (2, "b")]), None));
        assert_eq!(lines(&b"a\n"[..]), (pairs(&[(0, "a")]), None));
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let endless = std::io::BufReader::new((&b"S 1 1\n"[..]).chain(std::io::repeat(b'x')));
        let (found, wrong) = lines(endless);
        assert_eq!(found.len(), 1);
        assert!(wrong.is_some_and(|said| {
            said.starts_with("text: line 2: expected a line of less than 16 MiB")
        }));
    }
}
