//! What does the link command in the archive ask for? Reads and writes lld's `response.txt`.
//!
//! lld writes one option or input a line, an option's separate value on the same line.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path};

use crate::options::{self, Takes, Use};

/// Options that take the symbols out of the program, without which no layout can be verified.
const STRIPPING: &[&str] = &["strip-all", "strip-debug", "discard-all"];

/// The command of a link, in words that lld reads in one way only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    /// One option with its value, or one input.
    lines: Vec<Line>,
    output: Option<String>,
}

/// A word of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Line {
    Input(String),
    /// By its long name, without dashes.
    Option(String, Option<String>),
}

/// An option that is not handed to lld, and why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) option: String,
    pub(crate) why: &'static str,
}

const UNKNOWN: &str = "it is none of those that are known to change the program alone";
const OUTSIDE: &str = "it names a file outside of the archive";
const NESTED: &str = "it names another file of options";

/// A path below the archive's directory, or none. A path from the root lies below it, too: lld is
/// told so (`--chroot`).
pub(crate) fn inside(path: &str) -> Option<&str> {
    let path = path.trim_start_matches('/');
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    (!path.is_empty() && !path.starts_with('@') && Path::new(path).components().all(plain))
        .then_some(path)
}

/// Is this a regular file, named from the root, that begins as lists of blocks do?
fn is_cc_profile(path: &Path) -> bool {
    matches!(start(path), Some([b'v', b'0' | b'1'] | [b'!' | b'#', _]))
}

/// Is this a regular file, named from the root, of merged counters? Source: LLVM,
/// `llvm/include/llvm/ProfileData/InstrProf.h`, `IndexedInstrProf::Magic`.
fn are_counters(path: &Path) -> bool {
    start(path) == Some(*b"\xfflprofi\x81")
}

/// How a regular file begins that is named from the root.
fn start<const N: usize>(path: &Path) -> Option<[u8; N]> {
    let mut start = [0; N];
    let file = path.is_absolute() && path.is_file();
    let read = file.then(|| File::open(path).and_then(|mut file| file.read_exact(&mut start)));
    read?.ok().map(|()| start)
}

impl Line {
    /// Reads the next word, or the next two; none if it is left out.
    fn read(
        word: String,
        rest: &mut impl Iterator<Item = String>,
    ) -> Result<Option<Line>, Refused> {
        let refused = |why| Refused { option: word.clone(), why };
        let Some((name, value)) = options::named(&word) else {
            let nested = if word.starts_with('@') { NESTED } else { OUTSIDE };
            return match inside(&word) {
                Some(path) => Ok(Some(Line::Input(path.to_owned()))),
                None => Err(refused(nested)),
            };
        };
        let mut value_or_next = |value: Option<String>| value.or_else(|| rest.next());
        if name == "mllvm" || name == "plugin-opt" {
            let value = value_or_next(value).unwrap_or_default();
            let allowed = match name.as_str() {
                "mllvm" => options::shapes_code(&value).then_some(Use::Keep),
                _ => options::plugin(&value),
            };
            let shown = Refused { option: format!("-{name} {value}"), why: UNKNOWN };
            let kept = allowed.ok_or(shown)? == Use::Keep;
            return Ok(kept.then_some(Line::Option(name, Some(value))));
        }
        let Some((how, takes)) = options::known(&name) else { return Err(refused(UNKNOWN)) };
        let value = match takes {
            // `--no-dynamic-linker` and `--undefined` share a name with one that has a value: see
            // `options::known`.
            Takes::Value => {
                Some(value_or_next(value).ok_or_else(|| refused("its value is missing"))?)
            }
            Takes::Joined => value,
            Takes::Nothing if value.is_some() => return Err(refused("it has no value")),
            Takes::Nothing => None,
        };
        Line::kept(name, value, how, refused)
    }

