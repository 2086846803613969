//! `planish workload`: is the order kept whatever fails, does nothing stay behind, and is only the
//! program measured?

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// `serve PORT WORK`: answers every connection after so much work; `serve PORT crash` dies at the
/// first. `drive PORT TIMES WORK`: asks it so often, and works itself. `work N`: works.
const PROGRAM: &str = r#"
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
static volatile unsigned sink;
static void work(unsigned n) { for (unsigned i = 0; i < n * 1000000u; i++) sink += i ^ (sink >> 3); }
static struct sockaddr_in at(const char *port) {
  struct sockaddr_in a = {0};
  a.sin_family = AF_INET; a.sin_port = htons(atoi(port)); a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return a;
}
int main(int argc, char **argv) {
  setvbuf(stdout, 0, _IOLBF, 0);
  if (!strcmp(argv[1], "work")) { work(atoi(argv[2])); printf("worked\n"); return 0; }
  struct sockaddr_in a = at(argv[2]);
  if (!strcmp(argv[1], "serve")) {
    int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (argc > 4 && !strcmp(argv[4], "deaf")) signal(SIGTERM, SIG_IGN);
    if (bind(s, (void *)&a, sizeof a) || listen(s, 9)) { perror("bind"); return 3; }
    FILE *f = fopen("server.pid", "w"); fprintf(f, "%d", getpid()); fclose(f);
    printf("warming up\nlistening on %s\n", argv[2]);
    for (;;) {
      int c = accept(s, 0, 0); char byte;
      if (read(c, &byte, 1) == 1) {
        if (!strcmp(argv[3], "crash")) { printf("out of luck\n"); return 7; }
        work(atoi(argv[3])); write(c, "x", 1);
      }
      close(c);
    }
  }
  for (int i = 0; i < atoi(argv[3]); i++) {
    int s = socket(AF_INET, SOCK_STREAM, 0); char byte = 'q';
    if (connect(s, (void *)&a, sizeof a)) { perror("connect"); return 4; }
    if (write(s, &byte, 1) != 1 || read(s, &byte, 1) != 1) { printf("no answer\n"); return 5; }
    close(s);
  }
  work(atoi(argv[4]));
  printf("answered\n");
  return 0;
}
"#;

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// A folder with the program, where it can be compiled.
    fn new() -> Option<Place> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("app.c"), PROGRAM).unwrap();
        let place = Place { folder };
        let cc = ["cc", "gcc", "clang-22"].iter().any(|cc| {
            let mut build = Command::new(cc);
            build.args(["-O1", "-w", "app.c", "-o", "app"]).current_dir(place.path());
            build.status().is_ok_and(|status| status.success())
        });
        if !cc {
            eprintln!("skipped: no C compiler is installed");
        }
        cc.then_some(place)
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
        command.arg("workload").args(arguments).current_dir(self.path()).env("NO_COLOR", "1");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The output, and what the program used.
    fn measured(&self, arguments: &[&str]) -> (Output, Value) {
        let told = self.path().join("used");
        std::fs::write(&told, "").unwrap();
        let output = self.command(arguments).env("PLANISH_USED", &told).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        (output, serde_json::from_slice(&std::fs::read(&told).unwrap()).unwrap())
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }

    /// Whether the server that wrote its number still runs.
    fn server_runs(&self) -> bool {
        let pid = self.read("server.pid");
        assert!(!pid.is_empty(), "the server never ran");
        PathBuf::from("/proc").join(pid).exists()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn cpu_ns(used: &Value) -> f64 {
    (used["user_ns"].as_u64().unwrap() + used["system_ns"].as_u64().unwrap()) as f64
}

const SERVE: [&str; 4] =
    ["--program", "app", "--start={PLANISH_BIN} serve {port} 1", "--ready=tcp:127.0.0.1:{port}"];

#[test]
fn what_stands_around_a_command_runs_before_and_after_it_with_its_environment() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place { folder };
    std::fs::create_dir(place.path().join("there")).unwrap();
    let ran = place.run(&[
        "--environment=WHO=you and me",
        "--directory=there",
        "--set-up=echo set up by $WHO; echo up >> order",
        "--tear-down=echo down >> order",
        "--exit-code=3",
        "--",
        "sh",
        "-c",
        "echo $WHO; echo run >> order; exit 3",
    ]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    assert_eq!(text(&ran.stdout), "you and me\n");
    assert_eq!(text(&ran.stderr), "set up by you and me\n");
    assert_eq!(place.read("there/order"), "up\nrun\ndown\n");
    // Any other code is the command's own.
    let ran = place.run(&["--tear-down=echo down >> again", "--", "sh", "-c", "exit 4"]);
    assert_eq!((ran.status.code(), place.read("again").as_str()), (Some(4), "down\n"));
}

#[test]
fn what_fails_is_named_and_torn_down() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place { folder };
    let refused = |arguments: &[&str], expected: &str| {
        let ran = place.run(arguments);
        let said = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    };
    let down = "--tear-down=echo down >> order";
    refused(&["--set-up=exit 9", down, "--", "true"], "set_up ended with exit code 9: exit 9");
    assert_eq!(place.read("order"), "down\n");
    refused(&[down, "--", "./nowhere"], "cannot start ./nowhere");
    assert_eq!(place.read("order"), "down\ndown\n");
    refused(&["--tear-down=exit 8", "--", "true"], "tear_down ended with exit code 8");
    refused(&["--directory=nowhere", "--", "true"], "there is no directory");
    refused(&["--environment=A", "--", "true"], "expected NAME=VALUE");
    refused(&["--start=x", "--ready=y", "--", "true"], "expected \"tcp:HOST:PORT\"");
    refused(&["--start=./no", "--ready=file:f", "--", "true"], "cannot start ./no");
    refused(&["--exit-code=0", "--", "true"], "0 is not in 1..=255");
}

