//! What does a configuration need so that a profile can be taken and used, and what collides with
//! it?
//!
//! A table and two uses of it: a fragment for `scripts/kconfig/merge_config.sh`, and a check of a
//! `.config`.

use crate::architecture::Architecture;
use crate::config::Config;
use serde::Serialize;
use std::fmt::Write;

/// What the kernel is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Sample profiles.
    Autofdo,
    /// Layouts of basic blocks.
    Propeller,
    /// Both, one on top of the other.
    Both,
}

/// What an option should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// On.
    On,
    /// Off.
    Off,
    /// A number, this or more.
    AtLeast(u64),
}

/// How much depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// It does not work otherwise, or the profile is of another program.
    Must,
    /// It works, but less well, or nobody has tried.
    Should,
}

/// Who sets an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetBy {
    /// A line of the configuration.
    Fragment,
    /// The compiler and linker that make finds.
    Tools,
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Requirement {
    /// The option, without `CONFIG_`.
    pub option: &'static str,
    /// What it should be.
    pub wanted: Wanted,
    /// How much depends on it.
    pub weight: Weight,
    /// Why.
    pub why: &'static str,
    purpose: Purpose,
    set_by: SetBy,
    /// It concerns only configurations with this option.
    beside: Option<&'static str>,
    /// It concerns only configurations without this option.
    unless: Option<&'static str>,
    /// Fragments for other processors go without it.
    only_on: Option<Architecture>,
}

const fn must(option: &'static str, wanted: Wanted, why: &'static str) -> Requirement {
    let (weight, purpose, set_by) = (Weight::Must, Purpose::Both, SetBy::Fragment);
    let (beside, unless, only_on) = (None, None, None);
    Requirement { option, wanted, weight, why, purpose, set_by, beside, unless, only_on }
}

const fn should(option: &'static str, wanted: Wanted, why: &'static str) -> Requirement {
    Requirement { weight: Weight::Should, ..must(option, wanted, why) }
}

impl Requirement {
    const fn only(self, purpose: Purpose) -> Requirement {
        Requirement { purpose, ..self }
    }

    const fn beside(self, option: &'static str) -> Requirement {
        Requirement { beside: Some(option), ..self }
    }

    const fn unless(self, option: &'static str) -> Requirement {
        Requirement { unless: Some(option), ..self }
    }

    const fn only_on(self, architecture: Architecture) -> Requirement {
        Requirement { only_on: Some(architecture), ..self }
    }

    const fn by_tools(self) -> Requirement {
        Requirement { set_by: SetBy::Tools, ..self }
    }

    fn concerns(&self, purpose: Purpose) -> bool {
        self.purpose == Purpose::Both || purpose == Purpose::Both || self.purpose == purpose
    }

    /// Whether a configuration has it so.
    pub fn is_met(&self, config: &Config) -> bool {
        if self.beside.is_some_and(|option| !config.is_on(option)) {
            return true;
        }
        if self.unless.is_some_and(|option| config.is_on(option)) {
            return true;
        }
        match self.wanted {
            // None of them can be a module.
            Wanted::On => config.value(self.option) == Some("y"),
            Wanted::Off => !config.is_on(self.option),
            Wanted::AtLeast(least) => {
                config.number(self.option).is_some_and(|number| number >= least)
            }
        }
    }

    /// The line of a fragment, or what should be there.
    pub fn line(&self) -> String {
        match self.wanted {
            Wanted::On => format!("CONFIG_{}=y", self.option),
            Wanted::Off => format!("# CONFIG_{} is not set", self.option),
            Wanted::AtLeast(least) => format!("CONFIG_{} at least {least}", self.option),
        }
    }
}

const INSTRUMENTED: &str =
    "it puts its own code into every function: a profile of such a kernel is of another kernel";

