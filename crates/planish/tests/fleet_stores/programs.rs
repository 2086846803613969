//! Are programs of other builds found in a bucket, or on a debuginfod server, by their build ID?

use super::{Place, json};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Two builds of a program, recorded; the place and their build IDs.
fn two_builds() -> (Place, [String; 2]) {
    let place = Place::new();
    let source = include_str!("../programs/calls.c");
    let ids =
        [("old", source.to_owned()), ("new", format!("\n\n\n{source}"))].map(|(name, text)| {
            std::fs::create_dir(place.at(name)).unwrap();
            std::fs::write(place.at(name).join("calls.c"), text).unwrap();
            let script = "gcc -O2 -g -Wl,--build-id=sha1 -o calls calls.c && cp calls whole \
                      && objcopy --only-keep-debug calls calls.debug && strip calls \
                      && objcopy --add-gnu-debuglink=calls.debug calls \
                      && readelf -n calls | sed -n 's/.*Build ID: //p' | tr -d '\\n'";
            let mut shell = Command::new("sh");
            let made = shell.args(["-c", script]).current_dir(place.at(name)).output().unwrap();
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            place.run(&format!("record -c 1000000 -o {name}/perf.data -- {name}/calls"), 0);
            place.run(&format!("fleet shard {name}/perf.data --into spool --host {name}"), 0);
            String::from_utf8(made.stdout).unwrap()
        });
    (place, ids)
}

fn fates(told: &str) -> Vec<String> {
    let told = json(told);
    let builds = told["builds"].as_array().unwrap().clone();
    let fate = |build: &serde_json::Value| build["fate"].as_str().unwrap().to_owned();
    let mut fates: Vec<String> = builds.iter().map(fate).collect();
    fates.sort();
    fates
}

#[test]
fn programs_of_all_builds_lie_in_a_bucket() {
    let (place, [old, _]) = two_builds();
    let store = "--store s3://fleet/programs";
    let line = format!("fleet binaries add old/calls new/calls {store} --format json");
    let out = json(&place.run(&line, 0).0);
    assert_eq!(out["schema"], "planish-fleet-binaries");
    let (first, rest) = old.split_at(2);
    let object = format!("programs/.build-id/{first}/{rest}");
    assert_eq!(out["binaries"][0]["path"], format!("s3://fleet/{object}"));
    assert_eq!(out["binaries"][0]["debug_file"], format!("s3://fleet/{object}.debug"));
    let stored = |object: &str| std::fs::read(place.server.object(object)).unwrap();
    assert_eq!(stored(&object), place.bytes("old/calls"));
    assert_eq!(stored(&format!("{object}.debug")), place.bytes("old/calls.debug"));
    let found = place.run(&format!("fleet binaries find {old} {store}"), 0).0;
    assert_eq!(found, format!("s3://fleet/{object}\n"));
    let (_, said) = place.run(&format!("fleet binaries find {old} 0123456789 {store}"), 1);
    assert!(said.contains("0123456789: not in s3://fleet/programs"), "{said}");
    let line = "fleet profile spool --for new/calls -o app.afdo --format json";
    let (told, said) = place.run(line, 1);
    assert_eq!(fates(&told), ["left-out", "newest"], "{said}");
    // With its debug file, which nothing here has any longer.
    std::fs::remove_dir_all(place.at("old")).unwrap();
    let (told, said) = place.run(&format!("{line} --binaries s3://fleet/programs"), 0);
    assert_eq!(fates(&told), ["matched", "newest"], "{said}");
    // Another program under its name is none of it.
    std::fs::copy(place.at("new/calls"), place.server.object(&object)).unwrap();
    let (told, said) = place.run(&format!("{line} --binaries s3://fleet/programs"), 1);
    assert_eq!(fates(&told), ["left-out", "newest"], "{said}");
}

/// A real debuginfod, ended when dropped.
struct Debuginfod(Child);

impl Drop for Debuginfod {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_debuginfod_server_has_what_no_store_has() {
    let (place, [old, _]) = two_builds();
    // Of two programs with one build ID, the server would give either.
    std::fs::remove_file(place.at("old/whole")).unwrap();
    std::fs::rename(place.at("old"), place.at("served")).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = Command::new("debuginfod");
    server.current_dir(&place.folder).env("HOME", place.at("served")).env_remove("DEBUGINFOD_URLS");
    server.args(["-p", &port.to_string(), "-d", "known.sqlite", "-t", "1", "-F", "served"]);
    server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _server = match server.spawn() {
        Ok(server) => Debuginfod(server),
        Err(error) => {
            println!("skipped: debuginfod: {error}");
            return;
        }
    };
    let has = |kind: &str| -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        write!(stream, "GET /buildid/{old}/{kind} HTTP/1.0\r\n\r\n")?;
        let mut head = [0; 12];
        stream.read_exact(&mut head)?;
        Ok(head.ends_with(b"200"))
    };
    let begun = Instant::now();
    while !["executable", "debuginfo"].iter().all(|kind| has(kind).unwrap_or(false)) {
        assert!(begun.elapsed() < Duration::from_secs(60), "debuginfod does not serve {old}");
        std::thread::sleep(Duration::from_millis(100));
    }
    let line = "fleet profile spool --for new/calls -o app.afdo --format json";
    assert_eq!(fates(&place.run(line, 1).0), ["left-out", "newest"]);
    let asked = format!("--debuginfod=http://127.0.0.1:{port}");
    let (told, said) = place.run(&format!("{line} --binaries s3://fleet/none {asked}"), 0);
    assert_eq!(fates(&told), ["matched", "newest"], "{said}");
    let find = format!("fleet binaries find {old} --store s3://fleet/none");
    place.run(&find, 1);
    let found = place.run(&format!("{find} {asked}"), 0).0;
    assert_eq!(std::fs::read(found.trim()).unwrap(), place.bytes("served/calls"));
}
