//! The build ID: the bytes by which a recording, an image and its debug file recognise each other.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

/// The longest build ID that is accepted, in bytes. Linkers write 8 (fast), 16 (md5, uuid) or 20
/// (sha1) bytes.
pub const MAX_BYTES: usize = 64;

/// The `NT_GNU_BUILD_ID` of an ELF file, 1 to 64 bytes.
#[derive(Clone, Copy)]
pub struct BuildId {
    bytes: [u8; MAX_BYTES],
    len: u8,
}

impl BuildId {
    /// Takes 1 to 64 bytes; `None` for any other length.
    pub fn from_bytes(id: &[u8]) -> Option<BuildId> {
        let mut bytes = [0; MAX_BYTES];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        (!id.is_empty()).then_some(BuildId { bytes, len: id.len() as u8 })
    }

    /// The bytes in file order.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// Whether `other` is this build ID, possibly with zero bytes appended.
    ///
    /// Old perf versions store every build ID in a field of 20 bytes and keep no length, so an
    /// 8-byte build ID comes back with 12 zeros, and a build ID longer than 20 bytes comes back
    /// cut.
    pub fn matches_padded(&self, other: &[u8]) -> bool {
        const PERF_FIELD_BYTES: usize = 20;
        let own = self.as_bytes();
        if own.len() > PERF_FIELD_BYTES && other.len() == PERF_FIELD_BYTES {
            return own.get(..PERF_FIELD_BYTES) == Some(other);
        }
        let Some((head, tail)) = other.split_at_checked(own.len()) else {
            // The other side may have dropped trailing zeros that belong to this build ID.
            return match own.split_at_checked(other.len()) {
                Some((head, tail)) => {
                    !other.is_empty() && head == other && tail.iter().all(|&byte| byte == 0)
                }
                None => false,
            };
        };
        head == own && tail.iter().all(|&byte| byte == 0)
    }
}

impl PartialEq for BuildId {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for BuildId {}

impl PartialOrd for BuildId {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for BuildId {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for BuildId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.as_bytes()))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}

/// A text that is not a build ID: it must have an even number of hexadecimal digits, 2 to 128.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a build ID; expected an even number of hexadecimal digits, 2 to 128")]
pub struct ParseBuildIdError {
    text: String,
}

impl FromStr for BuildId {
    type Err = ParseBuildIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseBuildIdError { text: text.chars().take(2 * MAX_BYTES + 2).collect() };
        if text.len() > 2 * MAX_BYTES {
            return Err(error());
        }
        let bytes = hex::decode(text).map_err(|_| error())?;
        BuildId::from_bytes(&bytes).ok_or_else(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_reads_back_what_it_prints() {
        let id: BuildId = "1196848fa8e39e61".parse().unwrap();
        assert_eq!(id.to_string(), "1196848fa8e39e61");
        assert_eq!(id.as_bytes(), [0x11, 0x96, 0x84, 0x8f, 0xa8, 0xe3, 0x9e, 0x61]);
        assert_eq!(format!("{id:?}"), "BuildId(1196848fa8e39e61)");
    }

    #[test]
    fn texts_that_are_no_build_ids_are_refused() {
        for text in ["", "1", "12g4", "é0", &"ab".repeat(65)] {
            assert!(text.parse::<BuildId>().is_err(), "{text}");
        }
        assert!("ab".repeat(64).parse::<BuildId>().is_ok());
    }

    #[test]
    fn a_build_id_is_recognised_in_perfs_padded_field() {
        let id: BuildId = "1196848fa8e39e61".parse().unwrap();
        let mut field = id.as_bytes().to_vec();
        field.resize(20, 0);
        assert!(id.matches_padded(&field));
        assert!(id.matches_padded(id.as_bytes()));
        field[19] = 1;
        assert!(!id.matches_padded(&field));
        assert!(!id.matches_padded(&[]));
        let long = BuildId::from_bytes(&[7; 32]).unwrap();
        assert!(long.matches_padded(&[7; 20]));
        assert!(!long.matches_padded(&[7; 19]));
        let zero_ended = BuildId::from_bytes(&[1, 2, 0]).unwrap();
        assert!(zero_ended.matches_padded(&[1, 2]));
    }
}
