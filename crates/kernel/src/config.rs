//! What does a kernel configuration say?

use crate::error::Error;
use std::collections::BTreeMap;
use std::path::Path;

/// A `.config`: what is set, to what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    values: BTreeMap<String, String>,
}

impl Config {
    /// Reads the file.
    pub fn read(path: &Path) -> Result<Config, Error> {
        let text = crate::tree::read(path)?;
        parse(&text).map_err(|(line, found)| Error::Config {
            path: path.to_owned(),
            line,
            found: crate::shortened(&found),
        })
    }

    /// The value of an option without its `CONFIG_`; `None` where it is not set.
    pub fn value(&self, option: &str) -> Option<&str> {
        self.values.get(option).map(String::as_str)
    }

    /// Whether an option is `y` or `m`.
    pub fn is_on(&self, option: &str) -> bool {
        matches!(self.value(option), Some("y" | "m"))
    }

    /// The number that an option is set to.
    pub fn number(&self, option: &str) -> Option<u64> {
        self.value(option)?.parse().ok()
    }
}

/// Reads the text of a `.config`; else the number of the line that is none, and the line.
pub fn parse(text: &str) -> Result<Config, (usize, String)> {
    let mut config = Config::default();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_end();
        // The last one counts, as with Kconfig, also where it is this comment.
        if let Some(name) =
            line.strip_prefix("# CONFIG_").and_then(|rest| rest.strip_suffix(" is not set"))
        {
            config.values.remove(name);
            continue;
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let setting = line.strip_prefix("CONFIG_").and_then(|setting| setting.split_once('='));
        match setting {
            Some((name, value)) if is_name(name) => {
                config.values.insert(name.to_owned(), value.to_owned());
            }
            _ => return Err((index + 1, line.to_owned())),
        }
    }
    config.values.retain(|_, value| value != "n");
    Ok(config)
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_what_is_not_set_is_off() {
        let text = "#\n# Linux/x86 6.12\n#\nCONFIG_A=y\n# CONFIG_B is not \
                    set\nCONFIG_C=m\nCONFIG_D=n\nCONFIG_E=220108\nCONFIG_F=\"clang version 22\"\n";
        let config = parse(text).unwrap();
        assert!(config.is_on("A") && config.is_on("C"));
        assert!(!config.is_on("B") && !config.is_on("D") && !config.is_on("Z"));
        assert_eq!(config.number("E"), Some(220_108));
        assert_eq!(config.value("F"), Some("\"clang version 22\""));
    }

    #[test]
    fn a_line_that_kconfig_does_not_write_is_named() {
        assert_eq!(parse("CONFIG_A=y\nA=y\n"), Err((2, "A=y".to_owned())));
        assert_eq!(parse("CONFIG_A B=y\n"), Err((1, "CONFIG_A B=y".to_owned())));
    }
}
