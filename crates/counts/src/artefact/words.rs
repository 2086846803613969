//! Is what a counts artefact says of itself what was written? A checksum over its keys and values.

/// The key of the checksum.
pub(super) const KEY: &str = "planish.metadata.crc32";
/// What all keys that it covers begin with.
const OURS: &str = "planish.";

/// CRC-32, in eight hex digits, of planish's keys and values in the order of the keys, each key and each value with a zero
/// byte behind it; of all but the checksum itself. Keys of others are left out: whoever rewrites a file may add some.
pub(super) fn checksum<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut own: Vec<_> = pairs.filter(|(key, _)| key.starts_with(OURS) && *key != KEY).collect();
    own.sort_unstable();
    let mut hash = crc32fast::Hasher::new();
    for text in own.into_iter().flat_map(|(key, value)| [key, value]) {
        hash.update(text.as_bytes());
        hash.update(&[0]);
    }
    format!("{:08x}", hash.finalize())
}
