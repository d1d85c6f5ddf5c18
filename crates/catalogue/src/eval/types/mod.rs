//! The types of expressions: those of fields, `let` values and arguments, those of the results of operators and functions, and whether the result is
//! of the expected type. A type includes null if a value may be absent; see [`crate::eval`] for the rule.
//!
//! An expression that passes can only fail because of values (a division by zero, a text that is not a number, JSON of another type); a property test
//! checks this.

mod calls;
mod checker;
mod facts;
mod infer;
mod operators;
mod wanted;

pub use checker::ExpressionError;
pub use infer::type_of;
pub use wanted::{Expected, TextConversion, check};

use crate::value::FieldType;
use std::fmt;

/// The possible kinds of a value, null among them. Without any kind there is no value, as for an element of `[]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Type {
    /// Sorted, each once.
    kinds: Vec<TypeKind>,
}

/// A kind of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeKind {
    /// Null.
    Null,
    /// true or false.
    Boolean,
    /// 64 bits with a sign; also sizes.
    Integer,
    /// 64 bits without a sign.
    Unsigned,
    /// A finite number.
    Float,
    /// Text; also dates and UUIDs.
    Text,
    /// Bytes.
    Bytes,
    /// A time.
    Timestamp,
    /// A length of time.
    Duration,
    /// A geometry.
    Geometry,
    /// A list of elements.
    List(Box<Type>),
    /// Named values.
    Struct(StructType),
    /// Any JSON value except null.
    Json,
}

/// The members of a struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StructType {
    /// Its description, for messages.
    pub of: String,
    /// The known members.
    pub named_members: Vec<(String, Type)>,
    /// The type of other members; `None` if there are none.
    pub other_members: Option<Box<Type>>,
}

impl TypeKind {
    /// Its rank in the order of kinds.
    fn rank(&self) -> u8 {
        match self {
            TypeKind::Boolean => 0,
            TypeKind::Integer => 1,
            TypeKind::Unsigned => 2,
            TypeKind::Float => 3,
            TypeKind::Text => 4,
            TypeKind::Bytes => 5,
            TypeKind::Timestamp => 6,
            TypeKind::Duration => 7,
            TypeKind::Geometry => 8,
            TypeKind::List(_) => 9,
            TypeKind::Struct(_) => 10,
            TypeKind::Json => 11,
            TypeKind::Null => 12,
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, TypeKind::Integer | TypeKind::Unsigned | TypeKind::Float)
    }

    /// Whether values can be ordered with those of another kind.
    fn is_ordered_with(&self, other: &TypeKind) -> bool {
        let scalar = matches!(self, TypeKind::Boolean | TypeKind::Text | TypeKind::Timestamp | TypeKind::Duration);
        self == &TypeKind::Json || other == &TypeKind::Json || self.is_number() && other.is_number() || scalar && self == other
    }

    /// Whether values can be equal to those of another kind.
    fn can_equal(&self, other: &TypeKind) -> bool {
        match (self, other) {
            (TypeKind::Json, _) | (_, TypeKind::Json) => true,
            (TypeKind::List(own), TypeKind::List(other)) => own.kinds.is_empty() || other.kinds.is_empty() || own.can_equal(other),
            (own, other) => own.rank() == other.rank() || own.is_number() && other.is_number(),
        }
    }
}

impl fmt::Display for TypeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TypeKind::Null => "null",
            TypeKind::Boolean => "boolean",
            TypeKind::Integer => "integer",
            TypeKind::Unsigned => "unsigned",
            TypeKind::Float => "float",
            TypeKind::Text => "text",
            TypeKind::Bytes => "bytes",
            TypeKind::Timestamp => "timestamp",
            TypeKind::Duration => "duration",
            TypeKind::Geometry => "geometry",
            TypeKind::List(element) if element.kinds.is_empty() => "an empty list",
            TypeKind::List(element) => return write!(f, "[{}]", element.present()),
            TypeKind::Struct(members) => &members.of,
            TypeKind::Json => "json",
        })
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<String> = self.kinds.iter().map(TypeKind::to_string).collect();
        f.write_str(&if shown.is_empty() { "nothing".to_owned() } else { shown.join(" or ") })
    }
}

