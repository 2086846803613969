//! Copies the text of the program that it is preloaded into to superpages of that process, before
//! the program runs.
//!
//! `planish pages run --copy` starts a program with this library in `LD_PRELOAD`. Its constructor
//! runs when all libraries are mapped and relocated and, as a rule, nothing else has begun. Input:
//! the request in the environment ([`superpages::Request`]) and `/proc/self/maps`. For every text
//! mapping that spans whole superpages it reads the text from the file into fresh superpages, holds
//! it against what is mapped (breakpoints, probes and text relocations make a difference, and then
//! the mapping stays as it is), makes it executable, and moves it over the mapping in one system
//! call. Nothing is replaced that this code itself runs from. Addresses do not change.
//!
//! What it costs: memory of its own for every process, core files that hold the text, and tools
//! that know text by its file: see docs/reference/pages.md. Names for perf go to `/tmp/perf-PID.map`.

mod maps;
mod names;
mod sys;
mod text;

use std::io::Write;
use std::os::unix::fs::MetadataExt;

use superpages::Request;

/// What the constructor calls. Never unwinds.
fn start() {
    let Some(request) = Request::from_environment() else { return };
    // A script's command is run by way of other programs (`env`, a shell), which hand the request
    // on.
    if !std::fs::metadata("/proc/self/exe")
        .is_ok_and(|own| (own.dev(), own.ino()) == request.program)
    {
        return;
    }
    let whole = std::panic::catch_unwind(|| copy(&request)).unwrap_or_else(|_| {
        say("copying the text failed by a fault of planish; please report it");
        false
    });
    if request.strict && !whole {
        std::process::exit(1);
    }
}

/// One line on standard error; the program is not this library's, so where the stream takes none
/// nothing is said.
fn say(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "planish: {line}");
}

/// Copies what can be copied and says what became of it. Returns whether all of it was.
fn copy(request: &Request) -> bool {
    match sys::threads() {
        Ok(1) => {}
        Ok(count) => {
            say(format!(
                "no text was copied: {count} threads run already, started by a library of the \
                 program"
            ));
            return false;
        }
        Err(error) => {
            say(format!("no text was copied: /proc/self/task cannot be read: {error}"));
            return false;
        }
    }
    // The programs that this one starts are not meant.
    sys::forget_request(request);
    let mappings = match maps::own() {
        Ok(mappings) => mappings,
        Err(error) => {
            say(format!("no text was copied: /proc/self/maps cannot be read: {error}"));
            return false;
        }
    };
    let mut copied: Vec<maps::Mapping> = Vec::new();
    let mut left = 0;
    for mapping in mappings.iter().filter(|mapping| mapping.superpages().is_some()) {
        match text::replace(mapping, request.memory) {
            Ok(()) => copied.push(mapping.clone()),
            Err(why) => {
                left += 1;
                say(format!("{}: its text stays where it is: {why}", mapping.path));
            }
        }
    }
    let bytes: u64 =
        copied.iter().filter_map(|m| m.superpages()).map(|range| range.end - range.start).sum();
    if copied.is_empty() {
        if left == 0 {
            say("no text was copied: none spans a superpage of 2 MiB where it is mapped");
        }
        return false;
    }
    let map = names::write(&copied);
    if !request.quiet {
        let kind = request.memory.word();
        say(format!(
            "{:.1} MiB of text copied to {kind} superpages",
            bytes as f64 / f64::from(1 << 20)
        ));
    }
    match map {
        Ok(path) if !request.quiet => {
            say(format!("perf finds the names of its functions in {path}"))
        }
        Ok(_) => {}
        Err(why) => say(format!("perf will find no names of its functions: {why}")),
    }
    left == 0
}
