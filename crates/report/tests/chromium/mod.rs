//! A real browser for tests: Chromium, driven through chromedriver over plain HTTP, so that nothing
//! but the two programs is needed.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running chromedriver with one session.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    profile: tempfile::TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends Chromium too; the driver alone would leave it behind.
        let _ = call(self.port, "DELETE", &format!("/session/{}", self.session), None);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn program(names: &[&str]) -> Option<String> {
    let path = std::env::var_os("PATH")?;
    let found =
        |name: &&&str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    names.iter().find(found).map(|name| (*name).to_owned())
}

/// One request of the WebDriver protocol; the `value` of the answer.
fn call(port: u16, method: &str, path: &str, body: Option<Value>) -> Result<Value, String> {
    let body = body.map_or(String::new(), |b| b.to_string());
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(|e| e.to_string())?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).map_err(|e| e.to_string())?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(body.as_bytes()))
        .map_err(|e| e.to_string())?;
    let mut reader = BufReader::new(stream);
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line).map_err(|e| e.to_string())? > 0 && line.trim() != "" {
        if let Some(number) = line.to_lowercase().strip_prefix("content-length:") {
            length = number.trim().parse().map_err(|_| line.clone())?;
        }
        line.clear();
    }
    let mut answer = vec![0; length];
    reader.read_exact(&mut answer).map_err(|e| e.to_string())?;
    let answer: Value = serde_json::from_slice(&answer).map_err(|e| e.to_string())?;
    match answer["value"].get("error") {
        Some(error) => Err(format!("{error}: {}", answer["value"]["message"])),
        None => Ok(answer["value"].clone()),
    }
}

impl Browser {
    /// Nothing, said on stderr, where Chromium or its driver is missing.
    pub fn start() -> Option<Browser> {
        let (Some(chromium), Some(driver)) = (
            program(&["chromium", "chromium-browser", "google-chrome"]),
            program(&["chromedriver"]),
        ) else {
            eprintln!("skipped: the page in a browser, chromium or chromedriver is not installed");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let driver = Command::new(driver)
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut browser = Browser { driver, port, session: String::new(), profile };
        let started = Instant::now();
        while call(port, "GET", "/status", None).is_err() {
            assert!(started.elapsed().as_secs() < 30, "chromedriver does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        let folder = format!("--user-data-dir={}", browser.profile.path().display());
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--window-size=1280,1000",
            &folder,
        ];
        let path = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|p| p.join(&chromium))
            .find(|p| p.is_file());
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": arguments, "binary": path},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }}});
        let session = call(port, "POST", "/session", Some(wanted)).unwrap();
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        // Chromium opens with a page of its own, whose parts do not count.
        browser.post("url", json!({"url": "about:blank"}));
        browser.requests();
        Some(browser)
    }

    pub fn post(&self, what: &str, body: Value) -> Value {
        call(self.port, "POST", &format!("/session/{}/{what}", self.session), Some(body)).unwrap()
    }

    pub fn open(&self, page: &str) {
        let file = self.profile.path().join("page.html");
        std::fs::write(&file, page).unwrap();
        self.post("url", json!({"url": format!("file://{}", file.display())}));
    }

    pub fn run(&self, script: &str) -> Value {
        self.post("execute/sync", json!({"script": script, "args": []}))
    }

    /// Presses a key where the focus is.
    pub fn key(&self, key: char) {
        let press = json!([{"type": "keyDown", "value": key.to_string()}, {"type": "keyUp", "value": key.to_string()}]);
        self.post("actions", json!({"actions": [{"type": "key", "id": "keys", "actions": press}]}));
    }

    pub fn click(&self, selector: &str) {
        let found = self.post("element", json!({"using": "css selector", "value": selector}));
        let id = found.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned();
        self.post(&format!("element/{id}/click"), json!({}));
    }

    /// Messages of the console, violations of the policy among them.
    pub fn complaints(&self) -> Vec<Value> {
        self.post("se/log", json!({"type": "browser"})).as_array().unwrap().clone()
    }

    /// Addresses that were asked for, but for the page itself and its empty icon.
    pub fn requests(&self) -> Vec<String> {
        let log = self.post("se/log", json!({"type": "performance"}));
        let events = log.as_array().unwrap().iter().filter_map(|entry| {
            let event: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
            let sent = event["message"]["method"] == "Network.requestWillBeSent";
            sent.then(|| {
                event["message"]["params"]["request"]["url"].as_str().unwrap_or_default().to_owned()
            })
        });
        let own = |url: &String| {
            url.starts_with("file://") && url.contains("/page.html") || url == "data:,"
        };
        events.filter(|url| !own(url)).collect()
    }

    pub fn assert_silent(&self) {
        assert_eq!((self.complaints(), self.requests()), (vec![], vec![]));
    }
}
