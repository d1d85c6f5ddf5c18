//! Reads the rows of a table as lines of JSON, in memory for a batch of them.

use super::{TableFormat, messages};
use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType};
use arrow_array::{Array, RecordBatch};
use arrow_buffer::ScalarBuffer;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_ipc::reader::StreamReader;
use arrow_json::writer::{LineDelimited, NullableEncoder, WriterBuilder};
use arrow_json::{Encoder, EncoderFactory, EncoderOptions};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, TimeUnit};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::ParquetMetaData;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use stook_catalogue::value::show_timestamp;
use stook_catalogue::value::time::in_range;

/// About how many bytes of columns become lines at a time.
const BATCH_BYTES: u64 = 4 << 20;
/// How many rows become lines at a time, at most.
const BATCH_ROWS: u64 = 1_024;
/// How many rows become text at a time.
const TEXT_ROWS: usize = 64;
/// How many zeros may stand before the first message of a file.
const MAX_PADDING: u64 = 256;
/// Decimals of more digits are texts, because numbers of JSON lose some.
const EXACT_DIGITS: u8 = 15;
/// The name of the extension type for texts that are JSON.
pub(super) const JSON_EXTENSION: &str = "arrow.json";

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// Reads a table as lines of JSON.
///
/// # Errors
/// When the file is damaged where its schema is.
pub(super) fn lines(mut file: File, format: TableFormat) -> io::Result<Box<dyn Read + Send>> {
    let damaged = |reason: String| io::Error::new(io::ErrorKind::InvalidData, format!("a damaged file of {}: {reason}", format.name()));
    let (batches, groups): (Batches, Vec<u64>) = match format {
        TableFormat::Parquet => {
            let opened = guarded(|| ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| error.to_string())).map_err(&damaged)?;
            check_names(opened.schema())?;
            let groups = opened.metadata().row_groups().iter().map(|group| u64::try_from(group.num_rows()).unwrap_or(0)).collect();
            let size = batch_rows(opened.metadata());
            let reader = guarded(|| opened.with_batch_size(size).build().map_err(|error| error.to_string())).map_err(&damaged)?;
            (Box::new(reader), groups)
        }
        TableFormat::ArrowFile | TableFormat::ArrowStream => {
            seek_first_message(&mut file, format)?;
            messages::check(&mut file)?;
            let reader = guarded(|| StreamReader::try_new(BufReader::new(file), None).map_err(|error| error.to_string())).map_err(&damaged)?;
            check_names(&reader.schema())?;
            (Box::new(reader), Vec::new())
        }
    };
    Ok(Box::new(RowLines { batches, format, groups, rows: 0, batch: None, text: Vec::new(), at: 0 }))
}

/// Goes to the first message: in a file, after the magic number and the zeros that follow it.
fn seek_first_message(file: &mut File, format: TableFormat) -> io::Result<()> {
    let mut at = 0;
    if format == TableFormat::ArrowFile {
        at = super::FRONT as u64;
        file.seek(SeekFrom::Start(at))?;
        let mut front = Vec::new();
        Read::by_ref(file).take(MAX_PADDING).read_to_end(&mut front)?;
        at += front.chunks(super::FRONT).take_while(|word| word.iter().all(|byte| *byte == 0)).map(|word| word.len() as u64).sum::<u64>();
    }
    file.seek(SeekFrom::Start(at)).map(|_| ())
}

/// Calls a reader of possibly damaged bytes; its panics are errors.
fn guarded<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err("its parts contradict each other".to_owned()))
}

/// Refuses two columns of one name, of which a path would find only one.
fn check_names(schema: &Schema) -> io::Result<()> {
    let mut names = HashSet::new();
    match schema.fields().iter().find(|field| !names.insert(field.name())) {
        Some(field) => {
            Err(io::Error::new(io::ErrorKind::InvalidData, format!("two of its columns are called `{}`; rename one of them", field.name())))
        }
        None => Ok(()),
    }
}

/// How many rows are read at a time: few if they are long.
fn batch_rows(metadata: &ParquetMetaData) -> usize {
    let groups = metadata.row_groups().iter();
    let (rows, bytes) =
        groups.fold((1, 1), |(rows, bytes), group| (rows + group.num_rows().max(0) as u64, bytes + group.total_byte_size().max(0) as u64));
    (BATCH_BYTES / (bytes / rows).max(1)).clamp(1, BATCH_ROWS) as usize
}

/// The rows of a table as text, made while they are read.
struct RowLines {
    batches: Batches,
    format: TableFormat,
    /// The rows of each row group.
    groups: Vec<u64>,
    /// How many rows have become text.
    rows: u64,
    /// What is left of the last batch.
    batch: Option<RecordBatch>,
    text: Vec<u8>,
    /// How many bytes of `text` were returned.
    at: usize,
}

impl RowLines {
    /// Makes text of the next rows; none at the end.
    fn advance(&mut self) -> Result<(), String> {
        (self.at, self.text) = (0, std::mem::take(&mut self.text));
        self.text.clear();
        let batch = match self.batch.take().filter(|batch| batch.num_rows() > 0) {
            Some(batch) => batch,
            None => match self.batches.next() {
                Some(batch) => batch.map_err(|error| error.to_string())?,
                None => return Ok(()),
            },
        };
        let count = batch.num_rows().min(TEXT_ROWS);
        let mut writer = WriterBuilder::new().with_encoder_factory(Arc::new(DocumentValues)).build::<_, LineDelimited>(&mut self.text);
        writer.write(&batch.slice(0, count)).and_then(|()| writer.finish()).map_err(|error| error.to_string())?;
        self.rows += count as u64;
        self.batch = Some(batch.slice(count, batch.num_rows() - count));
        Ok(())
    }

