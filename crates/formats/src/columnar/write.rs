//! Writes rows of values as Parquet or Arrow IPC, with their types, in memory for a group of rows.
//!
//! Timestamps are microseconds in UTC, dates are dates, lists are lists and structs structs. UUIDs, partial dates and geometries (WKT) are texts, JSON
//! is a text with the extension type `arrow.json`, and ranges are lists of pairs. What was written is read back as the same values.

use super::TableFormat;
use super::rows::JSON_EXTENSION;
use crate::TableColumn;
use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, DurationMicrosecondArray, Float64Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::extension::EXTENSION_TYPE_NAME_KEY;
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;
use stook_catalogue::value::{FieldType, StructMember, Value, member_of, ranges};

/// How many rows are collected before they are written.
const BATCH_ROWS: usize = 4_096;
/// About how many bytes of rows are collected.
const BATCH_BYTES: usize = 8 << 20;
/// About how many bytes a row group of Parquet has.
const GROUP_BYTES: usize = 32 << 20;
const ZONE: &str = "UTC";

/// Writes rows.
pub struct TableWriter {
    columns: Vec<TableColumn>,
    schema: SchemaRef,
    rows: Vec<Vec<Value>>,
    /// About how many bytes `rows` has.
    bytes: usize,
    file: TableFile,
}

/// What is written into memory, and from there to the output.
enum TableFile {
    Parquet(Box<ArrowWriter<Vec<u8>>>),
    ArrowFile(Box<FileWriter<Vec<u8>>>),
    ArrowStream(Box<StreamWriter<Vec<u8>>>),
}

impl TableWriter {
    /// Begins a file with these columns.
    ///
    /// # Errors
    /// When columns cannot be written.
    pub fn new(format: TableFormat, columns: Vec<TableColumn>) -> io::Result<Self> {
        let schema = Arc::new(Schema::new(columns.iter().map(|column| field(&column.name, &column.ty)).collect::<Vec<_>>()));
        let file = match format {
            TableFormat::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(ZstdLevel::default()))
                    .set_max_row_group_bytes(Some(GROUP_BYTES))
                    .set_created_by("stook".to_owned());
                let writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties.build())).map_err(io::Error::other)?;
                TableFile::Parquet(Box::new(writer))
            }
            TableFormat::ArrowFile => TableFile::ArrowFile(Box::new(FileWriter::try_new(Vec::new(), &schema).map_err(io::Error::other)?)),
            TableFormat::ArrowStream => TableFile::ArrowStream(Box::new(StreamWriter::try_new(Vec::new(), &schema).map_err(io::Error::other)?)),
        };
        Ok(Self { columns, schema, rows: Vec::new(), bytes: 0, file })
    }

    /// Adds a row, with a value for each column, and writes what is complete to `out`.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn row(&mut self, values: Vec<Value>, out: &mut dyn Write) -> io::Result<()> {
        self.bytes += values.iter().map(weight).sum::<usize>();
        self.rows.push(values);
        if self.rows.len() < BATCH_ROWS && self.bytes < BATCH_BYTES {
            return Ok(());
        }
        self.write_rows(out)
    }

    fn write_rows(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let columns = self.columns.iter().enumerate().map(|(position, column)| {
            let values: Vec<&Value> = rows.iter().map(|row| row.get(position).unwrap_or(&Value::Null)).collect();
            array(&values, &column.ty)
        });
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).map_err(io::Error::other)?;
        let written = match &mut self.file {
            TableFile::Parquet(writer) => {
                writer.write(&batch).map_err(io::Error::other)?;
                writer.inner_mut()
            }
            TableFile::ArrowFile(writer) => {
                writer.write(&batch).map_err(io::Error::other)?;
                writer.get_mut()
            }
            TableFile::ArrowStream(writer) => {
                writer.write(&batch).map_err(io::Error::other)?;
                writer.get_mut()
            }
        };
        out.write_all(&std::mem::take(written))
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn finish(mut self, out: &mut dyn Write) -> io::Result<()> {
        if !self.rows.is_empty() {
            self.write_rows(out)?;
        }
        let rest = match self.file {
            TableFile::Parquet(writer) => writer.into_inner().map_err(io::Error::other)?,
            TableFile::ArrowFile(mut writer) => {
                writer.finish().map_err(io::Error::other)?;
                writer.into_inner().map_err(io::Error::other)?
            }
            TableFile::ArrowStream(mut writer) => {
                writer.finish().map_err(io::Error::other)?;
                writer.into_inner().map_err(io::Error::other)?
            }
        };
        out.write_all(&rest)?;
        out.flush()
    }
}

/// About how many bytes a value has.
fn weight(value: &Value) -> usize {
    match value {
        Value::Text(text) => 16 + text.len(),
        Value::Json(json) => 16 + json.to_string().len(),
        Value::Geometry(geometry) => 16 + 40 * geometry.positions(),
        Value::List(items) => 16 + items.iter().map(weight).sum::<usize>(),
        Value::Null | Value::Cleared | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Uuid(_) => 16,
    }
}

