//! Which options of a link are handed on to lld? Those that are known to change nothing but the
//! program.
//!
//! An archive comes from anywhere, and lld writes files, loads plugins and runs programs when it is
//! told to. Each word is therefore read as lld reads it, and written anew in a form that can be
//! read in one way only. Source: LLVM 22, `lld/ELF/Options.td`; what older ones lack is refused as
//! any other unknown option.

/// How an option is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Handed on.
    Keep,
    /// Handed on; the value names a file or directory of the archive.
    Reads,
    /// As [`Use::Reads`], but left out where it names nothing in the archive: there was no such
    /// directory.
    Searches,
    /// Left out: it writes files beside the program or prints, and changes no byte of the program.
    Drop,
}

/// Whether an option has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Never.
    Nothing,
    /// After `=`, or none.
    Joined,
    /// After `=`, or the next word.
    Value,
}

/// One-letter options that lld takes with the value behind the letter or in the next word, and
/// their long names.
const LETTERS: &[(&str, &str)] = &[
    ("L", "library-path"),
    ("l", "library"),
    ("e", "entry"),
    ("u", "undefined"),
    ("h", "soname"),
    ("T", "script"),
    ("R", "rpath"),
    ("F", "filter"),
    ("f", "auxiliary"),
    ("b", "format"),
    ("y", "trace-symbol"),
    ("o", "o"),
    ("O", "O"),
    ("m", "m"),
    ("z", "z"),
];

/// Other short names.
const ALIASES: &[(&str, &str)] = &[
    ("dT", "default-script"),
    ("(", "start-group"),
    (")", "end-group"),
    ("E", "export-dynamic"),
    ("M", "print-map"),
    ("N", "omagic"),
    ("S", "strip-debug"),
    ("V", "version"),
    ("X", "discard-locals"),
    ("d", "define-common"),
    ("dc", "define-common"),
    ("dp", "define-common"),
    ("dn", "Bstatic"),
    ("dy", "Bdynamic"),
    ("static", "Bstatic"),
    ("non_shared", "Bstatic"),
    ("call_shared", "Bdynamic"),
    ("n", "nmagic"),
    ("q", "emit-relocs"),
    ("r", "relocatable"),
    ("s", "strip-all"),
    ("t", "trace"),
    ("v", "version"),
    ("w", "no-warnings"),
    ("x", "discard-all"),
    ("pic-executable", "pie"),
    ("Bshareable", "shared"),
    ("output", "o"),
];

/// Options without value, also as `no-…`.
const FLAGS: &[&str] = &[
    "allow-multiple-definition",
    "allow-shlib-undefined",
    "apply-dynamic-relocs",
    "as-needed",
    "Bdynamic",
    "Bno-symbolic",
    "Bstatic",
    "Bsymbolic",
    "Bsymbolic-functions",
    "Bsymbolic-non-weak",
    "Bsymbolic-non-weak-functions",
    "branch-to-branch",
    "check-sections",
    "copy-dt-needed-entries",
    "debug-names",
    "define-common",
    "demangle",
    "dependent-libraries",
    "disable-new-dtags",
    "discard-all",
    "discard-locals",
    "discard-none",
    "dynamic-linker",
    "eh-frame-hdr",
    "emit-relocs",
    "enable-new-dtags",
    "enable-non-contiguous-regions",
    "end-group",
    "end-lib",
    "error-unresolved-symbols",
    "execute-only",
    "export-dynamic",
    "fat-lto-objects",
    "fatal-warnings",
    "fix-cortex-a53-843419",
    "fix-cortex-a8",
    "force-bti",
    "fortran-common",
    "gc-sections",
    "gdb-index",
    "gnu-unique",
    "ignore-data-address-equality",
    "ignore-function-address-equality",
    "keep-text-section-prefix",
    "lto-basic-block-address-map",
    "lto-cs-profile-generate",
    "lto-pgo-warn-mismatch",
    "lto-unique-basic-block-section-names",
    "lto-validate-all-vtables-have-type-infos",
    "lto-whole-program-visibility",
    "merge-exidx-entries",
    "mmap-output-file",
    "nmagic",
    "noinhibit-exec",
    "nostdlib",
    "omagic",
    "optimize-bb-jumps",
    "pie",
    "pop-state",
    "print-gc-sections",
    "print-icf-sections",
    "push-state",
    "relax",
    "relax-gp",
    "relocatable",
    "rosegment",
    "shared",
    "start-group",
    "start-lib",
    "strip-all",
    "strip-debug",
    "undefined",
    "undefined-version",
    "unique",
    "use-android-relr-tags",
    "warn-backrefs",
    "warn-common",
    "warn-ifunc-textrel",
    "warn-mismatch",
    "warn-symbol-ordering",
    "warn-unresolved-symbols",
    "warnings",
    "whole-archive",
    "xosegment",
];

