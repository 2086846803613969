//! Do the dependencies keep our promises: no licence outside `deny.toml`, no newer Rust than
//! `Cargo.toml` states, nothing from outside the registry?
//!
//! Reads `cargo metadata` of the packages already fetched, so it needs neither the network nor
//! another tool.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The packages that a build on this machine uses, ours included.
fn packages() -> Vec<Value> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let verbose = Command::new(rustc).arg("-vV").output().expect("rustc runs, it built this test");
    let verbose = String::from_utf8_lossy(&verbose.stdout).into_owned();
    let host = verbose
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .expect("rustc -vV names the host");
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--offline",
            "--filter-platform",
            host,
        ])
        .current_dir(ROOT)
        // cargo asks `rustc -`, which reads what it is given.
        .stdin(std::process::Stdio::null())
        .output()
        .expect("cargo runs, it started this test");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value =
        serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let packages = metadata["packages"].as_array().expect("metadata lists packages").clone();
    assert!(packages.len() > 10, "metadata lists only {} packages", packages.len());
    packages
}

fn text<'a>(package: &'a Value, key: &str) -> &'a str {
    package[key].as_str().unwrap_or("")
}

fn toml_of(file: &str) -> toml::Table {
    let path = Path::new(ROOT).join(file);
    let content = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    content.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// True when an SPDX expression can be satisfied with allowed licences alone. `AND` binds tighter
/// than `OR`, `WITH` belongs to the licence before it, and the old `A/B` means `A OR B`.
fn satisfiable(expression: &str, allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut tokens: Vec<String> = Vec::new();
    for word in spaced.split_whitespace() {
        match tokens.last_mut() {
            Some(last) if word == "WITH" || last.ends_with(" WITH") => {
                last.push(' ');
                last.push_str(word);
            }
            _ => tokens.push(word.to_owned()),
        }
    }
    let mut at = 0;
    let result = any_of(&tokens, &mut at, allowed);
    result && at == tokens.len()
}

fn any_of(tokens: &[String], at: &mut usize, allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut result = all_of(tokens, at, allowed);
    while tokens.get(*at).is_some_and(|token| token == "OR") {
        *at += 1;
        result |= all_of(tokens, at, allowed);
    }
    result
}

fn all_of(tokens: &[String], at: &mut usize, allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut result = one_of(tokens, at, allowed);
    while tokens.get(*at).is_some_and(|token| token == "AND") {
        *at += 1;
        result &= one_of(tokens, at, allowed);
    }
    result
}

fn one_of(tokens: &[String], at: &mut usize, allowed: &dyn Fn(&str) -> bool) -> bool {
    let Some(token) = tokens.get(*at) else { return false };
    *at += 1;
    if token != "(" {
        return allowed(token);
    }
    let result = any_of(tokens, at, allowed);
    let closed = tokens.get(*at).is_some_and(|token| token == ")");
    *at += 1;
    result && closed
}

#[test]
fn every_licence_is_on_the_allow_list() {
    let deny = toml_of("deny.toml");
    let list = deny["licenses"]["allow"].as_array().expect("deny.toml has licenses.allow").clone();
    let allowed = |name: &str| list.iter().any(|entry| entry.as_str() == Some(name));
    let refused: Vec<String> = packages()
        .iter()
        .filter(|package| !satisfiable(text(package, "license"), &allowed))
        .map(|package| {
            format!(
                "{} {}: {:?}",
                text(package, "name"),
                text(package, "version"),
                package["license"]
            )
        })
        .collect();
    assert!(refused.is_empty(), "licences outside deny.toml's list:\n{}", refused.join("\n"));
}

#[test]
fn licence_expressions_are_read_as_spdx_says() {
    let allowed = |name: &str| matches!(name, "MIT" | "Zlib" | "Apache-2.0 WITH LLVM-exception");
    assert!(satisfiable("MIT OR GPL-3.0", &allowed));
    assert!(satisfiable("GPL-3.0/MIT", &allowed));
    assert!(satisfiable("(GPL-3.0 OR MIT) AND Zlib", &allowed));
    assert!(satisfiable("Apache-2.0 WITH LLVM-exception OR GPL-3.0", &allowed));
    assert!(!satisfiable("MIT AND GPL-3.0", &allowed));
    assert!(!satisfiable("GPL-3.0 OR MIT AND GPL-2.0", &allowed));
    assert!(!satisfiable("", &allowed));
    assert!(!satisfiable("(MIT", &allowed));
}

#[test]
fn no_dependency_asks_for_a_newer_rust_version_than_ours() {
    let number =
        |text: &str| -> Vec<u32> { text.split('.').filter_map(|part| part.parse().ok()).collect() };
    let root = toml_of("Cargo.toml");
    let ours = root["workspace"]["package"]["rust-version"]
        .as_str()
        .expect("the MSRV is stated")
        .to_owned();
    let fuzz = toml_of("fuzz/Cargo.toml");
    assert_eq!(
        fuzz["package"]["rust-version"].as_str(),
        Some(ours.as_str()),
        "fuzz/Cargo.toml states another MSRV"
    );
    // 1.88 and 1.88.0 are the same version.
    let normal = |text: &str| {
        let mut parts = number(text);
        parts.resize(3, 0);
        parts
    };
    let newer: Vec<String> = packages()
        .iter()
        .filter(|package| normal(text(package, "rust_version")) > normal(&ours))
        .map(|package| {
            format!("{} needs Rust {}", text(package, "name"), text(package, "rust_version"))
        })
        .collect();
    assert!(newer.is_empty(), "the stated MSRV is {ours}, but:\n{}", newer.join("\n"));
}

#[test]
fn every_dependency_comes_from_the_registry_or_this_repository() {
    let foreign: Vec<String> = packages()
        .iter()
        .filter(|package| {
            !package["source"].is_null() && !text(package, "source").starts_with("registry+")
        })
        .map(|package| format!("{} from {}", text(package, "name"), text(package, "source")))
        .collect();
    assert!(foreign.is_empty(), "dependencies from elsewhere:\n{}", foreign.join("\n"));
}
