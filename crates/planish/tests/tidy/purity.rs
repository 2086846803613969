//! Do the libraries keep to values? Which crates may ask the machine for something, and which
//! signatures take an address as a bare number.

use super::{assert_none, texts};

/// Take bytes or values and return values.
const PURE: [&str; 13] = [
    "perfdata",
    "address-spaces",
    "annotate",
    "calltrees",
    "image",
    "counts",
    "exchange",
    "profile",
    "layout",
    "statistics",
    "report",
    "recent",
    "viewer",
];

/// Turn runtime addresses into image addresses, or know both.
const TRANSLATES: [&str; 2] = ["counts", "calltrees"];

/// Code of the product with its crate and its path; tests at the end of a file are left out.
fn code() -> Vec<(String, String, String)> {
    let of = |(path, text): (String, String)| {
        let (name, file) = path.strip_prefix("crates/")?.split_once("/src/")?;
        let is_test = file.ends_with("tests.rs") || file.contains("tests/");
        let code = text.split("\n#[cfg(test)]").next().unwrap_or_default();
        (!is_test).then(|| (name.to_owned(), path.clone(), code.to_owned()))
    };
    texts(&[".rs"]).into_iter().filter_map(of).collect()
}

/// The lines with one of these words, comments left out.
fn lines_with(path: &str, code: &str, words: &[String]) -> Vec<String> {
    let found = code.lines().enumerate().filter(|(_, line)| {
        let line = line.split("//").next().unwrap_or_default();
        words.iter().any(|word| line.contains(word.as_str()))
    });
    found.map(|(index, line)| format!("{path}:{}: {}", index + 1, line.trim())).collect()
}

#[test]
fn core_crates_ask_neither_clock_nor_environment_nor_chance() {
    // Put together here so that this file does not find itself.
    let words = [
        ("Instant:", ":now"),
        ("SystemTime:", ":now"),
        ("env:", ":var"),
        ("env:", ":current_dir"),
        ("env:", ":args"),
        ("process:", ":Command"),
        ("process:", ":exit"),
        ("getran", "dom"),
        ("thread_", "rng"),
        ("is_ter", "minal"),
    ];
    let words = words.map(|(one, other)| format!("{one}{other}"));
    let code = code();
    let pure = code.iter().filter(|(name, ..)| PURE.contains(&name.as_str()));
    let found = pure.flat_map(|(_, path, code)| lines_with(path, code, &words));
    assert_none("core crates that ask the machine", found.collect());
}

#[test]
fn only_the_command_reads_arguments_and_chooses_exit_codes() {
    let words = [("env:", ":args"), ("process:", ":exit"), ("Exit", "Code")];
    let words = words.map(|(one, other)| format!("{one}{other}"));
    let code = code();
    // The library that a program is started with ends that program where nothing else is left.
    let others = code.iter().filter(|(name, ..)| !["planish", "hugetext"].contains(&name.as_str()));
    let found = others.flat_map(|(_, path, code)| lines_with(path, code, &words));
    assert_none("arguments and exit codes outside crates/planish", found.collect());
}

#[test]
fn runtime_addresses_become_image_addresses_in_few_crates() {
    let words = |words: &[&str], code: &str| words.iter().any(|word| code.contains(word));
    let both = code().into_iter().filter(|(name, _, code)| {
        !TRANSLATES.contains(&name.as_str())
            && words(&["RuntimeAddr"], code)
            && words(&["ImageAddr", "FileOffset"], code)
    });
    assert_none("files that know both kinds of addresses", both.map(|(_, path, _)| path).collect());
}

/// The signatures of public functions, each in one line.
fn signatures(code: &str) -> Vec<String> {
    // Also those that are unsafe.
    let starts = code.match_indices("pub ").filter(|(at, _)| {
        let words = code[*at..].split_whitespace().skip(1);
        words.take(2).any(|word| word == "fn")
    });
    let end = |rest: &str| rest.find(['{', ';']).unwrap_or(rest.len());
    let whole = starts.map(|(at, _)| code[at..at + end(&code[at..])].to_owned());
    whole.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn no_public_function_takes_an_address_as_a_bare_number() {
    let bare = |signature: &String| {
        let arguments = signature.split_once('(').map_or("", |(_, arguments)| arguments);
        arguments.split(", ").any(|argument| {
            let (name, kind) = argument.split_once(": ").unwrap_or_default();
            name.contains("addr") && ["u64", "&u64", "&[u64]", "Option<u64>"].contains(&kind)
                || name.contains("addr") && kind.starts_with("u64)")
        })
    };
    assert!(bare(&"pub fn read(&self, address: u64) -> u8".to_owned()));
    assert!(!bare(&"pub fn read(&self, address: RuntimeAddr) -> u64".to_owned()));
    let found = code().into_iter().flat_map(|(_, path, code)| {
        let bare: Vec<String> = signatures(&code).into_iter().filter(bare).collect();
        bare.into_iter().map(move |signature| format!("{path}: {signature}"))
    });
    assert_none("addresses that are bare numbers", found.collect());
}
