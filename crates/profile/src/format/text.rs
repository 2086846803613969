//! LLVM's text sample profile: one line per function, location and inlined call.
//!
//! Source: <https://clang.llvm.org/docs/UsersManual.html#sample-profile-text-format>.

use std::io::Write;

use super::MAX_DEPTH;
use super::record::targets_by_count;
use crate::{Context, Error, FunctionProfile, Location, Name, SampleProfile};

/// Whether `bytes` look like a text profile: the first line that says anything is
/// `name:total:head`.
pub fn detect(bytes: &[u8]) -> bool {
    let mut lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    let Some(first) = lines.find(|line| !line.is_empty() && !line.starts_with(b"#")) else {
        return false;
    };
    std::str::from_utf8(first).is_ok_and(|line| !line.starts_with(' ') && header(line).is_some())
}

/// Reads a text profile. Functions and lines that appear twice add up, as in LLVM. A calling
/// context (`[main:3 @ foo]`) is kept whole as the name of its function. Comments begin with `#`;
/// those that [`write`] makes of the provenance are read, the others are not kept.
///
/// # Errors
/// The first line that does not follow the grammar, with its number.
pub fn read(bytes: &[u8]) -> Result<SampleProfile, Error> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        Error::Text { line, problem: "not UTF-8 text", found: String::new() }
    })?;
    let mut profile = SampleProfile::default();
    let mut top: Option<Name> = None;
    let mut path: Vec<(usize, Location, Name)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if let Some(comment) = line.strip_prefix('#') {
            // Anybody may comment on a profile, so that what says nothing to us is no error.
            profile.provenance.take_line(comment.trim_start());
            continue;
        }
        if line.is_empty() {
            continue;
        }
        let fail = |problem| {
            let found = line.chars().take(80).collect();
            Error::Text { line: number + 1, problem, found }
        };
        if !line.starts_with(' ') {
            let (name, total, head) = header(line).ok_or_else(|| fail(EXPECTED_HEADER))?;
            profile.context_sensitive |= line.starts_with('[') && line.contains("]:");
            let function = profile.function(&name);
            function.total = function.total.saturating_add(total);
            function.head = function.head.saturating_add(head);
            top = Some(name);
            path.clear();
            continue;
        }
        let Some(function) = top.as_ref().and_then(|name| profile.functions.get_mut(name)) else {
            return Err(fail("a body line before any function"));
        };
        let depth = line.bytes().take_while(|byte| *byte == b' ').count();
        while path.last().is_some_and(|(below, ..)| *below >= depth) {
            path.pop();
        }
        let mut target = function;
        for (_, at, callee) in &path {
            target = target.inlined(*at, callee);
        }
        if let Some((at, callee)) = body_line(line.trim_start(), target).map_err(fail)? {
            path.push((depth, at, callee));
            if path.len() > MAX_DEPTH {
                return Err(Error::TooDeep { limit: MAX_DEPTH });
            }
        }
    }
    Ok(profile)
}

const EXPECTED_HEADER: &str = "expected `name:total:head` or `[caller:3 @ name]:total:head`";

/// Splits `name:total:head`; the name may hold colons.
fn header(line: &str) -> Option<(Name, u64, u64)> {
    let (rest, head) = line.rsplit_once(':')?;
    let (name, total) = rest.rsplit_once(':')?;
    let name = match name.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
        // A context of one frame is the plain function; keeping the brackets would make a second
        // name for it.
        Some(inner) => {
            Some(Context::parse(inner)).filter(|c| !c.is_base() || !inner.contains(" @ "))?.name()
        }
        None => Name::parse(name),
    };
    (name.as_text() != Some("")).then_some(())?;
    Some((name, number(total)?, number(head)?))
}

/// Decimal digits only; `u64::from_str` would take a plus sign too.
fn number(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

/// One line below a function; gives the callee when it opens an inlined call.
fn body_line(
    line: &str,
    function: &mut FunctionProfile,
) -> Result<Option<(Location, Name)>, &'static str> {
    if let Some(metadata) = line.strip_prefix('!') {
        read_metadata(metadata, function)?;
        return Ok(None);
    }
    let (at, rest) = line.split_once(": ").ok_or("expected `offset[.discriminator]: …`")?;
    let at = location(at).ok_or("expected `offset[.discriminator]`, the offset below 65536")?;
    let (first, more) = rest.split_once(' ').unwrap_or((rest, ""));
    if let Some(count) = number(first) {
        let sample = function.body.entry(at).or_default();
        sample.count = sample.count.saturating_add(count);
        each_pair(more, |name, count| {
            let sum = sample.targets.entry(Name::parse(name)).or_default();
            *sum = sum.saturating_add(count);
        })?;
        return Ok(None);
    }
    if first == "vtables" {
        let types = function.vtables.entry(at).or_default();
        each_pair(more, |name, count| {
            let sum = types.entry(Name::parse(name)).or_default();
            *sum = sum.saturating_add(count);
        })?;
        return Ok(None);
    }
    let (callee, total) = rest.rsplit_once(':').ok_or("expected a count, or `callee:total`")?;
    let total = number(total).ok_or("expected `callee:total`")?;
    let callee = Name::parse(callee);
    let inlined = function.inlined(at, &callee);
    inlined.total = inlined.total.saturating_add(total);
    Ok(Some((at, callee)))
}

