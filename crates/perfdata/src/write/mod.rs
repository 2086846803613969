//! Writing perf.data: the file form ([`FileWriter`]), the pipe form ([`PipeWriter`]), records
//! ([`Encoder`]), compression ([`Compressor`]). perf and LLVM's readers accept what comes out.
//!
//! Records are appended as bytes, so that a recorder can write what it took from a ring without
//! looking into it.

mod auxtrace;
mod compress;
mod encode;
mod encode_sample;
mod feature_sections;
mod values;

pub use auxtrace::{AuxPiece, TimeConversion, auxtrace_info, time_conversion};
pub use compress::{CompressedKind, Compressor};
pub use encode::Encoder;
pub use values::{SampleValues, StackValues};

use crate::attr::EventAttr;
use crate::bytes::Endian;
use crate::error::Error;
use crate::feature_kinds::feature;
use crate::features::Features;
use crate::header::{FILE_HEADER_BYTES, MAGIC, PIPE_HEADER_BYTES};
use crate::kinds::kind;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;

/// Size of an attribute with its id section, in bytes.
const ATTR_ENTRY_BYTES: u64 = EventAttr::WRITTEN_BYTES as u64 + 16;

fn io_error(source: io::Error) -> Error {
    Error::Io { path: PathBuf::from("(output)"), action: "write", source }
}

/// A record that states the name of an event (`PERF_EVENT_UPDATE__NAME`), for readers of recordings
/// that were never finished; none where the event has no name or no counter.
///
/// # Errors
/// If the name is longer than a record.
pub fn event_name(attr: &EventAttr, endian: Endian) -> Result<Option<Vec<u8>>, Error> {
    let (Some(name), Some(&id)) = (&attr.name, attr.ids.first()) else { return Ok(None) };
    const NAME: u64 = 2;
    let mut body = Vec::new();
    body.extend(endian.put_u64(NAME));
    body.extend(endian.put_u64(id));
    body.extend(name.as_bytes());
    // A byte 0 ends it, and the record is padded to 8.
    body.resize(body.len() + 8 - body.len() % 8, 0);
    let mut record = Vec::new();
    encode::put_record(&mut record, endian, kind::EVENT_UPDATE, 0, &body)?;
    Ok(Some(record))
}

/// Writes a recording in file form. Until [`FileWriter::finish`] the header states a data size of
/// 0, as perf's does, so that a reader of an unfinished file reads to its end.
#[derive(Debug)]
pub struct FileWriter<W> {
    out: W,
    endian: Endian,
    attrs: Vec<(EventAttr, u64)>,
    data_offset: u64,
    data_bytes: u64,
}

impl<W: Write + Seek> FileWriter<W> {
    /// Begins a recording of these events in this machine's byte order.
    pub fn new(out: W, attrs: &[EventAttr]) -> Result<FileWriter<W>, Error> {
        FileWriter::with_endian(out, attrs, Endian::NATIVE)
    }

    /// The same in a byte order of choice. The records appended must have it too.
    pub fn with_endian(
        out: W,
        attrs: &[EventAttr],
        endian: Endian,
    ) -> Result<FileWriter<W>, Error> {
        let mut ids = Vec::new();
        let mut placed = Vec::new();
        for attr in attrs {
            placed.push((attr.clone(), FILE_HEADER_BYTES + ids.len() as u64));
            ids.extend(attr.ids.iter().flat_map(|&id| endian.put_u64(id)));
        }
        let attrs_offset = FILE_HEADER_BYTES + ids.len() as u64;
        let data_offset = attrs_offset + attrs.len() as u64 * ATTR_ENTRY_BYTES;
        let mut writer = FileWriter { out, endian, attrs: placed, data_offset, data_bytes: 0 };
        let mut head = writer.header(&[]);
        head.extend(ids);
        for (attr, ids_at) in &writer.attrs {
            attr.write(&mut head, endian);
            head.extend(endian.put_u64(*ids_at));
            head.extend(endian.put_u64(attr.ids.len() as u64 * 8));
        }
        writer.out.write_all(&head).map_err(io_error)?;
        Ok(writer)
    }

    /// Appends records as they are. They must be whole records by the end of the recording.
    pub fn append(&mut self, records: &[u8]) -> Result<(), Error> {
        self.out.write_all(records).map_err(io_error)?;
        self.data_bytes += records.len() as u64;
        Ok(())
    }

