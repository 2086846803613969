//! The option that says for which processor a kernel is, where nothing else does yet.

use anyhow::bail;
use kernel::Architecture;
use std::path::Path;

/// A processor that kernels are built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Arch {
    /// PC
    #[value(name = "x86-64", alias = "x86_64")]
    X86_64,
    /// Arm, 64 bit
    #[value(alias = "aarch64")]
    Arm64,
}

impl Arch {
    /// As the library has it.
    pub fn architecture(self) -> Architecture {
        match self {
            Arch::X86_64 => Architecture::X86_64,
            Arch::Arm64 => Architecture::Arm64,
        }
    }
}

/// The processor that is asked for, or that the user's own configuration (a path and its text) is for.
///
/// # Errors
/// Where they are not the same.
pub fn chosen(arch: Option<Arch>, own: Option<(&Path, &str)>) -> anyhow::Result<Architecture> {
    let asked = arch.map(Arch::architecture);
    // A fragment need not say it, and what cannot be read is make's to refuse.
    let configured = own.and_then(|(path, text)| {
        let config = kernel::config::parse(text).ok()?;
        Some((path, Architecture::of_config(&config)?))
    });
    match (asked, configured) {
        (Some(asked), Some((path, found))) if asked != found => bail!(
            "{}: a configuration for {} (CONFIG_{}=y), and --arch {} was given; leave the option \
             out, or give a configuration for that",
            path.display(),
            found.name(),
            found.option(),
            asked.name()
        ),
        (asked, configured) => Ok(asked.or(configured.map(|(_, found)| found)).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_says_it_unless_the_option_does() {
        let path = Path::new("my.config");
        let arm64 = Some((path, "CONFIG_ARM64=y\n"));
        assert_eq!(chosen(None, arm64).unwrap(), Architecture::Arm64);
        assert_eq!(chosen(Some(Arch::Arm64), arm64).unwrap(), Architecture::Arm64);
        assert_eq!(chosen(None, Some((path, "CONFIG_A=y\n"))).unwrap(), Architecture::X86_64);
        assert_eq!(chosen(Some(Arch::Arm64), None).unwrap(), Architecture::Arm64);
        let refused = chosen(Some(Arch::X86_64), arm64).unwrap_err().to_string();
        assert!(refused.contains("my.config") && refused.contains("--arch x86-64"), "{refused}");
    }
}