    fn kept(
        name: String,
        value: Option<String>,
        how: Use,
        refused: impl Fn(&'static str) -> Refused,
    ) -> Result<Option<Line>, Refused> {
        let text = value.as_deref().unwrap_or_default();
        let word = |text: &str| {
            !text.is_empty()
                && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_=.:+".contains(c))
        };
        match how {
            // What was left out may say where the program goes, which is asked for later.
            Use::Drop if name != "o" => return Ok(None),
            Use::Reads
                if name == "lto-basic-block-sections"
                    && ["all", "none", "labels"].contains(&text) => {}
            // lld puts it into no archive, so a build of this machine names it where it lies.
            Use::Reads if name == "lto-basic-block-sections" && is_cc_profile(Path::new(text)) => {}
            Use::Reads if name == "lto-basic-block-sections" && text.starts_with('/') => {
                return Err(refused(OUTSIDE));
            }
            // The same. CMake hands the flags of the compiler on to the link.
            Use::Reads if name == "lto-cs-profile-file" => {
                let inside = inside(text).ok_or_else(|| refused(OUTSIDE))?;
                let here = Path::new("/").join(inside);
                let path = if are_counters(&here) { here } else { inside.into() };
                let path = path.to_str().map(str::to_owned);
                return Ok(Some(Line::Option(name, Some(path.ok_or_else(|| refused(OUTSIDE))?))));
            }
            Use::Reads => {
                let path = inside(text).ok_or_else(|| refused(OUTSIDE))?.to_owned();
                return Ok(Some(Line::Option(name, Some(path))));
            }
            // `=dir` starts at the root that the link names, which lies in the archive as well.
            Use::Searches
                if inside(text.trim_start_matches('=')).is_none() || text.starts_with('/') =>
            {
                return Ok(None);
            }
            Use::Keep if name == "library" && text.contains('/') => return Err(refused(OUTSIDE)),
            // These go in a word of their own.
            Use::Keep if ["z", "m", "O"].contains(&name.as_str()) && !word(text) => {
                return Err(refused("its value is no word"));
            }
            _ => {}
        }
        Ok(Some(Line::Option(name, value)))
    }

    fn option(&self) -> Option<&str> {
        match self {
            Line::Option(name, _) => Some(name),
            Line::Input(_) => None,
        }
    }

    fn value(&self) -> Option<&str> {
        match self {
            Line::Option(_, value) => value.as_deref(),
            Line::Input(_) => None,
        }
    }

    /// As lld reads it.
    fn words(&self) -> Vec<String> {
        match self {
            Line::Input(path) => vec![path.clone()],
            Line::Option(name, Some(value)) if name == "z" || name == "m" => {
                vec![format!("-{name}"), value.clone()]
            }
            Line::Option(name, Some(value)) if name == "O" => vec![format!("-O{value}")],
            Line::Option(name, Some(value)) => vec![format!("--{name}={value}")],
            Line::Option(name, None) => vec![format!("--{name}")],
        }
    }
}

/// The words of a line: blanks part them, quotes and backslashes keep what follows.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (_, '\\') => word.get_or_insert_default().extend(letters.next()),
            (Some(open), _) if open == letter => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, blank) if blank.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

impl Response {
    /// Reads a response file.
    pub(crate) fn parse(text: &str) -> Result<Response, Refused> {
        // The words count, not the lines: an option must not hide behind an input.
        let mut all = text.lines().flat_map(words);
        let mut lines = Vec::new();
        while let Some(word) = all.next() {
            lines.extend(Line::read(word, &mut all)?);
        }
        let output = lines.iter().rev().find(|line| line.option() == Some("o"));
        let output = output.and_then(|line| line.value().map(str::to_owned));
        lines.retain(|line| line.option() != Some("o"));
        Ok(Response { output, lines })
    }

    /// The program's file name, without directory.
    pub(crate) fn output(&self) -> &str {
        let name = self
            .output
            .as_deref()
            .map(Path::new)
            .and_then(Path::file_name)
            .and_then(|name| name.to_str());
        name.unwrap_or("a.out")
    }

    /// Is one of these options given, by their long names?
    pub(crate) fn has(&self, options: &[&str]) -> bool {
        self.lines.iter().any(|line| line.option().is_some_and(|option| options.contains(&option)))
    }

    /// The last value of an option.
    pub(crate) fn value(&self, option: &str) -> Option<&str> {
        self.lines.iter().rev().find(|line| line.option() == Some(option))?.value()
    }

    /// Does the last `-z` of these names that is given have the wanted one?
    pub(crate) fn z(&self, wanted: &str, names: &[&str]) -> bool {
        let mut given = self.lines.iter().rev().filter(|line| line.option() == Some("z"));
        given.find_map(|line| line.value().filter(|name| names.contains(name))) == Some(wanted)
    }

