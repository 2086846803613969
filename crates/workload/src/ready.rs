//! By what does one see that a server can be driven?

use crate::Error;
use regex::bytes::Regex;
use std::fmt;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// What is waited for.
#[derive(Clone, Debug)]
pub enum Ready {
    /// Somebody takes connections at HOST:PORT.
    Tcp(String),
    /// It prints a line in which the pattern is found, to either of its outputs.
    Line(Regex),
    /// A file of this name is there.
    File(PathBuf),
}

/// How long one attempt to connect may take.
const ATTEMPT: Duration = Duration::from_millis(500);

impl FromStr for Ready {
    type Err = Error;

    fn from_str(given: &str) -> Result<Ready, Error> {
        let wrong = |problem: String| Error::Ready { given: given.to_owned(), problem };
        match given.split_once(':') {
            Some(("tcp", address)) => match address.rsplit_once(':') {
                Some((host, port)) if !host.is_empty() && !port.is_empty() => {
                    Ok(Ready::Tcp(address.to_owned()))
                }
                _ => Err(wrong(format!(": {address:?} has no host or no port"))),
            },
            Some(("line", pattern)) if !pattern.is_empty() => crate::pattern(pattern)
                .map(Ready::Line)
                .map_err(|error| wrong(format!(": {error}"))),
            Some(("file", path)) if !path.is_empty() => Ok(Ready::File(path.into())),
            _ => Err(wrong(String::new())),
        }
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ready::Tcp(address) => write!(f, "somebody who takes connections at {address}"),
            Ready::Line(pattern) => write!(f, "a line with {:?}", pattern.as_str()),
            Ready::File(path) => write!(f, "a file {}", path.display()),
        }
    }
}

impl Ready {
    /// Whether it can be seen from outside; lines are seen by whoever reads them.
    pub(crate) fn is_there(&self, directory: &Path) -> bool {
        match self {
            Ready::Tcp(address) => connects(address),
            Ready::Line(_) => false,
            Ready::File(path) => directory.join(path).exists(),
        }
    }

    /// What is wrong when it is there too early.
    pub(crate) fn early(&self) -> String {
        match self {
            Ready::Tcp(address) => format!("somebody took connections at {address}"),
            Ready::Line(_) => String::new(),
            Ready::File(path) => format!("there was a file {}", path.display()),
        }
    }
}

fn connects(address: &str) -> bool {
    let Ok(addresses) = address.to_socket_addrs() else { return false };
    addresses.into_iter().any(|address| TcpStream::connect_timeout(&address, ATTEMPT).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_is_read_and_wrong_words_are_told() {
        for good in ["tcp:127.0.0.1:80", "tcp:[::1]:80", "line:ready to .*", "file:run/app.pid"] {
            assert!(good.parse::<Ready>().is_ok(), "{good}");
        }
        for wrong in ["", "tcp:80", "tcp::80", "line:", "line:(", "file:", "udp:a:1", "ready"] {
            let error = wrong.parse::<Ready>().unwrap_err().to_string();
            assert!(error.contains("expected \"tcp:HOST:PORT\""), "{error}");
        }
    }

    #[test]
    fn a_port_is_there_while_somebody_listens() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let ready = Ready::Tcp(listener.local_addr().unwrap().to_string());
        assert!(ready.is_there(Path::new("/")));
        drop(listener);
        assert!(!ready.is_there(Path::new("/")));
    }
}