fn field(name: &str, ty: &FieldType) -> Field {
    let field = Field::new(name, data_type(ty), true);
    match ty {
        FieldType::Json => field.with_metadata(HashMap::from([(EXTENSION_TYPE_NAME_KEY.to_owned(), JSON_EXTENSION.to_owned())])),
        _ => field,
    }
}

fn list_of(item: Field) -> DataType {
    DataType::List(Arc::new(item))
}

fn member_fields(members: &[StructMember]) -> Fields {
    members.iter().map(|member| field(&member.name, &member.ty)).collect()
}

fn data_type(ty: &FieldType) -> DataType {
    match ty {
        FieldType::Text | FieldType::Uuid | FieldType::PartialDate | FieldType::Json | FieldType::Geometry => DataType::Utf8,
        FieldType::Integer | FieldType::Size => DataType::Int64,
        FieldType::Float => DataType::Float64,
        FieldType::Boolean => DataType::Boolean,
        FieldType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some(ZONE.into())),
        FieldType::Date => DataType::Date32,
        FieldType::Duration => DataType::Duration(TimeUnit::Microsecond),
        FieldType::Ranges => list_of(Field::new("item", list_of(Field::new("item", DataType::Int64, true)), true)),
        FieldType::Struct(members) => DataType::Struct(member_fields(members)),
        FieldType::List(element) => list_of(field("item", element)),
    }
}

/// Makes a column of values of a type.
fn array(values: &[&Value], ty: &FieldType) -> Result<ArrayRef, ArrowError> {
    let integers = || values.iter().map(|value| value.as_int());
    let shown = || values.iter().map(|value| if is_absent(value) { None } else { Some(value.show(ty)) });
    Ok(match ty {
        FieldType::Text => Arc::new(StringArray::from_iter(values.iter().map(|value| value.as_text()))),
        FieldType::Uuid | FieldType::PartialDate | FieldType::Geometry => Arc::new(StringArray::from_iter(shown())),
        FieldType::Json => Arc::new(StringArray::from_iter(values.iter().map(|value| match value {
            Value::Json(json) => Some(json.to_string()),
            _ => None,
        }))),
        FieldType::Integer | FieldType::Size => Arc::new(Int64Array::from_iter(integers())),
        FieldType::Float => Arc::new(Float64Array::from_iter(values.iter().map(|value| value.as_number()))),
        FieldType::Boolean => Arc::new(BooleanArray::from_iter(values.iter().map(|value| match value {
            Value::Bool(value) => Some(*value),
            _ => None,
        }))),
        FieldType::Timestamp => Arc::new(TimestampMicrosecondArray::from_iter(integers()).with_timezone(ZONE)),
        FieldType::Date => Arc::new(Date32Array::from_iter(integers().map(|day| i32::try_from(day?).ok()))),
        FieldType::Duration => Arc::new(DurationMicrosecondArray::from_iter(integers())),
        FieldType::Ranges => {
            let pair = |(low, high)| Value::List(vec![Value::Int(low), Value::Int(high)]);
            let pairs: Vec<Value> = values
                .iter()
                .map(|value| match value {
                    Value::Json(json) => Value::List(ranges(json).map(pair).collect()),
                    _ => Value::Null,
                })
                .collect();
            let pair_type = FieldType::List(Box::new(FieldType::Integer));
            list(&pairs.iter().collect::<Vec<_>>(), &pair_type)?
        }
        FieldType::Struct(members) => {
            let columns = members.iter().map(|member| {
                let own: Vec<Value> = values
                    .iter()
                    .map(|value| match value {
                        Value::Json(json) => member_of(json, member),
                        _ => Value::Null,
                    })
                    .collect();
                array(&own.iter().collect::<Vec<_>>(), &member.ty)
            });
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            Arc::new(StructArray::try_new_with_length(member_fields(members), columns, Some(presence(values)), values.len())?)
        }
        FieldType::List(element) => list(values, element)?,
    })
}

/// Makes a column of lists.
fn list(values: &[&Value], element: &FieldType) -> Result<ArrayRef, ArrowError> {
    let offsets = OffsetBuffer::<i32>::from_lengths(values.iter().map(|value| value.elements().len()));
    let elements: Vec<&Value> = values.iter().flat_map(|value| value.elements()).collect();
    let items = array(&elements, element)?;
    Ok(Arc::new(ListArray::try_new(Arc::new(field("item", element)), offsets, items, Some(presence(values)))?))
}

fn is_absent(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Cleared)
}

fn presence(values: &[&Value]) -> NullBuffer {
    values.iter().map(|value| !is_absent(value)).collect::<Vec<bool>>().into()
}