/// All of it. Versions are as Kconfig writes them: 190000 is 19.0.0.
const TABLE: &[Requirement] = &[
    must("X86_64", Wanted::On, "kernels for x86-64 and arm64 (CONFIG_ARM64) are supported")
        .by_tools()
        .unless("ARM64"),
    must(
        "CC_IS_CLANG",
        Wanted::On,
        "gcc has neither option; configure with make LLVM=1 or LLVM=-22",
    )
    .by_tools(),
    must(
        "CLANG_VERSION",
        Wanted::AtLeast(170_000),
        "older ones lack the discriminators that the flags ask for",
    )
    .by_tools()
    .only(Purpose::Autofdo),
    must(
        "CLANG_VERSION",
        Wanted::AtLeast(190_000),
        "older ones write block maps of another version",
    )
    .by_tools()
    .only(Purpose::Propeller),
    must(
        "LD_IS_LLD",
        Wanted::On,
        "the order of functions is lld's option; configure with make LLVM=1 or LLVM=-22",
    )
    .by_tools()
    .only(Purpose::Propeller),
    must("AUTOFDO_CLANG", Wanted::On, "sample profiles").only(Purpose::Autofdo),
    must("PROPELLER_CLANG", Wanted::On, "layouts of basic blocks").only(Purpose::Propeller),
    must(
        "ARM64_BTI_KERNEL",
        Wanted::Off,
        "clang branches between the parts of a function to blocks without a landing pad, and the \
         kernel would not boot",
    )
    .only(Purpose::Propeller)
    .only_on(Architecture::Arm64),
    must("KASAN", Wanted::Off, INSTRUMENTED),
    must("KCSAN", Wanted::Off, INSTRUMENTED),
    must("KMSAN", Wanted::Off, INSTRUMENTED),
    must("KCOV", Wanted::Off, INSTRUMENTED),
    must("GCOV_KERNEL", Wanted::Off, INSTRUMENTED),
    should("PERF_EVENTS", Wanted::On, "without it the kernel cannot record itself"),
    should(
        "PERF_EVENTS_AMD_BRS",
        Wanted::On,
        "without it AMD's Zen 3 gives no branch stacks (Linux 5.19 and newer)",
    )
    .beside("CPU_SUP_AMD")
    .only_on(Architecture::X86_64),
    should("KALLSYMS", Wanted::On, "recorders learn from /proc/kallsyms where the kernel lies"),
    should(
        "CC_OPTIMIZE_FOR_SIZE",
        Wanted::Off,
        "it holds back the inlining and the copies that a profile asks for",
    ),
    should(
        "PROVE_LOCKING",
        Wanted::Off,
        "its checks take much of the time, and the samples with it",
    ),
    should(
        "LTO_CLANG_FULL",
        Wanted::Off,
        "the flags go through the linker then, which is not tried",
    ),
];

/// What concerns this purpose.
pub fn requirements(purpose: Purpose) -> impl Iterator<Item = &'static Requirement> {
    TABLE.iter().filter(move |requirement| requirement.concerns(purpose))
}

/// What a fragment sets for this purpose and processor; what the tools decide is not among it.
pub fn settings(
    purpose: Purpose,
    architecture: Architecture,
) -> impl Iterator<Item = &'static Requirement> {
    let settable = move |requirement: &&Requirement| {
        requirement.set_by == SetBy::Fragment
            && !is_choice(requirement.option)
            && requirement.only_on.is_none_or(|only| only == architecture)
    };
    requirements(purpose).filter(settable)
}

/// Members of a choice are switched by choosing another, which a fragment should not do unasked.
fn is_choice(option: &str) -> bool {
    matches!(option, "CC_OPTIMIZE_FOR_SIZE" | "LTO_CLANG_FULL")
}

/// A fragment for `scripts/kconfig/merge_config.sh`, with the reasons as comments.
pub fn fragment(purpose: Purpose, architecture: Architecture) -> String {
    let mut text = String::new();
    let mut last = "";
    for setting in settings(purpose, architecture) {
        if setting.why != last {
            let _ = writeln!(text, "# {}", setting.why);
            last = setting.why;
        }
        let _ = writeln!(text, "{}", setting.line());
    }
    text
}

/// What a configuration does not meet, in the order of the table.
pub fn unmet(config: &Config, purpose: Purpose) -> Vec<&'static Requirement> {
    requirements(purpose).filter(|requirement| !requirement.is_met(config)).collect()
}

/// A requirement in a result.
#[derive(Clone, Debug, Serialize)]
pub struct Listed {
    /// The option without its `CONFIG_`.
    pub option: &'static str,
    /// The line of a configuration that meets it.
    pub wanted: String,
    /// `must` or `should`.
    pub weight: &'static str,
    /// Why.
    pub why: &'static str,
}

/// A requirement that a configuration does not meet.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The requirement.
    #[serde(flatten)]
    pub listed: Listed,
    /// What the configuration has; absent where the option is not set.
    pub found: Option<String>,
    /// The same and what it should be, in words.
    #[serde(skip)]
    pub wish: String,
}

/// How a configuration stands, as `planish kernel config check --format json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    /// The file.
    pub config: String,
    /// Whether all is there that must be.
    pub fine: bool,
    /// What is not as it should be.
    pub findings: Vec<Finding>,
}

impl Checked {
    /// Holds a configuration, the file of this name, against all that a purpose requires.
    pub fn of(config: &Config, purpose: Purpose, name: String) -> Checked {
        let unmet = unmet(config, purpose);
        let fine = !unmet.iter().any(|requirement| requirement.weight == Weight::Must);
        let finding = |requirement: &&Requirement| Finding {
            listed: requirement.listed(),
            found: config.value(requirement.option).map(str::to_owned),
            wish: requirement.wish(config),
        };
        Checked { config: name, fine, findings: unmet.iter().map(finding).collect() }
    }
}

impl Requirement {
    /// As results have it.
    pub fn listed(&self) -> Listed {
        let weight = match self.weight {
            Weight::Must => "must",
            Weight::Should => "should",
        };
        Listed { option: self.option, wanted: self.line(), weight, why: self.why }
    }