    /// The inputs named by path, in their order.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter_map(|line| match line {
            Line::Input(path) => Some(path.as_str()),
            Line::Option(..) => None,
        })
    }

    /// Does the link strip symbols?
    pub(crate) fn strips(&self) -> bool {
        self.has(STRIPPING)
    }

    /// Without the options that strip symbols: these are not loaded when the program runs, so
    /// nothing moves.
    pub(crate) fn unstripped(mut self) -> Response {
        self.lines.retain(|line| line.option().is_none_or(|option| !STRIPPING.contains(&option)));
        self
    }

    /// Objects name no libraries of their own. Last, since the last such option counts.
    pub(crate) fn without_dependent_libraries(mut self) -> Response {
        self.lines.push(Line::Option("no-dependent-libraries".to_owned(), None));
        self
    }

    /// Without the options that order sections by a profile, which lld does not take beside an
    /// order of symbols.
    pub(crate) fn without_profile_order(mut self) -> Response {
        self.lines.retain(|line| line.option().is_none_or(|option| !orders_by_profile(option)));
        self
    }

    /// Does an option order sections by a profile?
    pub(crate) fn has_profile_order(&self) -> bool {
        self.lines.iter().filter_map(Line::option).any(orders_by_profile)
    }

    /// Without the relocations that only a rewriter of the program needs.
    pub(crate) fn without_relocations(mut self) -> Response {
        self.lines.retain(|line| line.option() != Some("emit-relocs"));
        self
    }

    /// The text of a response file: `first`, then this command, then `last`; each word on a line
    /// and quoted. Paths from the root lie below the directory of the link.
    pub(crate) fn render(&self, first: &[String], last: &[String]) -> String {
        let root = ["--chroot".to_owned(), ".".to_owned()];
        let own: Vec<String> = self.lines.iter().flat_map(Line::words).collect();
        let words = root.iter().chain(first).chain(&own).chain(last);
        words
            .map(|word| format!("\"{}\"\n", word.replace('\\', "\\\\").replace('"', "\\\"")))
            .collect()
    }
}

