//! The types of fields.

use std::fmt;
use std::sync::Arc;

/// The type of a field.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FieldType {
    /// Unicode text, ordered by its UTF-8 bytes.
    Text,
    /// A signed 64-bit integer.
    Integer,
    /// A finite 64-bit floating point number.
    Float,
    /// true or false.
    Boolean,
    /// Microseconds since 1970-01-01T00:00:00Z.
    Timestamp,
    /// Days since 1970-01-01.
    Date,
    /// A date of which the day, or the day and the month, may be unknown, or a range of dates; see [`super::PartialDate`].
    PartialDate,
    /// Microseconds.
    Duration,
    /// Bytes.
    Size,
    /// 128 bits.
    Uuid,
    /// Any JSON value.
    Json,
    /// A set of integers, kept as ranges: `1-5, 8`.
    Ranges,
    /// Points, lines and areas on the Earth, in one canonical form.
    Geometry,
    /// Named values; only as the elements of a list.
    Struct(Arc<[StructMember]>),
    /// A list of one of the other types, except lists.
    List(Box<FieldType>),
}

/// A member of a struct.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StructMember {
    /// Its name.
    pub name: String,
    /// Its type: a scalar one, or ranges.
    pub ty: FieldType,
}

/// The names of the scalar types in definitions.
pub const TYPE_NAMES: [(&str, FieldType); 13] = [
    ("text", FieldType::Text),
    ("integer", FieldType::Integer),
    ("float", FieldType::Float),
    ("boolean", FieldType::Boolean),
    ("timestamp", FieldType::Timestamp),
    ("date", FieldType::Date),
    ("partial_date", FieldType::PartialDate),
    ("duration", FieldType::Duration),
    ("size", FieldType::Size),
    ("uuid", FieldType::Uuid),
    ("json", FieldType::Json),
    ("ranges", FieldType::Ranges),
    ("geometry", FieldType::Geometry),
];

impl FieldType {
    /// Returns the scalar type called `name`.
    pub fn named(name: &str) -> Option<Self> {
        TYPE_NAMES.iter().find(|(known, _)| *known == name).map(|(_, ty)| ty.clone())
    }

    /// Returns the type of a list's elements, or the type itself if it is not a list.
    pub fn element(&self) -> &FieldType {
        match self {
            FieldType::List(element) => element,
            scalar => scalar,
        }
    }

    /// Whether values of this type are lists.
    pub fn is_list(&self) -> bool {
        matches!(self, FieldType::List(_))
    }

    /// Returns the members of a list's structs; none for other types.
    pub fn members(&self) -> &[StructMember] {
        match self.element() {
            FieldType::Struct(members) => members,
            _ => &[],
        }
    }

    /// Whether values can be compared and sorted.
    pub fn is_ordered(&self) -> bool {
        !matches!(self, FieldType::Json | FieldType::Ranges | FieldType::Geometry | FieldType::Struct(_) | FieldType::List(_))
    }
}

impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldType::List(element) => return write!(f, "[{element}]"),
            FieldType::Struct(members) => {
                let members: Vec<String> = members.iter().map(|member| format!("{}: {}", member.name, member.ty)).collect();
                return write!(f, "{{{}}}", members.join(", "));
            }
            _ => {}
        }
        let name = TYPE_NAMES.iter().find(|(_, ty)| ty == self).map_or("?", |(name, _)| name);
        f.write_str(name)
    }
}