    /// `CONFIG_KASAN=y, should be off`.
    fn wish(&self, config: &Config) -> String {
        let name = self.option;
        let found = match config.value(name) {
            Some(value) => format!("CONFIG_{name}={value}"),
            None => format!("CONFIG_{name} is not set"),
        };
        let wanted = match self.wanted {
            Wanted::On => "should be y".to_owned(),
            Wanted::Off => "should be off".to_owned(),
            Wanted::AtLeast(least) => format!("should be at least {least}"),
        };
        format!("{found}, {wanted}")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;
    use crate::config::parse;

    const GOOD: &str =
        "CONFIG_X86_64=y\nCONFIG_CC_IS_CLANG=y\nCONFIG_CLANG_VERSION=220108\nCONFIG_LD_IS_LLD=y\n";

    fn options(config: &str, purpose: Purpose) -> Vec<&'static str> {
        unmet(&parse(config).unwrap(), purpose)
            .iter()
            .map(|requirement| requirement.option)
            .collect()
    }

    #[test]
    fn a_configuration_with_the_fragment_meets_all_of_it() {
        for purpose in [Purpose::Autofdo, Purpose::Propeller, Purpose::Both] {
            let config = GOOD.to_owned() + &fragment(purpose, Architecture::X86_64);
            assert_eq!(options(&config, purpose), Vec::<&str>::new(), "{purpose:?}");
        }
    }

    #[test]
    fn each_purpose_asks_for_its_own_option_and_compiler() {
        let config =
            GOOD.replace("220108", "180000") + &fragment(Purpose::Autofdo, Architecture::X86_64);
        assert_eq!(options(&config, Purpose::Autofdo), Vec::<&str>::new());
        assert_eq!(options(&config, Purpose::Propeller), ["CLANG_VERSION", "PROPELLER_CLANG"]);
        assert!(!fragment(Purpose::Autofdo, Architecture::X86_64).contains("PROPELLER"));
    }

    #[test]
    fn branch_stacks_of_amd_are_asked_for_where_amd_is_supported() {
        assert!(
            fragment(Purpose::Both, Architecture::X86_64)
                .contains("CONFIG_PERF_EVENTS_AMD_BRS=y\n")
        );
        let without = GOOD.to_owned()
            + &fragment(Purpose::Both, Architecture::X86_64)
                .replace("CONFIG_PERF_EVENTS_AMD_BRS=y\n", "");
        assert_eq!(options(&without, Purpose::Both), Vec::<&str>::new());
        let amd = without + "CONFIG_CPU_SUP_AMD=y\n";
        assert_eq!(options(&amd, Purpose::Both), ["PERF_EVENTS_AMD_BRS"]);
    }

    #[test]
    fn arm64_meets_all_of_its_own_fragment_and_other_processors_are_refused() {
        let fragment = fragment(Purpose::Both, Architecture::Arm64);
        assert!(!fragment.contains("AMD"), "{fragment}");
        let arm64 = GOOD.replace("CONFIG_X86_64", "CONFIG_ARM64") + &fragment;
        assert_eq!(options(&arm64, Purpose::Both), Vec::<&str>::new());
        let other = arm64.replace("CONFIG_ARM64=", "CONFIG_RISCV=");
        assert_eq!(options(&other, Purpose::Both), ["X86_64"]);
        let landing_pads = arm64 + "CONFIG_ARM64_BTI_KERNEL=y\n";
        assert_eq!(options(&landing_pads, Purpose::Both), ["ARM64_BTI_KERNEL"]);
        assert_eq!(options(&landing_pads, Purpose::Autofdo), Vec::<&str>::new());
    }

    #[test]
    fn what_collides_is_named() {
        let config = GOOD.to_owned()
            + &fragment(Purpose::Both, Architecture::X86_64)
            + "CONFIG_KASAN=y\nCONFIG_LTO_CLANG_FULL=y\n";
        assert_eq!(options(&config, Purpose::Both), ["KASAN", "LTO_CLANG_FULL"]);
        let gcc = config.replace("CONFIG_CC_IS_CLANG=y", "CONFIG_CC_IS_GCC=y");
        assert!(options(&gcc, Purpose::Both).contains(&"CC_IS_CLANG"));
    }

    #[test]
    fn a_small_configuration_says_each_option_once() {
        for architecture in [Architecture::X86_64, Architecture::Arm64] {
            let text = crate::workload::small_config(Purpose::Both, architecture);
            let mut said = std::collections::BTreeSet::new();
            for line in text.lines().filter(|line| line.starts_with("CONFIG_")) {
                assert!(said.insert(line.split('=').next()), "twice: {line}");
            }
            assert!(said.contains(&Some("CONFIG_KALLSYMS")));
            assert!(said.contains(&Some("CONFIG_AUTOFDO_CLANG")));
        }
    }
}
