//! Profiles of other tools, written here field by field: is each address brought to its image, and
//! is all that cannot be used in the books?

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics fails")]

mod made;

use counts::Reason;
use exchange::{Error, Form, Format, Imported, Mapping, Program, Sampled, counted, read};
use image::{Image, ImageAddr};
use made::{Message, gzip};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

fn parsed(bytes: &[u8], value: Option<&str>) -> Result<(Sampled, Format), Error> {
    read(Path::new("profile"), bytes.to_vec(), None, value)
}

fn missing(_: &Mapping) -> Program {
    Program::Missing
}

fn all(found: &Imported) -> BTreeMap<(String, u64), u64> {
    let images = found.counts.images.iter();
    let rows = images.flat_map(|image| {
        let id = image.build_id.map_or_else(|| image.path.clone(), |id| id.to_string());
        image.samples.iter().map(move |one| ((id.clone(), one.address.0), one.count))
    });
    rows.collect()
}

/// A profile of three mappings, with its tables in an unusual order.
fn pprof(samples: &[(&[u64], &[i64])]) -> Vec<u8> {
    let mut out = Message::default();
    for (locations, values) in samples {
        let mut sample = Message::default();
        sample.packed(1, locations.iter().copied());
        sample.packed(2, values.iter().map(|value| *value as u64));
        out.message(2, &sample);
    }
    let location = |id: u64, mapping: u64, address: u64| {
        let mut one = Message::default();
        one.number(1, id).number(2, mapping).number(3, address);
        one
    };
    for (id, mapping, address) in [
        (1, 1, 0x7f00_0000_1234),
        (2, 2, 0x4010),
        (3, 0, 0x99),
        (4, 3, 0x10),
        (5, 1, 0),
        (7, 4, 0xffff_ffff_8100_0000),
        (8, 1, 0x7f00_0000_0000),
        (9, 1, 0x7eff_ffff_ffff),
    ] {
        out.message(4, &location(id, mapping, address));
    }
    for text in ["", "samples", "count", "/usr/bin/app", "00112233", "/lib/libm.so.6", "aabb"] {
        out.text(6, text);
    }
    for text in ["[anon]", "[kernel.kallsyms]_text", "cpu", "nanoseconds"] {
        out.text(6, text);
    }
    let mapping = |numbers: [u64; 6]| {
        let mut one = Message::default();
        (1..).zip(numbers).for_each(|(field, number)| {
            one.number(field, number);
        });
        one
    };
    out.message(3, &mapping([1, 0x7f00_0000_0000, 0x7f00_0001_0000, 0x1000, 3, 4]));
    out.message(3, &mapping([2, 0, u64::MAX, 0, 5, 6]));
    out.message(3, &mapping([3, 0x7a00_0000_0000, 0x7a00_0000_1000, 0, 7, 0]));
    out.message(3, &mapping([4, 0xffff_ffff_8000_0000, 0xffff_ffff_a000_0000, 0, 8, 0]));
    for kind in [[1, 2], [9, 10]] {
        let mut one = Message::default();
        one.number(1, kind[0]).number(2, kind[1]);
        out.message(1, &one);
    }
    let mut kind = Message::default();
    kind.number(1, 9).number(2, 10);
    out.message(11, &kind).number(12, 10_000_000);
    out.number(9, 1_700_000_000_123_456_789).number(10, 5_900_000_000);
    out.bytes
}

#[test]
fn what_a_profile_states_is_counted_or_booked() {
    let bytes = pprof(&[
        (&[1, 2], &[5, 50_000_000]),
        (&[2], &[7, 70_000_000]),
        (&[2, 1], &[1, 10_000_000]),
        (&[3], &[2, 0]),
        (&[4], &[3, 0]),
        (&[5], &[4, 0]),
        (&[6], &[11, 0]),
        (&[7], &[13, 0]),
        (&[], &[17, 0]),
        (&[1], &[-19, 0]),
    ]);
    for bytes in [gzip(&bytes), bytes] {
        let (sampled, format) = parsed(&bytes, None).unwrap();
        assert_eq!((format, sampled.value.told()), (Format::Pprof, "samples/count".to_owned()));
        assert_eq!((sampled.source, sampled.period), ("clock", Some(10_000_000)));
        assert_eq!((sampled.begin, sampled.end), (Some(1_700_000_000), Some(1_700_000_006)));
        let found = counted(&sampled, None, &mut missing).unwrap();
        // Of the library the profile has the addresses of its file.
        assert_eq!(all(&found), BTreeMap::from([(("aabb".to_owned(), 0x4010), 8)]));
        let book = &found.counts.ledger.samples;
        assert!(found.counts.ledger.balances());
        assert_eq!((book.entered, book.used), (5 + 8 + 2 + 3 + 4 + 11 + 13 + 17 + 19, 8));
        assert_eq!(book.unused[&Reason::ImageUnavailable], 5 + 13);
        assert_eq!(book.unused[&Reason::Unmapped], 2 + 17);
        assert_eq!(book.unused[&Reason::NoFile], 3 + 4);
        assert_eq!(book.unused[&Reason::Malformed], 11 + 19);
        assert_eq!((found.kernel, found.no_file, found.no_address), (13, 3, 4));
        assert_eq!(found.nowhere, 2 + 17 + 11 + 19);
    }
}

