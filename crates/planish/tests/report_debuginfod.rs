//! Are files fetched by build ID from a real debuginfod, only if asked for, and kept for the next
//! time?

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const PLANISH: &str = env!("CARGO_BIN_EXE_planish");

fn planish(dir: &Path, words: &[&str], urls: &str) -> Output {
    let mut command = Command::new(PLANISH);
    command.env("HOME", dir.join("home")).env("DEBUGINFOD_URLS", urls);
    for proxy in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "XDG_CACHE_HOME"] {
        command.env_remove(proxy);
    }
    command.env_remove("DEBUGINFOD_CACHE_PATH").current_dir(dir).args(words);
    command.stdin(Stdio::null()).output().unwrap()
}

fn shell(dir: &Path, script: &str) -> String {
    let done = Command::new("sh").current_dir(dir).args(["-c", script]).output().unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// The real server, ended when dropped.
struct Server {
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves the files below `files`, as soon as it knows the build `id`; none where it is not here.
fn server(dir: &Path, files: &str, id: &str) -> Option<Server> {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let mut command = Command::new("debuginfod");
    command.current_dir(dir).env("HOME", dir).env_remove("DEBUGINFOD_URLS");
    command.args(["-p", &port, "-d", "known.sqlite", "-t", "1", "-F", files]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().ok()?;
    let server = Server { child, address: format!("http://127.0.0.1:{port}") };
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        let asked = TcpStream::connect(format!("127.0.0.1:{port}")).and_then(|mut stream| {
            let request = format!("GET /buildid/{id}/debuginfo HTTP/1.0\r\n\r\n");
            stream.write_all(request.as_bytes())?;
            let mut head = [0; 12];
            stream.read_exact(&mut head)?;
            Ok(head.ends_with(b"200"))
        });
        if asked.unwrap_or(false) {
            return Some(server);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("debuginfod does not serve {id}");
}

#[test]
fn a_program_that_is_gone_comes_from_a_server_if_the_user_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::create_dir(dir.join("home")).unwrap();
    let program = "static __attribute__((noinline)) long inner(long n) { long s = 0; \
                   for (long i = 0; i < n; i++) s += i ^ s; return s; }\n\
                   int main(void) { long s = 0; for (int i = 0; i < 3000; i++) s += inner(100000 + i); \
                   return s == 1; }\n";
    std::fs::write(dir.join("main.c"), program).unwrap();
    let id = shell(
        dir,
        "mkdir files && gcc -O1 -g -Wl,--build-id -o main main.c \
         && objcopy --only-keep-debug main files/main.debug && cp main whole && strip main \
         && readelf -n main | sed -n 's/.*Build ID: //p' | tr -d '\\n'",
    );
    let record =
        planish(dir, &["record", "-e", "cpu-clock", "-o", "perf.data", "--", "./main"], "");
    assert!(record.status.success(), "{}", String::from_utf8_lossy(&record.stderr));
    shell(dir, "mv main files/main");
    let Some(server) = server(dir, "files", &id) else {
        println!("skipped: debuginfod is not here");
        return;
    };
    let hot = |more: &[&str], urls: &str| {
        let words = [&["report", "hot"], more].concat();
        let done = planish(dir, &words, urls);
        (
            done.status.code(),
            String::from_utf8(done.stdout).unwrap(),
            String::from_utf8(done.stderr).unwrap(),
        )
    };
    // Nobody is asked by default, wherever servers are named.
    let (_, shown, notes) = hot(&[], &server.address);
    assert!(!shown.contains("inner") && notes.contains("it is gone"), "{shown}{notes}");
    assert!(!dir.join("home/.cache").exists());
    let (_, shown, notes) = hot(&["--debuginfod"], &server.address);
    assert!(shown.contains("inner") && !notes.contains("main: "), "{shown}{notes}");
    let cached = dir.join("home/.cache/debuginfod_client").join(&id);
    assert!(cached.join("executable").is_file() && cached.join("debuginfo").is_file());
    // Lines come with it, and the cache serves when the server is gone.
    let url = format!("--debuginfod={}", server.address);
    drop(server);
    let lines = planish(dir, &["report", "lines", "inner", &url], "");
    let lines = String::from_utf8(lines.stdout).unwrap();
    assert!(lines.contains("main.c:1"), "{lines}");
    // What nobody has is said, with the server's name.
    shell(dir, "rm -r home/.cache");
    let (_, shown, notes) = hot(&[&url], "");
    assert!(!shown.contains("inner") && notes.contains("http://127.0.0.1"), "{shown}{notes}");
    for (words, why) in
        [(&["--debuginfod"][..], "DEBUGINFOD_URLS"), (&["--debuginfod=ftp://x"], "http")]
    {
        let (code, _, said) = hot(words, "");
        assert!(code == Some(2) && said.contains(why), "{said}");
    }
}
