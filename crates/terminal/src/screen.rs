//! What can standard output show?

use crate::Stream;
use report::Screen;
use std::io::IsTerminal;

/// What standard output can show.
pub fn screen() -> Screen {
    let width = match std::env::var("COLUMNS").ok().and_then(|n| n.parse().ok()) {
        Some(columns) => columns,
        None if std::io::stdout().is_terminal() => usize::from(console_width()),
        None => 100,
    };
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let ascii = locale.is_some_and(|l| !l.to_lowercase().replace('-', "").contains("utf8"));
    Screen {
        style: Stream::Output.style(),
        width: width.clamp(40, 160),
        ascii: ascii && std::io::stdout().is_terminal(),
    }
}

fn console_width() -> u16 {
    console::Term::stdout().size().1
}
