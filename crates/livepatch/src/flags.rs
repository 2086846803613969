//! What gcc says of its own interprocedural optimisations: the output of `gcc -Q
//! --help=optimizers`.

use std::collections::BTreeMap;

/// Options that tie functions together without a word in any dump, symbol or debug information.
pub const WITHOUT_TRACE: [&str; 11] = [
    "-fipa-bit-cp",
    "-fipa-modref",
    "-fipa-profile",
    "-fipa-pta",
    "-fipa-pure-const",
    "-fipa-ra",
    "-fipa-reference",
    "-fipa-reference-addressable",
    "-fipa-stack-alignment",
    "-fipa-strict-aliasing",
    "-fipa-vrp",
];

/// Options that make copies of functions or move code between them, which the sources of this crate
/// show.
pub const WITH_TRACE: [&str; 8] = [
    "-fipa-cp",
    "-fipa-cp-clone",
    "-fipa-icf",
    "-fipa-icf-functions",
    "-fipa-sra",
    "-finline-functions",
    "-finline-small-functions",
    "-fpartial-inlining",
];

/// Whether each switch is on, by its name with `-f`. Options with other values than on and off are
/// left out.
pub fn states(help: &str) -> BTreeMap<&str, bool> {
    help.lines().filter_map(state).collect()
}

fn state(line: &str) -> Option<(&str, bool)> {
    let mut words = line.split_whitespace();
    let name = words.next().filter(|name| name.starts_with("-f"))?;
    match words.next()? {
        "[enabled]" => Some((name, true)),
        "[disabled]" => Some((name, false)),
        _ => None,
    }
}

/// Switches that are on in the first and off in the second.
pub fn turned_off<'t>(
    before: &BTreeMap<&'t str, bool>,
    after: &BTreeMap<&str, bool>,
) -> Vec<&'t str> {
    before
        .iter()
        .filter(|(name, on)| **on && after.get(*name) == Some(&false))
        .map(|(name, _)| *name)
        .collect()
}

/// The switch that turns an option off: `-fno-ipa-ra` for `-fipa-ra`.
pub fn negated(option: &str) -> String {
    option.strip_prefix("-f").map_or_else(|| option.to_owned(), |name| format!("-fno-{name}"))
}

/// Every interprocedural switch that the compiler states, on or off, and the inlining that it has.
pub fn every<'t>(states: &BTreeMap<&'t str, bool>) -> Vec<&'t str> {
    let is_one = |name: &&str| name.starts_with("-fipa-") || WITH_TRACE.contains(name);
    states.keys().copied().filter(is_one).collect()
}

/// Flags of the variants: one without each option, one without any, and one per mode of live patching.
fn variants(options: &[&str], modes: &[&str]) -> Vec<String> {
    let mut flags: Vec<String> = options.iter().map(|option| negated(option)).collect();
    if flags.len() > 1 {
        flags.push(flags.join(" "));
    }
    flags.extend(modes.iter().map(|mode| format!("-flive-patching={mode}")));
    flags
}

/// A table for planish.toml with these variants as those of a kernel that `compiler` compiles.
pub fn kernel_matrix(compiler: &str, options: &[&str], modes: &[&str]) -> String {
    let line = |flags: &String| {
        let name = match flags.split_once(' ') {
            Some(_) => "all",
            None => flags.trim_start_matches("-f"),
        };
        format!("{} = \"CC={compiler} KCFLAGS='{flags}'\"\n", name.replace('=', "-"))
    };
    let lines: Vec<String> = variants(options, modes).iter().map(line).collect();
    let head = "# Each line is a variant against the base; `planish kernel compare --project FILE` builds and \
                measures them.";
    format!("[kernel.variants]\n{head}\nbase = \"CC={compiler}\"\n{}", lines.concat())
}

/// A table for planish.toml: one variant without each option, one without any, and one per mode of
/// live patching.
pub fn matrix(options: &[&str], modes: &[&str]) -> String {
    let flags = variants(options, modes);
    let lines: Vec<String> = flags.iter().map(|flag| format!("    \"{flag}\",\n")).collect();
    let head = "# Each line is a variant against the base; `planish compare --matrix` builds and \
                measures them.";
    format!("[matrix]\n{head}\nflags = [\n{}]\nall = false\n", lines.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_is_read_and_compared() {
        let before = "Options:\n  -fipa-ra   [enabled]\n  -fipa-pta \t[disabled]\n  \
                      -fvect-cost-model=[x|y]  dynamic\n";
        let after = before.replace("[enabled]", "[disabled]");
        assert_eq!(states(before).len(), 2);
        assert_eq!(turned_off(&states(before), &states(&after)), ["-fipa-ra"]);
        assert_eq!(negated("-fipa-ra"), "-fno-ipa-ra");
        assert_eq!(every(&states(before)), ["-fipa-pta", "-fipa-ra"]);
    }

    #[test]
    fn a_kernel_has_a_variant_without_each_and_one_without_all() {
        let table = kernel_matrix("gcc-12", &["-fipa-ra", "-fipa-sra"], &["inline-clone"]);
        let lines: Vec<&str> = table.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "[kernel.variants]",
                "base = \"CC=gcc-12\"",
                "no-ipa-ra = \"CC=gcc-12 KCFLAGS='-fno-ipa-ra'\"",
                "no-ipa-sra = \"CC=gcc-12 KCFLAGS='-fno-ipa-sra'\"",
                "all = \"CC=gcc-12 KCFLAGS='-fno-ipa-ra -fno-ipa-sra'\"",
                "live-patching-inline-clone = \"CC=gcc-12 KCFLAGS='-flive-patching=inline-clone'\"",
            ]
        );
    }
}
