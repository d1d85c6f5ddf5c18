//! Encodes values as columns and decodes them.

use super::session::DbResult;
use crate::StoreError;
use crate::damage::Damage;
use ::tokio_postgres::Row;
use ::tokio_postgres::row::RowIndex;
use ::tokio_postgres::types::private::BytesMut;
use ::tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use std::fmt::Display;
use std::sync::Arc;
use stook_catalogue::value::{FieldType, Geometry, Value, canonical_json};
use uuid::Uuid;

type EncodeResult = Result<IsNull, Box<dyn std::error::Error + Sync + Send>>;

/// A value as a parameter.
#[derive(Debug)]
pub struct BoundValue<'v>(pub &'v Value);

impl ToSql for BoundValue<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> EncodeResult {
        match self.0 {
            Value::Null | Value::Cleared => Ok(IsNull::Yes),
            Value::Bool(value) => value.to_sql(ty, out),
            Value::Int(number) => number.to_sql(ty, out),
            Value::Float(number) => number.to_sql(ty, out),
            Value::Text(text) => (&**text).to_sql(ty, out),
            Value::Uuid(id) => Uuid::from_u128(*id).to_sql(ty, out),
            Value::Json(json) => canonical_json(json).to_sql(ty, out),
            Value::Geometry(geometry) => geometry.to_bytes().to_sql(ty, out),
            Value::List(items) => items.iter().map(BoundValue).collect::<Vec<_>>().to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// The bounding box of a geometry as a parameter; null for other values.
#[derive(Debug, Clone, Copy)]
pub struct BoundingBox(Option<[f64; 4]>);

impl BoundingBox {
    /// Returns the bounding box of a value.
    pub fn from_value(value: &Value) -> Self {
        let Value::Geometry(geometry) = value else { return Self(None) };
        let reach = geometry.reach();
        // the upper right corner comes first
        Self(Some([reach.east, reach.north, reach.west, reach.south]))
    }
}

impl ToSql for BoundingBox {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> EncodeResult {
        let Some(corners) = self.0 else { return Ok(IsNull::Yes) };
        for side in corners {
            out.extend_from_slice(&side.to_be_bytes());
        }
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::BOX
    }

    to_sql_checked!();
}

/// The location of a row (`ctid`): valid while the row is locked, until it is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowLocation([u8; 6]);

impl<'r> FromSql<'r> for RowLocation {
    fn from_sql(_: &Type, bytes: &'r [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(bytes.try_into()?))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TID
    }
}

impl ToSql for RowLocation {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> EncodeResult {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TID
    }

    to_sql_checked!();
}

/// Returns the type of a column for values of this type.
pub fn column_type(ty: &FieldType) -> String {
    match ty {
        FieldType::Integer | FieldType::Size | FieldType::Timestamp | FieldType::Date | FieldType::PartialDate | FieldType::Duration => {
            "bigint".into()
        }
        FieldType::Boolean => "boolean".into(),
        FieldType::Float => "double precision".into(),
        FieldType::Uuid => "uuid".into(),
        FieldType::Geometry => "bytea".into(),
        FieldType::Text | FieldType::Json | FieldType::Ranges | FieldType::Struct(_) => "text COLLATE \"C\"".into(),
        FieldType::List(element) => match **element {
            FieldType::Text | FieldType::Json | FieldType::Struct(_) => "text[] COLLATE \"C\"".into(),
            ref other => format!("{}[]", column_type(other)),
        },
    }
}

/// Returns the type without its collation, for casts.
pub fn bare_type(ty: &FieldType) -> String {
    column_type(ty).replace(" COLLATE \"C\"", "")
}

/// Reads columns of a row.
pub trait RowExt {
    /// Returns the value of a column, by its position or name.
    ///
    /// # Errors
    /// When it is null or of another type although it must not be, which only changes by another program can cause.
    fn at<'r, T: FromSql<'r>>(&'r self, index: impl RowIndex + Display) -> DbResult<T>;
}

impl RowExt for Row {
    fn at<'r, T: FromSql<'r>>(&'r self, index: impl RowIndex + Display) -> DbResult<T> {
        self.try_get(index).map_err(|error| {
            let reason = std::error::Error::source(&error).map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
            StoreError::Damaged(Damage::of_row("a row", reason)).into()
        })
    }
}

type DecodeResult<T> = Result<T, String>;

fn column<'r, T: FromSql<'r>>(row: &'r Row, index: usize) -> DecodeResult<Option<T>> {
    row.try_get(index).map_err(|error| error.to_string())
}

/// Reads a column's value of a type; fails with the reason why it cannot be read.
pub fn decode_column(row: &Row, index: usize, ty: &FieldType) -> DecodeResult<Value> {
    let json = |text: &str| serde_json::from_str(text).map(|json| Value::Json(Arc::new(json))).map_err(|_| "it is not JSON".to_owned());
    let texts = |texts: Vec<&str>| texts.into_iter().map(json).collect::<DecodeResult<Vec<Value>>>().map(Value::List);
    Ok(match ty {
        FieldType::Integer | FieldType::Size | FieldType::Timestamp | FieldType::Date | FieldType::PartialDate | FieldType::Duration => {
            column(row, index)?.map_or(Value::Null, Value::Int)
        }
        FieldType::Boolean => column(row, index)?.map_or(Value::Null, Value::Bool),
        FieldType::Float => column(row, index)?.map_or(Value::Null, Value::Float),
        FieldType::Uuid => column::<Uuid>(row, index)?.map_or(Value::Null, |id| Value::Uuid(id.as_u128())),
        FieldType::Geometry => match column::<&[u8]>(row, index)? {
            None => Value::Null,
            Some(bytes) => Value::Geometry(Arc::new(Geometry::from_bytes(bytes).map_err(|error| error.to_string())?)),
        },
        FieldType::Text => column::<&str>(row, index)?.map_or(Value::Null, Value::text),
        FieldType::Json | FieldType::Ranges | FieldType::Struct(_) => column::<&str>(row, index)?.map(json).transpose()?.unwrap_or_default(),
        FieldType::List(element) => match &**element {
            FieldType::Boolean => list(column::<Vec<bool>>(row, index)?, Value::Bool),
            FieldType::Float => list(column::<Vec<f64>>(row, index)?, Value::Float),
            FieldType::Uuid => list(column::<Vec<Uuid>>(row, index)?, |id| Value::Uuid(id.as_u128())),
            FieldType::Json | FieldType::Struct(_) => column::<Vec<&str>>(row, index)?.map(texts).transpose()?.unwrap_or_default(),
            FieldType::Text | FieldType::List(_) => list(column::<Vec<&str>>(row, index)?, Value::text),
            _ => list(column::<Vec<i64>>(row, index)?, Value::Int),
        },
    })
}

fn list<T>(items: Option<Vec<T>>, value: impl Fn(T) -> Value) -> Value {
    items.map_or(Value::Null, |items| Value::List(items.into_iter().map(value).collect()))
}
