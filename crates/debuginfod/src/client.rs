//! Asks servers, checks what they answer, and keeps it.

use crate::roots;
use beside::Unfinished;
use image::{BuildId, Image};
use std::collections::BTreeSet;
use std::fmt;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use ureq::Agent;
use ureq::tls::TlsConfig;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The program or library that ran.
    Executable,
    /// Its separate debug file.
    DebugInfo,
}

impl Kind {
    /// Its name in addresses of servers and in the cache.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Executable => "executable",
            Kind::DebugInfo => "debuginfo",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which servers, and how patient and how generous a client is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Addresses, asked in this order.
    pub servers: Vec<String>,
    /// Where answers are kept.
    pub cache: PathBuf,
    /// Most bytes of an answer.
    pub most_bytes: u64,
    /// Longest wait for a connection, and for the next bytes.
    pub patience: Duration,
    /// Longest time of one answer.
    pub whole: Duration,
    /// How often a server is asked again that fails otherwise than by not having the file.
    pub retries: u32,
}

impl Settings {
    /// Those of usual networks: answers of up to 4 GiB and 15 minutes, 30 s for the next bytes, two
    /// retries.
    pub fn usual(servers: Vec<String>, cache: PathBuf) -> Settings {
        Settings {
            servers,
            cache,
            most_bytes: 4 << 30,
            patience: Duration::from_secs(30),
            whole: Duration::from_secs(900),
            retries: 2,
        }
    }
}

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No server has it.
    #[error("no debuginfod server has its {0}")]
    Absent(Kind),
    /// A server's answer cannot be used.
    #[error("{server}: {kind} of {id}: {reason}")]
    Answer {
        /// Its address.
        server: String,
        /// What was asked for.
        kind: Kind,
        /// Of which build.
        id: BuildId,
        /// What is wrong.
        reason: String,
    },
    /// The answer cannot be kept.
    #[error("{place}: {source}", place = place.display())]
    Cache {
        /// Where it should lie.
        place: PathBuf,
        /// What is wrong.
        source: std::io::Error,
    },
}

/// Where all clients keep answers: `DEBUGINFOD_CACHE_PATH`, else `debuginfod_client` in
/// `XDG_CACHE_HOME` or `~/.cache`; none without a home.
pub fn default_cache() -> Option<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("DEBUGINFOD_CACHE_PATH").or_else(|| {
        let below = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        below.map(|below| below.join("debuginfod_client"))
    })
}

/// What one attempt gave.
enum Answer {
    Kept(PathBuf),
    /// The server says that it does not have the file.
    Absent,
    /// To ask again may help.
    Failed(String),
    /// To ask again will not help.
    Refused(String),
}

/// Asks servers; one for each command.
pub struct Client {
    settings: Settings,
    agent: Agent,
    /// What no server had, asked once.
    absent: Mutex<BTreeSet<(BuildId, Kind)>>,
}

impl Client {
    /// A client that has not asked anybody yet.
    pub fn new(settings: Settings) -> Client {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(4)
            .user_agent(concat!("planish/", env!("CARGO_PKG_VERSION")))
            // The size of what is kept is the size of what is sent.
            .accept_encoding("identity")
            .timeout_resolve(Some(settings.patience))
            .timeout_connect(Some(settings.patience))
            .timeout_per_read(Some(settings.patience))
            .timeout_global(Some(settings.whole));
        if settings.servers.iter().any(|server| server.starts_with("https:")) {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let tls = TlsConfig::builder()
                .root_certs(roots::of_system())
                .unversioned_rustls_crypto_provider(provider);
            config = config.tls_config(tls.build());
        }
        Client { settings, agent: config.build().new_agent(), absent: Mutex::default() }
    }

