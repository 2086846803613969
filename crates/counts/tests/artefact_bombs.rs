//! Counts artefacts that are small and would become large: is each refused before memory is taken
//! for it, with the place of what is wrong?

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use counts::{Counts, ImageCounts, SampleCount, artefact};
use image::ImageAddr;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::path::Path;
use std::sync::Arc;

const SCHEMA: &str = "message counts {
    REQUIRED BYTE_ARRAY build_id (UTF8);
    REQUIRED BYTE_ARRAY path (UTF8);
    REQUIRED BYTE_ARRAY kind (UTF8);
    OPTIONAL INT64 first (INTEGER(64,false));
    OPTIONAL INT64 second (INTEGER(64,false));
    REQUIRED FIXED_LEN_BYTE_ARRAY (16) count (DECIMAL(38,0));
    REQUIRED FIXED_LEN_BYTE_ARRAY (16) mispredicted (DECIMAL(38,0));
}";

fn usual() -> WriterPropertiesBuilder {
    WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::try_new(1).unwrap()))
}

/// An artefact as another program could write it: a sample a row, `path` by the row's number.
fn written(
    properties: WriterPropertiesBuilder,
    rows: usize,
    path: impl Fn(usize) -> Vec<u8>,
) -> Vec<u8> {
    let ledger = serde_json::to_string(&Counts::default().ledger).unwrap();
    let pair = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
    let pairs =
        vec![pair("planish.counts.version", "1".to_owned()), pair("planish.ledger", ledger)];
    let properties = properties.set_key_value_metadata(Some(pairs)).build();
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let mut out = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut out, schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let sum = |n: u128| FixedLenByteArray::from(ByteArray::from(n.to_be_bytes().to_vec()));
    let mut number = 0;
    while let Some(mut column) = group.next_column().unwrap() {
        match column.untyped() {
            ColumnWriter::ByteArrayColumnWriter(column) => {
                for row in 0..rows {
                    let text = match number {
                        0 => Vec::new(),
                        1 => path(row),
                        _ => b"sample".to_vec(),
                    };
                    column.write_batch(&[ByteArray::from(text)], None, None).unwrap();
                }
            }
            ColumnWriter::Int64ColumnWriter(column) => {
                let there = i16::from(number == 3);
                let values: Vec<i64> = (0..rows as i64).filter(|_| there == 1).collect();
                column.write_batch(&values, Some(&vec![there; rows]), None).unwrap();
            }
            ColumnWriter::FixedLenByteArrayColumnWriter(column) => {
                column.write_batch(&vec![sum(u128::from(number == 5)); rows], None, None).unwrap();
            }
            _ => panic!("a column of another type"),
        }
        column.close().unwrap();
        number += 1;
    }
    group.close().unwrap();
    writer.close().unwrap();
    out
}

/// Reads a file of these bytes.
fn read(bytes: &[u8]) -> Result<Counts, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let told = |error: counts::Error| {
        let said = error.to_string();
        let name = file.path().display().to_string();
        assert!(said.starts_with(&name), "{said}");
        said.replace(&name, "FILE")
    };
    artefact::read(file.path(), std::fs::File::open(file.path()).unwrap()).map_err(told)
}

#[track_caller]
fn refused(bytes: &[u8], parts: &[&str]) {
    let said = read(bytes).unwrap_err();
    for part in parts {
        assert!(said.contains(part), "no `{part}` in: {said}");
    }
}

#[test]
fn a_page_that_unpacks_to_gigabytes_is_refused_by_its_header() {
    let plain = || usual().set_dictionary_enabled(false);
    let bomb = written(plain(), 1, |_| vec![0; 200 << 20]);
    assert!(bomb.len() < 1 << 17, "{} bytes", bomb.len());
    refused(
        &bomb,
        &["column path, offset ", "at most 64 MiB", "states 209715204: a decompression bomb"],
    );
    // As a dictionary, too, which is not bounded by the size of pages.
    refused(
        &written(usual().set_dictionary_page_size_limit(1 << 30), 1, |_| vec![0; 200 << 20]),
        &["column path", "at most 64 MiB"],
    );
}

#[test]
fn many_pages_together_are_refused_as_one_is() {
    let plain = usual().set_dictionary_enabled(false).set_data_page_size_limit(1 << 20);
    let bomb = written(plain, 9, |_| vec![0; 32 << 20]);
    assert!(bomb.len() < 1 << 17, "{} bytes", bomb.len());
    refused(&bomb, &["column path, offset ", "bytes more, unpacked", "a decompression bomb"]);
}

