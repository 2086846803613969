//! Profiles to test with: the fixtures, and arbitrary ones.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use image::BuildId;
use profile::{BodySample, FunctionProfile, Location, Name, Provenance, SampleProfile};

/// Fixtures that llvm-profdata 22 reads.
pub const FIXTURES: [&str; 3] = [
    "peers/test.profgen.textprof",
    "autofdo/llvm_autoprof.golden.textprof",
    "autofdo/llvm_autoprof.golden.binprof",
];

/// Which features arbitrary profiles have.
#[derive(Clone, Copy, Default)]
pub struct Features {
    pub hashes: bool,
    pub checksums: bool,
    pub attributes: bool,
    pub vtables: bool,
    pub flags: bool,
    pub large_discriminators: bool,
    pub provenance: bool,
}

pub const ALL: Features = Features {
    hashes: true,
    checksums: true,
    attributes: true,
    vtables: true,
    flags: true,
    large_discriminators: true,
    provenance: true,
};

fn name(hashes: bool) -> BoxedStrategy<Name> {
    let texts = ["main", "_ZN3foo3barEv", "operator new", "a", "static_fn", "vtables", "x::y"];
    let text = (0..texts.len()).prop_map(move |at| Name::text(texts[at]));
    if hashes {
        prop_oneof![4 => text, 1 => (0u64..4).prop_map(Name::Hash)].boxed()
    } else {
        text.boxed()
    }
}

fn location(large: bool) -> impl Strategy<Value = Location> {
    let limit = if large { u32::MAX } else { 0xffff };
    let discriminator = prop_oneof![3 => Just(0), 2 => 1u32..5, 1 => 0..=limit];
    (prop_oneof![4 => 0u32..20, 1 => 0u32..=0xffff], discriminator)
        .prop_map(|(line, discriminator)| Location::new(line, discriminator))
}

fn count() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0), 8 => 0u64..1000, 1 => 0u64..=i64::MAX as u64]
}

fn function(features: Features, depth: u32) -> BoxedStrategy<FunctionProfile> {
    let large = features.large_discriminators;
    let sample = (count(), btree_map(name(features.hashes), count(), 0..3))
        .prop_map(|(count, targets)| BodySample { count, targets });
    let body = btree_map(location(large), sample, 0..5);
    let vtables = btree_map(location(large), btree_map(name(false), count(), 1..3), 0..2);
    let callees = if depth == 0 {
        Just(Vec::new()).boxed()
    } else {
        vec((location(large), function(features, depth - 1)), 0..3).boxed()
    };
    (name(features.hashes), count(), body, callees, vtables, 0u32..8)
        .prop_map(move |(name, total, body, callees, vtables, attributes)| {
            let mut result = FunctionProfile { total, body, ..FunctionProfile::new(name) };
            if features.attributes {
                result.attributes = attributes;
            }
            if features.vtables {
                result.vtables = vtables;
            }
            if features.checksums {
                result.checksum = Some(result.name.hash() >> 8);
            }
            for (at, callee) in callees {
                result.callsites.entry(at).or_default().insert(callee.name.clone(), callee);
            }
            result
        })
        .boxed()
}

/// Names of compilers with anything in them, also what cannot stand on a line, and build IDs of
/// every length.
pub fn provenance() -> impl Strategy<Value = Provenance> {
    let release = prop_oneof![
        2 => Just("Debian clang version 22.1.8 (1~deb12u1)".to_owned()),
        2 => any::<String>(),
        1 => "[ \\t\\r\\n\\x00#:a]{0,8}",
        1 => " ?(clang version [0-9]{1,3} \\PC?){0,40}",
    ];
    (vec(release, 0..3), vec(vec(any::<u8>(), 1..=64), 0..3)).prop_map(|(releases, ids)| {
        let mut provenance = Provenance::default();
        for release in releases {
            provenance.add_compiler(&release);
        }
        ids.iter()
            .filter_map(|id| BuildId::from_bytes(id))
            .for_each(|id| provenance.add_build_id(id));
        provenance
    })
}

/// Arbitrary profiles.
pub fn profile(features: Features) -> impl Strategy<Value = SampleProfile> {
    let functions = vec((function(features, 3), count()), 1..5);
    (functions, any::<bool>(), any::<bool>(), btree_map("[a-z]{1,4}", Just(()), 0..4), provenance())
        .prop_map(move |(functions, fs, partial, symbols, provenance)| {
            let mut profile = SampleProfile::default();
            for (mut function, head) in functions {
                function.head = head;
                profile.functions.insert(function.name.clone(), function);
            }
            if features.provenance {
                profile.provenance = provenance;
            }
            if features.flags {
                profile.fs_discriminators = fs;
                profile.partial = partial;
                profile.symbol_list = symbols.into_keys().collect();
            }
            profile
        })
}