    /// The file of a build, in the cache; fetched where it is not there yet. `progress` is told the
    /// bytes that have come and, where the server states it, how many there will be.
    ///
    /// # Errors
    /// Where no server gives it; the message says what the last one that failed did.
    pub fn find(
        &self,
        id: &BuildId,
        kind: Kind,
        progress: &dyn Fn(u64, Option<u64>),
    ) -> Result<PathBuf, Error> {
        let place = self.settings.cache.join(id.to_string()).join(kind.name());
        // Other clients leave empty files there for what no server has.
        if checked(&place, id).is_ok() {
            return Ok(place);
        }
        let mut absent = self.absent.lock().unwrap_or_else(PoisonError::into_inner);
        if absent.contains(&(*id, kind)) {
            return Err(Error::Absent(kind));
        }
        let mut failure = None;
        for server in &self.settings.servers {
            for _ in 0..=self.settings.retries {
                let reason = match self.ask(server, id, kind, &place, progress)? {
                    Answer::Kept(path) => return Ok(path),
                    Answer::Absent => break,
                    Answer::Failed(reason) => Ok(reason),
                    Answer::Refused(reason) => Err(reason),
                };
                let (Ok(said) | Err(said)) = &reason;
                failure = Some((server.clone(), said.clone()));
                if reason.is_err() {
                    break;
                }
            }
        }
        absent.insert((*id, kind));
        Err(match failure {
            Some((server, reason)) => Error::Answer { server, kind, id: *id, reason },
            None => Error::Absent(kind),
        })
    }

    fn ask(
        &self,
        server: &str,
        id: &BuildId,
        kind: Kind,
        place: &Path,
        progress: &dyn Fn(u64, Option<u64>),
    ) -> Result<Answer, Error> {
        let address = format!("{}/buildid/{id}/{kind}", server.trim_end_matches('/'));
        let mut response = match self.agent.get(&address).call() {
            Ok(response) => response,
            Err(ureq::Error::TooManyRedirects) => {
                return Ok(Answer::Refused("it redirects in a circle".to_owned()));
            }
            Err(error @ (ureq::Error::BadUri(_) | ureq::Error::Http(_))) => {
                return Ok(Answer::Refused(error.to_string()));
            }
            Err(error) => return Ok(Answer::Failed(error.to_string())),
        };
        match response.status().as_u16() {
            200 => {}
            404 => return Ok(Answer::Absent),
            status @ 500.. => {
                return Ok(Answer::Failed(format!("it answers with status {status}")));
            }
            status => return Ok(Answer::Refused(format!("it answers with status {status}"))),
        }
        let stated = response.body().content_length();
        let most = self.settings.most_bytes;
        let too_large = || {
            Ok(Answer::Refused(format!("it sends more than {} MiB, the most taken", most >> 20)))
        };
        if stated.is_some_and(|stated| stated > most) {
            return too_large();
        }
        let unkept = |source| Error::Cache { place: place.to_owned(), source };
        std::fs::create_dir_all(beside::directory_of(place)).map_err(unkept)?;
        let mut file = Unfinished::at(place).map_err(unkept)?.with_mode(0o400);
        let mut body = response.body_mut().with_config().limit(u64::MAX).reader();
        let mut buffer = vec![0; 64 << 10];
        let mut received = 0u64;
        loop {
            let read = match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) => return Ok(Answer::Failed(error.to_string())),
            };
            received = received.saturating_add(read as u64);
            if received > most {
                return too_large();
            }
            file.write_all(buffer.get(..read).unwrap_or_default()).map_err(unkept)?;
            progress(received, stated);
        }
        if let Err(reason) = checked(file.name(), id) {
            return Ok(Answer::Refused(reason));
        }
        file.finish().map_err(unkept)?;
        Ok(Answer::Kept(place.to_owned()))
    }
}

/// Whether a file is what was asked for.
fn checked(path: &Path, id: &BuildId) -> Result<(), String> {
    // The name means nothing to whoever reads the message.
    let image = Image::open(path).map_err(|error| match error {
        image::Error::NotElf { found, .. } => format!("no ELF file: it begins with {found:02x?}"),
        other => other.to_string(),
    })?;
    match image.build_id() {
        Some(found) if found == id => Ok(()),
        Some(found) => Err(format!("a file of another build, {found}")),
        None => Err("a file without a build ID".to_owned()),
    }
}
