//! What do the next rows of a row group hold? Its columns, read side by side some rows at a time,
//! so that a group of many rows is never in memory as a whole.

use image::ImageAddr;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{
    ByteArray, ByteArrayType, FixedLenByteArray, FixedLenByteArrayType, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::reader::RowGroupReader;

/// The first column that files without paths do not have.
const FIRST_PATH_COLUMN: usize = 7;
/// The column that only files with architectures have.
const ARCHITECTURE_COLUMN: usize = 9;

/// The columns of a row group.
pub(super) struct Columns {
    ids: Text,
    paths: Text,
    kinds: Text,
    firsts: Address,
    seconds: Address,
    sums: Sum,
    missed: Sum,
    /// Before and after; absent in files without paths.
    ends: Option<(Address, Address)>,
    /// Absent in files without architectures.
    architectures: Option<Text>,
}

/// Some rows, column by column; all of one length.
pub(super) struct Rows {
    pub(super) ids: Vec<ByteArray>,
    pub(super) paths: Vec<ByteArray>,
    pub(super) kinds: Vec<ByteArray>,
    pub(super) firsts: Vec<Option<ImageAddr>>,
    pub(super) seconds: Vec<Option<ImageAddr>>,
    pub(super) sums: Vec<u128>,
    pub(super) missed: Vec<u128>,
    pub(super) befores: Vec<Option<ImageAddr>>,
    pub(super) afters: Vec<Option<ImageAddr>>,
    /// As many as rows, or none in files without architectures.
    pub(super) architectures: Vec<ByteArray>,
}

impl Columns {
    /// The columns of a group.
    ///
    /// # Errors
    /// Where they are of other types than the counts schema has.
    pub(super) fn of(group: &dyn RowGroupReader) -> Result<Columns, ParquetError> {
        let with_paths = group.num_columns() > FIRST_PATH_COLUMN;
        let with_architectures = group.num_columns() > ARCHITECTURE_COLUMN;
        let machine = || Text::of(group, ARCHITECTURE_COLUMN);
        let end = |column| Address::of(group, FIRST_PATH_COLUMN + column);
        Ok(Columns {
            ids: Text::of(group, 0)?,
            paths: Text::of(group, 1)?,
            kinds: Text::of(group, 2)?,
            firsts: Address::of(group, 3)?,
            seconds: Address::of(group, 4)?,
            sums: Sum::of(group, 5)?,
            missed: Sum::of(group, 6)?,
            ends: if with_paths { Some((end(0)?, end(1)?)) } else { None },
            architectures: if with_architectures { Some(machine()?) } else { None },
        })
    }

    /// The next `rows` rows, or the lengths of the columns where some hold fewer.
    ///
    /// # Errors
    /// Where the pages cannot be read.
    pub(super) fn next(&mut self, rows: usize) -> Result<Result<Rows, Vec<usize>>, ParquetError> {
        let (befores, afters) = match &mut self.ends {
            Some((before, after)) => (before.next(rows)?, after.next(rows)?),
            None => (vec![None; rows], vec![None; rows]),
        };
        let architectures = match &mut self.architectures {
            Some(column) => column.next(rows)?,
            None => Vec::new(),
        };
        let machines = if self.architectures.is_some() { architectures.len() } else { rows };
        let found = Rows {
            ids: self.ids.next(rows)?,
            paths: self.paths.next(rows)?,
            kinds: self.kinds.next(rows)?,
            firsts: self.firsts.next(rows)?,
            seconds: self.seconds.next(rows)?,
            sums: self.sums.next(rows)?,
            missed: self.missed.next(rows)?,
            befores,
            afters,
            architectures,
        };
        let lengths = [
            found.ids.len(),
            found.paths.len(),
            found.kinds.len(),
            found.firsts.len(),
            found.seconds.len(),
            found.sums.len(),
            found.missed.len(),
            found.befores.len(),
            found.afters.len(),
            machines,
        ];
        Ok(if lengths.iter().all(|&n| n == rows) { Ok(found) } else { Err(lengths.to_vec()) })
    }
}

fn wrong_type(column: usize) -> ParquetError {
    ParquetError::General(format!("column {column} is of another type than the counts schema has"))
}

/// A column of strings.
struct Text(ColumnReaderImpl<ByteArrayType>);

impl Text {
    fn of(group: &dyn RowGroupReader, column: usize) -> Result<Text, ParquetError> {
        match group.get_column_reader(column)? {
            ColumnReader::ByteArrayColumnReader(reader) => Ok(Text(reader)),
            _ => Err(wrong_type(column)),
        }
    }

    fn next(&mut self, rows: usize) -> Result<Vec<ByteArray>, ParquetError> {
        let mut values = Vec::new();
        self.0.read_records(rows, None, None, &mut values)?;
        Ok(values)
    }
}

/// A column of sums of 128 bits.
struct Sum {
    column: usize,
    reader: ColumnReaderImpl<FixedLenByteArrayType>,
}

impl Sum {
    fn of(group: &dyn RowGroupReader, column: usize) -> Result<Sum, ParquetError> {
        match group.get_column_reader(column)? {
            ColumnReader::FixedLenByteArrayColumnReader(reader) => Ok(Sum { column, reader }),
            _ => Err(wrong_type(column)),
        }
    }

    fn next(&mut self, rows: usize) -> Result<Vec<u128>, ParquetError> {
        let mut values: Vec<FixedLenByteArray> = Vec::new();
        self.reader.read_records(rows, None, None, &mut values)?;
        let wide = |v: &FixedLenByteArray| <[u8; 16]>::try_from(v.data()).map(u128::from_be_bytes);
        values.iter().map(|v| wide(v).map_err(|_| wrong_type(self.column))).collect()
    }
}

/// A column of addresses, some absent.
struct Address(ColumnReaderImpl<Int64Type>);

impl Address {
    fn of(group: &dyn RowGroupReader, column: usize) -> Result<Address, ParquetError> {
        match group.get_column_reader(column)? {
            ColumnReader::Int64ColumnReader(reader) => Ok(Address(reader)),
            _ => Err(wrong_type(column)),
        }
    }

    fn next(&mut self, rows: usize) -> Result<Vec<Option<ImageAddr>>, ParquetError> {
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        self.0.read_records(rows, Some(&mut levels), None, &mut values)?;
        let mut values = values.into_iter();
        Ok(levels
            .iter()
            .map(|&l| if l == 0 { None } else { values.next().map(|v| ImageAddr(v as u64)) })
            .collect())
    }
}
