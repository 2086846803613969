//! How do objects get into files? Several at once, each beside its place and renamed when it is whole:
//! as large as the list said, and with the hash that was put there with it.

use crate::client::HASH;
use crate::{Error, Object, Store, said};
use beside::Unfinished;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::{GetOptions, GetResultPayload};
use sha2::{Digest as _, Sha256};
use std::cell::RefCell;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Objects that are fetched at once.
const AT_ONCE: usize = 16;
/// How often an object is fetched from its beginning that ended early.
const TRIES: u32 = 3;
/// Pause before the first of these.
const PAUSE: Duration = Duration::from_millis(300);

/// Stops asking a store that fails.
pub(crate) struct Fuse {
    most: usize,
    /// Failures one after the other, and the last one's reason.
    failed: RefCell<(usize, String)>,
}

impl Fuse {
    /// Burns after so many failures one after the other.
    pub fn new(most: usize) -> Fuse {
        Fuse { most, failed: RefCell::default() }
    }

    /// What became of one.
    pub fn saw<T>(&self, done: &Result<T, Error>) {
        let mut failed = self.failed.borrow_mut();
        match done {
            Err(error) if error.is_of_store() => {
                *failed = (failed.0.saturating_add(1), error.to_string());
            }
            _ if failed.0 < self.most => *failed = (0, String::new()),
            _ => {}
        }
    }

    /// The error of the next one, where it is not worth trying.
    pub fn burnt(&self, store: &Store, key: &str) -> Option<Error> {
        let failed = self.failed.borrow();
        (failed.0 >= self.most).then(|| Error::NotTried {
            address: store.bucket.with_key(key),
            failed: failed.0,
            why: failed.1.clone(),
        })
    }
}

impl Store {
    /// Brings objects into files; what became of each, in their order. `tell` hears of bytes as they
    /// come. Once many fail one after the other, the rest is not tried.
    pub fn fetch(
        &self,
        wanted: &[(Object, PathBuf)],
        tell: &dyn Fn(u64),
    ) -> Vec<Result<(), Error>> {
        let fuse = Fuse::new(AT_ONCE);
        let one = async |(object, place): &(Object, PathBuf)| {
            if let Some(error) = fuse.burnt(self, &object.key) {
                return Err(error);
            }
            let done = self.fetch_one(object, place, tell).await;
            fuse.saw(&done);
            done
        };
        self.runtime.block_on(stream::iter(wanted).map(one).buffered(AT_ONCE).collect())
    }

    async fn fetch_one(
        &self,
        object: &Object,
        place: &Path,
        tell: &dyn Fn(u64),
    ) -> Result<(), Error> {
        let mut tried = 0;
        loop {
            match self.attempt(object, place, tell).await {
                // The client goes on itself where an answer breaks off, if it can.
                Err(Attempt::Broken(_)) if tried < TRIES => {
                    tried += 1;
                    tokio::time::sleep(PAUSE * tried).await;
                }
                Err(Attempt::Broken(error) | Attempt::Final(error)) => return Err(error),
                Ok(()) => return Ok(()),
            }
        }
    }

    async fn attempt(
        &self,
        object: &Object,
        place: &Path,
        tell: &dyn Fn(u64),
    ) -> Result<(), Attempt> {
        let address = || self.bucket.with_key(&object.key);
        let damaged = |why: String| Error::Damaged { address: address(), why };
        let unkept = |source| Attempt::Final(Error::File { path: place.to_owned(), source });
        let location = self.location(&object.key)?;
        let found = self.client.get_opts(&location, GetOptions::default()).await;
        let found = found.map_err(|failure| said::error(address(), "read", &failure))?;
        let stated = found.meta.size;
        if stated != object.bytes {
            let why = format!(
                "has {stated} bytes, and {} when the bucket was listed; try again when it is whole",
                object.bytes
            );
            return Err(damaged(why).into());
        }
        let hash = found.attributes.get(&HASH).map(|hash| hash.as_ref().to_owned());
        let mut file = Unfinished::at(place).map_err(unkept)?;
        let (mut received, mut own) = (0u64, Sha256::new());
        // The crate has another kind of payload where it reads files, which it does not here.
        #[allow(irrefutable_let_patterns, reason = "a feature of the crate adds a variant")]
        let GetResultPayload::Stream(mut body) = found.payload else {
            return Err(damaged("came as a file".to_owned()).into());
        };
        loop {
            let bytes = match body.try_next().await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => break,
                Err(failure) => {
                    return Err(Attempt::Broken(said::error(address(), "read", &failure)));
                }
            };
            received = received.saturating_add(bytes.len() as u64);
            if received > stated {
                return Err(damaged(format!("gives more than its {stated} bytes")).into());
            }
            file.write_all(&bytes).map_err(unkept)?;
            own.update(&bytes);
            tell(bytes.len() as u64);
        }
        if received != stated {
            let why = format!("ends after {received} of its {stated} bytes");
            return Err(Attempt::Broken(damaged(why)));
        }
        let own = hex::encode(own.finalize());
        if let Some(hash) = hash.filter(|hash| *hash != own) {
            let why = format!(
                "its bytes are not those that were put there: SHA-256 is {own}, expected {hash}; \
                 put it there again"
            );
            return Err(damaged(why).into());
        }
        file.finish().map_err(unkept)?;
        Ok(())
    }
}

/// Why an object did not come.
enum Attempt {
    /// On the way; to fetch it again may help.
    Broken(Error),
    /// Or will not.
    Final(Error),
}

impl From<Error> for Attempt {
    fn from(error: Error) -> Attempt {
        Attempt::Final(error)
    }
}
