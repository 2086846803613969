//! What happens if the store, the way there or an object fails half way? Everything arrives once, or is
//! named, and the rest goes on.

use super::proxy::{Fate, Proxy};
use super::{Place, json};
use counts::{Branch, FirstHalf};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

#[test]
fn a_store_that_dies_in_mid_upload_has_every_shard_once_in_the_end() {
    let mut place = Place::with_shards(300);
    let line = "fleet upload spool --to s3://fleet/a --retry-for 60";
    let mut upload = place.command(place.server.port(), line).spawn().unwrap();
    let begun = Instant::now();
    while place.server.objects("a").len() < 5 {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing arrives");
        std::thread::sleep(Duration::from_millis(1));
    }
    place.server.kill();
    let arrived = place.server.objects("a").len();
    assert!(arrived < 300, "all were there already");
    std::thread::sleep(Duration::from_millis(500));
    assert!(upload.try_wait().unwrap().is_none(), "it waits for the store");
    place.server.start_again();
    assert!(upload.wait().unwrap().success());
    assert_eq!(place.server.objects("a").len(), 300);
    // A connection that is lost does not end the command; a reader that goes away does, quietly.
    let planish = env!("CARGO_BIN_EXE_planish");
    let script = format!("{planish} fleet show s3://fleet/a 2>said | head -c 1; cat said");
    let mut shell = std::process::Command::new("sh");
    let asked = place.command(place.server.port(), "");
    shell.envs(asked.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let shown = shell.current_dir(&place.folder).args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&shown.stdout).len(), 1, "{shown:?}");
    place.run("fleet merge s3://fleet/a -o all.counts", 0);
    assert!(place.bytes("all.counts") == place.bytes("sum.counts"));
}

#[test]
fn what_a_dead_store_does_not_take_stays_and_goes_the_next_time() {
    let mut place = Place::with_shards(20);
    place.run("fleet upload spool/1.counts --to s3://fleet/a --remove", 0);
    place.server.kill();
    let begun = Instant::now();
    let line = "fleet upload spool --to s3://fleet/a --remove --retry-for 1 --format json";
    let (out, told) = place.run(line, 1);
    let out = json(&out);
    assert_eq!((&out["failed"], &out["removed"]), (&19.into(), &0.into()), "{out}");
    assert!(told.contains("Connection refused") && told.contains("not tried, since"), "{told}");
    // Not as long as each of them would take.
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    place.server.start_again();
    place.run("fleet upload spool --to s3://fleet/a --remove", 0);
    assert_eq!(std::fs::read_dir(place.at("spool")).unwrap().count(), 0);
    place.run("fleet merge s3://fleet/a -o all.counts", 0);
    assert!(place.bytes("all.counts") == place.bytes("sum.counts"));
}

#[test]
fn a_store_that_fails_now_and_then_gives_the_same_result() {
    let place = Place::with_shards(20);
    let flaky = Proxy::before(place.server.port(), |_, number| match number % 4 {
        1 => Fate::Refuse(503),
        3 => Fate::Cut(0),
        _ => Fate::Pass,
    });
    place.run_at(flaky.port, "fleet upload spool --to s3://fleet/a --remove", 0);
    assert!(flaky.failed() > 10, "{}", flaky.failed());
    assert_eq!(place.server.objects("a").len(), 20);
    place.run_at(flaky.port, "fleet merge s3://fleet/a -o all.counts", 0);
    assert!(place.bytes("all.counts") == place.bytes("sum.counts"));
    // An answer that breaks off in its middle is gone on with.
    let cut = Proxy::before(place.server.port(), |line, number| {
        let is_object = line.starts_with("GET ") && line.contains(".counts");
        if is_object && number % 2 == 0 { Fate::Cut(900) } else { Fate::Pass }
    });
    place.run_at(cut.port, "fleet merge s3://fleet/a -o cut.counts", 0);
    assert!(cut.failed() > 3, "{}", cut.failed());
    assert!(place.bytes("cut.counts") == place.bytes("sum.counts"));
    // What never comes is named, and the rest merged; nothing counts twice once it does.
    let broken =
        Proxy::before(place.server.port(), |line, _| match line.contains("r%252F7.counts") {
            true => Fate::Refuse(503),
            false => Fate::Pass,
        });
    let line = "fleet merge s3://fleet/a -o part.counts --retry-for 1 --format json";
    let (out, told) = place.run_at(broken.port, line, 1);
    let out = json(&out);
    assert_eq!((&out["files"], &out["merged"]), (&20.into(), &19.into()), "{out}");
    assert_eq!(out["rejected"][0]["path"], "s3://fleet/a/r%2F7.counts");
    assert!(
        told.contains("rejected: s3://fleet/a/r%2F7.counts: it answers with status 503")
            && told.contains("SlowDown"),
        "{told}"
    );
    let strict = "fleet merge s3://fleet/a -o strict.counts --retry-for 1 --strict";
    place.run_at(broken.port, strict, 2);
    assert!(!place.at("strict.counts").exists());
    let (_, told) = place.run("fleet merge part.counts s3://fleet/a -o whole.counts", 0);
    assert!(told.contains("duplicate"), "{told}");
    assert!(place.bytes("whole.counts") == place.bytes("sum.counts"));
    // A result that cannot be put leaves what was there.
    std::fs::create_dir_all(place.server.object("sums")).unwrap();
    std::fs::write(place.server.object("sums/all.counts"), "before").unwrap();
    let closed = Proxy::before(place.server.port(), |line, _| match line.starts_with("PUT ") {
        true => Fate::Refuse(500),
        false => Fate::Pass,
    });
    let line = "fleet merge s3://fleet/a -o s3://fleet/sums/all.counts --retry-for 1";
    let (_, told) = place.run_at(closed.port, line, 2);
    assert!(told.contains("status 500"), "{told}");
    assert_eq!(std::fs::read(place.server.object("sums/all.counts")).unwrap(), b"before");
}

