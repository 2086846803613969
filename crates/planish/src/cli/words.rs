//! The command line, read: with perf's spellings of `record`, and what is wrong in words that can be
//! shown.

use super::{BAD_INPUT, Cli, Verb};
use crate::command;
use crate::output::Stream;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use std::ffi::OsString;

/// Reads the command line. `-z5` is perf's spelling of `-z=5`, which clap has no word for.
///
/// # Errors
/// The exit code, after what there is to say was said: what is wrong, or the help that was asked
/// for.
pub fn parse() -> Result<Cli, u8> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let first = Cli::try_parse_from(&words);
    let own = match &first {
        Ok(Cli { verb: Verb::Record(args), .. }) => words.len() - args.command.len(),
        Ok(_) => 0,
        Err(_) => words.iter().take_while(|word| *word != "--").count(),
    };
    let read = match registers_apart(&words, own) {
        Some(words) => Cli::try_parse_from(&words).or_else(|error| respelled(words, error)),
        None => first.or_else(|error| respelled(words.clone(), error)),
    };
    read.map_err(|error| told(error, &words))
}

fn told(error: clap::Error, words: &[OsString]) -> u8 {
    // The message repeats words, of which clap itself drops parts: it is made once more of words
    // that can be shown.
    let shown: Vec<OsString> = words
        .iter()
        .map(|word| report::visible(&word.to_string_lossy()).into_owned().into())
        .collect();
    let error =
        if shown == words { error } else { Cli::try_parse_from(&shown).err().unwrap_or(error) };
    let stream = if error.use_stderr() { Stream::Error } else { Stream::Output };
    let rendered = error.render();
    let text =
        if stream.style().colour { rendered.ansi().to_string() } else { rendered.to_string() };
    // A stream that takes no more is told of when the program ends.
    let _ = stream.text(&text);
    u8::try_from(error.exit_code()).unwrap_or(BAD_INPUT)
}

/// Tries again with `=` in the `-zN` of `record`, where its first digit is what was not understood.
fn respelled(words: Vec<OsString>, error: clap::Error) -> Result<Cli, clap::Error> {
    let unknown = |error: &clap::Error| match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) if error.kind() == ErrorKind::UnknownArgument => {
            Some(word.clone())
        }
        _ => None,
    };
    let digit = unknown(&error).filter(|word| word.starts_with('-') && word.len() == 2);
    let digit = digit.and_then(|word| word.chars().nth(1)).filter(char::is_ascii_digit);
    let Some((at, level)) = digit.and_then(|digit| level_at_once(&words, digit)) else {
        return Err(error);
    };
    let with =
        |spelling: String| {
            let spelled = words.iter().enumerate();
            Cli::try_parse_from(spelled.map(|(index, word)| {
                if index == at { spelling.clone().into() } else { word.clone() }
            }))
        };
    // Another word may have the same digit and be what is wrong.
    if with("-z".to_owned()).is_err_and(|other| unknown(&other) == unknown(&error)) {
        return Err(error);
    }
    if level.bytes().all(|byte| byte.is_ascii_digit()) {
        return with(format!("-z={level}"));
    }
    let said =
        format!("-z{level}: expected -z, or -z=LEVEL or -zLEVEL with a level from 1 to 22\n");
    Err(clap::Error::raw(ErrorKind::InvalidValue, said))
}

/// The words with `=` in the `-IREGISTERS` of `record`, where there is one among the first `own`.
/// Without it clap takes the registers for short options, of which it may know all.
fn registers_apart(words: &[OsString], own: usize) -> Option<Vec<OsString>> {
    let apart = |word: &OsString| {
        let registers = word.to_str()?.strip_prefix("-I").filter(|rest| !rest.is_empty())?;
        let known = registers.parse::<command::record::Asked>().is_ok();
        known.then(|| OsString::from(format!("-I={registers}")))
    };
    let changed: Vec<Option<OsString>> = words.iter().take(own).map(apart).collect();
    if changed.iter().all(Option::is_none) {
        return None;
    }
    let changed = changed.into_iter().chain(std::iter::repeat(None));
    Some(
        words
            .iter()
            .zip(changed)
            .map(|(word, apart)| apart.unwrap_or_else(|| word.clone()))
            .collect(),
    )
}

/// The first word of `record`, before a `--`, that is `-z` and something that begins with this
/// digit: where it stands, and what follows the `-z`.
fn level_at_once(words: &[OsString], digit: char) -> Option<(usize, String)> {
    let verbs = Cli::command();
    let mut after = words.iter().enumerate().skip(1).take_while(|(_, word)| *word != "--");
    after
        .find(|(_, word)| verbs.find_subcommand(word).is_some())
        .filter(|(_, word)| *word == "record")?;
    after.find_map(|(index, word)| {
        let level = word.to_str()?.strip_prefix("-z")?;
        level.starts_with(digit).then(|| (index, level.to_owned()))
    })
}
