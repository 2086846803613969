//! Are archives of every packing read, by tar's own word, and do hostile ones end in an error?

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use archives::{Error, Packing, Skipped, Writer, read};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

fn shell(dir: &Path, script: &str) {
    let done = Command::new("sh").current_dir(dir).args(["-c", script]).output().unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
}

fn all(bytes: &[u8]) -> Result<(BTreeMap<String, Vec<u8>>, Skipped), Error> {
    let packing = Packing::of(bytes).expect("a packing");
    let mut found = BTreeMap::new();
    let skipped = read(bytes, packing, bytes.len() as u64, &mut |member, stream| {
        let mut content = Vec::new();
        stream.read_to_end(&mut content)?;
        assert_eq!(content.len() as u64, member.bytes);
        found.insert(member.path.to_str().unwrap().to_owned(), content);
        Ok(())
    })?;
    Ok((found, skipped))
}

#[test]
fn archives_of_tar_are_read_in_every_packing_and_links_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let long = "d/".repeat(70);
    let script = format!(
        "mkdir -p in/{long} in/.build-id/ab && echo text > in/{long}a && echo other > in/b \
         && ln -s /etc/passwd in/.build-id/ab/cd && mkfifo in/pipe && tar cf plain -C in . \
         && tar --format=pax -cf pax -C in . \
         && gzip -k plain && bzip2 -k plain && xz -k plain && zstd -q plain"
    );
    shell(dir.path(), &script);
    for name in ["plain", "pax", "plain.gz", "plain.bz2", "plain.xz", "plain.zst"] {
        let (found, skipped) = all(&std::fs::read(dir.path().join(name)).unwrap()).unwrap();
        let wanted = BTreeMap::from([
            (format!("{long}a"), b"text\n".to_vec()),
            ("b".to_owned(), b"other\n".to_vec()),
        ]);
        assert_eq!(found, wanted, "{name}");
        assert_eq!(skipped, Skipped { links: 1, special: 1 }, "{name}");
    }
    assert_eq!(Packing::of(b"PERFILE2 and more"), None);
}

fn written(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for (path, content) in files {
        writer.add(Path::new(path), content.len() as u64, *content).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn what_is_written_is_read_by_tar_and_here() {
    let long = "x/".repeat(100) + "end";
    let files = [("a/b", &b"one"[..]), (long.as_str(), b"two")];
    let bytes = written(&files);
    assert_eq!(bytes, written(&files), "the same files give the same bytes");
    let (found, _) = all(&bytes).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(found[&long], b"two");
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("made.tar.zst"), &bytes).unwrap();
    shell(dir.path(), "tar xf made.tar.zst && test \"$(cat a/b)\" = one");
    let mut writer = Writer::new(Vec::new()).unwrap();
    let short = writer.add(Path::new("a"), 10, &b"only"[..]).unwrap_err();
    assert!(short.to_string().contains("shorter"), "{short}");
}

/// A tar file with one member of that name, however wrong.
fn named(name: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.as_mut_bytes()[..name.len()].copy_from_slice(name);
    header.set_size(0);
    header.set_cksum();
    [&header.as_bytes()[..], &[0; 1024]].concat()
}

#[test]
fn hostile_archives_end_in_an_error() {
    for name in [&b"../a"[..], b"/etc/passwd", b"a/../../b"] {
        let said = all(&named(name)).unwrap_err().to_string();
        assert!(said.contains("leads out of the archive"), "{said}");
    }
    assert!(all(&named(b"./a")).is_ok());
    let dir = tempfile::tempdir().unwrap();
    // A bomb, a name of a gigabyte, one that ends in the middle, and what is no archive.
    shell(
        dir.path(),
        "head -c 200000000 /dev/zero > zeros && tar c zeros | zstd -q > bomb && rm zeros \
         && echo text | gzip > text && seq 100000 > b && tar c b | xz > whole \
         && head -c 3000 whole > cut",
    );
    let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    let said = |bytes: &[u8]| all(bytes).unwrap_err().to_string();
    assert!(said(&read("bomb")).contains("it unpacks from"), "{}", said(&read("bomb")));
    assert!(matches!(all(&read("cut")), Err(Error::Damaged { .. })));
    assert!(matches!(all(&read("text")), Err(Error::Damaged { .. })));
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::GNULongName);
    header.set_size(1 << 30);
    header.set_cksum();
    let long = [&header.as_bytes()[..], &vec![b'a'; 1 << 20]].concat();
    assert!(matches!(all(&long), Err(Error::LongName { number: 1 })));
    let many = [named(b"a")[..512].repeat(263_000), vec![0; 1024]].concat();
    assert!(matches!(all(&many), Err(Error::TooMany)));
}
