//! Which debuginfod servers are asked for files that are nowhere else, and where do their answers
//! lie for whoever looks for them?

use anyhow::{Context as _, bail};
use beside::scratch::Scratch;
use debuginfod::{Client, Kind, Settings, default_cache};
use image::BuildId;
use std::path::{Path, PathBuf};
use terminal::progress::Ticker;

/// The servers that the user allowed to be asked.
pub struct Servers {
    client: Client,
    ticker: Ticker,
    /// Debug files under the names that searches try.
    links: Scratch,
}

impl Servers {
    /// `url` is one server, or empty for those of `DEBUGINFOD_URLS`.
    ///
    /// # Errors
    /// Where no server is named, or there is no place to keep answers.
    pub fn new(url: &str, quiet: bool) -> anyhow::Result<Servers> {
        let listed = std::env::var("DEBUGINFOD_URLS").unwrap_or_default();
        let asked = if url.is_empty() { listed.as_str() } else { url };
        let servers: Vec<String> = asked.split_whitespace().map(str::to_owned).collect();
        if servers.is_empty() {
            bail!(
                "--debuginfod: no server is named: set DEBUGINFOD_URLS, or give one: \
                 --debuginfod=URL"
            );
        }
        let is_web = |server: &&String| {
            ["http://", "https://"].iter().any(|scheme| server.starts_with(scheme))
        };
        if let Some(other) = servers.iter().find(|server| !is_web(server)) {
            bail!(
                "--debuginfod: {other:?} is no address of a server: expected http:// or https://"
            );
        }
        let cache = default_cache().context(
            "--debuginfod: no place to keep answers: set DEBUGINFOD_CACHE_PATH, or HOME",
        )?;
        let client = Client::new(Settings::usual(servers, cache));
        let links = Scratch::new().context("a directory for links to debug files")?;
        Ok(Servers { client, ticker: Ticker::new("debuginfod", quiet), links })
    }

    /// A directory in which debug files that were fetched lie by build ID.
    pub fn directory(&self) -> &Path {
        self.links.path()
    }

    /// The file of a build.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub fn find(&self, id: &BuildId, kind: Kind) -> Result<PathBuf, String> {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let tell = |received, stated: Option<u64>| {
            let of = stated.map(|stated| format!(" of {}", mib(stated))).unwrap_or_default();
            self.ticker.tell(&format!("{kind} of {id}: {}{of} MiB", mib(received)));
        };
        let found = self.client.find(id, kind, &tell).map_err(|error| error.to_string())?;
        if kind == Kind::DebugInfo {
            let place = super::id_paths::with_suffix(
                &super::id_paths::by_id(self.links.path(), id),
                ".debug",
            );
            // Another thread may have been first.
            let _ = std::fs::create_dir_all(beside::directory_of(&place));
            let _ = std::os::unix::fs::symlink(&found, &place);
        }
        Ok(found)
    }
}