fn orders_by_profile(option: &str) -> bool {
    ["call-graph-ordering-file", "irpgo-profile"].contains(&option) || option.starts_with("bp-")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "--chroot .\n--build-id=sha1\n-o prog\n--Map=x.map\n-Map y.map\n\"with \
                        blank.o\"\na.o\n-z now\n-z separate-code\n-z \
                        noseparate-code\n-s\n--symbol-ordering-file=one\n--symbol-ordering-file \
                        two\n-O1\n--error-handling-script=/bin/sh\n";

    fn parse(text: &str) -> Response {
        Response::parse(text).unwrap()
    }

    #[test]
    fn options_inputs_and_output_are_told_apart() {
        let response = parse(TEXT);
        assert_eq!(response.output(), "prog");
        assert_eq!(response.paths().collect::<Vec<_>>(), ["with blank.o", "a.o"]);
        assert_eq!(response.value("symbol-ordering-file"), Some("two"));
        assert_eq!(response.value("build-id"), Some("sha1"));
        assert!(!response.z("separate-code", &["separate-code", "noseparate-code"]));
        assert!(!response.has(&["Map", "o", "error-handling-script", "chroot"]));
        assert!(response.strips() && !response.unstripped().strips());
    }

    #[test]
    fn what_is_written_reads_back() {
        let response = parse(
            "a\\\\b.o\n\"quo\\\"te.o\"\n--entry main\n-lc -Ldir -O2 -z now\n--icf=all\n--defsym \
             'a=b c'\n",
        );
        let again = parse(&response.render(&[], &[]));
        assert_eq!(again, response);
        let text = "--chroot . a\\b.o quo\"te.o --entry=main --library=c --library-path=dir -O2 \
                    -z now --icf=all --defsym=a=b c";
        assert_eq!(words_of(&response), text);
    }

    fn words_of(response: &Response) -> String {
        let text = response.render(&[], &[]);
        let words: Vec<String> = text.lines().flat_map(words).collect();
        words.join(" ")
    }

    #[test]
    fn what_compilers_really_ask_for_is_handed_on() {
        let gcc = "--chroot .\n-plugin \
                   /usr/lib/gcc/liblto_plugin.so\n-plugin-opt=/usr/lib/gcc/lto-wrapper\n\
                   -plugin-opt=-fresolution=/tmp/x.res\n-plugin-opt=-pass-through=-lgcc\n\
                   --hash-style gnu\n-m elf_x86_64\n-dynamic-linker /lib64/ld.so\n-pie\n-L \
                   usr/lib\n-L /nowhere\n-L ../up\n-l gcc_s\n";
        let kept = "--chroot . --hash-style=gnu -m elf_x86_64 --dynamic-linker=/lib64/ld.so --pie \
                    --library-path=usr/lib --library=gcc_s";
        assert_eq!(words_of(&parse(gcc)), kept);
        let clang = "-plugin-opt=mcpu=x86-64\n--lto-O2\n-plugin-opt=thinlto\n\
                     -plugin-opt=-function-sections=1\n-plugin-opt=O2\n-mllvm \
                     -align-loops=32\n-mllvm -sample-profile-remove-probe\n\
                     --lto-basic-block-sections=all\n/usr/lib/crt1.o\n";
        let kept = "--chroot . --plugin-opt=mcpu=x86-64 --lto-O2 --plugin-opt=thinlto \
                    --plugin-opt=-function-sections=1 --plugin-opt=O2 --mllvm=-align-loops=32 \
                    --mllvm=-sample-profile-remove-probe \
                    --lto-basic-block-sections=all usr/lib/crt1.o";
        assert_eq!(words_of(&parse(clang)), kept);
    }

    #[test]
    fn a_layout_of_this_machine_is_read_where_it_lies() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("cc_profile.txt");
        std::fs::write(&list, "v1\nf main\nc0\n").unwrap();
        let option = format!("--lto-basic-block-sections={}", list.display());
        assert_eq!(words_of(&parse(&option)), format!("--chroot . {option}"));
        std::fs::write(&list, "root:x:0:0\n").unwrap();
        assert!(Response::parse(&option).is_err());
    }

    #[test]
    fn counters_of_this_machine_are_read_where_they_lie() {
        let folder = tempfile::tempdir().unwrap();
        let counters = folder.path().join("app.profdata");
        std::fs::write(&counters, b"\xfflprofi\x81 and more").unwrap();
        let full = counters.to_str().unwrap();
        let option = format!("--lto-cs-profile-file={full}");
        assert_eq!(words_of(&parse(&option)), format!("--chroot . {option}"));
        std::fs::write(&counters, "something else").unwrap();
        let inside = format!("--chroot . --lto-cs-profile-file={}", &full[1..]);
        assert_eq!(words_of(&parse(&option)), inside);
        assert!(Response::parse("--lto-cs-profile-file=../x").is_err());
    }

    #[test]
    fn what_loads_runs_reads_or_writes_elsewhere_is_refused_by_name() {
        let refused = [
            ("-mllvm -load=/tmp/evil.so", "-load=/tmp/evil.so"),
            ("--mllvm=-info-output-file=/tmp/x", "info-output-file"),
            ("-mllvm\n-load=evil.so", "-load=evil.so"),
            ("--plugin-opt=-load=evil.so", "-load=evil.so"),
            ("-plugin-opt=-pass-remarks-output=x", "pass-remarks-output"),
            ("-plugin-opt=thinlto-index-only=x", "thinlto-index-only"),
            ("-plugin-opt=cs-profile-path=/etc/x", "cs-profile-path"),
            ("--load-pass-plugin=evil.so", "load-pass-plugin"),
            ("-load-pass-plugin=evil.so", "load-pass-plugin"),
            ("a.o -load-pass-plugin=evil.so", "load-pass-plugin"),
            ("@more.txt", "@more.txt"),
            ("a.o \"@more.txt\"", "@more.txt"),
            ("-z @more.txt", "-z"),
            ("-m @more.txt", "-m"),
            ("../../etc/passwd", "../../etc/passwd"),
            ("/usr/../../etc/passwd", "/etc/passwd"),
            ("-T ../x.ld", "-T"),
            ("--script=../../x.ld", "--script"),
            ("-l:../../../x.o", "-l:"),
            ("-l ../x", "-l"),
            ("--version-script=../x", "--version-script"),
            ("--lto-sample-profile=../x", "--lto-sample-profile"),
            ("--remap-inputs=a.o=/etc/passwd", "--remap-inputs"),
            ("--lto-basic-block-sections=/etc/passwd", "--lto-basic-block-sections"),
            ("--thinlto-distributor=/bin/sh", "thinlto-distributor"),
            ("--out-implib=/tmp/x", "--out-implib"),
            ("--lto-emit-asm", "--lto-emit-asm"),
            ("--no-such-option", "--no-such-option"),
        ];
        for (text, name) in refused {
            let refused = Response::parse(text).expect_err(text);
            assert!(refused.option.contains(name), "{text}: {refused:?}");
        }
        let dropped = "a.o -Map=/tmp/x --Map /tmp/y --dependency-file=/tmp/z --dependency-file \
                       /tmp/z -o /tmp/o -o/tmp/p --output=/tmp/q --reproduce=/tmp/r \
                       --error-handling-script=/bin/sh --save-temps=/tmp --time-trace=/x \
                       --why-extract=/tmp/w --thinlto-cache-dir=/tmp/c --lto-obj-path=/tmp/l \
                       --print-archive-stats=/tmp/s";
        assert_eq!(words_of(&parse(dropped)), "--chroot . a.o");
    }
}