#[test]
fn damaged_objects_are_named_and_put_right_by_their_host() {
    let place = Place::with_shards(6);
    place.run("fleet upload spool --to s3://fleet/a", 0);
    let object = |name: &str| {
        std::fs::File::options()
            .write(true)
            .open(place.server.object(&format!("a/{name}")))
            .unwrap()
    };
    let bytes = object("r%2F1.counts").metadata().unwrap().len();
    object("r%2F1.counts").set_len(bytes - 100).unwrap();
    // The same size, and a bit that is another one: only its hash tells.
    object("r%2F2.counts").write_at(b"~", bytes / 2).unwrap();
    // What another program put there.
    std::fs::write(place.server.object("a/foreign.counts"), "PAR1").unwrap();
    let (out, told) = place.run("fleet merge s3://fleet/a -o part.counts --format json", 1);
    let out = json(&out);
    assert_eq!((&out["files"], &out["merged"]), (&7.into(), &4.into()), "{out}");
    for name in ["r%2F1.counts", "r%2F2.counts", "foreign.counts"] {
        assert!(told.contains(&format!("rejected: s3://fleet/a/{name}: ")), "{name}: {told}");
    }
    assert!(told.contains("not those that were put there"), "{told}");
    // The host has them still: what is shorter is another content.
    let (_, told) = place.run("fleet upload spool --to s3://fleet/a --remove", 1);
    assert!(told.contains("differs: spool/1.counts") && told.contains("--replace"), "{told}");
    assert!(place.at("spool/1.counts").exists() && !place.at("spool/0.counts").exists());
    place.run("fleet upload spool --to s3://fleet/a --remove --replace", 0);
    std::fs::remove_file(place.server.object("a/foreign.counts")).unwrap();
    let (_, told) = place.run("fleet merge s3://fleet/a -o part.counts", 1);
    assert!(told.contains("r%2F2.counts") && !told.contains("r%2F1.counts"), "{told}");
    let whole = place.run("fleet show s3://fleet/a", 1).1;
    assert!(whole.contains("rejected: s3://fleet/a/r%2F2.counts"), "{whole}");
}

#[test]
fn a_large_shard_goes_in_parts_and_is_whole_or_not_there() {
    let mut place = Place::with_shards(0);
    // Rows that do not pack well, of more than two parts.
    let mut state = 1u64;
    let mut next = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 12
    };
    let rows: BTreeMap<(u64, u64), u64> =
        (0..1_200_000).map(|_| ((next(), next()), next() % 1000 + 1)).collect();
    let path = place.at("run.counts");
    let mut counts = counts::artefact::read(&path, std::fs::File::open(&path).unwrap()).unwrap();
    let address = |at: u64| Some(image::ImageAddr(at));
    let branch = |((from, to), count)| Branch {
        from: address(from),
        to: address(to),
        count,
        mispredicted: 0,
    };
    counts.images[0].branches = rows.into_iter().map(branch).collect();
    counts.images[0].first_half = FirstHalf::default();
    // That of the real recording has fewer.
    counts.ledger = counts::Ledger::default();
    place.shard("large.counts", "large", &counts);
    let bytes = place.at("large.counts").metadata().unwrap().len();
    assert!(bytes > 16 << 20, "{bytes}");
    let line = "fleet upload large.counts --to s3://fleet/a --retry-for 60";
    let mut upload = place.command(place.server.port(), line).spawn().unwrap();
    let begun = Instant::now();
    // The parts lie beside the bucket until they are an object.
    let parts = |place: &Place| {
        let names = std::fs::read_dir(place.at("store")).unwrap();
        names
            .filter(|name| name.as_ref().unwrap().file_name().to_string_lossy().contains("part-1"))
            .count()
    };
    while parts(&place) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "no part arrives");
        std::thread::sleep(Duration::from_millis(1));
    }
    place.server.kill();
    assert_eq!(place.server.objects("a"), Vec::<String>::new());
    place.server.start_again();
    assert!(upload.wait().unwrap().success());
    let object = std::fs::read(place.server.object("a/large.counts")).unwrap();
    assert!(object == place.bytes("large.counts"));
    place.run("fleet merge s3://fleet/a -o all.counts", 0);
    place.run("fleet merge large.counts -o sum.counts", 0);
    assert!(place.bytes("all.counts") == place.bytes("sum.counts"));
}
