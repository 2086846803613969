//! Shards in object stores: are they there once, come back the same, and is what fails told and tried
//! again? With a real server of S3's protocol in another process.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics fails")]

#[path = "fleet_stores/failing.rs"]
mod failing;
#[path = "fleet_stores/programs.rs"]
mod programs;
#[path = "fleet_stores/proxy.rs"]
mod proxy;
#[path = "fleet_stores/server.rs"]
mod server;

use counts::{Counts, artefact};
use fleet::Recording;
use serde_json::Value;
use server::{BUCKET, KEY, SECRET, Server};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/autofdo").join(name);
    path.display().to_string()
}

/// A directory with shards and a store.
struct Place {
    folder: tempfile::TempDir,
    server: Server,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(&folder.path().join("store"));
        Place { folder, server }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.at(name)).unwrap()
    }

    /// planish, which asks the store at a port.
    fn command(&self, port: u16, line: &str) -> Command {
        let line = line.replace("@binary", &fixture("test.binary"));
        let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
        let ours = |name: &str| {
            let upper = name.to_ascii_uppercase();
            ["AWS_", "GOOGLE_", "DEBUGINFOD_"].iter().any(|begin| upper.starts_with(begin))
                || upper.ends_with("_PROXY")
        };
        for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
            planish.env_remove(name);
        }
        planish.env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}"));
        planish.env("AWS_ALLOW_HTTP", "true").env("AWS_REGION", "us-east-1");
        planish.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
        planish.env("HOME", self.folder.path()).env("TMPDIR", self.folder.path());
        planish.current_dir(&self.folder).args(line.split_whitespace()).stdin(Stdio::null());
        planish
    }

    /// Runs it; what it prints and says.
    #[track_caller]
    fn run_at(&self, port: u16, line: &str, code: i32) -> (String, String) {
        finished(&mut self.command(port, line), line, code)
    }

    #[track_caller]
    fn run(&self, line: &str, code: i32) -> (String, String) {
        self.run_at(self.server.port(), line, code)
    }

    /// Shards of so many hosts in the directory `spool`, and their sum in `sum.counts`.
    fn with_shards(number: u64) -> Place {
        let place = Place::new();
        let line = format!("aggregate {} --binary @binary -o run.counts", fixture("test.lbr"));
        place.run(&line, 0);
        let counts = artefact::read(
            &place.at("run.counts"),
            std::fs::File::open(place.at("run.counts")).unwrap(),
        );
        let counts = counts.unwrap();
        std::fs::create_dir(place.at("spool")).unwrap();
        for host in 0..number {
            place.shard(&format!("spool/{host}.counts"), &format!("r/{host}"), &counts);
        }
        if number > 0 {
            place.run("fleet merge spool -o sum.counts", 0);
        }
        place
    }

    /// Writes a shard with the ID of a recording.
    fn shard(&self, name: &str, id: &str, counts: &Counts) {
        let recording = Recording {
            id: id.to_owned(),
            host: format!("host of {id}"),
            architecture: "x86_64".to_owned(),
            begin: Some(1_700_000_000),
            end: Some(1_700_000_005),
            source: "hardware-branches".to_owned(),
            ..Recording::default()
        };
        let path = self.at(name);
        fleet::write(&path, counts, recording, std::fs::File::create(&path).unwrap()).unwrap();
    }
}

