//! Whether any bytes make the readers of pprof and OpenTelemetry profiles panic, lose count or
//! write what they do not read. The first byte says which.
#![no_main]

use exchange::export::{self, About};
use exchange::{Form, Format, Mapping, Program, counted, read};
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let format = [Format::Pprof, Format::Otlp, Format::OtlpJson][usize::from(kind % 3)];
    let given = (kind & 0x40 == 0).then_some(format);
    let name = Path::new("fuzzed");
    let Ok((sampled, _)) = read(name, bytes.to_vec(), given, None) else { return };
    let form = (kind & 0x80 != 0).then_some(Form::Image);
    // A sum that does not fit is an error.
    let Ok(found) = counted(&sampled, form, &mut |_: &Mapping| Program::Missing) else { return };
    assert!(found.counts.ledger.balances());
    if found.counts.images.is_empty() {
        return;
    }
    let mut out = Vec::new();
    export::otlp(&found.counts, &About::default(), &|_| None, &mut out).expect("memory takes it");
    let (again, _) = read(name, out, Some(Format::Otlp), None).expect("what we wrote is readable");
    let again = counted(&again, None, &mut |_: &Mapping| Program::Missing).expect("it fits");
    let samples = |counts: &counts::Counts| {
        counts.images.iter().map(counts::ImageCounts::sample_total).sum::<u128>()
    };
    // Numbers are signed in the format.
    let fits = |counts: &counts::Counts| {
        let all = counts.images.iter().flat_map(|image| &image.samples);
        all.into_iter().all(|one| i64::try_from(one.count).is_ok() && one.address.0 != 0)
    };
    if fits(&found.counts) {
        assert_eq!(samples(&found.counts), samples(&again.counts));
    }
});