/// Options whose value is part of the option: after `=`, or missing.
const JOINED: &[&str] = &["build-id", "icf", "lto", "pack-dyn-relocs", "power10-stubs"];

/// Options with a value that names no file.
const VALUES: &[&str] = &[
    "Tbss",
    "Tdata",
    "Ttext",
    "Ttext-segment",
    "android-memtag-mode",
    "auxiliary",
    "bp-compression-sort",
    "bp-startup-sort",
    "call-graph-profile-sort",
    "compress-debug-sections",
    "compress-sections",
    "defsym",
    "dynamic-linker",
    "entry",
    "exclude-libs",
    "export-dynamic-symbol",
    "filter",
    "fini",
    "format",
    "hash-style",
    "image-base",
    "init",
    "keep-unique",
    "lto-aa-pipeline",
    "lto-known-safe-vtables",
    "lto-newpm-passes",
    "lto-partitions",
    "m",
    "O",
    "oformat",
    "orphan-handling",
    "package-metadata",
    "randomize-section-padding",
    "rpath",
    "section-start",
    "shuffle-sections",
    "soname",
    "sort-section",
    "split-stack-adjust-size",
    "thinlto-jobs",
    "threads",
    "undefined",
    "undefined-glob",
    "unresolved-symbols",
    "warn-backrefs-exclude",
    "wrap",
    "z",
    "library",
];

/// Options whose value is a file that lld reads.
const READ: &[&str] = &[
    "call-graph-ordering-file",
    "default-script",
    "dynamic-list",
    "export-dynamic-symbol-list",
    "irpgo-profile",
    "just-symbols",
    "lto-basic-block-sections",
    "lto-cs-profile-file",
    "lto-sample-profile",
    "retain-symbols-file",
    "script",
    "symbol-ordering-file",
    "version-script",
];

/// Options that are left out and have a value.
const DROPPED_VALUES: &[&str] = &[
    "Map",
    "chroot",
    "dependency-file",
    "error-handling-script",
    "error-limit",
    "lto-obj-path",
    "o",
    "opt-remarks-filename",
    "opt-remarks-format",
    "opt-remarks-hotness-threshold",
    "opt-remarks-passes",
    "opt-stats-file",
    "plugin",
    "print-archive-stats",
    "print-symbol-order",
    "reproduce",
    "rsp-quoting",
    "thinlto-cache-dir",
    "thinlto-cache-policy",
    "time-trace-granularity",
    "trace-symbol",
    "why-extract",
    "why-live",
];

/// Options that are left out and have none, or one after `=`.
const DROPPED: &[&str] = &[
    "color-diagnostics",
    "cref",
    "lto-debug-pass-manager",
    "no-color-diagnostics",
    "opt-remarks-with-hotness",
    "print-map",
    "print-memory-usage",
    "save-temps",
    "stats",
    "thinlto-emit-imports-files",
    "time-trace",
    "trace",
    "verbose",
    "verbose-bp-section-orderer",
    "version",
    "vs-diagnostics",
];

/// What compilers hand to LLVM through `-mllvm` and `-plugin-opt=-…`, without its value: code
/// generation alone.
const LLVM: &[&str] = &[
    "align-all-functions",
    "align-all-nofallthru-blocks",
    "align-loops",
    "basic-block-section-match-infer",
    "data-sections",
    "debugger-tune",
    "emulated-tls",
    "enable-ext-tsp-block-placement",
    "enable-fs-discriminator",
    "enable-split-machine-functions",
    "function-sections",
    "generate-arange-section",
    "hot-cold-split",
    "import-instr-limit",
    "improved-fs-discriminator",
    "inline-enable-cost-benefit-analysis",
    "inline-threshold",
    "mc-relax-all",
    "relax-elf-relocations",
    "sample-profile-remove-probe",
    "sample-profile-use-profi",
    "split-machine-functions",
    "tls-size",
    "unique-basic-block-section-names",
    "unique-bb-section-names",
    "vector-library",
    "x86-asm-syntax",
    "x86-pad-for-align",
    "x86-relax-relocations",
];

