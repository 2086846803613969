//! Which kernel is this: the one that runs, or the one in an image?

use crate::Error;
use crate::architecture::Architecture;
use crate::machine::{BootImage, boot_image};
use serde::{Deserialize, Serialize};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

/// Where an image of x86 says at which place its version stands (Documentation/arch/x86/boot.rst,
/// `kernel_version`), and what is to be added to the number there.
const VERSION_AT: u64 = 0x20e;
const VERSION_BASE: u64 = 0x200;
/// Longer than any version that Linux writes there: two names of 64 bytes, and who compiled it.
const MOST_VERSION: u64 = 512;

/// What stands before the version in the kernel's code (init/version.c).
const BANNER: &[u8] = b"Linux version ";

/// A kernel as it names itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Identity {
    /// What `uname -r` prints.
    pub release: String,
    /// What `uname -v` prints: the number and the time of the build.
    pub version: String,
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.release, self.version)
    }
}

impl Identity {
    /// That of the kernel in a boot image.
    ///
    /// # Errors
    /// Where it cannot be read, or is no such image.
    pub fn of_image(path: &Path) -> Result<Identity, Error> {
        let BootImage { path, architecture, .. } = boot_image(path)?;
        let (text, place) = match architecture {
            Architecture::X86_64 => (version_in_header(&path), "where the header at 0x20e says"),
            Architecture::Arm64 => (version_in_code(&path), "behind `Linux version `"),
        };
        let text = text.map_err(Error::io(&path))?;
        of_text(&text).ok_or_else(|| {
            let found = crate::shortened(&text);
            Error::of_file(
                &path,
                &format!(
                    "expected the kernel's version (`6.12.1 (who@where) #1 SMP …`) {place}, found \
                     {found:?}"
                ),
            )
        })
    }
}

/// What a kernel says first of all, in an image that is not compressed; empty where it does not.
fn version_in_code(path: &Path) -> std::io::Result<String> {
    let bytes = beside::given::read(path, beside::given::DATA)?;
    let mut at = bytes.windows(BANNER.len() + 1).enumerate();
    // The kernel has a form of it too, with %s for the version.
    let found = at.find(|(_, text)| {
        text.strip_prefix(BANNER).is_some_and(|next| next.iter().all(u8::is_ascii_digit))
    });
    let text = found.and_then(|(at, _)| bytes.get(at + BANNER.len()..)).unwrap_or_default();
    let end = |&byte: &u8| byte == b'\n' || byte == 0;
    let text = text.split(end).next().unwrap_or_default();
    let text = text.get(..text.len().min(MOST_VERSION as usize)).unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}

fn version_in_header(path: &Path) -> std::io::Result<String> {
    let mut file = beside::given::open(path)?;
    file.seek(SeekFrom::Start(VERSION_AT))?;
    let mut at = [0; 2];
    file.read_exact(&mut at)?;
    file.seek(SeekFrom::Start(VERSION_BASE + u64::from(u16::from_le_bytes(at))))?;
    let mut bytes = Vec::new();
    file.take(MOST_VERSION).read_to_end(&mut bytes)?;
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// `RELEASE (WHO@WHERE) VERSION`, or with the compiler before the version.
fn of_text(text: &str) -> Option<Identity> {
    let (release, rest) = text.split_once(" (")?;
    let (_, version) = rest.split_once(") #")?;
    Some(Identity { release: release.to_owned(), version: format!("#{version}") })
}

/// What has booted, and when.
#[derive(Clone, Debug)]
pub struct Booted {
    /// The kernel that runs.
    pub identity: Identity,
    /// Another one after each boot.
    pub boot_id: String,
    /// How long it has run.
    pub uptime: Duration,
}

impl Booted {
    /// What this machine runs now.
    ///
    /// # Errors
    /// Where /proc does not tell.
    pub fn now() -> Result<Booted, Error> {
        let read = |name: &str| {
            let text = std::fs::read_to_string(name).map_err(Error::io(name))?;
            Ok::<String, Error>(text.trim().to_owned())
        };
        let uptime = read("/proc/uptime")?;
        let seconds = uptime.split(' ').next().and_then(|word| word.parse().ok());
        Ok(Booted {
            identity: Identity {
                release: read("/proc/sys/kernel/osrelease")?,
                version: read("/proc/sys/kernel/version")?,
            },
            boot_id: read("/proc/sys/kernel/random/boot_id")?,
            uptime: seconds
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                .unwrap_or_default(),
        })
    }
}

#[cfg(test)]
pub(super) use tests::image;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;

    /// The first bytes of an image that says this of itself.
    pub fn image(text: &str) -> Vec<u8> {
        let mut bytes = vec![0; 0x400];
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x20e..0x210].copy_from_slice(&0x100u16.to_le_bytes());
        bytes[0x300..0x300 + text.len()].copy_from_slice(text.as_bytes());
        bytes
    }

    #[test]
    fn an_image_says_what_uname_will_say() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vmlinuz");
        let text = "6.12.1-x (a (b)@c) #1 SMP PREEMPT_DYNAMIC Debian 6.12.1-1 (2025-04-25)";
        std::fs::write(&path, image(text)).unwrap();
        let found = Identity::of_image(&path).unwrap();
        assert_eq!(found.release, "6.12.1-x");
        assert_eq!(found.version, "#1 SMP PREEMPT_DYNAMIC Debian 6.12.1-1 (2025-04-25)");
        std::fs::write(&path, image("nothing")).unwrap();
        let said = Identity::of_image(&path).unwrap_err().to_string();
        assert!(said.contains("0x20e says, found \"nothing\""), "{said}");
        std::fs::write(&path, "short").unwrap();
        assert!(Identity::of_image(&path).is_err());
    }

    #[test]
    fn an_image_of_arm64_says_it_in_its_code() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("Image");
        let mut bytes = vec![0; 0x400];
        bytes[0x38..0x3c].copy_from_slice(b"ARM\x64");
        bytes.extend_from_slice(
            b"\0Linux version %s\0Linux version 6.12.1-x (a@b) (clang (c), lld) #1 SMP\n\0",
        );
        std::fs::write(&path, &bytes).unwrap();
        let found = Identity::of_image(&path).unwrap();
        assert_eq!((found.release.as_str(), found.version.as_str()), ("6.12.1-x", "#1 SMP"));
        std::fs::write(&path, &bytes[..0x410]).unwrap();
        let said = Identity::of_image(&path).unwrap_err().to_string();
        assert!(said.contains("behind `Linux version `, found \"\""), "{said}");
    }

    #[test]
    fn this_machine_says_what_it_runs() {
        let now = Booted::now().unwrap();
        assert!(!now.identity.release.is_empty() && now.identity.version.starts_with('#'));
        assert!(now.boot_id.len() > 30 && now.uptime > Duration::ZERO, "{now:?}");
    }
}
