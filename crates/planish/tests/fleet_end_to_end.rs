//! From many hosts to one profile: a recording, a fleet made of it, its shards uploaded to a store of S3's
//! protocol, merged from there by planish and by Spark, a profile that clang takes, and the page that
//! says whether it is enough.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics fails")]

#[allow(dead_code, reason = "other tests end it and start it again")]
#[path = "fleet_stores/server.rs"]
mod server;

use serde_json::Value;
use server::{BUCKET, KEY, SECRET, Server};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

struct Place {
    folder: tempfile::TempDir,
    server: Server,
}

impl Place {
    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    #[track_caller]
    fn run(&self, line: &str, code: i32) -> (String, String) {
        let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
        planish.env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.server.port()));
        planish.env("AWS_ALLOW_HTTP", "true").env("AWS_REGION", "us-east-1");
        planish.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
        for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy"] {
            planish.env_remove(name);
        }
        planish.current_dir(&self.folder).args(line.split_whitespace()).stdin(Stdio::null());
        let output = planish.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let out = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{line}: {told}{out}");
        (String::from_utf8_lossy(&output.stdout).into_owned(), told)
    }
}

/// Python with Spark, where `make test` has put it and there is a Java.
fn spark() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let python = std::path::absolute(target.join("engines/bin/python")).unwrap();
    let java = Command::new("java").arg("-version").stderr(Stdio::null()).status();
    (python.is_file() && java.is_ok_and(|status| status.success())).then_some(python)
}

#[test]
fn a_fleet_becomes_a_profile_by_way_of_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("store"));
    let place = Place { folder, server };
    let here = place.folder.path();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/calls.c");
    std::fs::copy(source, place.at("calls.c")).unwrap();
    let clang = |options: &[&str]| {
        let mut clang = Command::new("clang-22");
        clang.current_dir(here).args(["-O2", "-gmlt", "-fdebug-info-for-profiling"]);
        clang.args(["-Wl,--build-id=sha1"]).args(options).arg("calls.c").output()
    };
    match clang(&["-o", "calls"]) {
        Ok(built) => assert!(built.status.success()),
        Err(error) => {
            println!("skipped: clang-22: {error}");
            return;
        }
    }
    // A real recording, and a fleet of hosts that run the same.
    place.run("record --branches=software -c 100000 -o perf.data -- ./calls", 0);
    place.run("aggregate perf.data -o real.counts", 0);
    let line = "fleet simulate real.counts --hosts 24 --recordings 3 --share 100 --skew 0.3 --duplicates 10 --into spool";
    place.run(line, 0);
    // Into the store, twice; a shard is one object whatever its file is called.
    place.run(&format!("fleet upload spool --to s3://{BUCKET}/calls"), 0);
    place.run(&format!("fleet upload spool --to s3://{BUCKET}/calls"), 0);
    assert_eq!(place.server.objects("calls").len(), 24 * 3);
    // Merged from the store as from the files.
    place.run(&format!("fleet merge s3://{BUCKET}/calls -o all.counts"), 0);
    place.run("fleet merge spool -o local.counts", 0);
    let bytes = |name: &str| std::fs::read(place.at(name)).unwrap();
    assert_eq!(bytes("all.counts"), bytes("local.counts"));
    match spark() {
        None => println!("skipped: Spark: make test installs it"),
        Some(python) => {
            // The store keeps objects as files, which Spark reads without a connector of its own.
            let objects = place.server.object("calls");
            let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fleet/spark/src");
            let mut merge = Command::new(python);
            merge.env("PYTHONPATH", package).env("PYTHONDONTWRITEBYTECODE", "1");
            merge.current_dir(here).stdin(Stdio::null());
            merge.args(["-m", "planish_spark", "merge"]).arg(objects);
            let done = merge.args(["-o", "spark.counts"]).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            place.run("fleet merge spark.counts -o again.counts", 0);
            assert_eq!(bytes("all.counts"), bytes("again.counts"));
        }
    }
    // A profile that clang takes.
    place.run(&format!("fleet profile s3://{BUCKET}/calls --for calls -o calls.afdo"), 0);
    let built =
        clang(&["-fprofile-sample-use=calls.afdo", "-Wall", "-Werror", "-o", "faster"]).unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut show = Command::new("llvm-profdata-22");
    let shown = show.current_dir(here).args(["show", "--sample", "calls.afdo"]).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("Function: "));
    // And what it rests on.
    let line =
        format!("fleet status s3://{BUCKET}/calls --for calls --page status.html --format json");
    let (told, _) = place.run(&line, 0);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["enough"], &told["merged"]["recordings"]), (&true.into(), &72.into()));
    let page = std::fs::read_to_string(place.at("status.html")).unwrap();
    assert!(page.contains("calls: enough") && page.contains("Classes of hosts"), "{page}");
}