/// The bytes of a page's header that state how many bytes it unpacks to and has: fields 2 and 3
/// after field 1.
fn stated(unpacked: i32, packed: i32) -> Vec<u8> {
    let number = |out: &mut Vec<u8>, value: i32| {
        let mut value = (value << 1) as u32;
        while value > 0x7f {
            out.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    };
    let mut out = vec![0x15];
    number(&mut out, unpacked);
    out.push(0x15);
    number(&mut out, packed);
    out
}

/// The packed and unpacked sizes of the only plain page of column `path`, whose only value has so
/// many bytes.
fn sizes(bytes: &[u8], length: i32) -> (usize, i32, i32) {
    let unpacked = length + 4;
    let found = (1..4096).find_map(|packed| {
        let pattern = stated(unpacked, packed);
        let at = bytes.windows(pattern.len()).position(|window| window == pattern)?;
        Some((at, unpacked, packed))
    });
    found.expect("the header of the page")
}

#[test]
fn a_page_that_unpacks_to_more_than_its_header_states_takes_no_more() {
    let honest = written(usual().set_dictionary_enabled(false), 1, |_| vec![b'x'; 5000]);
    assert_eq!(read(&honest).unwrap().images[0].path.len(), 5000);
    let (at, unpacked, packed) = sizes(&honest, 5000);
    // The same bytes, said to be a little less: numbers of as many bytes, so that nothing moves.
    let mut lies = honest.clone();
    let less = stated(unpacked - 1000, packed);
    lies[at..at + less.len()].copy_from_slice(&less);
    refused(&lies, &["FILE: ", "uffer"]);
    // And a little more.
    let mut lies = honest;
    let more = stated(unpacked + 1000, packed);
    lies[at..at + more.len()].copy_from_slice(&more);
    refused(&lies, &["FILE: "]);
}

#[test]
fn encodings_that_repeat_long_values_are_refused() {
    // A value of 60 KB and, in a few bytes each, four thousand more that begin as it does: 240 MB
    // of a small file.
    let delta = usual()
        .set_dictionary_enabled(false)
        .set_column_encoding("path".into(), Encoding::DELTA_BYTE_ARRAY)
        .set_writer_version(parquet::file::properties::WriterVersion::PARQUET_2_0);
    let bomb = written(delta, 4000, |row| {
        let mut text = vec![b'x'; 60_000];
        text.extend(row.to_string().bytes());
        text
    });
    assert!(bomb.len() < 1 << 18, "{} bytes", bomb.len());
    refused(&bomb, &["row group 1, column ", "plain encoding", "encoding 7 of Parquet"]);
}

#[test]
fn rows_that_name_images_in_turn_keep_each_image_once() {
    let name = |row: usize| vec![b'a' + (row % 2) as u8; 4000];
    let counts = read(&written(usual(), 100_000, name)).unwrap();
    assert_eq!(counts.images.len(), 2);
    let image = &counts.images[1];
    assert_eq!((image.path.len(), image.samples.len()), (4000, 50_000));
    assert_eq!(image.samples[1].address, ImageAddr(3));
    refused(
        &written(usual(), 1, |_| vec![b'a'; 100_000]),
        &["row group 1, row 0", "a path of at most 12288 bytes"],
    );
    let many = |row: usize| row.to_string().into_bytes();
    refused(&written(usual(), 70_000, many), &["row group 1, row 65536", "at most 65536 images"]);
}

#[test]
fn a_dictionary_that_states_billions_of_values_takes_no_memory() {
    let samples = vec![SampleCount { address: ImageAddr(0x1000), count: 7 }];
    let image = ImageCounts { path: "a.out".into(), samples, ..ImageCounts::default() };
    let mut bytes = Vec::new();
    let counts = Counts { images: vec![image], ..Counts::default() };
    artefact::write(Path::new("memory"), &counts, &mut bytes).unwrap();
    // The first page is a dictionary. Its header is a Thrift structure: field 7 (3c) says how many
    // values, first (15), as a varint of twice the number.
    let at = bytes.windows(3).position(|window| window == [0x3c, 0x15, 2]).unwrap() + 2;
    assert!(at < 32, "the first header");
    bytes.splice(at..=at, [0xfe, 0xff, 0xff, 0xff, 0x0f]);
    refused(&bytes, &["a dictionary within", "one of 2147483647 values"]);
}

#[test]
fn what_other_programs_write_is_read_where_it_is_bounded() {
    let unpacked = WriterProperties::builder().set_dictionary_enabled(false);
    let counts = read(&written(unpacked, 300_000, |_| b"/bin/a".to_vec())).unwrap();
    assert_eq!(counts.images[0].samples.len(), 300_000);
    let newer = usual().set_writer_version(parquet::file::properties::WriterVersion::PARQUET_2_0);
    let found = read(&written(newer, 10, |_| b"/bin/a".to_vec()));
    // Dictionaries are fine in either version of pages; a column without repeats is of another
    // encoding in version 2.
    assert!(found.is_ok() || found.unwrap_err().contains("encoding"), "says what it cannot take");
}

/// The library takes known fields for their type, whatever type is stated, and then reads the rest
/// otherwise than it was meant.
#[test]
fn fields_of_other_types_are_refused_before_the_library_reads_them() {
    let file =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/counts_file/fields-of-other-types");
    refused(&std::fs::read(file).unwrap(), &["footer at offset", "a header with a"]);
}

#[test]
fn a_footer_that_asks_for_many_steps_is_refused() {
    let mut bytes = b"PAR1".to_vec();
    // A field that nobody knows, with 2^31 - 1 booleans of no byte each; then the same in a list of
    // such lists.
    let footer = [0x09, 0x64, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07, 0];
    bytes.extend(footer);
    bytes.extend((footer.len() as u32).to_le_bytes());
    bytes.extend(b"PAR1");
    refused(&bytes, &["footer at offset 4", "a header with a field"]);
    let mut many = b"PAR1".to_vec();
    let mut footer = vec![0x29, 0xfc, 0xd0, 0x0f];
    footer.extend([0; 2001]);
    many.extend(&footer);
    many.extend((footer.len() as u32).to_le_bytes());
    many.extend(b"PAR1");
    refused(&many, &["footer at offset 4", "a schema of 2000 elements"]);
}
