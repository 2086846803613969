//! Does anything say who asks a store? Asked before the first request, since a machine without
//! credentials would try for minutes to get some from a cloud that it does not run in.

use crate::Kind;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

/// Where machines of Amazon's and Google's clouds ask who they are.
const METADATA: &str = "169.254.169.254:80";
/// How long that may take to answer; it is on the machine's own host.
const PATIENCE: Duration = Duration::from_secs(1);

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// What is missing, in words; none where something may say who asks.
pub(crate) fn missing(kind: Kind) -> Option<String> {
    let is_known = match kind {
        Kind::S3 => amazon(),
        Kind::Google => google(),
    };
    if is_known {
        return None;
    }
    let (place, is_off) = match kind {
        Kind::S3 => {
            let off = std::env::var("AWS_EC2_METADATA_DISABLED");
            let named = std::env::var("AWS_METADATA_ENDPOINT").ok();
            let place = named.as_deref().and_then(host).unwrap_or_else(|| METADATA.to_owned());
            (place, off.is_ok_and(|off| off.eq_ignore_ascii_case("true")))
        }
        Kind::Google => {
            let names = ["GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP"];
            let named = names.iter().find_map(|name| std::env::var(name).ok());
            (named.as_deref().and_then(host).unwrap_or_else(|| METADATA.to_owned()), false)
        }
    };
    let answers = |place: &SocketAddr| TcpStream::connect_timeout(place, PATIENCE).is_ok();
    let mut places = place.to_socket_addrs().into_iter().flatten();
    (is_off || !places.any(|place| answers(&place)))
        .then(|| "no credentials: the environment has none, and this machine no role".to_owned())
}

/// The machine and port of an address of `http`.
fn host(address: &str) -> Option<String> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let machine = rest.split('/').next().filter(|machine| !machine.is_empty())?;
    let has_port = machine.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Some(if has_port { machine.to_owned() } else { format!("{machine}:80") })
}

fn amazon() -> bool {
    // With one half alone, the client says that the other is missing.
    is_set("AWS_ACCESS_KEY_ID")
        || is_set("AWS_SECRET_ACCESS_KEY")
        || is_set("AWS_SKIP_SIGNATURE")
        || is_set("AWS_WEB_IDENTITY_TOKEN_FILE") && is_set("AWS_ROLE_ARN")
        || is_set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        || is_set("AWS_CONTAINER_CREDENTIALS_FULL_URI")
            && is_set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
}

fn google() -> bool {
    const NAMES: [&str; 7] = [
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_PATH",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "GOOGLE_BEARER_TOKEN",
        "GOOGLE_SKIP_SIGNATURE",
        "SERVICE_ACCOUNT",
    ];
    // What `gcloud auth application-default login` leaves.
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let kept = home.map(|home| home.join(".config/gcloud/application_default_credentials.json"));
    NAMES.iter().any(|name| is_set(name)) || kept.is_some_and(|kept| kept.is_file())
}

/// The file that the environment names for credentials, as a message names it. The client leaves it out.
pub(crate) fn file(kind: Kind) -> Option<String> {
    let names = match kind {
        Kind::S3 => return None,
        Kind::Google => ["GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT_PATH"],
    };
    let set = names.into_iter().find_map(|name| Some((name, std::env::var(name).ok()?)));
    let (name, file) = set?;
    Some(format!("{file}, which {name} names"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_of_an_address_has_a_port() {
        for (address, found) in [
            ("http://127.0.0.1:1", Some("127.0.0.1:1")),
            ("http://169.254.169.254/latest", Some("169.254.169.254:80")),
            ("http://", None),
        ] {
            assert_eq!(host(address).as_deref(), found, "{address}");
        }
    }
}
