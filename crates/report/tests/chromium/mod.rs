//! A real browser for tests: Chromium, driven through Playwright by `driver.py`, a line of JSON for
//! each thing to do. `scripts/setup.sh test` installs both.
#![allow(dead_code, reason = "each test uses a part of it")]

use serde_json::{Value, json};
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub const ENTER: &str = "Enter";
pub const ESCAPE: &str = "Escape";
pub const RIGHT: &str = "ArrowRight";
pub const LEFT: &str = "ArrowLeft";
pub const DOWN: &str = "ArrowDown";
pub const UP: &str = "ArrowUp";

/// A running Chromium with one tab.
pub struct Browser {
    driver: Child,
    pipes: RefCell<(Option<ChildStdin>, BufReader<ChildStdout>)>,
    folder: tempfile::TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends with its input, and Chromium with the driver.
        self.pipes.get_mut().0 = None;
        let _ = self.driver.wait();
    }
}

fn program(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let all: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names
        .iter()
        .flat_map(|name| all.iter().map(move |folder| folder.join(name)))
        .find(|p| p.is_file())
}

/// Where everything built lies.
fn target() -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(default, PathBuf::from)
}

impl Browser {
    /// Nothing, said on stderr, where Chromium or Playwright is missing.
    pub fn start() -> Option<Browser> {
        let python = target().join("playwright/bin/python");
        let Some(chromium) = program(&["chromium", "chromium-browser", "google-chrome"]) else {
            eprintln!("skipped: pages in a browser: chromium is not installed");
            return None;
        };
        if !python.is_file() {
            eprintln!("skipped: pages in a browser: no Playwright in {}", python.display());
            return None;
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chromium/driver.py");
        let mut driver = Command::new(python)
            .arg(script)
            .arg(chromium)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = driver.stdin.take();
        let output = BufReader::new(driver.stdout.take().unwrap());
        let pipes = RefCell::new((input, output));
        let browser = Browser { driver, pipes, folder: tempfile::tempdir().unwrap() };
        assert_eq!(browser.answer(), json!("ready"));
        Some(browser)
    }

    #[track_caller]
    fn answer(&self) -> Value {
        let mut line = String::new();
        self.pipes.borrow_mut().1.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the browser's driver has ended");
        let mut answer: Value = serde_json::from_str(&line).unwrap();
        assert!(answer.get("error").is_none(), "{answer}");
        answer["value"].take()
    }

    #[track_caller]
    fn ask(&self, what: &str, mut about: Value) -> Value {
        about["do"] = json!(what);
        let mut pipes = self.pipes.borrow_mut();
        writeln!(pipes.0.as_mut().unwrap(), "{about}").unwrap();
        drop(pipes);
        self.answer()
    }

    /// Opens a page; how many milliseconds pass until it is drawn and idle.
    #[track_caller]
    pub fn open(&self, page: &str) -> f64 {
        let path = self.folder.path().join("page.html");
        std::fs::write(&path, page).unwrap();
        self.ask("open", json!({"path": path})).as_f64().unwrap()
    }

    /// The value that a piece of script returns.
    #[track_caller]
    pub fn run(&self, script: &str) -> Value {
        self.ask("run", json!({"script": script}))
    }

    /// Presses a key where the focus is.
    #[track_caller]
    pub fn key(&self, key: &str) {
        self.ask("key", json!({"key": key}));
    }

    #[track_caller]
    pub fn click(&self, selector: &str) {
        self.ask("click", json!({"selector": selector}));
    }

    /// Draws the mouse over an element, from one part of its width to another.
    #[track_caller]
    pub fn drag(&self, selector: &str, from: f64, to: f64) {
        self.ask("drag", json!({"selector": selector, "from": from, "to": to}));
    }

    #[track_caller]
    pub fn size(&self, width: u32) {
        self.ask("size", json!({"width": width, "height": 1000}));
    }

    /// `screen` or `print`, `light` or `dark`.
    #[track_caller]
    pub fn look(&self, media: &str, theme: &str) {
        self.ask("look", json!({"media": media, "theme": theme}));
    }

    /// Keeps a picture of the page below the target directory.
    #[track_caller]
    pub fn picture(&self, name: &str) {
        let path = target().join("pictures").join(format!("{name}.png"));
        self.ask("picture", json!({"path": std::path::absolute(path).unwrap(), "whole": true}));
    }

    /// Messages of the console, violations of the policy among them, and addresses that were asked
    /// for besides the page.
    #[track_caller]
    pub fn said(&self) -> (Vec<Value>, Vec<Value>) {
        let said = self.ask("said", json!({}));
        let list = |key: &str| said[key].as_array().unwrap().clone();
        (list("complaints"), list("requests"))
    }

    #[track_caller]
    pub fn assert_silent(&self) {
        assert_eq!(self.said(), (vec![], vec![]));
    }

    /// No finding of axe-core in either theme that is serious or critical; pictures of the page in
    /// both, in a narrow window and as printed; nothing wider than the window but for what moves
    /// sideways by itself.
    #[track_caller]
    pub fn assert_good_to_look_at(&self, name: &str) {
        const WIDE: &str = "var edge = document.documentElement.clientWidth; \
            var out = Array.from(document.querySelectorAll('main *')).filter(e => \
            e.getBoundingClientRect().right > edge + 1 && !e.parentElement.closest('.scroll')); \
            return [document.documentElement.scrollWidth > edge, out.slice(0, 3).map(e => e.outerHTML.slice(0, 200))]";
        for (media, theme, width) in [
            ("screen", "light", 1280),
            ("screen", "dark", 1280),
            ("screen", "light", 400),
            ("print", "light", 800),
        ] {
            self.look(media, theme);
            self.size(width);
            let look = format!("{name}: {media}, {theme}, {width} px");
            if media == "screen" {
                assert_eq!(self.run(WIDE), json!([false, []]), "{look}");
                let found = self.ask("axe", json!({}));
                let bad = |one: &&Value| {
                    let text = one.as_str().unwrap_or_default();
                    text.starts_with("serious") || text.starts_with("critical")
                };
                let bad: Vec<&Value> = found.as_array().unwrap().iter().filter(bad).collect();
                assert!(bad.is_empty(), "{look}: {bad:#?}");
            }
            self.picture(&format!("{name}-{media}-{theme}-{width}"));
        }
        self.look("screen", "light");
        self.size(1280);
        self.assert_silent();
    }
}

/// Text of an element.
#[track_caller]
pub fn said(browser: &Browser, id: &str) -> String {
    let text = browser.run(&format!("return document.getElementById('{id}').textContent"));
    text.as_str().unwrap().replace('\u{a0}', " ")
}

#[track_caller]
pub fn strings(value: &Value) -> Vec<String> {
    let text = |one: &Value| one.as_str().unwrap().replace('\u{a0}', " ");
    value.as_array().unwrap().iter().map(text).collect()
}

/// Types into an input.
#[track_caller]
pub fn typed(browser: &Browser, id: &str, text: &str) {
    browser.run(&format!(
        "var box = document.getElementById('{id}'); box.value = {}; box.dispatchEvent(new Event('input'))",
        json!(text)
    ));
}