#[test]
fn time_is_brought_to_samples_by_its_period() {
    let bytes =
        pprof(&[(&[2], &[0, 74_000_000]), (&[2], &[0, 6_000_000]), (&[1], &[0, 4_999_999])]);
    let (sampled, _) = parsed(&bytes, Some("cpu")).unwrap();
    let found = counted(&sampled, None, &mut missing).unwrap();
    // Summed up before it is rounded.
    assert_eq!(all(&found).into_values().collect::<Vec<_>>(), [8]);
    assert_eq!(found.rounded_away, 1);
    let error = parsed(&bytes, Some("wall")).unwrap_err().to_string();
    assert!(error.contains("wall") && error.contains("samples/count, cpu/nanoseconds"), "{error}");
}

/// A program of two segments, the second of which lies 0x1000 further in memory than in the file.
fn program() -> Arc<Image> {
    let mut file = vec![0u8; 0x3000];
    file[..20].copy_from_slice(&[
        0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 62, 0,
    ]);
    file[20] = 1;
    file[32] = 64;
    file[52] = 64;
    file[54] = 56;
    file[56] = 2;
    let segments: [(u32, [u64; 6]); 2] = [
        (4, [0, 0, 0, 0x1000, 0x1000, 0x1000]),
        (5, [0x1000, 0x2000, 0x2000, 0x2000, 0x2000, 0x1000]),
    ];
    for (at, (flags, numbers)) in segments.iter().enumerate() {
        let at = 64 + 56 * at;
        file[at..at + 4].copy_from_slice(&1u32.to_le_bytes());
        file[at + 4..at + 8].copy_from_slice(&flags.to_le_bytes());
        for (index, number) in numbers.iter().enumerate() {
            file[at + 8 + 8 * index..][..8].copy_from_slice(&number.to_le_bytes());
        }
    }
    Arc::new(Image::from_bytes("app", file).unwrap())
}

#[test]
fn addresses_of_a_process_go_through_the_segments() {
    let bytes = pprof(&[(&[1], &[5, 0]), (&[8], &[2, 0]), (&[9], &[1, 0])]);
    let (sampled, _) = parsed(&bytes, None).unwrap();
    let mut find = |mapping: &Mapping| {
        assert_eq!(&*mapping.path, "/usr/bin/app");
        Program::Is(program())
    };
    let found = counted(&sampled, None, &mut find).unwrap();
    // 0x1234 behind the mapping's start is 0x2234 in the file, and 0x1000 more in memory.
    let id = "00112233".to_owned();
    let expected = BTreeMap::from([((id.clone(), 0x2000), 2), ((id, 0x3234), 5)]);
    assert_eq!(all(&found), expected);
    assert_eq!(found.counts.ledger.samples.unused[&Reason::Unmapped], 1);
    assert_eq!((found.files[0].form, found.files[0].used), (Form::Process, 7));
    assert_eq!(found.architecture, "x86_64");
    let mut other = |_: &Mapping| Program::OtherBuild("ffff".to_owned());
    let found = counted(&sampled, None, &mut other).unwrap();
    assert_eq!(found.counts.ledger.samples.unused[&Reason::BuildIdMismatch], 8);
    assert_eq!(found.files[0].other_build.as_deref(), Some("ffff"));
    let mut none = |_: &Mapping| Program::NotAskedFor;
    let found = counted(&sampled, None, &mut none).unwrap();
    assert_eq!(found.counts.ledger.samples.unused[&Reason::OtherImage], 8);
}