    /// Hands on what the output may have buffered, so that a recorder killed now leaves it behind.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.out.flush().map_err(io_error)
    }

    /// Bytes of records appended so far.
    pub fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// The output itself.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Where the records begin, in bytes from the start of the file.
    pub fn data_offset(&self) -> u64 {
        self.data_offset
    }

    /// Forgets all records behind the first so many bytes; what is appended next stands there.
    pub fn rewind(&mut self, data_bytes: u64) -> Result<(), Error> {
        self.data_bytes = self.data_bytes.min(data_bytes);
        self.out.seek(SeekFrom::Start(self.data_offset + self.data_bytes)).map_err(io_error)?;
        Ok(())
    }

    /// Writes the feature sections and completes the header.
    pub fn finish(mut self, features: &Features) -> Result<W, Error> {
        self.complete(features)?;
        Ok(self.out)
    }

    /// The same; where it fails, it can be tried again after [`FileWriter::rewind`].
    pub fn complete(&mut self, features: &Features) -> Result<(), Error> {
        let attrs: Vec<&EventAttr> = self.attrs.iter().map(|(attr, _)| attr).collect();
        let sections = feature_sections::sections(features, &attrs, self.endian);
        let numbers: Vec<u32> = sections.iter().map(|(number, _)| *number).collect();
        let table = self.data_offset + self.data_bytes;
        let mut at = table + sections.len() as u64 * 16;
        let mut bytes = Vec::new();
        for (_, section) in &sections {
            bytes.extend(self.endian.put_u64(at));
            bytes.extend(self.endian.put_u64(section.len() as u64));
            at += section.len() as u64;
        }
        for (_, section) in &sections {
            bytes.extend(section);
        }
        self.out.write_all(&bytes).map_err(io_error)?;
        let header = self.header(&numbers);
        self.out.seek(SeekFrom::Start(0)).map_err(io_error)?;
        self.out.write_all(&header).map_err(io_error)?;
        self.out.seek(SeekFrom::End(0)).map_err(io_error)?;
        self.out.flush().map_err(io_error)
    }

    fn header(&self, features: &[u32]) -> Vec<u8> {
        let mut bits = [0u64; 4];
        for &number in features {
            if let Some(word) = bits.get_mut(number as usize / 64) {
                *word |= 1 << (number % 64);
            }
        }
        let attrs_bytes = self.attrs.len() as u64 * ATTR_ENTRY_BYTES;
        let words = [
            FILE_HEADER_BYTES,
            ATTR_ENTRY_BYTES,
            self.data_offset - attrs_bytes,
            attrs_bytes,
            self.data_offset,
            self.data_bytes,
            0,
            0,
        ];
        let mut header = magic(self.endian).to_vec();
        header.extend(words.iter().chain(&bits).flat_map(|&word| self.endian.put_u64(word)));
        header
    }
}

/// Writes a recording in pipe form, to something that cannot seek.
#[derive(Debug)]
pub struct PipeWriter<W> {
    out: W,
}

impl<W: Write> PipeWriter<W> {
    /// Begins a recording of these events with these features, in this machine's byte order. What
    /// is known only at the end (build IDs of what was met, sample times) has no place in this
    /// form but records.
    pub fn new(out: W, attrs: &[EventAttr], features: &Features) -> Result<PipeWriter<W>, Error> {
        PipeWriter::with_endian(out, attrs, features, Endian::NATIVE)
    }

    /// The same in a byte order of choice. The records appended must have it too.
    pub fn with_endian(
        mut out: W,
        attrs: &[EventAttr],
        features: &Features,
        endian: Endian,
    ) -> Result<PipeWriter<W>, Error> {
        let mut head = magic(endian).to_vec();
        head.extend(endian.put_u64(PIPE_HEADER_BYTES));
        for attr in attrs {
            let mut body = Vec::new();
            attr.write(&mut body, endian);
            body.extend(attr.ids.iter().flat_map(|&id| endian.put_u64(id)));
            encode::put_record(&mut head, endian, kind::HEADER_ATTR, 0, &body)?;
        }
        let attrs: Vec<&EventAttr> = attrs.iter().collect();
        let mut formats = Vec::new();
        for (number, section) in feature_sections::sections(features, &attrs, endian) {
            if number == feature::TRACING_DATA {
                formats = section;
                continue;
            }
            if number == feature::AUXTRACE {
                // It says where in a file AUX data lies.
                continue;
            }
            if number == feature::BUILD_ID {
                // In pipe form each build ID is a record of its own, made like the entries of the
                // section.
                head.extend(feature_sections::build_id_records(&features.build_ids, endian));
                continue;
            }
            let mut body = endian.put_u64(u64::from(number)).to_vec();
            body.extend(section);
            encode::put_record(&mut head, endian, kind::HEADER_FEATURE, 0, &body)?;
        }
        if !formats.is_empty() {
            put_formats(&mut head, endian, formats)?;
        }
        out.write_all(&head).map_err(io_error)?;
        Ok(PipeWriter { out })
    }

    /// The output itself.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Appends records as they are.
    pub fn append(&mut self, records: &[u8]) -> Result<(), Error> {
        self.out.write_all(records).map_err(io_error)
    }

    /// Appends build IDs that were not known at the beginning.
    pub fn build_ids(&mut self, features: &Features) -> Result<(), Error> {
        self.append(&feature_sections::build_id_records(&features.build_ids, Endian::NATIVE))
    }

    /// Hands on what the output may have buffered.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.out.flush().map_err(io_error)
    }

    /// Flushes, and gives the output back.
    pub fn finish(mut self) -> Result<W, Error> {
        self.out.flush().map_err(io_error)?;
        Ok(self.out)
    }
}

/// The formats of tracepoints have a record of their own in pipe form, since a feature's has no
/// room for them: the size of what follows, which is padded to 8 bytes and no part of the record.
fn put_formats(head: &mut Vec<u8>, endian: Endian, mut formats: Vec<u8>) -> Result<(), Error> {
    formats.resize(formats.len().next_multiple_of(8), 0);
    let bytes = u32::try_from(formats.len());
    let bytes = bytes.map_err(|_| Error::write("formats of tracepoints above 4 GiB".to_owned()))?;
    let body = [endian.put_u32(bytes), [0; 4]].concat();
    encode::put_record(head, endian, kind::HEADER_TRACING_DATA, 0, &body)?;
    head.extend(formats);
    Ok(())
}

fn magic(endian: Endian) -> [u8; 8] {
    endian.put_u64(u64::from_le_bytes(MAGIC))
}
