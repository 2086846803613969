//! How is the machine told to boot a kernel the next time, and only then?

use super::Identity;
use crate::Error;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How the next boot is chosen. What boots by default stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BootOnce {
    /// `grub-reboot` with the entry of GRUB's configuration that boots the image.
    Grub(PathBuf),
    /// This command, in whose words `{image}` and `{release}` are filled in.
    Command(Vec<String>),
}

/// GRUB's configuration, by its usual names, and the command that sets the next entry.
const GRUB: [(&str, &str); 2] =
    [("/boot/grub/grub.cfg", "grub-reboot"), ("/boot/grub2/grub.cfg", "grub2-reboot")];

impl BootOnce {
    /// GRUB of this machine.
    ///
    /// # Errors
    /// Where there is none.
    pub fn grub() -> Result<BootOnce, Error> {
        let found = GRUB.iter().map(|(path, _)| Path::new(path)).find(|path| path.is_file());
        let missing = || {
            Error::Wanted(format!(
                "{} is not there, nor {}: this machine does not boot by GRUB; say with \
                 --boot-with which command sets the kernel of the next boot",
                GRUB[0].0, GRUB[1].0
            ))
        };
        Ok(BootOnce::Grub(found.ok_or_else(missing)?.to_owned()))
    }

    /// What makes the next boot one of this image.
    ///
    /// # Errors
    /// Where GRUB has no entry for it.
    pub fn words(&self, image: &Path, identity: &Identity) -> Result<Vec<String>, Error> {
        match self {
            BootOnce::Command(words) => {
                let image = image.to_string_lossy();
                let filled = |word: &String| {
                    word.replace("{image}", &image).replace("{release}", &identity.release)
                };
                Ok(words.iter().map(filled).collect())
            }
            BootOnce::Grub(config) => {
                let text = beside::given::read_text(config, beside::given::TEXT);
                let entry = entry(&text.map_err(Error::io(config))?, image).ok_or_else(|| {
                    let wanted = format!(
                        "no entry boots {}; install the kernel and run update-grub (or \
                         grub2-mkconfig), or say with --boot-with which command sets the kernel \
                         of the next boot",
                        image.display()
                    );
                    Error::of_file(config, &wanted)
                })?;
                let command = GRUB.iter().find(|(path, _)| Path::new(path) == config);
                let command = command.map_or(GRUB[0].1, |(_, command)| command);
                Ok(vec![command.to_owned(), entry])
            }
        }
    }

    /// Sets the next boot.
    ///
    /// # Errors
    /// Where it cannot be set.
    pub(super) fn set(&self, image: &Path, identity: &Identity) -> Result<(), Error> {
        run(&self.words(image, identity)?)?;
        // Boot loaders read the disk, and some ways to reboot do not write it before.
        rustix::fs::sync();
        Ok(())
    }
}

/// Runs a command that sets the next boot.
fn run(words: &[String]) -> Result<(), Error> {
    let (program, rest) = words.split_first().map_or(("", &[][..]), |(p, rest)| (p.as_str(), rest));
    let output = Command::new(program).args(rest).stdin(Stdio::null()).output();
    let line = words.join(" ");
    let output = output.map_err(Error::doing(line.clone()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::Wanted(format!(
        "`{line}` failed ({}), so the next boot is not set: {}",
        output.status,
        crate::shortened(said.trim())
    )))
}

/// The first entry of GRUB's configuration that boots an image, as `grub-reboot` wants it: the names
/// of the submenus around it and its own, joined by `>`. Images are told by their file names, as
/// /boot may be a file system of its own.
pub fn entry(config: &str, image: &Path) -> Option<String> {
    // Of every block that is open, its name where it is part of the menu.
    let mut open: Vec<Option<String>> = Vec::new();
    for line in config.lines().map(str::trim) {
        let mut words = words(line).into_iter();
        let first = words.next().unwrap_or_default();
        if first == "}" {
            open.pop();
        } else if line.ends_with('{') {
            let is_menu = first == "menuentry" || first == "submenu";
            open.push(is_menu.then(|| menu_name(words.collect())).flatten());
        } else if ["linux", "linux16", "linuxefi"].contains(&first.as_str()) {
            let booted = words.next().unwrap_or_default();
            let (names, same) = (open.iter().flatten(), Path::new(&booted).file_name());
            let names: Vec<&str> = names.map(String::as_str).collect();
            if same.is_some() && same == image.file_name() && !names.is_empty() {
                return Some(names.join(">"));
            }
        }
    }
    None
}

/// The identifier of a menu's entry, or its title where it has none.
fn menu_name(words: Vec<String>) -> Option<String> {
    let behind = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1).cloned()
    };
    behind("$menuentry_id_option").or_else(|| behind("--id")).or_else(|| words.first().cloned())
}