#[test]
fn addresses_outside_their_mapping_are_those_of_the_file() {
    // As agents write them that take the load address off: the mapping is the process's still.
    let mut out = Message::default();
    let mut sample = Message::default();
    sample.packed(1, [1].into_iter()).packed(2, [3].into_iter());
    out.message(2, &sample);
    let mut location = Message::default();
    location.number(1, 1).number(2, 1).number(3, 0x2234);
    out.message(4, &location);
    ["", "samples", "count", "app", "0011"].iter().for_each(|text| {
        out.text(6, text);
    });
    let mut kind = Message::default();
    kind.number(1, 1).number(2, 2);
    out.message(1, &kind);
    let with_start = |start: u64| {
        let mut mapping = Message::default();
        mapping.number(1, 1).number(2, start).number(3, start + 0x1_0000);
        mapping.number(4, 0x1000).number(5, 3).number(6, 4);
        let mut whole = out.clone();
        whole.message(3, &mapping);
        parsed(&whole.bytes, None).unwrap().0
    };
    // No process has anything at 0.
    for start in [0, 0x7f00_0000_0000] {
        let found = counted(&with_start(start), None, &mut missing).unwrap();
        assert_eq!(all(&found), BTreeMap::from([(("0011".to_owned(), 0x2234), 3)]));
        assert_eq!(found.files[0].form, Form::Image);
    }
    let sampled = with_start(0x7f00_0000_0000);
    let mut is = |_: &Mapping| Program::Is(program());
    let found = counted(&sampled, Some(Form::File), &mut is).unwrap();
    assert_eq!(found.counts.images[0].samples[0].address, ImageAddr(0x3234));
    let found = counted(&sampled, Some(Form::Process), &mut is).unwrap();
    assert_eq!(found.counts.ledger.samples.unused[&Reason::Unmapped], 3);
    // The read-only segment is no code.
    let found = counted(&sampled, None, &mut is).unwrap();
    assert_eq!(all(&found).len(), 1);
}

/// What the eBPF profiler sends, in JSON: times in place of values, frame types, a second profile
/// of another type.
const OTLP: &str = r#"{"resourceProfiles":[{"resource":{"attributes":[
  {"key":"host.name","value":{"stringValue":"node-7"}},
  {"keyStrindex":9,"value":{"stringValueStrindex":10}},
  {"key":"process.pid","value":{"intValue":"7"}}]},
 "scopeProfiles":[{"scope":{"name":"profiler"},"profiles":[
  {"sampleType":{"typeStrindex":1,"unitStrindex":2},"periodType":{"typeStrindex":3,"unitStrindex":4},"period":"52631578",
   "timeUnixNano":"1700000000500000000","durationNano":"5000000000","profileId":"00","samples":[
   {"stackIndex":1,"timestampsUnixNano":["1700000000600000000","1700000000700000000"]},
   {"stackIndex":2,"values":["3"],"attributeIndices":[1]},
   {"stackIndex":3,"timestampsUnixNano":["1700000001000000000"]},
   {"stackIndex":4,"values":[4]},
   {"values":["5"]},
   {"stackIndex":99,"values":["6"]}]},
  {"sampleType":{"typeStrindex":11,"unitStrindex":4},"samples":[{"stackIndex":1,"values":["1000000"]}]}]}]}],
 "dictionary":{"mappingTable":[{},{"memoryStart":"4194304","memoryLimit":"8388608","filenameStrindex":5,"attributeIndices":[2]}],
  "locationTable":[{},{"mappingIndex":1,"address":"4198400","attributeIndices":[1]},{"address":"18446744071580000000","attributeIndices":[3]},
   {"mappingIndex":1,"address":"4198404","attributeIndices":[1],"lines":[{"functionIndex":0}]},{"address":"7","attributeIndices":[4]}],
  "functionTable":[{}],"linkTable":[{}],
  "stringTable":["","samples","count","cpu","nanoseconds","/usr/bin/app","profile.frame.type","process.executable.build_id.gnu","00ff","host.arch","arm64","off_cpu"],
  "attributeTable":[{},{"keyStrindex":6,"value":{"stringValue":"native"}},{"keyStrindex":7,"value":{"stringValueStrindex":8}},
   {"keyStrindex":6,"value":{"stringValue":"kernel"}},{"keyStrindex":6,"value":{"stringValue":"cpython"}}],
  "stackTable":[{},{"locationIndices":[1,3]},{"locationIndices":[3,1]},{"locationIndices":[2,1]},{"locationIndices":[4,1]}]}}"#;