impl From<TypeKind> for Type {
    fn from(kind: TypeKind) -> Self {
        Self { kinds: vec![kind] }
    }
}

impl Type {
    /// Only null.
    pub fn null() -> Self {
        TypeKind::Null.into()
    }

    /// Any JSON value, or null.
    pub fn any() -> Self {
        Type::from(TypeKind::Json).or_null()
    }

    /// A list.
    pub fn list(element: Type) -> Self {
        TypeKind::List(Box::new(element)).into()
    }

    /// A struct whose members are known.
    pub fn structure(of: impl Into<String>, named_members: Vec<(String, Type)>) -> Self {
        TypeKind::Struct(StructType { of: of.into(), named_members, other_members: None }).into()
    }

    /// A struct with any members, all of one type.
    pub fn mapping(of: impl Into<String>, element: Type) -> Self {
        TypeKind::Struct(StructType { of: of.into(), named_members: Vec::new(), other_members: Some(Box::new(element)) }).into()
    }

    /// The type of a field's value in expressions, without null.
    pub fn from_field_type(ty: &FieldType) -> Self {
        match ty {
            FieldType::Text | FieldType::Date | FieldType::PartialDate | FieldType::Uuid => TypeKind::Text.into(),
            FieldType::Integer | FieldType::Size => TypeKind::Integer.into(),
            FieldType::Float => TypeKind::Float.into(),
            FieldType::Boolean => TypeKind::Boolean.into(),
            FieldType::Timestamp => TypeKind::Timestamp.into(),
            FieldType::Duration => TypeKind::Duration.into(),
            FieldType::Json => TypeKind::Json.into(),
            FieldType::Geometry => TypeKind::Geometry.into(),
            FieldType::Ranges => Type::list(Type::list(TypeKind::Integer.into())),
            FieldType::Struct(members) => {
                Type::structure("struct", members.iter().map(|member| (member.name.clone(), Type::from_field_type(&member.ty).or_null())).collect())
            }
            FieldType::List(element) => Type::list(Type::from_field_type(element)),
        }
    }

    /// Adds null.
    pub fn or_null(self) -> Self {
        self.or(&Type::null())
    }

    /// Removes null.
    pub fn present(&self) -> Self {
        Self { kinds: self.kinds.iter().filter(|kind| **kind != TypeKind::Null).cloned().collect() }
    }

    /// Whether a value may be null.
    pub fn may_be_null(&self) -> bool {
        self.kinds.contains(&TypeKind::Null)
    }

    /// Returns the possible kinds.
    pub fn kinds(&self) -> &[TypeKind] {
        &self.kinds
    }

    /// Returns the union of two types.
    pub fn or(mut self, other: &Type) -> Self {
        for kind in &other.kinds {
            match self.kinds.iter_mut().find(|own| own.rank() == kind.rank()) {
                None => self.kinds.push(kind.clone()),
                Some(own) => match (own, kind) {
                    (TypeKind::List(own), TypeKind::List(other)) => **own = std::mem::take(&mut **own).or(other),
                    (TypeKind::Struct(own), TypeKind::Struct(other)) if own != other => *own = own.or(other),
                    _ => {}
                },
            }
        }
        if self.kinds.contains(&TypeKind::Json) {
            self.kinds.retain(|kind| matches!(kind, TypeKind::Json | TypeKind::Null));
        }
        self.kinds.sort_by_key(TypeKind::rank);
        self
    }

    fn can_equal(&self, other: &Type) -> bool {
        let (own, other) = (self.present(), other.present());
        own.kinds.is_empty() || other.kinds.is_empty() || own.kinds.iter().any(|kind| other.kinds.iter().any(|other| kind.can_equal(other)))
    }

