//! Is only what was asked for kept, whatever a server answers, and does every answer end?

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use debuginfod::{Client, Kind, Settings};
use image::{BuildId, Image};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A server that answers each request by `answer`, which is told its path.
fn server(answer: impl Fn(&str, &mut TcpStream) + Send + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let Some(Ok(first)) = lines.next() else { continue };
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            count.fetch_add(1, Ordering::SeqCst);
            answer(first.split(' ').nth(1).unwrap_or_default(), &mut stream);
        }
    });
    (address, asked)
}

fn send(stream: &mut TcpStream, head: &str, body: &[u8]) {
    let _ = stream.write_all(format!("HTTP/1.1 {head}\r\nConnection: close\r\n\r\n").as_bytes());
    let _ = stream.write_all(body);
}

fn client(servers: &[&str], cache: &Path) -> Client {
    let servers = servers.iter().map(|server| (*server).to_owned()).collect();
    let usual = Settings::usual(servers, cache.to_owned());
    let (patience, whole) = (Duration::from_millis(700), Duration::from_secs(20));
    Client::new(Settings { most_bytes: 1 << 20, patience, whole, ..usual })
}

/// A program with this build ID.
fn program(dir: &Path, id: &str) -> Vec<u8> {
    std::fs::write(dir.join("a.s"), ".globl _start\n_start: ret\n").unwrap();
    let mut gcc = std::process::Command::new("gcc");
    let id = format!("-Wl,--build-id=0x{id}");
    let built = gcc.current_dir(dir).args(["-nostdlib", "-static", &id, "-o", "a", "a.s"]).status();
    assert!(built.unwrap().success());
    std::fs::read(dir.join("a")).unwrap()
}

const ID: &str = "00112233445566778899aabbccddeeff00112233";

fn kept(cache: &Path) -> Vec<PathBuf> {
    let below = std::fs::read_dir(cache.join(ID));
    below.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn the_right_file_is_kept_and_not_asked_for_again() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, id) = (program(dir.path(), ID), ID.parse::<BuildId>().unwrap());
    let (none, asked_none) = server(|_, stream| send(stream, "404 Not Found", b""));
    let (address, asked) = server(move |path, stream| {
        assert_eq!(path, format!("/buildid/{ID}/executable"));
        send(stream, &format!("200 OK\r\nContent-Length: {}", bytes.len()), &bytes);
    });
    let cache = dir.path().join("cache");
    let find = |kind| client(&[&none, &address], &cache).find(&id, kind, &|_, _| ());
    let place = find(Kind::Executable).unwrap();
    assert_eq!(place, cache.join(ID).join("executable"));
    assert_eq!(Image::open(&place).unwrap().build_id(), Some(&id));
    assert_eq!(find(Kind::Executable).unwrap(), place);
    let counts = [asked_none, asked].map(|asked| asked.load(Ordering::SeqCst));
    assert_eq!(counts, [1, 1], "the second time it lies in the cache");
}

#[test]
fn bad_answers_are_refused_with_their_reason_and_nothing_of_them_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let other = program(dir.path(), &"ab".repeat(20));
    let id = ID.parse::<BuildId>().unwrap();
    type Answer = Box<dyn Fn(&str, &mut TcpStream) + Send>;
    let cases: Vec<(&str, usize, Answer)> = vec![
        ("a file of another build", 1, Box::new(move |_, to| send(to, "200 OK", &other))),
        ("no ELF file", 1, Box::new(|_, to| send(to, "200 OK", b"<html>hello</html>"))),
        ("it sends more than 1 MiB", 1, Box::new(|_, to| send(to, "200 OK", &[7; 3 << 20]))),
        (
            "it sends more than 1 MiB",
            1,
            Box::new(|_, to| send(to, "200 OK\r\nContent-Length: 99999999999", b"")),
        ),
        // Again and again, until the client has had enough: four redirects.
        (
            "it redirects in a circle",
            5,
            Box::new(|path, to| send(to, &format!("302 Found\r\nLocation: {path}"), b"")),
        ),
        ("status 503", 3, Box::new(|_, to| send(to, "503 Busy", b""))),
        ("status 403", 1, Box::new(|_, to| send(to, "403 Forbidden", b""))),
        ("", 3, Box::new(|_, to| send(to, "200 OK\r\nContent-Length: 1000", b"\x7fELF"))),
        ("", 3, Box::new(|_, to| drop(to.write_all(b"no HTTP at all\r\n\r\n")))),
        // It never says anything: the connection stays open in another thread.
        (
            "timeout",
            3,
            Box::new(|_, to| {
                let silent = to.try_clone().unwrap();
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_secs(30));
                    drop(silent);
                });
            }),
        ),
    ];
    for (why, times, answer) in cases {
        let (address, asked) = server(answer);
        let cache = dir.path().join("cache");
        let client = client(&[&address], &cache);
        let said = client.find(&id, Kind::Executable, &|_, _| ()).unwrap_err().to_string();
        assert!(
            said.contains(why) && said.contains(&address) && said.contains(ID),
            "{why}: {said}"
        );
        assert_eq!(asked.load(Ordering::SeqCst), times, "{why}: {said}");
        assert!(kept(&cache).is_empty(), "{why}: {:?}", kept(&cache));
        // Once is enough in one command.
        assert!(client.find(&id, Kind::Executable, &|_, _| ()).is_err());
        assert_eq!(asked.load(Ordering::SeqCst), times, "{why}");
    }
}