    /// Whether nothing is left.
    fn is_at_end(&self) -> bool {
        self.text.is_empty() && self.batch.is_none()
    }

    /// Where reading stopped.
    fn place(&self) -> String {
        let mut before = 0;
        let group = self.groups.iter().position(|rows| {
            before += rows;
            self.rows < before
        });
        let group = group.map_or_else(String::new, |group| format!(" in row group {}", group + 1));
        if self.rows == 0 { format!("at its first rows{group}") } else { format!("after row {}{group}", self.rows) }
    }
}

impl Read for RowLines {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at == self.text.len() {
            let advanced = catch_unwind(AssertUnwindSafe(|| self.advance())).unwrap_or_else(|_| Err("its parts contradict each other".to_owned()));
            if let Err(reason) = advanced {
                let reason = format!("a damaged file of {}, {}: {reason}", self.format.name(), self.place());
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
            if self.is_at_end() {
                return Ok(0);
            }
        }
        let count = out.len().min(self.text.len() - self.at);
        out[..count].copy_from_slice(&self.text[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// How values are written where that differs from Arrow's JSON: times in UTC, long decimals as texts, and texts that are JSON as what they are.
#[derive(Debug)]
struct DocumentValues;

impl EncoderFactory for DocumentValues {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        _: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let nulls = array.nulls().cloned();
        let encoder: Box<dyn Encoder + 'a> = match array.data_type() {
            DataType::Timestamp(unit, zone) => Box::new(Times { values: ticks(array, *unit), unit: *unit, has_zone: zone.is_some() }),
            DataType::Decimal32(digits, _) | DataType::Decimal64(digits, _) | DataType::Decimal128(digits, _) | DataType::Decimal256(digits, _)
                if *digits > EXACT_DIGITS =>
            {
                Box::new(ShownTexts(ArrayFormatter::try_new(array, &SHOWN)?))
            }
            DataType::Utf8 if is_json(field) => Box::new(JsonTexts(array.as_string::<i32>())),
            _ => return Ok(None),
        };
        Ok(Some(NullableEncoder::new(encoder, nulls)))
    }
}

/// Whether the texts of a field, or of its lists, whose elements come with the field of the list, are JSON.
fn is_json(field: &Field) -> bool {
    field.extension_type_name() == Some(JSON_EXTENSION)
        || match field.data_type() {
            DataType::List(item) => is_json(item),
            _ => false,
        }
}

const SHOWN: FormatOptions<'static> = FormatOptions::new();

fn ticks(array: &dyn Array, unit: TimeUnit) -> ScalarBuffer<i64> {
    match unit {
        TimeUnit::Second => array.as_primitive::<TimestampSecondType>().values().clone(),
        TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().values().clone(),
        TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().values().clone(),
        TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().values().clone(),
    }
}

/// Times as RFC 3339. The instant of a time with a zone is in UTC; one without has no offset.
struct Times {
    values: ScalarBuffer<i64>,
    unit: TimeUnit,
    has_zone: bool,
}

impl Encoder for Times {
    fn encode(&mut self, index: usize, out: &mut Vec<u8>) {
        let tick = self.values[index];
        let (micros, nanoseconds) = match self.unit {
            TimeUnit::Second => (tick.checked_mul(1_000_000), 0),
            TimeUnit::Millisecond => (tick.checked_mul(1_000), 0),
            TimeUnit::Microsecond => (Some(tick), 0),
            TimeUnit::Nanosecond => (Some(tick.div_euclid(1_000)), tick.rem_euclid(1_000)),
        };
        let Some(micros) = micros.and_then(in_range) else {
            // a number is no time, and is reported as such
            out.extend_from_slice(tick.to_string().as_bytes());
            return;
        };
        let shown = if nanoseconds == 0 {
            show_timestamp(micros)
        } else {
            let seconds = show_timestamp(micros.div_euclid(1_000_000) * 1_000_000);
            format!("{}.{:06}{nanoseconds:03}Z", seconds.trim_end_matches('Z'), micros.rem_euclid(1_000_000))
        };
        let shown = if self.has_zone { shown.as_str() } else { shown.trim_end_matches('Z') };
        out.extend([b"\"", shown.as_bytes(), b"\""].concat());
    }
}

/// Values as texts of digits.
struct ShownTexts<'a>(ArrayFormatter<'a>);

impl Encoder for ShownTexts<'_> {
    fn encode(&mut self, index: usize, out: &mut Vec<u8>) {
        // writing to a vector does not fail
        let _ = write!(out, "\"{}\"", self.0.value(index));
    }
}

/// Texts that are JSON; others stay texts.
struct JsonTexts<'a>(&'a arrow_array::StringArray);

impl Encoder for JsonTexts<'_> {
    fn encode(&mut self, index: usize, out: &mut Vec<u8>) {
        let text = self.0.value(index);
        let json: serde_json::Value = serde_json::from_str(text).unwrap_or_else(|_| text.into());
        out.extend_from_slice(json.to_string().as_bytes());
    }
}
