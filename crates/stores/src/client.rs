//! How is a bucket opened and asked? By one client on one thread, which waits for several answers at
//! once where there are several questions.

use crate::{Address, Error, Found, Kind, Listing, Object, Settings, credentials, said};
use object_store::aws::AmazonS3Builder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path as Key;
use object_store::{Attribute, BackoffConfig, GetOptions, ObjectStore, RetryConfig};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest wait for an answer, and for the next bytes of it.
const READ: Duration = Duration::from_secs(60);
/// Longest time of one answer; what is larger is gone on with.
const WHOLE: Duration = Duration::from_secs(900);
/// Most pages of a list; each has up to a thousand objects.
const MOST_PAGES: usize = 1 << 16;
/// The name under which an object says what its bytes hash to.
pub(crate) const HASH: Attribute =
    Attribute::Metadata(std::borrow::Cow::Borrowed("planish-sha256"));

/// What a bucket can be asked.
pub(crate) trait Asked: ObjectStore + PaginatedListStore {}
impl<T: ObjectStore + PaginatedListStore> Asked for T {}

/// A bucket. Made for one thread; it waits for whatever it asks.
pub struct Store {
    pub(crate) runtime: Runtime,
    pub(crate) client: Arc<dyn Asked>,
    pub(crate) bucket: Address,
}

impl Store {
    /// The bucket of an address. Nothing is asked of it yet.
    ///
    /// # Errors
    /// Where the environment has no credentials, or settings that do not fit.
    pub fn open(address: &Address, settings: &Settings) -> Result<Store, Error> {
        let bucket = address.whole_bucket();
        if let Some(why) = credentials::missing(address.kind()) {
            return Err(Error::Credentials { address: bucket, kind: address.kind(), why });
        }
        if let Some(why) = unprotected(address.kind()) {
            return Err(Error::Settings { address: bucket, why });
        }
        // One for the whole program; another part of it may have been first, with the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let started = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = started.map_err(|source| Error::Start { address: bucket.clone(), source })?;
        let retry = RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: usize::MAX,
            retry_timeout: settings.patience,
        };
        let built: Result<Arc<dyn Asked>, object_store::Error> = match address.kind() {
            Kind::S3 => {
                let builder = AmazonS3Builder::from_env().with_bucket_name(address.bucket());
                // `AWS_ALLOW_HTTP` and the like are in there, too.
                let builder = patient(builder, settings.patience, |builder, key, value| {
                    builder.with_config(object_store::aws::AmazonS3ConfigKey::Client(key), value)
                });
                builder.with_retry(retry).build().map(|built| Arc::new(built) as _)
            }
            Kind::Google => {
                let builder =
                    GoogleCloudStorageBuilder::from_env().with_bucket_name(address.bucket());
                let builder = patient(builder, settings.patience, |builder, key, value| {
                    builder.with_config(object_store::gcp::GoogleConfigKey::Client(key), value)
                });
                builder.with_retry(retry).build().map(|built| Arc::new(built) as _)
            }
        };
        let client = built.map_err(|failure| {
            let (address, why) = (bucket.clone(), said::words(&failure));
            // The client's own words for half a pair.
            match why.contains("Missing AccessKeyId") || why.contains("Missing SecretAccessKey") {
                true => Error::Credentials { kind: address.kind(), address, why },
                false => {
                    let file = credentials::file(address.kind());
                    let why = file.map_or(why.clone(), |file| format!("{file}: {why}"));
                    Error::Settings { address, why }
                }
            }
        })?;
        Ok(Store { runtime, client, bucket })
    }

    /// Objects whose key begins with `prefix`, as a text, and up to `most` of them.
    pub fn list(&self, prefix: &str, most: usize) -> Listing {
        self.runtime.block_on(self.pages(prefix, most))
    }

    async fn pages(&self, prefix: &str, most: usize) -> Listing {
        let mut listing = Listing::default();
        let failed = |why: &str| {
            let address = self.bucket.with_key(prefix);
            Error::Failed { address, why: format!("the list of objects {why}") }
        };
        let mut token: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let options = PaginatedListOptions {
                page_token: token.clone(),
                ..PaginatedListOptions::default()
            };
            let asked = Some(prefix).filter(|prefix| !prefix.is_empty());
            let page = match self.client.list_paginated(asked, options).await {
                Ok(page) => page,
                Err(failure) => {
                    let address = self.bucket.with_key(prefix);
                    listing.ended = Some(said::error(address, "list", &failure));
                    break;
                }
            };
            listing.objects.extend(page.result.objects.into_iter().map(|object| Object {
                key: object.location.as_ref().to_owned(),
                bytes: object.size,
            }));
            if listing.objects.len() > most {
                listing.objects.truncate(most);
                listing.ended =
                    Some(failed(&format!("is longer than {most}; give parts of the bucket")));
                break;
            }
            match page.page_token {
                None => {
                    token = None;
                    break;
                }
                Some(next) if token.as_ref() == Some(&next) => {
                    listing.ended = Some(failed("goes in a circle"));
                    break;
                }
                next => token = next,
            }
        }
        if listing.ended.is_none() && token.is_some() {
            listing.ended = Some(failed(&format!("has more than {MOST_PAGES} pages")));
        }
        listing.objects.sort();
        listing.objects.dedup_by(|one, other| one.key == other.key);
        listing
    }

    /// What the bucket says of an object; none where it has none.
    ///
    /// # Errors
    /// Where it does not say.
    pub fn head(&self, key: &str) -> Result<Option<Found>, Error> {
        self.runtime.block_on(self.look(key))
    }

    pub(crate) async fn look(&self, key: &str) -> Result<Option<Found>, Error> {
        let options = GetOptions { head: true, ..GetOptions::default() };
        match self.client.get_opts(&self.location(key)?, options).await {
            Ok(found) => Ok(Some(Found {
                bytes: found.meta.size,
                sha256: found.attributes.get(&HASH).map(|hash| hash.as_ref().to_owned()),
            })),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(failure) => Err(said::error(self.bucket.with_key(key), "read", &failure)),
        }
    }

    /// A key as the client takes it.
    pub(crate) fn location(&self, key: &str) -> Result<Key, Error> {
        let wrong = || Error::Address {
            text: self.bucket.with_key(key).to_string(),
            why: "no part of a key between slashes is empty, `.` or `..`",
        };
        Key::parse(key).map_err(|_| wrong())
    }
}