    /// The timestamp or duration that a value may be while one of another type is a text. Comparing these is an error.
    fn time_beside_text(&self, other: &Type) -> Option<&TypeKind> {
        let is_text = other.kinds.contains(&TypeKind::Text);
        self.kinds.iter().find(|kind| is_text && matches!(kind, TypeKind::Timestamp | TypeKind::Duration))
    }

    /// Returns the type after conversion to JSON: times and durations become texts, geometries GeoJSON.
    pub fn as_json(&self) -> Self {
        let kinds = self.kinds.iter().map(|kind| match kind {
            TypeKind::Timestamp | TypeKind::Duration => TypeKind::Text.into(),
            TypeKind::Unsigned | TypeKind::Geometry => TypeKind::Json.into(),
            TypeKind::Bytes => Type::null(),
            TypeKind::List(element) => Type::list(element.as_json()),
            TypeKind::Struct(members) => TypeKind::Struct(StructType {
                of: members.of.clone(),
                named_members: members.named_members.iter().map(|(name, ty)| (name.clone(), ty.as_json())).collect(),
                other_members: members.other_members.as_ref().map(|other_members| Box::new(other_members.as_json())),
            })
            .into(),
            other => other.clone().into(),
        });
        kinds.fold(Type::default(), |all: Type, kind| all.or(&kind))
    }
}

impl StructType {
    /// Returns the type of a member; `None` if there is no such member.
    fn get(&self, name: &str) -> Option<Type> {
        let named = self.named_members.iter().find(|(member_name, _)| member_name == name).map(|(_, ty)| ty.clone());
        named.or_else(|| self.other_members.as_ref().map(|other_members| (**other_members).clone().or_null()))
    }

    /// Returns the type of an arbitrary member.
    fn any_member(&self) -> Type {
        let named = self.named_members.iter().fold(Type::null(), |all, (_, ty)| all.or(ty));
        self.other_members.as_ref().map_or(named.clone(), |other_members| named.or(other_members))
    }

    fn or(&self, other: &StructType) -> StructType {
        let mut named_members: Vec<(String, Type)> = Vec::new();
        for (name, ty) in self.named_members.iter().chain(&other.named_members) {
            if named_members.iter().all(|(existing, _)| existing != name) {
                let both = |members: &StructType| members.get(name).unwrap_or_else(Type::null);
                named_members.push((name.clone(), ty.clone().or(&both(self)).or(&both(other))));
            }
        }
        let other_members = match (&self.other_members, &other.other_members) {
            (Some(own), Some(other)) => Some(Box::new((**own).clone().or(other))),
            (Some(other_members), None) | (None, Some(other_members)) => Some(other_members.clone()),
            (None, None) => None,
        };
        StructType { of: "struct".to_owned(), named_members, other_members }
    }
}

/// Whether a value has a type; for tests of the check.
pub fn value_has_type(value: &cel::Value, ty: &Type) -> bool {
    use cel::Value as Cel;
    ty.kinds.iter().any(|kind| match (value, kind) {
        (Cel::Null, TypeKind::Null) | (Cel::Bool(_), TypeKind::Boolean) | (Cel::Int(_), TypeKind::Integer) | (Cel::UInt(_), TypeKind::Unsigned) => {
            true
        }
        (Cel::Float(_), TypeKind::Float) | (Cel::String(_), TypeKind::Text) | (Cel::Bytes(_), TypeKind::Bytes) => true,
        (Cel::Timestamp(_), TypeKind::Timestamp) | (Cel::Duration(_), TypeKind::Duration) | (Cel::Opaque(_), TypeKind::Geometry) => true,
        (Cel::List(items), TypeKind::List(element)) => items.iter().all(|item| value_has_type(item, element)),
        (Cel::Map(map), TypeKind::Struct(members)) => map.map.iter().all(|(name, value)| {
            let name = match name {
                cel::objects::Key::String(name) => name.to_string(),
                _ => return members.other_members.as_ref().is_some_and(|other_members| value_has_type(value, other_members)),
            };
            members.get(&name).is_some_and(|member| value_has_type(value, &member))
        }),
        (Cel::Null, _) => false,
        (_, TypeKind::Json) => true,
        _ => false,
    })
}