#[track_caller]
fn finished(planish: &mut Command, line: &str, code: i32) -> (String, String) {
    let output = planish.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{line}: {told}");
    (String::from_utf8_lossy(&output.stdout).into_owned(), told)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn shards_in_a_bucket_add_up_to_the_same_bytes_as_those_in_a_directory() {
    let place = Place::with_shards(10);
    let (out, told) = place.run("fleet upload spool --to s3://fleet/web --format json", 0);
    let out = json(&out);
    assert_eq!((&out["schema"], &out["uploaded"]), (&"planish-fleet-upload".into(), &10.into()));
    assert_eq!(out["files"][0]["object"], "s3://fleet/web/r%2F0.counts");
    assert!(told.contains("uploaded 10 of 10 shards"), "{told}");
    let objects = place.server.objects("web");
    assert_eq!(objects.len(), 10, "{objects:?}");
    // A bucket has other things, too.
    for other in ["web/notes.txt", "web2/x.counts", "other/y.counts", "web/.new.counts"] {
        std::fs::create_dir_all(place.server.object(other).parent().unwrap()).unwrap();
        std::fs::write(place.server.object(other), "no counts").unwrap();
    }
    for (input, name) in [
        ("s3://fleet/web", "all"),
        ("s3://fleet/web/", "folder"),
        ("s3://fleet/web/r%2F?.counts", "pattern"),
        ("s3://fleet/we?/ s3://fleet/web/r%2F3.counts", "twice"),
    ] {
        let input = input.replace("we?/", "w*b/*F*");
        let (_, told) = place.run(&format!("fleet merge {input} -o {name}.counts"), 0);
        assert!(told.contains("merged 10 of 10 files: 10 recordings"), "{told}");
        assert!(told.contains("fetched 10 objects"), "{told}");
        assert!(place.bytes(&format!("{name}.counts")) == place.bytes("sum.counts"), "{input}");
    }
    // Whatever is delivered twice counts once, and is called by its address.
    let (_, told) = place.run("fleet merge s3://fleet/web spool -o both.counts", 0);
    let twice = told.contains("duplicate: s3://fleet/web/r%2F0.counts: ")
        || told.contains("counts already, in s3://fleet/web/r%2F0.counts");
    assert!(twice && !told.contains("planish-"), "{told}");
    assert!(place.bytes("both.counts") == place.bytes("sum.counts"));
    // Results go there, too, and nothing is left behind here.
    place.run("fleet merge s3://fleet/web -o s3://fleet/sums/all.counts", 0);
    assert!(
        std::fs::read(place.server.object("sums/all.counts")).unwrap() == place.bytes("sum.counts")
    );
    let line = "fleet profile s3://fleet/sums/all.counts --for @binary -o s3://fleet/app.afdo";
    place.run(line, 0);
    place.run("fleet profile spool --for @binary -o app.afdo", 0);
    assert_eq!(std::fs::read(place.server.object("app.afdo")).unwrap(), place.bytes("app.afdo"));
    let (out, _) = place.run("fleet show s3://fleet/sums --format json", 0);
    let shown = json(&out);
    assert_eq!(shown["shards"][0]["path"], "s3://fleet/sums/all.counts");
    assert_eq!(shown["shards"][0]["recordings"].as_array().unwrap().len(), 10);
    let (_, told) = place.run("fleet merge s3://fleet/sums -o s3://fleet/sums/all.counts", 2);
    assert!(told.contains("is one of the inputs"), "{told}");
    let left: Vec<_> = std::fs::read_dir(&place.folder)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains("planish-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let (_, told) = place.run("fleet merge s3://fleet/web -o x.counts --disk 1", 0);
    assert!(told.contains("fetched"), "{told}");
    let whole = std::fs::File::options().write(true).open(place.server.object("other/y.counts"));
    whole.unwrap().set_len(5 << 20).unwrap();
    let (_, told) = place.run("fleet merge s3://fleet/other -o y.counts --disk 1", 2);
    assert!(told.contains("have 5 MiB") && told.contains("--disk 5"), "{told}");
}

#[test]
fn a_shard_that_is_uploaded_again_is_the_same_object() {
    let place = Place::with_shards(3);
    place.run("fleet upload spool --to s3://fleet/a", 0);
    let (out, _) = place.run("fleet upload spool --to s3://fleet/a/ --format json", 0);
    let out = json(&out);
    assert_eq!((&out["uploaded"], &out["present"]), (&0.into(), &3.into()), "{out}");
    // From another host, under another name, and both at once.
    for copy in ["spool/again.counts", "once-more.counts"] {
        std::fs::copy(place.at("spool/0.counts"), place.at(copy)).unwrap();
    }
    // What a collector has not finished, and what is none.
    std::fs::write(place.at("spool/.open.counts"), "half").unwrap();
    std::fs::write(place.at("spool/notes.txt"), "none").unwrap();
    let line = "fleet upload spool once-more.counts --to s3://fleet/a --remove --format json";
    let (out, told) = place.run(line, 0);
    let out = json(&out);
    assert_eq!((&out["present"], &out["removed"]), (&5.into(), &5.into()), "{out}");
    assert!(told.contains("removed 5 here"), "{told}");
    assert_eq!(place.server.objects("a").len(), 3);
    let mut left: Vec<_> = std::fs::read_dir(place.at("spool"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, [".open.counts", "notes.txt"]);
    let (_, told) = place.run("fleet upload spool --to s3://fleet/a", 0);
    assert!(told.contains("uploaded 0 of 0 shards"), "{told}");
    place.run("fleet merge s3://fleet/a -o all.counts", 0);
    assert!(place.bytes("all.counts") == place.bytes("sum.counts"));
    // A sum has the recordings of several, and is one object, too.
    for _ in 0..2 {
        place.run("fleet upload all.counts --to s3://fleet/sums", 0);
    }
    assert_eq!(place.server.objects("sums").len(), 1);
}

#[test]
fn what_cannot_be_asked_says_what_to_set() {
    let place = Place::with_shards(1);
    let port = place.server.port();
    let merge = "fleet merge s3://fleet/a -o x.counts --retry-for 1";
    let upload = "fleet upload spool --to s3://fleet/a --retry-for 1";
    let without = |names: &[&str], line: &str| {
        let mut planish = place.command(port, line);
        planish.env("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1");
        names.iter().for_each(|name| {
            planish.env_remove(name);
        });
        finished(&mut planish, line, 2).1
    };
    for line in [merge, upload] {
        let told = without(&["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"], line);
        assert!(told.contains("no credentials") && told.contains("AWS_ACCESS_KEY_ID"), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        let told = without(&["AWS_SECRET_ACCESS_KEY"], line);
        assert!(told.contains("AWS_SECRET_ACCESS_KEY"), "{told}");
        let told = without(&["AWS_ALLOW_HTTP"], line);
        assert!(told.contains("AWS_ALLOW_HTTP=true"), "{told}");
        let wrong = finished(place.command(port, line).env("AWS_SECRET_ACCESS_KEY", "no"), line, 2);
        assert!(wrong.1.contains("check the credentials"), "{}", wrong.1);
        assert_eq!(wrong.1.lines().count(), 1, "{}", wrong.1);
    }
    let line = "fleet merge gs://fleet/a -o x.counts";
    let told = finished(place.command(port, line).env("GCE_METADATA_IP", "127.0.0.1:1"), line, 2).1;
    assert!(told.contains("GOOGLE_APPLICATION_CREDENTIALS") && told.lines().count() == 1, "{told}");
    for (line, why) in [
        ("fleet merge s3://fleet/none -o x", "no object of that name"),
        ("fleet merge s3://fleet/none/*.counts -o x", "no object fits"),
        ("fleet merge s3://nobody/a -o x", "NoSuchBucket"),
        ("fleet merge s3:///a -o x", "the name of a bucket"),
        ("fleet merge spool -o s3://fleet/a/", "names no object"),
        ("fleet upload spool --to spool", "expected s3://"),
        ("fleet upload s3://fleet/a --to s3://fleet/b", "is in a store already"),
        ("fleet upload none --to s3://fleet/b", "there is no such file"),
        ("fleet merge spool -o x --retry-for 1d", "up to 10m"),
    ] {
        let (_, told) = place.run(line, 2);
        assert!(told.contains(why) && !place.at("x").exists(), "{line}: {told}");
    }
    assert_eq!(place.server.objects(".").len(), 0);
    assert_eq!(BUCKET, "fleet");
}