#[test]
fn a_server_is_driven_when_it_is_ready_and_gone_at_the_end() {
    let Some(place) = Place::new() else { return };
    for ready in ["tcp:127.0.0.1:{port}", "line:listening on [0-9]+", "file:server.pid"] {
        let _ = std::fs::remove_file(place.path().join("server.pid"));
        let ready = format!("--ready={ready}");
        let drive = ["--", "./app", "drive", "{port}", "3", "0"];
        let ran = place.run(&[&[SERVE[0], SERVE[1], SERVE[2], &ready], &drive[..]].concat());
        assert_eq!(ran.status.code(), Some(0), "{ready}: {}", text(&ran.stderr));
        assert_eq!((text(&ran.stdout), text(&ran.stderr)), ("answered\n".into(), String::new()));
        assert!(!place.server_runs(), "{ready}");
    }
    // A server in the background, ended by a line of its own.
    let _ = std::fs::remove_file(place.path().join("server.pid"));
    let ran = place.run(&[
        "--program=app",
        "--start=sh -c '\"$PLANISH_BIN\" serve $PLANISH_PORT 1 & echo {port}'",
        SERVE[3],
        "--stop=kill $(cat server.pid) && echo stopped >> order",
        "--",
        "sh",
        "-c",
        "./app drive $PLANISH_PORT 2 0",
    ]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    assert_eq!((place.read("order").as_str(), place.server_runs()), ("stopped\n", false));
}

#[test]
fn a_server_that_does_not_listen_to_the_end_is_killed() {
    let Some(place) = Place::new() else { return };
    let start = "--start=./app serve {port} 1 deaf";
    let ran = place.run(&[start, SERVE[3], "--", "./app", "drive", "{port}", "1", "0"]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    assert!(!place.server_runs());
}

#[test]
fn a_server_that_fails_is_named_with_its_last_lines() {
    let Some(place) = Place::new() else { return };
    let refused = |arguments: &[&str], expected: &[&str]| {
        let ran = place.run(arguments);
        let said = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{said}");
        for words in expected {
            assert!(said.contains(words), "{words} in {said}");
        }
    };
    // Another one has the port: who answers would be measured.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (start, ready) =
        (format!("--start=./app serve {port} 1"), format!("--ready=tcp:127.0.0.1:{port}"));
    refused(&[&start, &ready, "--", "true"], &["somebody took connections at", "{port}"]);
    refused(
        &[&start, "--ready=line:listening", "--", "true"],
        &["serve", "ended with exit code 3 before it was ready", "| bind: "],
    );
    refused(
        &[
            "--start=./app serve {port} 1",
            "--ready=line:never said",
            "--ready-within=1",
            "--",
            "true",
        ],
        &["was not ready within 1 s", "waited for a line with \"never said\"", "| listening on"],
    );
    assert!(!place.server_runs());
    refused(
        &["--start=./app serve {port} crash", SERVE[3], "--", "./app", "drive", "{port}", "1", "0"],
        &["ended with exit code 7 while it was driven", "| out of luck"],
    );
    // A client that fails says so itself, and the server's last lines stand below.
    let ran = place.run(&[&SERVE[..], &["--", "sh", "-c", "exit 6"]].concat());
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(6), "{said}");
    assert!(said.contains("the server was") && said.contains("| listening on"), "{said}");
}

#[test]
fn only_the_program_is_measured() {
    let Some(place) = Place::new() else { return };
    let drive = |client: &'static str| ["--", "./app", "drive", "{port}", "40", client];
    let (_, alone) = place.measured(&[&SERVE[..], &drive("0")].concat());
    assert_eq!(
        (alone["schema"].as_str(), alone["version"].as_u64()),
        (Some("planish-used"), Some(1))
    );
    // Client, set-up and the server's start work ten times as much as the server.
    let (output, among) = place.measured(
        &[&SERVE[..], &["--set-up=./app work 400", "--tear-down=./app work 400"], &drive("400")]
            .concat(),
    );
    assert_eq!(text(&output.stdout), "answered\n");
    let ratio = cpu_ns(&among) / cpu_ns(&alone);
    assert!((0.2..5.0).contains(&ratio), "{ratio}: {alone} {among}");
    assert!(among["wall_ns"].as_u64() > alone["wall_ns"].as_u64(), "{alone} {among}");
    assert!(alone["max_rss_bytes"].as_u64().unwrap() > 100_000, "{alone}");
    // Without a server it is the command with its children.
    let (_, script) =
        place.measured(&["--set-up=./app work 400", "--", "sh", "-c", "./app work 40; true"]);
    let ratio = cpu_ns(&script) / cpu_ns(&alone);
    assert!((0.2..5.0).contains(&ratio), "{ratio}: {alone} {script}");
}

#[test]
fn who_is_interrupted_stops_the_server_and_tears_down() {
    let Some(place) = Place::new() else { return };
    let arguments = [
        &SERVE[..],
        &["--tear-down=echo down >> order", "--", "sh", "-c", "touch driven; exec sleep 600"],
    ]
    .concat();
    let mut running = place.command(&arguments).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while !place.path().join("driven").exists() {
        assert!(began.elapsed() < Duration::from_secs(120), "never driven");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = running.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(running.wait().unwrap().code(), Some(130));
    assert_eq!((place.read("order").as_str(), place.server_runs()), ("down\n", false));
}
