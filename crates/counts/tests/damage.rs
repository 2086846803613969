//! Is each flipped bit of a counts artefact found, or changes nothing? And do other readers of Parquet see the same
//! checksums?

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics fails")]

use counts::{Branch, Counts, FallThrough, ImageCounts, SampleCount, artefact};
use image::ImageAddr;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

/// Counts whose columns have dictionaries, plain values and absent ones.
fn counts() -> Counts {
    let mut image = ImageCounts { path: "/usr/bin/it".to_owned(), ..ImageCounts::default() };
    image.architecture = "x86_64".to_owned();
    let addresses = (0..40u64).map(|at| ImageAddr(0x1000 + at * at * 7));
    for (address, count) in addresses.zip((1..).step_by(37)) {
        image.samples.push(SampleCount { address, count });
        image.branches.push(Branch {
            from: Some(address),
            to: (count % 3 > 0).then_some(ImageAddr(0x900)),
            count,
            mispredicted: count / 5,
        });
        let last = ImageAddr(address.0 + 8);
        image.fall_throughs.push(FallThrough { first: address, last, count });
    }
    Counts { images: vec![image], ..Counts::default() }
}

fn written() -> Vec<u8> {
    let mut bytes = Vec::new();
    let more = vec![("planish.fleet".to_owned(), r#"{"version":1,"recordings":[]}"#.to_owned())];
    artefact::write_with(Path::new("it.counts"), &counts(), more, &mut bytes).unwrap();
    bytes
}

/// The counts, and what the file says of its recordings.
fn read(bytes: &[u8]) -> Result<(Counts, Option<String>), String> {
    let path = Path::new("it.counts");
    let file = || {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file
    };
    let counts = artefact::read(path, file()).map_err(|error| error.to_string())?;
    let about = artefact::about(path, file()).map_err(|error| error.to_string())?;
    Ok((counts, about.value("planish.fleet").map(str::to_owned)))
}

#[test]
fn each_flipped_bit_is_found_or_changes_nothing() {
    let bytes = written();
    let whole = read(&bytes).unwrap();
    let (mut found, mut by_checksum) = (0, 0);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        match read(&damaged) {
            Ok(other) => assert!(other == whole, "offset {at} of {}", bytes.len()),
            Err(told) => {
                assert!(told.contains("it.counts"), "{told}");
                found += 1;
                by_checksum += usize::from(told.contains("checksum"));
            }
        }
    }
    // Nobody reads what a column's smallest and largest values are, and some names.
    assert!(found > bytes.len() / 2 && by_checksum > bytes.len() / 4, "{found}, {by_checksum}");
}

#[test]
fn pages_have_the_checksums_that_the_parquet_library_checks() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let bytes = written();
    let rows = |bytes: Vec<u8>| {
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let columns = reader.metadata().file_metadata().schema_descr().num_columns();
        let group = reader.get_row_group(0).unwrap();
        let mut pages = 0;
        for column in 0..columns {
            for page in group.get_column_page_reader(column).unwrap() {
                page.map_err(|error| error.to_string())?;
                pages += 1;
            }
        }
        Ok::<_, String>(pages)
    };
    assert!(rows(bytes.clone()).unwrap() >= 10);
    // The first page's first value.
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes.clone())).unwrap();
    let column = reader.metadata().row_group(0).column(3);
    let (start, length) = column.byte_range();
    let mut damaged = bytes;
    damaged[usize::try_from(start + length).unwrap() - 1] ^= 1;
    assert!(rows(damaged).unwrap_err().contains("CRC"), "the library is built to check");
}
