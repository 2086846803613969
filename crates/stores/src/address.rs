//! Which object, or which objects, does an address like `s3://bucket/key` name?

use crate::Error;
use std::fmt;
use std::path::Path;

/// Most bytes of a key, in S3 and Google Cloud Storage.
const MOST_KEY: usize = 1024;

/// Which protocol a store speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// That of Amazon S3, which many stores speak.
    S3,
    /// That of Google Cloud Storage.
    Google,
}

impl Kind {
    /// What addresses begin with.
    pub fn scheme(self) -> &'static str {
        match self {
            Kind::S3 => "s3://",
            Kind::Google => "gs://",
        }
    }
}

/// A bucket and a key in it: the name of an object, or the beginning of the names of several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    kind: Kind,
    bucket: String,
    key: String,
    is_folder: bool,
}

impl Address {
    /// Whether a path is meant as an address. A file of such a name is `./s3:/…`.
    pub fn is_meant(path: &Path) -> bool {
        let text = path.as_os_str().as_encoded_bytes();
        [Kind::S3, Kind::Google].iter().any(|kind| text.starts_with(kind.scheme().as_bytes()))
    }

    /// Reads a path that is meant as an address.
    ///
    /// # Errors
    /// Where it is none.
    pub fn of(path: &Path) -> Result<Address, Error> {
        match path.to_str() {
            Some(text) => Address::parse(text),
            None => Err(wrong(&path.to_string_lossy(), "it is no UTF-8")),
        }
    }

    /// Reads `s3://bucket/key` or `gs://bucket/key`. A slash at the end says that the key is the
    /// beginning of others.
    ///
    /// # Errors
    /// Where it is none.
    pub fn parse(text: &str) -> Result<Address, Error> {
        let kinds = [Kind::S3, Kind::Google].into_iter();
        let found = kinds.filter_map(|kind| Some((kind, text.strip_prefix(kind.scheme())?))).next();
        let Some((kind, rest)) = found else {
            return Err(wrong(text, "expected s3://BUCKET/KEY or gs://BUCKET/KEY"));
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if bucket.is_empty() || bucket.len() > 222 || !bucket.chars().all(is_plain) {
            let why = "the name of a bucket has letters, digits, `-`, `_` and `.` only";
            return Err(wrong(text, why));
        }
        let (key, is_folder) = match key.strip_suffix('/') {
            Some(key) => (key, true),
            None => (key, key.is_empty()),
        };
        let segments = || key.split('/');
        if key.len() > MOST_KEY || key.chars().any(|c| c.is_ascii_control()) {
            let why = "a key has at most 1024 bytes, and no control characters";
            return Err(wrong(text, why));
        }
        if !key.is_empty() && segments().any(|one| matches!(one, "" | "." | "..")) {
            return Err(wrong(text, "no part of a key between slashes is empty, `.` or `..`"));
        }
        Ok(Address { kind, bucket: bucket.to_owned(), key: key.to_owned(), is_folder })
    }

    /// The protocol.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The bucket.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The key, without a slash at its end; empty for the bucket itself.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether it says that it names no object but the beginning of names: by a slash at its end, or
    /// by no key.
    pub fn is_folder(&self) -> bool {
        self.is_folder
    }

    /// The object of another name in the same bucket.
    #[must_use]
    pub fn with_key(&self, key: &str) -> Address {
        Address { key: key.to_owned(), is_folder: key.is_empty(), ..self.clone() }
    }

    /// The key of what lies below this one.
    pub fn key_below(&self, name: &str) -> String {
        if self.key.is_empty() { name.to_owned() } else { format!("{}/{name}", self.key) }
    }

    /// The bucket alone, which is what a client speaks to.
    #[must_use]
    pub fn whole_bucket(&self) -> Address {
        self.with_key("")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { kind, bucket, key, is_folder } = self;
        let end = if *is_folder && !key.is_empty() { "/" } else { "" };
        write!(f, "{}{bucket}/{key}{end}", kind.scheme())
    }
}

impl std::str::FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Address, Error> {
        Address::parse(text)
    }
}

fn wrong(text: &str, why: &'static str) -> Error {
    Error::Address { text: text.to_owned(), why }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics fails")]

    use super::*;

    #[test]
    fn addresses_name_a_bucket_and_a_key() {
        for (text, bucket, key, is_folder, shown) in [
            ("s3://fleet/a/b.counts", "fleet", "a/b.counts", false, "s3://fleet/a/b.counts"),
            ("gs://fleet/a/", "fleet", "a", true, "gs://fleet/a/"),
            ("s3://fleet", "fleet", "", true, "s3://fleet/"),
            ("s3://fleet/", "fleet", "", true, "s3://fleet/"),
        ] {
            let read = Address::parse(text).unwrap();
            let found = (read.bucket(), read.key(), read.is_folder());
            assert_eq!(found, (bucket, key, is_folder), "{text}");
            assert_eq!(read.to_string(), shown);
            assert_eq!(Address::parse(shown).unwrap(), read);
            assert!(Address::is_meant(Path::new(text)));
        }
        let below = |text: &str| Address::parse(text).unwrap().key_below("x");
        assert_eq!((below("s3://b/p/"), below("s3://b")), ("p/x".to_owned(), "x".to_owned()));
        assert!(!Address::is_meant(Path::new("./s3:/b")) && !Address::is_meant(Path::new("s3")));
    }

    #[test]
    fn what_is_no_address_says_why() {
        let long = format!("s3://b/{}", "k".repeat(1025));
        for (text, why) in [
            ("http://b/k", "expected s3://"),
            ("s3:///k", "the name of a bucket"),
            ("s3://b c/k", "the name of a bucket"),
            ("s3://b/a//b", "no part of a key"),
            ("s3://b/../c", "no part of a key"),
            ("s3://b/a\nb", "no control characters"),
            (&long, "at most 1024 bytes"),
        ] {
            let said = Address::parse(text).unwrap_err().to_string();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
