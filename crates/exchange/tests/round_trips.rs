//! Is what we write read back as the same counts, and does no damage to it make a reader panic or
//! lose count?

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics fails")]

use counts::preaggregated::{self, DefaultImage};
use counts::{Branch, Counts, FallThrough, ImageCounts, SampleCount};
use exchange::export::{self, About};
use exchange::{Format, Mapping, Program, counted, read};
use image::{BuildId, ImageAddr};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use std::path::Path;

fn image() -> impl Strategy<Value = ImageCounts> {
    let samples = btree_map(1u64..1 << 48, 1u64..1 << 40, 1..20);
    let id = proptest::option::of(vec(any::<u8>(), 4..20));
    ("/[a-z]{1,8}/[a-z]{1,8}", id, samples).prop_map(|(path, id, samples)| ImageCounts {
        build_id: id.and_then(|id| BuildId::from_bytes(&id)),
        path,
        samples: samples
            .into_iter()
            .map(|(address, count)| SampleCount { address: ImageAddr(address), count })
            .collect(),
        ..ImageCounts::default()
    })
}

fn counts() -> impl Strategy<Value = Counts> {
    vec(image(), 1..4).prop_map(|images| {
        counts::merge(
            images.into_iter().map(|image| Counts { images: vec![image], ..Counts::default() }),
        )
        .unwrap()
    })
}

fn written(counts: &Counts, about: &About, format: Format) -> Vec<u8> {
    let mut out = Vec::new();
    match format {
        Format::Pprof => export::pprof(counts, about, &|_| None, &mut out).unwrap(),
        _ => export::otlp(counts, about, &|_| None, &mut out).unwrap(),
    }
    out
}

proptest! {
    #[test]
    fn samples_come_back_as_they_were(counts in counts(), clock in proptest::option::of(1u64..1 << 30)) {
        let about = About {
            begin: Some(1_700_000_000),
            end: Some(1_700_000_007),
            clock_ns: clock,
            host: String::new(),
        };
        for format in [Format::Pprof, Format::Otlp] {
            let bytes = written(&counts, &about, format);
            prop_assert_eq!(&bytes, &written(&counts, &about, format));
            let (sampled, found) = read(Path::new("p"), bytes, None, None).unwrap();
            prop_assert_eq!(found, format);
            prop_assert_eq!((sampled.begin, sampled.end), (about.begin, about.end));
            prop_assert_eq!(sampled.period, clock);
            let back = counted(&sampled, None, &mut |_: &Mapping| Program::Missing).unwrap();
            prop_assert_eq!(&back.counts.images, &counts.images);
            prop_assert!(back.counts.ledger.balances());
        }
    }

    #[test]
    fn branches_come_back_from_bolts_text(
        branches in btree_map((proptest::option::of(1u64..1 << 48), 1u64..1 << 48), (1u64..1 << 60, 0u64..9), 1..20),
        ranges in btree_map((1u64..1 << 40, 0u64..99), 1u64..1 << 60, 0..20),
    ) {
        let own = ImageCounts {
            path: "app".to_owned(),
            branches: branches.into_iter().map(|((from, to), (count, mispredicted))| Branch {
                from: from.map(ImageAddr),
                to: Some(ImageAddr(to)),
                count,
                mispredicted: mispredicted.min(count),
            }).collect(),
            fall_throughs: ranges.into_iter().map(|((first, bytes), count)| FallThrough {
                first: ImageAddr(first),
                last: ImageAddr(first + bytes),
                count,
            }).collect(),
            ..ImageCounts::default()
        };
        let mut text = Vec::new();
        export::bolt(&own, &mut text).unwrap();
        let default = DefaultImage { build_id: None, path: "app".to_owned() };
        let back = preaggregated::read(Path::new("p"), text.as_slice(), &default).unwrap();
        prop_assert_eq!(&back.images[0].branches, &own.branches);
        prop_assert_eq!(&back.images[0].fall_throughs, &own.fall_throughs);
    }
}

#[test]
fn damage_is_an_error_or_booked() {
    let mut seeds: Vec<(Vec<u8>, Format)> = Vec::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/exchange");
    for entry in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let (first, rest) = bytes.split_first().unwrap();
        let format = [Format::Pprof, Format::Otlp, Format::OtlpJson][usize::from(first % 3)];
        seeds.push((rest.to_vec(), format));
    }
    assert!(seeds.len() >= 3);
    let (mut good, mut bad) = (0u32, 0u32);
    let mut check = |bytes: &[u8], format: Format| match read(
        Path::new("damaged"),
        bytes.to_vec(),
        Some(format),
        None,
    ) {
        Ok((sampled, _)) => {
            let found = counted(&sampled, None, &mut |_: &Mapping| Program::Missing).unwrap();
            assert!(found.counts.ledger.balances());
            good += 1;
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            bad += 1;
        }
    };
    for (seed, format) in &seeds {
        check(seed, *format);
        for at in 0..seed.len() {
            check(&seed[..at], *format);
            for value in [0, 0xff, seed[at] ^ 1, seed[at] ^ 0x80, seed[at].wrapping_add(8)] {
                let mut damaged = seed.clone();
                damaged[at] = value;
                check(&damaged, *format);
            }
        }
    }
    assert!(good > 100 && bad > 100, "{good} read, {bad} refused");
}