fn location(text: &str) -> Option<Location> {
    let (offset, discriminator) = text.split_once('.').unwrap_or((text, "0"));
    let line_offset = number(offset).and_then(|offset| u16::try_from(offset).ok())?;
    let discriminator = number(discriminator).and_then(|value| u32::try_from(value).ok())?;
    Some(Location { line_offset: u32::from(line_offset), discriminator })
}

/// Calls `found` for every `name:count`. A name may hold blanks and colons: a count is digits
/// between a colon and a blank or the end.
fn each_pair(mut text: &str, mut found: impl FnMut(&str, u64)) -> Result<(), &'static str> {
    const EXPECTED: &str = "expected `name:count` after the count";
    'pairs: loop {
        text = text.trim_start();
        if text.is_empty() {
            return Ok(());
        }
        let mut from = 0;
        while let Some(colon) = text.get(from..).and_then(|rest| rest.find(':')).map(|at| at + from)
        {
            let (name, after) =
                (text.get(..colon).unwrap_or(""), text.get(colon + 1..).unwrap_or(""));
            let (count, rest) = after.split_once(' ').unwrap_or((after, ""));
            if let Some(count) = number(count).filter(|_| !name.is_empty()) {
                found(name, count);
                text = rest;
                continue 'pairs;
            }
            from = colon + 1;
        }
        return Err(EXPECTED);
    }
}

fn read_metadata(line: &str, function: &mut FunctionProfile) -> Result<(), &'static str> {
    let value = |text: &str| number(text.trim()).ok_or("expected a number after the colon");
    if let Some(checksum) = line.strip_prefix("CFGChecksum:") {
        function.checksum = Some(value(checksum)?);
    } else if let Some(attributes) = line.strip_prefix("Attributes:") {
        let value = value(attributes)?;
        function.attributes |=
            u32::try_from(value).map_err(|_| "attributes of more than 32 bits")?;
    } else if line.trim() != "Flat" {
        return Err("unknown metadata");
    }
    Ok(())
}

/// Writes a text profile in LLVM's order: functions by total, largest first, then by name. The
/// provenance stands before them, in comments, which LLVM's reader leaves aside. The symbol list
/// and the flags of the profile have no place in it.
pub fn write(profile: &SampleProfile) -> Vec<u8> {
    let mut out = Vec::new();
    profile.provenance.lines().for_each(|line| put(&mut out, format_args!("# {line}\n")));
    let probe_based = profile.is_probe_based();
    for function in profile.by_total() {
        match profile.context_sensitive {
            true => put(&mut out, format_args!("[{}]", Context::of(&function.name))),
            false => put(&mut out, format_args!("{}", function.name)),
        }
        put(&mut out, format_args!(":{}:{}\n", function.total, function.head));
        write_body(&mut out, function, 1, probe_based);
    }
    out
}

/// Writing to memory cannot fail, so there is no error to pass on.
fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

fn write_body(out: &mut Vec<u8>, function: &FunctionProfile, depth: usize, probe_based: bool) {
    for (at, sample) in &function.body {
        indent(out, depth);
        put(out, format_args!("{at}: {}", sample.count));
        for (name, count) in targets_by_count(sample) {
            put(out, format_args!(" {name}:{count}"));
        }
        out.push(b'\n');
    }
    for (at, callee) in function.inlined_calls() {
        indent(out, depth);
        put(out, format_args!("{at}: {}:{}\n", callee.name, callee.total));
        write_body(out, callee, depth + 1, probe_based);
    }
    for (at, types) in &function.vtables {
        indent(out, depth);
        put(out, format_args!("{at}: vtables"));
        for (name, count) in types {
            put(out, format_args!(" {name}:{count}"));
        }
        out.push(b'\n');
    }
    if let Some(checksum) = function.checksum {
        indent(out, depth);
        put(out, format_args!("!CFGChecksum: {checksum}\n"));
    } else if probe_based {
        // LLVM's readers want one for every function once there is one.
        indent(out, depth);
        out.extend_from_slice(b"!CFGChecksum: 0\n");
    }
    if function.attributes != 0 {
        indent(out, depth);
        put(out, format_args!("!Attributes: {}\n", function.attributes));
    }
}

fn indent(out: &mut Vec<u8>, depth: usize) {
    out.resize(out.len() + depth, b' ');
}
