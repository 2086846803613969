//! Reads a cc profile as clang does, and notes everything that clang would end on or skip without a
//! word.
//!
//! Input: the text, of version 0 or 1 by its first line. Output: the profile and [`Finding`]s in
//! line order. Cost: linear. Source: clang-22 itself on each of these inputs; LLVM 22,
//! `BasicBlockSectionsProfileReader.cpp`.

use super::Error;
use super::cc::{CcBlock, CcFunction, CcProfile, CcVersion};
use super::check::{Finding, Severity};
use image::blocks::BlockId;
use rustc_hash::{FxHashMap, FxHashSet};

/// Reads the text.
///
/// # Errors
/// At the first line that clang would end on, or from which on it would skip everything.
pub fn read(text: &str) -> Result<CcProfile, Error> {
    let (profile, findings) = parse(text);
    match findings.into_iter().find(|finding| finding.severity == Severity::Fatal) {
        Some(fatal) => Err(Error::Malformed { line: fatal.line.unwrap_or(1), found: fatal.what }),
        None => Ok(profile),
    }
}

/// Reads the text and all findings about it.
pub(crate) fn parse(text: &str) -> (CcProfile, Vec<Finding>) {
    let mut reader = Reader::default();
    // clang skips blank lines and comments before it looks for the version.
    let mut lines =
        (1u32..).zip(text.lines()).filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let mut rest = lines.clone();
    let version = match rest.next() {
        None => {
            reader.fatal(1, "expected a cc profile, found no line that says anything".to_owned());
            return reader.finish();
        }
        Some((number, line)) => match line.strip_prefix('v') {
            Some(version) => {
                lines = rest;
                reader.version(number, version)
            }
            None => CcVersion::V0,
        },
    };
    reader.profile.version = version;
    for (number, line) in lines {
        reader.line = number;
        let more = match version {
            CcVersion::V0 => reader.line_v0(line),
            CcVersion::V1 => reader.line_v1(line),
        };
        if !more {
            break;
        }
    }
    reader.finish()
}

#[derive(Default)]
struct Reader {
    profile: CcProfile,
    findings: Vec<Finding>,
    line: u32,
    /// The `m` line before the next function.
    module: Option<String>,
    /// Blocks of the current function that a cluster has.
    placed: FxHashSet<(u32, u32)>,
    /// Lines of functions by first name and module.
    functions: FxHashMap<(String, Option<String>), u32>,
}

impl Reader {
    fn finish(mut self) -> (CcProfile, Vec<Finding>) {
        if self.profile.functions.is_empty() && self.findings.is_empty() {
            self.ignored(
                "names no function; expected `f name` or, in version 0, `!name`".to_owned(),
            );
        }
        (self.profile, self.findings)
    }

    fn find(&mut self, severity: Severity, line: u32, what: String) {
        let function = self.profile.functions.last().map(|function| function.name().to_owned());
        self.findings.push(Finding { severity, line: Some(line), function, what });
    }

    fn fatal(&mut self, line: u32, what: String) {
        self.find(Severity::Fatal, line, what);
    }

    fn ignored(&mut self, what: String) {
        self.find(Severity::Ignored, self.line, what);
    }

    fn version(&mut self, line: u32, version: &str) -> CcVersion {
        match version.trim_end_matches('\r').parse::<u64>() {
            Ok(0) => CcVersion::V0,
            Ok(1) => CcVersion::V1,
            _ => {
                self.fatal(
                    line,
                    format!(
                        "expected version v0 or v1, found `v{version}`; clang-22 reads no other"
                    ),
                );
                CcVersion::V1
            }
        }
    }

    /// Whether reading goes on.
    fn line_v1(&mut self, line: &str) -> bool {
        let mut chars = line.chars();
        let specifier = chars.next().unwrap_or(' ');
        let rest = chars.as_str().trim();
        let values: Vec<&str> = rest.split(' ').collect();
        match specifier {
            '@' => {}
            'm' => {
                if values.len() != 1 {
                    self.fatal(
                        self.line,
                        format!("expected one module name without blanks, found `{rest}`"),
                    );
                }
                self.module =
                    Some(rest.trim_start_matches("./").to_owned()).filter(|m| !m.is_empty());
            }
            'f' => {
                let module = self.module.take();
                self.function(values.into_iter().map(str::to_owned).collect(), module);
            }
            'c' => self.cluster(&values),
            'p' => self.path(&values),
            'g' | 'h' | 'i' | 't' => self.annotations(specifier, rest, &values),
            other => {
                let known = "@, m, f, p, c, g, h, i or t";
                self.fatal(
                    self.line,
                    format!("expected a line that begins with {known}, found `{other}`"),
                );
            }
        }
        true
    }

    fn line_v0(&mut self, line: &str) -> bool {
        if line.starts_with('@') {
            return true;
        }
        let Some(rest) = line.strip_prefix('!').filter(|rest| !rest.is_empty()) else {
            let first = self.profile.functions.is_empty();
            let why = if first { "; is the first line, `v1`, missing?" } else { "" };
            let found = format!(
                "expected `!` (version 0), found `{}`: clang stops reading here without a \
                 word{why}",
                line.chars().take(40).collect::<String>()
            );
            self.fatal(self.line, found);
            return false;
        };
        if let Some(ids) = rest.strip_prefix('!') {
            let values: Vec<&str> = ids.trim_end_matches('\r').split(' ').collect();
            self.cluster(&values);
            return true;
        }
        let (aliases, module) = rest.trim_end_matches('\r').split_once(' ').unwrap_or((rest, ""));
        let module = match module.strip_prefix("M=").map(|module| module.trim_start_matches("./")) {
            Some("") => {
                self.fatal(self.line, "expected a module name after `M=`, found none".to_owned());
                None
            }
            Some(module) => Some(module.to_owned()),
            None if module.is_empty() => None,
            None => {
                self.fatal(
                    self.line,
                    format!("expected `M=module` after the names, found `{module}`"),
                );
                None
            }
        };
        self.function(
            aliases.trim_end_matches('\r').split('/').map(str::to_owned).collect(),
            module,
        );
        true
    }

