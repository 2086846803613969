//! Which caches a simulated core has: sizes, ways and line sizes, as text and as numbers.

use std::fmt;
use std::str::FromStr;

/// A cache: `SIZE:WAYS:LINE`, as in `32K:8:64`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheShape {
    /// Capacity in bytes.
    pub bytes: u64,
    /// Lines per set.
    pub ways: u32,
    /// Line size in bytes.
    pub line: u32,
}

/// A translation buffer: `ENTRIES:WAYS`, as in `64:8`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TlbShape {
    /// Entries in all.
    pub entries: u32,
    /// Entries per set; as many as there are entries when it is fully associative.
    pub ways: u32,
}

/// Everything that a simulated core has. Replacement is least recently used everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// First-level instruction cache.
    pub l1i: CacheShape,
    /// Second-level cache, which sees the first level's instruction misses only; its line is the
    /// first level's.
    pub l2: CacheShape,
    /// Instruction translation buffer with pages of 4 KiB.
    pub itlb_4k: TlbShape,
    /// The same if all code lay on pages of 2 MiB.
    pub itlb_2m: TlbShape,
}

impl Default for Geometry {
    fn default() -> Geometry {
        Geometry {
            l1i: CacheShape { bytes: 32 << 10, ways: 8, line: 64 },
            l2: CacheShape { bytes: 1 << 20, ways: 16, line: 64 },
            itlb_4k: TlbShape { entries: 64, ways: 8 },
            itlb_2m: TlbShape { entries: 8, ways: 8 },
        }
    }
}

/// The data side of a simulated core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataGeometry {
    /// First-level data cache.
    pub l1d: CacheShape,
    /// Data translation buffer with pages of 4 KiB.
    pub dtlb_4k: TlbShape,
}

impl DataGeometry {
    /// Sets one part by its name: `l1d` or `dtlb4k`.
    ///
    /// # Errors
    /// Where there is no such part, or its shape cannot be simulated.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let named = |error| format!("{name}={value}: {error}");
        match name {
            "l1d" => self.l1d = value.parse().map_err(named)?,
            "dtlb4k" => self.dtlb_4k = value.parse().map_err(named)?,
            _ => return Err(format!("{name}: no such part; there are l1d and dtlb4k")),
        }
        Ok(())
    }
}

impl Default for DataGeometry {
    fn default() -> DataGeometry {
        DataGeometry {
            l1d: CacheShape { bytes: 32 << 10, ways: 8, line: 64 },
            dtlb_4k: TlbShape { entries: 64, ways: 4 },
        }
    }
}

/// Ways beyond this would make the simulation crawl, and no machine has them.
const MAX_WAYS: u32 = 256;
/// Sets beyond this are a mistake in the unit.
const MAX_SETS: u64 = 1 << 20;

/// The number of sets, when the shape is one that can be simulated.
fn sets(lines: u64, ways: u32) -> Result<u64, String> {
    if !(1..=MAX_WAYS).contains(&ways) {
        return Err(format!("{ways} ways; 1 to {MAX_WAYS} can be simulated"));
    }
    let sets = lines / u64::from(ways);
    if sets * u64::from(ways) != lines || !sets.is_power_of_two() || sets > MAX_SETS {
        return Err(format!(
            "{lines} lines in {ways} ways make no power of two of sets (at most {MAX_SETS}), so \
             no address bits choose one"
        ));
    }
    Ok(sets)
}

impl CacheShape {
    /// Number of sets; an error says why there is no such cache.
    pub fn sets(&self) -> Result<u64, String> {
        if !self.line.is_power_of_two() || !(16..=4096).contains(&self.line) {
            return Err(format!(
                "a line of {} bytes; a power of two from 16 to 4096 is needed",
                self.line
            ));
        }
        let line = u64::from(self.line);
        if !self.bytes.is_multiple_of(line) {
            return Err(format!("{} bytes are no whole number of lines of {line}", self.bytes));
        }
        sets(self.bytes / line, self.ways)
    }
}

impl TlbShape {
    /// Number of sets; an error says why there is no such buffer.
    pub fn sets(&self) -> Result<u64, String> {
        sets(u64::from(self.entries), self.ways)
    }
}

