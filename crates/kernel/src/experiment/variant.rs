//! What is a variant of a kernel? Options of its configuration and variables of make.

use crate::Error;

/// Most characters of a name, which is a directory's too.
const MOST_NAME: usize = 40;
/// Variables that would lead the build elsewhere, or link otherwise than in the orders asked for.
const TAKEN: &[&str] =
    &["O", "KBUILD_OUTPUT", "KCONFIG_CONFIG", "KCONFIG_ALLCONFIG", "LD", "ARCH", "M"];
/// Flags of the C compiler, which are joined.
pub(super) const FLAGS: &str = "KCFLAGS";

/// A variant of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelVariant {
    /// Its name.
    pub name: String,
    /// Lines of its configuration beside those that all have: `CONFIG_NAME=value`.
    pub options: Vec<String>,
    /// Variables of make, `NAME=value` each.
    pub make: Vec<String>,
}

impl KernelVariant {
    /// A variant out of its words.
    ///
    /// # Errors
    /// Where the name cannot be a directory's, or a word is neither an option nor a variable.
    pub fn of(name: &str, words: &[String]) -> Result<KernelVariant, Error> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name.is_empty()
            || name.len() > MOST_NAME
            || name.starts_with('.')
            || !name.chars().all(plain)
        {
            return Err(Error::Wanted(format!(
                "variant `{name}`: a name has 1 to {MOST_NAME} letters, digits, dots, dashes or underscores"
            )));
        }
        let mut variant =
            KernelVariant { name: name.to_owned(), options: Vec::new(), make: Vec::new() };
        for word in words {
            let (variable, _) = word.split_once('=').unwrap_or((word, ""));
            let fits = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            let is_variable =
                !variable.is_empty() && variable.chars().all(fits) && variable != word;
            if TAKEN.contains(&variable) || variable.starts_with("PLANISH_") {
                return Err(Error::Wanted(format!(
                    "variant {name}: {variable} is planish's own; give other variables of make, such as \
                     KCFLAGS=-falign-functions=32"
                )));
            }
            match word.strip_prefix("CONFIG_") {
                Some(_) if word.contains('=') => variant.options.push(word.clone()),
                None if is_variable => variant.make.push(word.clone()),
                _ => {
                    return Err(Error::Wanted(format!(
                        "variant {name}: `{word}`: expected CONFIG_NAME=value, or a variable of make such as \
                         KCFLAGS=-O3"
                    )));
                }
            }
        }
        Ok(variant)
    }

    /// What the names of aligned variants end in.
    pub fn aligned_suffix(bytes: u32) -> String {
        format!("-align{bytes}")
    }

    /// The same with all functions aligned to so many bytes, under a name of its own.
    ///
    /// # Errors
    /// Where that name is too long.
    pub fn aligned(&self, bytes: u32) -> Result<KernelVariant, Error> {
        let name = format!("{}{}", self.name, KernelVariant::aligned_suffix(bytes));
        let aligned = KernelVariant::of(&name, &[])?;
        let flag = format!("{FLAGS}=-falign-functions={bytes}");
        let make = self.make.iter().cloned().chain([flag]).collect();
        Ok(KernelVariant { options: self.options.clone(), make, ..aligned })
    }

    /// The variables of make, with more flags of the compiler.
    pub(super) fn words(&self, flags: Option<&str>) -> Vec<String> {
        let own = |word: &&String| word.split_once('=').is_some_and(|(name, _)| name == FLAGS);
        let given = self.make.iter().filter(own).filter_map(|word| word.split_once('='));
        let all: Vec<&str> = flags.into_iter().chain(given.map(|(_, flags)| flags)).collect();
        let mut words: Vec<String> = self.make.iter().filter(|word| !own(word)).cloned().collect();
        if !all.is_empty() {
            words.push(format!("{FLAGS}={}", all.join(" ")));
        }
        words
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;

    #[test]
    fn words_are_options_and_variables() {
        let words = |line: &[&str]| line.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let variant =
            KernelVariant::of("a-1", &words(&["CONFIG_X=y", "KCFLAGS=-O3 -g", "CC=gcc"])).unwrap();
        assert_eq!(variant.options, ["CONFIG_X=y"]);
        assert_eq!(variant.words(None), ["CC=gcc", "KCFLAGS=-O3 -g"]);
        assert_eq!(variant.words(Some("-fx")), ["CC=gcc", "KCFLAGS=-fx -O3 -g"]);
        let aligned = variant.aligned(32).unwrap();
        assert_eq!((aligned.name.as_str(), &aligned.options), ("a-1-align32", &variant.options));
        assert_eq!(aligned.words(None), ["CC=gcc", "KCFLAGS=-O3 -g -falign-functions=32"]);
        assert!(KernelVariant::of(&"x".repeat(40), &[]).unwrap().aligned(32).is_err());
        let plain = KernelVariant::of("base", &[]).unwrap();
        assert_eq!(
            (plain.words(None), plain.words(Some("-fx"))),
            (vec![], words(&["KCFLAGS=-fx"]))
        );
        for (name, word) in [
            ("", "A=1"),
            (".x", "A=1"),
            ("a/b", "A=1"),
            ("a", "-O3"),
            ("a", "LD=ld"),
            ("a", "O=/tmp"),
            ("a", "CONFIG_X"),
            ("a", "x=1"),
            ("a", "=1"),
        ] {
            assert!(KernelVariant::of(name, &words(&[word])).is_err(), "{name} {word}");
        }
    }
}
