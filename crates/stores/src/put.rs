//! How does a file become an object? Once: where the same content is there, nothing is sent. Small
//! files go in one request, large ones in parts that become an object when all are there; the store
//! checks the bytes of each request against the hash that is signed with it.

use crate::client::HASH;
use crate::fetch::Fuse;
use crate::{Error, Fate, Put, Store, said};
use futures_util::{StreamExt as _, stream};
use object_store::{Attribute, Attributes, MultipartUpload, ObjectStore as _};
use object_store::{PutMultipartOptions, PutOptions, PutPayload};
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Files that are put at once.
const AT_ONCE: usize = 4;
/// Bytes of one request; this many are in memory for each file.
const PART: usize = 8 << 20;

impl Store {
    /// Puts files there, each under its key; what became of each, in their order. An object with
    /// another content stays unless `replace`. `tell` hears of bytes that are done with. Once several
    /// fail one after the other, the rest is not tried.
    pub fn put(
        &self,
        files: &[(String, PathBuf)],
        replace: bool,
        tell: &dyn Fn(u64),
    ) -> Vec<Result<Put, Error>> {
        let fuse = Fuse::new(AT_ONCE);
        let one = async |(key, path): &(String, PathBuf)| {
            if let Some(error) = fuse.burnt(self, key) {
                return Err(error);
            }
            let done = self.put_one(key, path, replace).await;
            fuse.saw(&done);
            tell(done.as_ref().map_or(0, |put| put.bytes));
            done
        };
        self.runtime.block_on(stream::iter(files).map(one).buffered(AT_ONCE).collect())
    }

    async fn put_one(&self, key: &str, path: &Path, replace: bool) -> Result<Put, Error> {
        let unread = |source| Error::File { path: path.to_owned(), source };
        let mut content = Content::of(path).map_err(unread)?;
        let bytes = content.bytes;
        let done = |fate| Ok(Put { fate, bytes });
        match self.look(key).await {
            Ok(Some(found)) => {
                let is_same = found.bytes == bytes
                    && found.sha256.as_ref().is_none_or(|hash| *hash == content.sha256);
                if is_same {
                    return done(Fate::Present);
                }
                if !replace {
                    return done(Fate::Differs);
                }
            }
            // Who may write need not be allowed to look. The name stands for the content, so that
            // nothing else is replaced.
            Ok(None) | Err(Error::Denied { .. }) => {}
            Err(error) => return Err(error),
        }
        let address = || self.bucket.with_key(key);
        let failed = |failure: object_store::Error| said::error(address(), "write", &failure);
        let location = self.location(key)?;
        let attributes = Attributes::from_iter([
            (HASH, content.sha256.clone()),
            (Attribute::ContentType, "application/octet-stream".to_owned()),
        ]);
        let changed = || Error::Changed { path: path.to_owned() };
        if let Some(whole) = content.whole.take() {
            let options = PutOptions { attributes, ..PutOptions::default() };
            let sent = self.client.put_opts(&location, whole.into(), options).await;
            sent.map_err(failed)?;
            return done(Fate::Uploaded);
        }
        let options = PutMultipartOptions { attributes, ..PutMultipartOptions::default() };
        let mut upload =
            self.client.put_multipart_opts(&location, options).await.map_err(failed)?;
        let sent = send_parts(&mut *upload, &content, path).await;
        let sent = match sent {
            Ok(true) => upload.complete().await.map(drop).map_err(failed),
            Ok(false) => Err(changed()),
            Err(Sending::File(source)) => Err(unread(source)),
            Err(Sending::Store(failure)) => Err(failed(failure)),
        };
        if sent.is_err() {
            // Parts without a whole cost room until the bucket's owner removes them.
            let _ = upload.abort().await;
        }
        sent?;
        done(Fate::Uploaded)
    }
}

/// Why parts could not be sent.
enum Sending {
    File(std::io::Error),
    Store(object_store::Error),
}

/// Sends a file part by part; whether it was what was hashed before.
async fn send_parts(
    upload: &mut dyn MultipartUpload,
    content: &Content,
    path: &Path,
) -> Result<bool, Sending> {
    let mut file = beside::given::open(path).map_err(Sending::File)?;
    let (mut hash, mut sent) = (Sha256::new(), 0u64);
    while sent < content.bytes {
        let part = read_part(&mut file).map_err(Sending::File)?;
        if part.is_empty() {
            return Ok(false);
        }
        sent = sent.saturating_add(part.len() as u64);
        hash.update(&part);
        upload.put_part(PutPayload::from(part)).await.map_err(Sending::Store)?;
    }
    Ok(sent == content.bytes && hex::encode(hash.finalize()) == content.sha256)
}

/// What is to be put.
struct Content {
    bytes: u64,
    sha256: String,
    /// All of it, where it fits into one request.
    whole: Option<Vec<u8>>,
}

impl Content {
    fn of(path: &Path) -> std::io::Result<Content> {
        let mut file = beside::given::open(path)?;
        let (mut hash, mut bytes) = (Sha256::new(), 0u64);
        let whole = loop {
            let part = read_part(&mut file)?;
            hash.update(&part);
            let (is_first, is_last) = (bytes == 0, part.len() < PART);
            bytes = bytes.saturating_add(part.len() as u64);
            if is_last {
                break is_first.then_some(part);
            }
        };
        Ok(Content { bytes, sha256: hex::encode(hash.finalize()), whole })
    }
}

/// The next bytes of a file: as many as fit into a request, fewer at its end.
fn read_part(file: &mut File) -> std::io::Result<Vec<u8>> {
    let mut part = Vec::new();
    file.by_ref().take(PART as u64).read_to_end(&mut part)?;
    Ok(part)
}
