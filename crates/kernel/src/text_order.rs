//! In which order does the linker script place text?
//!
//! Input: the text of `include/asm-generic/vmlinux.lds.h`. Output: the same with a second body of
//! `TEXT_TEXT` in front, for kernels with a profile, and the tree's own body behind `#else`,
//! untouched. The second body consists of the tree's own lines, classified by the sections they
//! name; what is not known is kept in its order behind the main text. So what a distribution added
//! is not lost.
//!
//! The linker gives an input section to the first pattern that fits. Function sections turn `.text`
//! into `.text.NAME`, so every narrower pattern has to stand before the one for those. A name with
//! two dots (`.text..x`) is never matched: these are placed by hand elsewhere.

/// What `TEXT_TEXT` is called in messages.
pub const CONSTRUCT: &str = "the order of text (TEXT_TEXT)";

const BEGIN: &str = "\
#if defined(CONFIG_AUTOFDO_CLANG) || defined(CONFIG_PROPELLER_CLANG)
/*
 * With profiles the compiler sorts functions, and parts of them, into sections
 * by how often they run. Those that run most lie together, from a page on; the
 * symbols tell where. .text..* is placed elsewhere, so it is not matched here.
 */
";
const ELSE: &str = "#else /* text is not ordered by a profile */\n";
const END: &str = "#endif /* order of text */\n";

const DEFINE: &str = "#define TEXT_TEXT";
const MAIN: &str = "TEXT_MAIN";
const ANY_FUNCTION: &str = ".text .text.[0-9a-zA-Z_]*";

/// A line of the macro that is not there exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// What the line is about.
    pub expected: &'static str,
    /// How many there are.
    pub found: usize,
}

/// The lines of the macro, sorted.
#[derive(Default)]
struct Body<'a> {
    align: Vec<&'a str>,
    asan: Vec<&'a str>,
    unknown: Vec<&'a str>,
    unlikely: Vec<&'a str>,
    hot: Vec<&'a str>,
    main: Vec<&'a str>,
    rest: Vec<&'a str>,
}

impl<'a> Body<'a> {
    fn classify(lines: impl Iterator<Item = &'a str>) -> Body<'a> {
        let mut body = Body::default();
        for line in lines {
            let class = match line {
                "" => continue,
                line if line.starts_with("ALIGN_FUNCTION") => &mut body.align,
                line if line.contains(MAIN) => &mut body.main,
                line if line.contains(".text.hot") => &mut body.hot,
                line if line.contains(".text.unlikely") => &mut body.unlikely,
                line if line.contains(".text.unknown") => &mut body.unknown,
                line if line.contains(".text.asan") => &mut body.asan,
                _ => &mut body.rest,
            };
            class.push(line);
        }
        body
    }

    /// The lines in their new order; an error where a class has not exactly one.
    fn ordered(&self) -> Result<Vec<String>, Wrong> {
        let one = |lines: &[&str], expected: &'static str| match lines {
            [line] => Ok((*line).to_owned()),
            others => Err(Wrong { expected, found: others.len() }),
        };
        let marked = |name: &str, line: String| {
            [format!("__{name}_text_start = .;"), line, format!("__{name}_text_end = .;")]
        };
        let mut lines = vec![
            one(&self.align, "ALIGN_FUNCTION()")?,
            one(&self.asan, ".text.asan")?,
            one(&self.unknown, ".text.unknown")?,
        ];
        lines.extend(marked("split", "*(.text.split .text.split.[0-9a-zA-Z_]*)".to_owned()));
        lines.extend(marked("unlikely", one(&self.unlikely, ".text.unlikely")?));
        lines.push(". = ALIGN(PAGE_SIZE);".to_owned());
        lines.extend(marked("hot", one(&self.hot, ".text.hot")?));
        lines.push(one(&self.main, "TEXT_MAIN")?.replace(MAIN, ANY_FUNCTION));
        lines.extend(self.rest.iter().map(|line| (*line).to_owned()));
        Ok(lines)
    }
}

/// Where the macro begins and ends in the text, line ends included.
fn find(text: &str) -> Result<(usize, usize), Wrong> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut open = None;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        let defines =
            line.strip_prefix(DEFINE).is_some_and(|rest| rest.starts_with([' ', '\t', '\\']));
        if defines {
            open = Some(start);
        }
        if let Some(first) = open.filter(|_| !line.trim_end().ends_with('\\')) {
            found.push((first, end));
            open = None;
        }
        start = end;
    }
    match found.as_slice() {
        [only] => Ok(*only),
        others => Err(Wrong { expected: "#define TEXT_TEXT", found: others.len() }),
    }
}

/// A line of a macro: the backslash at column 72, where the kernel has it.
fn continued(line: &str, indent: &str) -> String {
    let width = line.len() + indent.len() * 8;
    let tabs = (72_usize.saturating_sub(width)).div_ceil(8).max(1);
    format!("{indent}{line}{}\\\n", "\t".repeat(tabs))
}

/// The text with both bodies.
pub fn apply(text: &str) -> Result<String, Wrong> {
    let (start, end) = find(text)?;
    let (head, rest) = text.split_at(start);
    let (own, tail) = rest.split_at(end - start);
    let lines = own.lines().map(|line| line.trim_end().trim_end_matches('\\').trim());
    let body = Body::classify(lines.map(|line| line.strip_prefix(DEFINE).map_or(line, str::trim)));
    let lines = body.ordered()?;
    let mut ordered = continued(DEFINE, "");
    for line in &lines {
        ordered += &continued(line, "\t\t");
    }
    // The last line of a macro goes on nowhere.
    let ordered = ordered.trim_end_matches(['\n', '\\', '\t']);
    Ok([head, BEGIN, ordered, "\n", ELSE, own, END, tail].concat())
}

/// The text with the tree's own body alone; `None` where there are not both, once.
pub fn undo(text: &str) -> Option<String> {
    let (head, rest) = split_once_only(text, BEGIN)?;
    let (_, rest) = split_once_only(rest, ELSE)?;
    let (own, tail) = split_once_only(rest, END)?;
    Some([head, own, tail].concat())
}

/// Around the separator, where it is there exactly once.
fn split_once_only<'a>(text: &'a str, separator: &str) -> Option<(&'a str, &'a str)> {
    let (head, tail) = text.split_once(separator)?;
    (!tail.contains(separator)).then_some((head, tail))
}