#[test]
fn opentelemetry_profiles_count_values_or_times() {
    let (sampled, format) = parsed(OTLP.as_bytes(), None).unwrap();
    assert_eq!(format, Format::OtlpJson);
    assert_eq!((sampled.host.as_str(), sampled.architecture.as_str()), ("node-7", "aarch64"));
    assert_eq!((sampled.source, sampled.period), ("clock", Some(52_631_578)));
    assert_eq!((sampled.begin, sampled.end), (Some(1_700_000_000), Some(1_700_000_005)));
    assert_eq!(sampled.others[0].told(), "off_cpu/nanoseconds");
    let mut find = |mapping: &Mapping| {
        assert_eq!(mapping.build_id.unwrap().to_string(), "00ff");
        Program::Missing
    };
    let found = counted(&sampled, Some(Form::Image), &mut find).unwrap();
    let id = "00ff".to_owned();
    let expected = BTreeMap::from([((id.clone(), 4_198_400), 2), ((id, 4_198_404), 3)]);
    assert_eq!(all(&found), expected);
    assert_eq!((found.kernel, found.no_file, found.nowhere), (1, 4, 5 + 6));
    assert!(found.counts.ledger.balances());
    let found = counted(&sampled, None, &mut find).unwrap();
    assert_eq!(found.files[0].form, Form::Process);
    let (sampled, _) = parsed(OTLP.as_bytes(), Some("off_cpu")).unwrap();
    assert_eq!(sampled.places.values().copied().collect::<Vec<_>>(), [1_000_000]);
}

#[test]
fn what_is_no_profile_is_told_what_it_is() {
    let told = |bytes: &[u8]| parsed(bytes, None).unwrap_err().to_string();
    for (bytes, part) in [
        (&b""[..], "empty"),
        (b"PERFILE2 and more", "fleet shard"),
        (b"PAR1 and more", "fleet merge"),
        (&[0, 3, 0, 10_000u64].map(u64::to_le_bytes).concat()[..], "pprof -proto"),
        (b"hello, world", "whole protocol buffer"),
        (b"\x1f\x8b not gzip", "does not unpack"),
        (b"\x08\x01", "another kind"),
        (b"{\"resourceProfiles\":[{]}", "line 1"),
        (b"{} {}", "split -l 1"),
        (b"{}", "no samples"),
        (b"\x12\x00", "no samples"),
    ] {
        assert!(told(bytes).contains(part), "no `{part}` in {}", told(bytes));
    }
    let cut = pprof(&[(&[1], &[5, 0])]);
    let error = read(Path::new("p"), cut[..cut.len() - 3].to_vec(), Some(Format::Pprof), None);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("byte "), "{error}");
    let few = pprof(&[(&[1], &[5])]);
    assert!(parsed(&few, Some("cpu")).unwrap_err().to_string().contains("fewer values than types"));
}

#[test]
fn small_files_do_not_become_large_ones() {
    let zeros = gzip(&vec![0; 512 << 20]);
    let error = parsed(&zeros, None).unwrap_err();
    assert!(matches!(error, Error::Bomb { .. }), "{error}");
    // One entry of two bytes after the other.
    let many = |field: u8| [field << 3 | 2, 0].repeat((1 << 18) + 1);
    for field in [1, 3] {
        let error = read(Path::new("p"), many(field), Some(Format::Pprof), None);
        assert!(matches!(error.unwrap_err(), Error::TooMany { .. }));
    }
    let mut dictionary = Message::default();
    dictionary.part(2, &many(1));
    let error = read(Path::new("p"), dictionary.bytes, Some(Format::Otlp), None);
    assert!(matches!(error.unwrap_err(), Error::TooMany { .. }));
    let mut samples = pprof(&[]);
    for id in 0..(2 << 20) + 1 {
        let mut sample = Message::default();
        sample.packed(1, [id].into_iter()).packed(2, [1, 1].into_iter());
        let mut one = Message::default();
        one.message(2, &sample);
        samples.extend(one.bytes);
    }
    assert!(matches!(parsed(&samples, None).unwrap_err(), Error::TooMany { .. }));
}