/// The words of a line, of which quotes keep some together.
fn words(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, ' ' | '\t') => found.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    found.extend(word);
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;

    const CONFIG: &str = "\
function savedefault {
  if [ -z \"${boot_once}\" ]; then
    save_env saved_entry
  fi
}
menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple-1' {
\tlinux\t/vmlinuz-6.12.1-new root=/dev/sda1 ro
}
submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced-1' {
\tmenuentry 'Debian, with 6.12.1-old' --class os $menuentry_id_option 'gnulinux-6.12.1-old-1' {
\t\tif [ x$feature = xy ]; then
\t\t\tinsmod ext2
\t\tfi
\t\tlinux /vmlinuz-6.12.1-old root=/dev/sda1 ro
\t}
\tmenuentry 'Debian, with 6.12.1-old (recovery)' $menuentry_id_option 'recovery' {
\t\tlinux /vmlinuz-6.12.1-old root=/dev/sda1 ro single
\t}
}
menuentry \"without an id\" {
\tlinux16 /boot/vmlinuz-plain
}
";

    #[test]
    fn an_entry_is_named_with_its_submenus() {
        let named = |image: &str| entry(CONFIG, Path::new(image));
        assert_eq!(named("/boot/vmlinuz-6.12.1-new").unwrap(), "gnulinux-simple-1");
        let old = named("/boot/vmlinuz-6.12.1-old").unwrap();
        assert_eq!(old, "gnulinux-advanced-1>gnulinux-6.12.1-old-1");
        assert_eq!(named("/boot/vmlinuz-plain").unwrap(), "without an id");
        assert_eq!(named("/boot/vmlinuz-6.12.1"), None);
    }

    #[test]
    fn what_boots_next_is_set_by_a_command() {
        let dir = tempfile::tempdir().unwrap();
        let next = dir.path().join("next");
        let identity = Identity { release: "6.1-x".into(), version: "#1".into() };
        let once = |script: &str| {
            let words = ["sh", "-c", script, "{release}", "{image}"].map(str::to_owned);
            BootOnce::Command(words.to_vec()).set(Path::new("/boot/v"), &identity)
        };
        once(&format!("echo $0 $1 > {}", next.display())).unwrap();
        assert_eq!(std::fs::read_to_string(&next).unwrap(), "6.1-x /boot/v\n");
        let said = once("echo no >&2; exit 3").unwrap_err().to_string();
        assert!(said.contains("the next boot is not set: no"), "{said}");
    }

    #[test]
    fn a_menu_without_the_image_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("grub.cfg");
        std::fs::write(&config, CONFIG).unwrap();
        let identity = Identity { release: "x".into(), version: "#1".into() };
        let words = |image: &str| BootOnce::Grub(config.clone()).words(Path::new(image), &identity);
        assert_eq!(words("/boot/vmlinuz-plain").unwrap(), ["grub-reboot", "without an id"]);
        let said = words("/boot/vmlinuz-6").unwrap_err().to_string();
        assert!(said.contains("no entry boots /boot/vmlinuz-6; install"), "{said}");
    }
}
