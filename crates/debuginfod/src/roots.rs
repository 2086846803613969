//! Whose word counts for a server of `https`? That of the authorities that this system trusts.

use std::path::PathBuf;
use ureq::tls::{Certificate, PemItem, RootCerts, parse_pem};

/// Where systems keep the certificates of the authorities: Debian, Fedora, SUSE, Alpine.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The authorities: of the file that `SSL_CERT_FILE` names, else of the system's.
pub(crate) fn of_system() -> RootCerts {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let files = named.into_iter().chain(BUNDLES.map(PathBuf::from));
    let text =
        files.map(|path| beside::given::read(&path, beside::given::TEXT)).find_map(Result::ok);
    let text = text.unwrap_or_default();
    let certificate = |item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    };
    let all: Vec<Certificate<'static>> = parse_pem(&text).filter_map(certificate).collect();
    RootCerts::new_with_certs(&all)
}