impl Geometry {
    /// Sets one part by its name: `l1i`, `l2`, `itlb4k` or `itlb2m`. The caches must be checked
    /// when all is set.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let named = |error| format!("{name}={value}: {error}");
        match name {
            "l1i" => self.l1i = value.parse().map_err(named)?,
            "l2" => self.l2 = value.parse().map_err(named)?,
            "itlb4k" => self.itlb_4k = value.parse().map_err(named)?,
            "itlb2m" => self.itlb_2m = value.parse().map_err(named)?,
            _ => return Err(format!("{name}: no such part; there are l1i, l2, itlb4k and itlb2m")),
        }
        Ok(())
    }

    /// An error says why this geometry cannot be simulated.
    pub fn check(&self) -> Result<(), String> {
        self.l1i.sets().map_err(|error| format!("l1i={}: {error}", self.l1i))?;
        self.l2.sets().map_err(|error| format!("l2={}: {error}", self.l2))?;
        self.itlb_4k.sets().map_err(|error| format!("itlb4k={}: {error}", self.itlb_4k))?;
        self.itlb_2m.sets().map_err(|error| format!("itlb2m={}: {error}", self.itlb_2m))?;
        if self.l1i.line != self.l2.line {
            return Err(format!(
                "l1i has lines of {} bytes and l2 of {}",
                self.l1i.line, self.l2.line
            ));
        }
        Ok(())
    }
}

/// Reads `32K`, `1M` or plain bytes.
fn size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' | b'k' => (text.get(..text.len() - 1)?, 10),
        b'M' | b'm' => (text.get(..text.len() - 1)?, 20),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

impl FromStr for CacheShape {
    type Err = String;

    /// `SIZE:WAYS` or `SIZE:WAYS:LINE`; the line is 64 when left out.
    fn from_str(text: &str) -> Result<CacheShape, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let read = || match parts.as_slice() {
            [bytes, ways] => Some((size(bytes)?, ways.parse().ok()?, 64)),
            [bytes, ways, line] => Some((size(bytes)?, ways.parse().ok()?, line.parse().ok()?)),
            _ => None,
        };
        let (bytes, ways, line) = read().ok_or("expected SIZE:WAYS:LINE, as in 32K:8:64")?;
        let shape = CacheShape { bytes, ways, line };
        shape.sets()?;
        Ok(shape)
    }
}

impl FromStr for TlbShape {
    type Err = String;

    /// `ENTRIES` (fully associative) or `ENTRIES:WAYS`.
    fn from_str(text: &str) -> Result<TlbShape, String> {
        let (entries, ways) = text.split_once(':').unwrap_or((text, text));
        let read = || Some((entries.parse().ok()?, ways.parse().ok()?));
        let (entries, ways) = read().ok_or("expected ENTRIES:WAYS, as in 64:8")?;
        let shape = TlbShape { entries, ways };
        shape.sets()?;
        Ok(shape)
    }
}

impl fmt::Display for CacheShape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = match self.bytes {
            bytes if bytes > 0 && bytes.is_multiple_of(1 << 20) => (bytes >> 20, "M"),
            bytes if bytes > 0 && bytes.is_multiple_of(1 << 10) => (bytes >> 10, "K"),
            bytes => (bytes, ""),
        };
        write!(out, "{number}{unit}:{}:{}", self.ways, self.line)
    }
}

impl fmt::Display for TlbShape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.entries, self.ways)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read_back_as_they_are_written() {
        for text in ["32K:8:64", "48K:12:64", "1M:16:64", "8192:2:32"] {
            let shape: CacheShape = text.parse().unwrap();
            assert_eq!(shape.to_string().parse(), Ok(shape));
        }
        assert_eq!("32K:8".parse::<CacheShape>().unwrap(), Geometry::default().l1i);
        assert_eq!("8".parse::<TlbShape>().unwrap(), Geometry::default().itlb_2m);
        assert_eq!("64:8".parse::<TlbShape>().unwrap().sets(), Ok(8));
        assert_eq!(Geometry::default().check(), Ok(()));
    }

    #[test]
    fn shapes_that_cannot_be_are_refused_with_the_reason() {
        for text in [
            "",
            "32K",
            "32K:0:64",
            "32K:8:63",
            "33K:8:64",
            "48K:8:64",
            "0:1:64",
            "99999999999999M:1",
        ] {
            assert!(text.parse::<CacheShape>().is_err(), "{text}");
        }
        for text in ["", "0", "64:7", "64:8:8", "-8", "512"] {
            assert!(text.parse::<TlbShape>().is_err(), "{text}");
        }
        let mut geometry = Geometry::default();
        assert!(geometry.set("l3", "8").unwrap_err().contains("itlb2m"));
        geometry.set("l1i", "32K:8:32").unwrap();
        assert!(geometry.check().unwrap_err().contains("lines of 32"));
    }
}
