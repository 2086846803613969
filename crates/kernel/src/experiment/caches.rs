//! Which caches does a simulated machine have? `NAME: PART=SHAPE …`, as `small: l1i=16K:4 itlb4k=16`.

use record::code_metrics::{DataGeometry, Geometry};
use std::fmt::Write;
use std::str::FromStr;

/// The caches of a machine that kernels are counted on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Caches {
    /// What the machine is called; nothing for the usual one.
    pub name: String,
    /// The side of instructions.
    pub code: Geometry,
    /// The side of data.
    pub data: DataGeometry,
}

impl Caches {
    /// The shapes in words, where they are not the usual ones: what counts are kept under.
    pub(super) fn words(&self) -> String {
        let mut text = String::new();
        let usual = Caches::default();
        if self.code != usual.code || self.data != usual.data {
            let (code, data) = (&self.code, &self.data);
            let _ = write!(
                text,
                "l1i={} l2={} itlb4k={} itlb2m={} l1d={} dtlb4k={}",
                code.l1i, code.l2, code.itlb_4k, code.itlb_2m, data.l1d, data.dtlb_4k
            );
        }
        text
    }
}

impl FromStr for Caches {
    type Err = String;

    fn from_str(text: &str) -> Result<Caches, String> {
        let (name, parts) = text.split_once(':').unwrap_or((text, ""));
        let name = name.trim();
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
        if name.is_empty() || !name.chars().all(plain) {
            return Err(format!(
                "{name:?} names no machine; expected NAME: PART=SHAPE …, such as 'small: l1i=16K:4 itlb4k=16'"
            ));
        }
        let mut caches = Caches { name: name.to_owned(), ..Caches::default() };
        for part in parts.split_whitespace() {
            let (key, shape) = part
                .split_once('=')
                .ok_or_else(|| format!("{part}: expected PART=SHAPE, such as l1i=16K:4"))?;
            match key {
                "l1d" | "dtlb4k" => caches.data.set(key, shape)?,
                "l1i" | "l2" | "itlb4k" | "itlb2m" => caches.code.set(key, shape)?,
                _ => {
                    return Err(format!(
                        "{key}: no such part; there are l1i, l2, itlb4k, itlb2m, l1d and dtlb4k"
                    ));
                }
            }
        }
        caches.code.check()?;
        Ok(caches)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;

    #[test]
    fn parts_are_set_and_wrong_ones_named() {
        let small: Caches = "small: l1i=16K:4 dtlb4k=16".parse().unwrap();
        assert_eq!((small.name.as_str(), small.code.l1i.bytes), ("small", 16 << 10));
        assert_eq!(small.data.dtlb_4k.ways, 16);
        let usual: Caches = "usual".parse().unwrap();
        assert_eq!((usual.words().as_str(), usual.code), ("", Geometry::default()));
        assert!(small.words().contains("l1i=16K:4:64") && small.words().contains("dtlb4k=16:16"));
        for (wrong, why) in [
            ("", "names no machine"),
            ("a b: l1i=1K:1", "names no machine"),
            ("a: l1i", "PART=SHAPE"),
            ("a: l3=1M:8", "there are l1i"),
            ("a: l1i=17K:3", "l1i=17K:3"),
            ("a: l1i=32K:8:32", "lines of"),
        ] {
            let said = wrong.parse::<Caches>().unwrap_err();
            assert!(said.contains(why), "{wrong}: {said}");
        }
    }
}