    fn function(&mut self, names: Vec<String>, module: Option<String>) {
        self.placed.clear();
        let first = names.first().cloned().unwrap_or_default();
        let blank = |name: &String| name.contains(char::is_whitespace);
        // Only in version 0 the module's name is the rest of the line.
        let odd = module.as_ref().is_some_and(|module| match self.profile.version {
            CcVersion::V0 => module.contains(char::is_control),
            CcVersion::V1 => blank(module),
        });
        if odd || names.iter().any(blank) {
            self.ignored(
                "white space in a name; expected names as symbols and line tables have them"
                    .to_owned(),
            );
        }
        self.profile.functions.push(CcFunction {
            names,
            module: module.clone(),
            ..CcFunction::default()
        });
        if first.is_empty() {
            return self.ignored("expected the name of a function, found none".to_owned());
        }
        if let Some(&earlier) = self.functions.get(&(first.clone(), module.clone())) {
            return self.fatal(
                self.line,
                format!(
                    "function `{first}` stands in line {earlier} already; expected each function \
                     once"
                ),
            );
        }
        self.functions.insert((first, module), self.line);
    }

    fn current(&mut self) -> Option<&mut CcFunction> {
        if self.profile.functions.is_empty() {
            self.ignored(
                "a cluster, path or other line before the first function; expected the function \
                 first"
                    .to_owned(),
            );
        }
        self.profile.functions.last_mut()
    }

    fn cluster(&mut self, values: &[&str]) {
        let mut blocks = Vec::new();
        for value in values {
            let (id, clone) = value.split_once('.').unwrap_or((value, "0"));
            let (Some(id), Some(clone)) = (self.number(id), self.number(clone)) else { continue };
            if !self.placed.insert((id, clone)) {
                self.fatal(
                    self.line,
                    format!("block {value} stands in a cluster already; expected each block once"),
                );
            }
            blocks.push(CcBlock { id: BlockId(id), clone });
        }
        if let Some(function) = self.current() {
            function.clusters.push(blocks);
        }
    }

    fn path(&mut self, values: &[&str]) {
        let mut path: Vec<BlockId> = Vec::new();
        for value in values {
            let Some(id) = self.number(value) else { continue };
            if path.iter().skip(1).any(|earlier| earlier.0 == id) {
                self.fatal(
                    self.line,
                    format!("block {id} is cloned twice by one path; expected each block once"),
                );
            }
            path.push(BlockId(id));
        }
        if let Some(function) = self.current() {
            function.paths.push(path);
        }
    }

    /// What a cc profile may say beside clusters and paths: `g`, the counts of blocks and their
    /// edges (`id:count,to:count,…`), `h`, hashes of blocks (`id:hex`), `i`, prefetches
    /// (`id,call name,id,call`), `t`, their targets (`id,call`). It changes no cluster: its
    /// form is looked at, and it is kept as it stands.
    fn annotations(&mut self, specifier: char, rest: &str, values: &[&str]) {
        if specifier == 'i' {
            let what = "a prefetch (`i`): clang 22 knows no such line and ends here".to_owned();
            self.find(Severity::Newer, self.line, what);
        }
        if let Some(function) = self.current() {
            function.annotations.push((specifier, rest.to_owned()));
        }

        let block = |text: &str| {
            let (id, clone) = text.split_once('.').unwrap_or((text, "0"));
            id.parse::<u32>().is_ok() && clone.parse::<u32>().is_ok()
        };
        let counted = |text: &str| {
            let (id, count) = text.split_once(':').unwrap_or((text, ""));
            block(id) && count.parse::<u64>().is_ok()
        };
        let prefetched = |text: &str| {
            let mut parts = text.rsplitn(3, ',');
            let call = parts.next().is_some_and(|call| call.parse::<u32>().is_ok());
            call && parts.next().is_some_and(block)
                && parts.next().is_some_and(|name| !name.is_empty())
        };
        for (place, value) in values.iter().enumerate() {
            let (fine, expected) = match specifier {
                'i' if place == 1 => {
                    (prefetched(value), "id,number of the call name,id,number of the call")
                }
                'i' if place > 1 || values.len() == 1 => {
                    (false, "two words: the place and the target")
                }
                // An empty line of counts is the only empty one that clang takes.
                'g' => (
                    (values.len() == 1 && value.is_empty()) || value.split(',').all(counted),
                    "id:count,to:count,…",
                ),
                'h' => {
                    let (id, hash) = value.split_once(':').unwrap_or((value, ""));
                    (
                        id.parse::<u32>().is_ok() && u64::from_str_radix(hash, 16).is_ok(),
                        "id:hash in hexadecimal digits",
                    )
                }
                _ => {
                    let (id, call) = value.split_once(',').unwrap_or((value, ""));
                    (block(id) && call.parse::<u32>().is_ok(), "id,number of the call")
                }
            };
            if !fine {
                self.fatal(
                    self.line,
                    format!("expected `{expected}` in a line of `{specifier}`, found `{value}`"),
                );
                return;
            }
        }
    }

    fn number(&mut self, text: &str) -> Option<u32> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let value = text.parse::<u32>().ok().filter(|_| digits);
        if value.is_none() {
            self.fatal(self.line, format!("expected a block number below 2^32, found `{text}`"));
        }
        value
    }
}