/// What stands in `-plugin-opt=` and is an option of link-time optimisation without a file, by its
/// beginning.
const PLUGIN: &[&str] =
    &["O", "mcpu=", "jobs=", "lto-partitions=", "thinlto", "disable-verify", "debug-pass-manager"];

/// The same, left out: files that it writes, and what gcc tells its own plugin, which lld ignores.
const PLUGIN_DROPPED: &[&str] = &[
    "-fresolution=",
    "-pass-through=",
    "dwo_dir=",
    "legacy-pass-manager",
    "new-pass-manager",
    "obj-path=",
    "opt-remarks-",
    "save-temps",
    "stats-file=",
    "time-trace=",
];

/// How an option is used, or none if it is not known.
pub(crate) fn known(name: &str) -> Option<(Use, Takes)> {
    let among = |list: &[&str]| list.contains(&name);
    let undashed = name.strip_prefix("no-").is_some_and(|plain| FLAGS.contains(&plain));
    // Some names have a value, or none after `no-`.
    Some(match name {
        "library-path" | "sysroot" => (Use::Searches, Takes::Value),
        _ if among(VALUES) => (Use::Keep, Takes::Value),
        _ if among(READ) => (Use::Reads, Takes::Value),
        _ if among(JOINED) => (Use::Keep, Takes::Joined),
        _ if among(FLAGS) || undashed => (Use::Keep, Takes::Nothing),
        _ if among(DROPPED_VALUES) => (Use::Drop, Takes::Value),
        _ if among(DROPPED) => (Use::Drop, Takes::Joined),
        // `--lto-O2`, `--lto-CGO2`: the level is part of the name.
        _ if name.strip_prefix("lto-CGO").or(name.strip_prefix("lto-O")).is_some_and(is_level) => {
            (Use::Keep, Takes::Nothing)
        }
        _ => return None,
    })
}

fn is_level(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The long name of a word that begins with a dash, and the value it holds; `None` for an input.
pub(crate) fn named(word: &str) -> Option<(String, Option<String>)> {
    let bare = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
    if bare.is_empty() {
        return None;
    }
    let (name, value) = match bare.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (bare, None),
    };
    let long = |list: &[(&str, &str)], name: &str| {
        list.iter().find(|(short, _)| *short == name).map(|(_, long)| (*long).to_owned())
    };
    if let Some(name) = long(ALIASES, name).or_else(|| long(LETTERS, name)) {
        return Some((name, value));
    }
    if known(name).is_some() || name == "mllvm" || name == "plugin-opt" {
        return Some((name.to_owned(), value));
    }
    // `-lc`, `-Ldir`, `-O2`: only behind one dash. What has a value behind `=` is a long option
    // that is not known.
    let letter = bare.get(..1).filter(|_| !word.starts_with("--") && value.is_none());
    if let (Some(name), Some(value)) =
        (letter.and_then(|letter| long(LETTERS, letter)), bare.get(1..))
    {
        return Some((name, Some(value.to_owned())));
    }
    Some((name.to_owned(), value))
}

/// Is this an option of LLVM that only shapes code?
pub(crate) fn shapes_code(option: &str) -> bool {
    let name = option.trim_start_matches('-').split('=').next().unwrap_or_default();
    option.starts_with('-') && LLVM.contains(&name)
}

/// What becomes of the text behind `-plugin-opt=`; none if it is refused.
pub(crate) fn plugin(option: &str) -> Option<Use> {
    let starts = |list: &[&str]| list.iter().any(|start| option.starts_with(start));
    if starts(PLUGIN_DROPPED) || option.rsplit('/').next() == Some("lto-wrapper") {
        return Some(Use::Drop);
    }
    if option.starts_with('-') {
        return shapes_code(option).then_some(Use::Keep);
    }
    let exact = option == "thinlto" || !option.starts_with("thinlto");
    (exact && starts(PLUGIN) && !option.contains('/')).then_some(Use::Keep)
}
