//! How is a row group of a counts artefact written? Column by column, with a checksum on each page.

use super::Row;
use super::checked::Checked;
use bytes::Bytes;
use parquet::column::writer::{ColumnWriter, get_column_writer};
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::errors::{ParquetError, Result};
use parquet::file::writer::SerializedFileWriter;
use std::io::Write;
use std::sync::Arc;

/// A column of texts; neighbours that are equal share their bytes.
fn texts<'r>(rows: &'r [Row<'r>], cell: impl Fn(&Row<'r>) -> &'r str) -> Vec<ByteArray> {
    let mut last = ("", ByteArray::from(""));
    let shared = |row: &Row<'r>| {
        let text = cell(row);
        if text != last.0 {
            last = (text, ByteArray::from(text));
        }
        last.1.clone()
    };
    rows.iter().map(shared).collect()
}

/// A column of sums.
fn sums<'r>(rows: &'r [Row<'r>], cell: impl Fn(&Row<'r>) -> u128) -> Vec<FixedLenByteArray> {
    let bytes: Bytes = rows.iter().flat_map(|row| cell(row).to_be_bytes()).collect();
    let cell = |at| bytes.slice(at..at + size_of::<u128>());
    let cells = (0..bytes.len()).step_by(size_of::<u128>()).map(cell);
    cells.map(|cell| FixedLenByteArray::from(ByteArray::from(cell))).collect()
}

/// Writes the next row group.
pub(super) fn write<W: Write + Send>(
    file: &mut SerializedFileWriter<W>,
    rows: &[Row<'_>],
) -> Result<()> {
    let columns = file.schema_descr().columns().to_vec();
    let properties = Arc::clone(file.properties());
    let mut group = file.next_row_group()?;
    let mut bytes = Vec::new();
    for (described, column) in columns.into_iter().zip(0usize..) {
        bytes.clear();
        let pages = Box::new(Checked::into(&mut bytes));
        let mut writer = get_column_writer(described, Arc::clone(&properties), pages);
        match &mut writer {
            ColumnWriter::ByteArrayColumnWriter(writer) => {
                let values = texts(rows, |r| match column {
                    0 => r.build_id,
                    1 => r.path,
                    2 => r.kind.name(),
                    _ => r.architecture,
                });
                writer.write_batch(&values, None, None)?;
            }
            ColumnWriter::Int64ColumnWriter(writer) => {
                let cell = |r: &Row<'_>| match column {
                    3 => r.first,
                    4 => r.second,
                    7 => r.before,
                    _ => r.after,
                };
                let cells: Vec<Option<u64>> = rows.iter().map(cell).collect();
                let levels: Vec<i16> = cells.iter().map(|c| i16::from(c.is_some())).collect();
                let values: Vec<i64> = cells.iter().flatten().map(|&v| v as i64).collect();
                writer.write_batch(&values, Some(&levels), None)?;
            }
            ColumnWriter::FixedLenByteArrayColumnWriter(writer) => {
                let values = sums(rows, |r| if column == 5 { r.count } else { r.mispredicted });
                writer.write_batch(&values, None, None)?;
            }
            _ => return Err(ParquetError::General(format!("no counts have column {column}"))),
        }
        let closed = writer.close()?;
        let own = Bytes::from(std::mem::take(&mut bytes));
        group.append_column(&own, closed)?;
    }
    group.close().map(drop)
}
