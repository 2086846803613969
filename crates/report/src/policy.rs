//! What may a page do? Show itself with the style and the script that are in it, told by their
//! hashes, and nothing else.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// The Content-Security-Policy of a page with this style and script and nothing from elsewhere
/// (<https://www.w3.org/TR/CSP3/#framework-directive-source-list>): a style or script that got in among the data does
/// not run.
pub(crate) fn policy(style: &str, script: Option<&str>) -> String {
    let script = script.map_or_else(|| "'none'".to_owned(), hash);
    format!(
        "default-src 'none'; style-src {}; script-src {script}; img-src data:; base-uri 'none'; \
         form-action 'none'",
        hash(style)
    )
}

fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_names_the_hashes_of_what_is_in_the_page() {
        // The example of the specification, section 8.3 of CSP Level 2.
        assert_eq!(
            hash("alert('Hello, world.');"),
            "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='"
        );
        let said = policy("a{}", None);
        assert!(said.starts_with("default-src 'none'; style-src 'sha256-"), "{said}");
        assert!(said.contains("script-src 'none'") && !said.contains("unsafe"), "{said}");
    }
}
