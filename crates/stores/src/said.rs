//! What did a store say that refused or failed? In one line: the client's own messages hold addresses,
//! numbers of tries and pages of XML.

use crate::{Address, Error};
use object_store::Error as Failure;
use std::error::Error as _;

/// Most characters of a server's own words.
const MOST: usize = 200;
/// What the client's messages have before a status.
const STATUS: &str = "status code: ";

/// The error of a request about `address`, which was to `action` it.
pub(crate) fn error(address: Address, action: &'static str, failure: &Failure) -> Error {
    let why = words(failure);
    match failure {
        Failure::NotFound { .. } => Error::Absent { address, why },
        Failure::PermissionDenied { .. } | Failure::Unauthenticated { .. } => {
            Error::Denied { address, action, why }
        }
        // Getting credentials fails without a kind of its own.
        _ if ["401", "403"].iter().any(|code| why.contains(&format!("status {code}"))) => {
            Error::Denied { address, action, why }
        }
        _ => Error::Failed { address, why },
    }
}

/// What happened, in words.
pub(crate) fn words(failure: &Failure) -> String {
    let mut said = vec![failure.to_string()];
    let mut cause = failure.source();
    while let Some(next) = cause {
        said.push(next.to_string());
        cause = next.source();
    }
    let status = said.iter().rev().find_map(|text| text.split_once(STATUS));
    if let Some((_, rest)) = status {
        let (status, body) = rest.split_once(": ").unwrap_or((rest, ""));
        return match explained(body) {
            Some(body) => format!("it answers with status {}: {body}", short(status)),
            None => format!("it answers with status {}", short(status)),
        };
    }
    // The innermost says what happened, the one around it what was being done.
    let mut inner = said.iter().rev();
    match (inner.next(), inner.next()) {
        (Some(last), Some(before)) if !before.contains(last.as_str()) => {
            short(&format!("{before}: {last}"))
        }
        (Some(last), _) => short(last),
        (None, _) => String::new(),
    }
}

/// What the body of an answer says: the code and the message of XML, or text.
fn explained(body: &str) -> Option<String> {
    let inside = |tag: &str| {
        let (_, rest) = body.split_once(&format!("<{tag}>"))?;
        Some(rest.split_once(&format!("</{tag}>"))?.0.trim().to_owned())
    };
    let said = match (inside("Code"), inside("Message")) {
        (Some(code), Some(message)) if !message.is_empty() => format!("{code}, {message}"),
        (Some(one), _) | (None, Some(one)) => one,
        (None, None) => body.trim().to_owned(),
    };
    Some(short(&said)).filter(|said| !said.is_empty())
}

/// One line of it, no longer than a line.
fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut: String = line.chars().take(MOST).collect();
    if cut.len() < line.len() { format!("{cut}…") } else { cut }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics fails")]

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("Error performing GET after 3 retries - {0}")]
    struct Retried(#[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Inner(String);

    fn failure(text: &str) -> Failure {
        Failure::Generic { store: "S3", source: Box::new(Retried(Inner(text.to_owned()))) }
    }

    #[test]
    fn the_status_and_the_servers_reason_are_told() {
        let body = "<?xml version=\"1.0\"?>\n<Error><Code>SlowDown</Code>\n\
                    <Message>Please reduce\nyour rate.</Message></Error>";
        let text = format!("Server returned non-2xx status code: 503 Service Unavailable: {body}");
        let said = words(&failure(&text));
        assert_eq!(
            said,
            "it answers with status 503 Service Unavailable: SlowDown, Please reduce your rate."
        );
        let plain = words(&failure("Server returned non-2xx status code: 500 Broken: "));
        assert_eq!(plain, "it answers with status 500 Broken");
        let long = format!("Server returned non-2xx status code: 500 Broken: {}", "x".repeat(9999));
        assert!(words(&failure(&long)).len() < 300);
        let address = Address::parse("s3://b/k").unwrap();
        let refused = failure("Server returned non-2xx status code: 403 Forbidden: ");
        assert!(matches!(error(address, "read", &refused), Error::Denied { .. }));
    }

    #[test]
    fn what_is_no_answer_tells_the_innermost_reason() {
        assert_eq!(words(&failure("connection refused")), "connection refused");
    }
}
