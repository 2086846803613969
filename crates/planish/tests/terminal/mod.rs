//! A terminal for tests: tmux with one window, keys sent to it, its screen read.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Nothing that a test waits for takes so long.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Terminal {
    socket: PathBuf,
    directory: PathBuf,
}

impl Terminal {
    /// A shell in a directory; none where tmux is not installed.
    pub fn open(directory: &Path, columns: u16, lines: u16) -> Option<Terminal> {
        if Command::new("tmux").arg("-V").stdout(Stdio::null()).status().is_err() {
            println!("skipped: tmux is not installed");
            return None;
        }
        let directory = directory.to_owned();
        let terminal = Terminal { socket: directory.join("tmux"), directory };
        let (columns, lines) = (columns.to_string(), lines.to_string());
        let shell = "PS1='$ ' LC_ALL=C.UTF-8 exec sh -i";
        let words = ["-f", "/dev/null", "-u", "new-session", "-d", "-x", &columns, "-y", &lines];
        terminal.tmux(&[&words[..], &["env", "-u", "ENV", "sh", "-c", shell]].concat());
        terminal.tmux(&["set-option", "-g", "escape-time", "0"]);
        terminal.until(|screen| screen.contains('$'));
        Some(terminal)
    }

    fn tmux(&self, words: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.current_dir(&self.directory).env_remove("TMUX").env_remove("NO_COLOR");
        let done = tmux.arg("-S").arg(&self.socket).args(words).output().unwrap();
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "tmux {words:?}: {told}");
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    /// Types keys by tmux's names.
    pub fn keys(&self, keys: &[&str]) {
        keys.iter().for_each(|key| drop(self.tmux(&["send-keys", key])));
    }

    /// Types a command and Enter.
    pub fn command(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.keys(&["Enter"]);
    }

    /// The screen, without blanks at the ends of lines.
    pub fn screen(&self) -> String {
        let screen = self.tmux(&["capture-pane", "-p"]);
        screen.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }

    /// The screen, once it shows what is waited for.
    pub fn until(&self, is_it: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let screen = self.screen();
            if is_it(&screen) {
                return screen;
            }
            assert!(began.elapsed() < PATIENCE, "it never came:\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn shows(&self, text: &str) -> String {
        self.until(|screen| screen.contains(text))
    }

    /// The screen, once the shell waits for a command below what it showed before. What is typed sooner stands there twice, or
    /// beside the prompt.
    pub fn prompt_below(&self, text: &str) -> String {
        self.until(|screen| screen.contains(text) && screen.trim_end().ends_with("\n$"))
    }

    pub fn resize(&self, columns: u16, lines: u16) {
        let (columns, lines) = (columns.to_string(), lines.to_string());
        self.tmux(&["resize-window", "-x", &columns, "-y", &lines]);
    }

    /// The process that the shell runs in the foreground.
    pub fn child(&self) -> String {
        let shell = self.tmux(&["list-panes", "-F", "#{pane_pid}"]).trim().to_owned();
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"));
        children.unwrap().split_whitespace().next().unwrap().to_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let mut tmux = Command::new("tmux");
        let _ = tmux.arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}