/// Why the client would refuse its endpoint.
fn unprotected(kind: Kind) -> Option<String> {
    let set = |name: &&str| std::env::var(name).is_ok_and(|value| !value.is_empty());
    let (names, allow): (&[&str], _) = match kind {
        Kind::S3 => {
            (&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"], "AWS_ALLOW_HTTP")
        }
        Kind::Google => (&["GOOGLE_BASE_URL"], "GOOGLE_ALLOW_HTTP"),
    };
    let name = names.iter().copied().find(|name| set(name))?;
    let address = std::env::var(name).unwrap_or_default();
    let allowed = std::env::var(allow).is_ok_and(|value| {
        ["1", "true", "on", "yes", "y"].iter().any(|word| value.eq_ignore_ascii_case(word))
    });
    (address.starts_with("http://") && !allowed).then(|| {
        format!(
            "{name} is {address}, which everybody on the way can read; set {allow}=true if that \
                 is meant"
        )
    })
}

/// Sets how long a client waits, and as whom it is known; the same for the builders of all stores. A server that says
/// nothing is not waited for longer than it is asked again.
fn patient<B>(
    builder: B,
    patience: Duration,
    set: impl Fn(B, object_store::ClientConfigKey, String) -> B,
) -> B {
    use object_store::ClientConfigKey as Key;
    let seconds = |time: Duration| format!("{} seconds", time.as_secs());
    let most = patience.max(Duration::from_secs(1));
    let builder = set(builder, Key::ConnectTimeout, seconds(CONNECT.min(most)));
    let builder = set(builder, Key::ReadTimeout, seconds(READ.min(most)));
    let builder = set(builder, Key::Timeout, seconds(WHOLE));
    set(builder, Key::UserAgent, concat!("planish/", env!("CARGO_PKG_VERSION")).to_owned())
}
