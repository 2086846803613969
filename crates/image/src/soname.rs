//! By which name do programs load a shared library?

use crate::Image;

/// Size of an entry of the dynamic section of a 64-bit ELF file (gABI, "Dynamic Section").
const ENTRY_BYTES: usize = 16;
/// Ends the dynamic section.
const DT_NULL: u64 = 0;
/// Its value is the offset of the name in the dynamic string table.
const DT_SONAME: u64 = 14;

impl Image {
    /// The SONAME of a 64-bit little-endian library; none where it has no such name, as programs
    /// have none.
    pub fn soname(&self) -> Option<String> {
        let (entries, strings) = (self.section(".dynamic")?, self.section(".dynstr")?);
        let number = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.try_into().ok()?));
        let pair = |entry: &[u8]| Some((number(entry.get(..8)?)?, number(entry.get(8..)?)?));
        let mut entries = entries.chunks_exact(ENTRY_BYTES).map_while(pair);
        let (_, offset) = entries
            .by_ref()
            .take_while(|(tag, _)| *tag != DT_NULL)
            .find(|(tag, _)| *tag == DT_SONAME)?;
        let name = strings.get(usize::try_from(offset).ok()?..)?;
        let name = name.split(|&byte| byte == 0).next().filter(|name| !name.is_empty())?;
        Some(String::from_utf8_lossy(name).into_owned())
    }
}
