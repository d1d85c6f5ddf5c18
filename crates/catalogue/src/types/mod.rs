//! The types of expressions: what a field, a `let` value or an argument is, what operators and functions make of it, and whether the
//! result is what is asked for. Absent is null, and a type says whether a value may be; see [`crate::eval`] for the one rule about it.
//!
//! What passes here fails on a record only for what nobody can know before (a division by zero, a text that is no number, JSON that
//! is something else); a property test holds the evaluator to it.

mod calls;
mod facts;
mod infer;
mod operators;
mod wanted;

pub use infer::type_of;
pub use wanted::{Mistake, Reading, Wanted, check};

use crate::value::FieldType;
use std::fmt;

/// What a value may be: one of several kinds, null among them. Without any it is nothing that there is, such as an element of `[]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Type {
    /// In order, each once.
    kinds: Vec<Kind>,
}

/// A kind of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Absent.
    Null,
    /// true or false.
    Boolean,
    /// 64 bits with a sign; sizes, too.
    Integer,
    /// 64 bits without a sign.
    Unsigned,
    /// A finite number.
    Float,
    /// Text; dates and UUIDs, too.
    Text,
    /// Bytes.
    Bytes,
    /// A time.
    Timestamp,
    /// A length of time.
    Duration,
    /// A list of elements.
    List(Box<Type>),
    /// Named values.
    Struct(Members),
    /// Anything that JSON can say, except null.
    Json,
}

/// The members of a struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members {
    /// What it is, for messages.
    pub of: String,
    /// Those that are known.
    pub known: Vec<(String, Type)>,
    /// What others are; without it there are no others.
    pub others: Option<Box<Type>>,
}

impl Kind {
    /// Its place in the order of kinds.
    fn rank(&self) -> u8 {
        match self {
            Kind::Boolean => 0,
            Kind::Integer => 1,
            Kind::Unsigned => 2,
            Kind::Float => 3,
            Kind::Text => 4,
            Kind::Bytes => 5,
            Kind::Timestamp => 6,
            Kind::Duration => 7,
            Kind::List(_) => 8,
            Kind::Struct(_) => 9,
            Kind::Json => 10,
            Kind::Null => 11,
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, Kind::Integer | Kind::Unsigned | Kind::Float)
    }

    /// Whether values can be in order with those of another kind.
    fn is_ordered_with(&self, other: &Kind) -> bool {
        let scalar = matches!(self, Kind::Boolean | Kind::Text | Kind::Timestamp | Kind::Duration);
        self == &Kind::Json || other == &Kind::Json || self.is_number() && other.is_number() || scalar && self == other
    }

    /// Whether values can be equal to those of another kind.
    fn can_equal(&self, other: &Kind) -> bool {
        match (self, other) {
            (Kind::Json, _) | (_, Kind::Json) => true,
            (Kind::List(own), Kind::List(other)) => own.kinds.is_empty() || other.kinds.is_empty() || own.can_equal(other),
            (own, other) => own.rank() == other.rank() || own.is_number() && other.is_number(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Null => "null",
            Kind::Boolean => "boolean",
            Kind::Integer => "integer",
            Kind::Unsigned => "unsigned",
            Kind::Float => "float",
            Kind::Text => "text",
            Kind::Bytes => "bytes",
            Kind::Timestamp => "timestamp",
            Kind::Duration => "duration",
            Kind::List(element) if element.kinds.is_empty() => "an empty list",
            Kind::List(element) => return write!(f, "[{}]", element.present()),
            Kind::Struct(members) => &members.of,
            Kind::Json => "json",
        })
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<String> = self.kinds.iter().map(Kind::to_string).collect();
        f.write_str(&if shown.is_empty() { "nothing".to_owned() } else { shown.join(" or ") })
    }
}

impl From<Kind> for Type {
    fn from(kind: Kind) -> Self {
        Self { kinds: vec![kind] }
    }
}

impl Type {
    /// Null, and nothing else.
    pub fn null() -> Self {
        Kind::Null.into()
    }

    /// Anything: what JSON says, or null.
    pub fn any() -> Self {
        Type::from(Kind::Json).or_null()
    }

    /// A list.
    pub fn list(element: Type) -> Self {
        Kind::List(Box::new(element)).into()
    }

    /// A struct whose members are known.
    pub fn structure(of: impl Into<String>, known: Vec<(String, Type)>) -> Self {
        Kind::Struct(Members { of: of.into(), known, others: None }).into()
    }

    /// A struct with any members, all of one type.
    pub fn mapping(of: impl Into<String>, element: Type) -> Self {
        Kind::Struct(Members { of: of.into(), known: Vec::new(), others: Some(Box::new(element)) }).into()
    }

    /// What expressions see of a field that has a value.
    pub fn of(ty: &FieldType) -> Self {
        match ty {
            FieldType::Text | FieldType::Date | FieldType::Uuid => Kind::Text.into(),
            FieldType::Integer | FieldType::Size => Kind::Integer.into(),
            FieldType::Float => Kind::Float.into(),
            FieldType::Boolean => Kind::Boolean.into(),
            FieldType::Timestamp => Kind::Timestamp.into(),
            FieldType::Duration => Kind::Duration.into(),
            FieldType::Json => Kind::Json.into(),
            FieldType::Ranges => Type::list(Type::list(Kind::Integer.into())),
            FieldType::Struct(members) => {
                Type::structure("struct", members.iter().map(|member| (member.name.clone(), Type::of(&member.ty).or_null())).collect())
            }
            FieldType::List(element) => Type::list(Type::of(element)),
        }
    }

    /// The same, or null.
    pub fn or_null(self) -> Self {
        self.or(&Type::null())
    }

    /// The same where it is not null.
    pub fn present(&self) -> Self {
        Self { kinds: self.kinds.iter().filter(|kind| **kind != Kind::Null).cloned().collect() }
    }

    /// Whether a value may be null.
    pub fn may_be_null(&self) -> bool {
        self.kinds.contains(&Kind::Null)
    }

    /// What a value may be.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// What a value of this or another type is.
    pub fn or(mut self, other: &Type) -> Self {
        for kind in &other.kinds {
            match self.kinds.iter_mut().find(|own| own.rank() == kind.rank()) {
                None => self.kinds.push(kind.clone()),
                Some(own) => match (own, kind) {
                    (Kind::List(own), Kind::List(other)) => **own = std::mem::take(&mut **own).or(other),
                    (Kind::Struct(own), Kind::Struct(other)) if own != other => *own = own.or(other),
                    _ => {}
                },
            }
        }
        if self.kinds.contains(&Kind::Json) {
            self.kinds.retain(|kind| matches!(kind, Kind::Json | Kind::Null));
        }
        self.kinds.sort_by_key(Kind::rank);
        self
    }

    fn can_equal(&self, other: &Type) -> bool {
        let (own, other) = (self.present(), other.present());
        own.kinds.is_empty() || other.kinds.is_empty() || own.kinds.iter().any(|kind| other.kinds.iter().any(|other| kind.can_equal(other)))
    }

    /// What it is after it was kept as JSON: times and durations are texts then.
    pub fn as_json(&self) -> Self {
        let kinds = self.kinds.iter().map(|kind| match kind {
            Kind::Timestamp | Kind::Duration => Kind::Text.into(),
            Kind::Unsigned => Kind::Json.into(),
            Kind::Bytes => Type::null(),
            Kind::List(element) => Type::list(element.as_json()),
            Kind::Struct(members) => Kind::Struct(Members {
                of: members.of.clone(),
                known: members.known.iter().map(|(name, ty)| (name.clone(), ty.as_json())).collect(),
                others: members.others.as_ref().map(|others| Box::new(others.as_json())),
            })
            .into(),
            other => other.clone().into(),
        });
        kinds.fold(Type::default(), |all: Type, kind| all.or(&kind))
    }
}

impl Members {
    /// What a member is; nothing if there is none of this name.
    fn get(&self, name: &str) -> Option<Type> {
        let known = self.known.iter().find(|(known, _)| known == name).map(|(_, ty)| ty.clone());
        known.or_else(|| self.others.as_ref().map(|others| (**others).clone().or_null()))
    }

    /// What any member is.
    fn any(&self) -> Type {
        let known = self.known.iter().fold(Type::null(), |all, (_, ty)| all.or(ty));
        self.others.as_ref().map_or(known.clone(), |others| known.or(others))
    }

    fn or(&self, other: &Members) -> Members {
        let mut known: Vec<(String, Type)> = Vec::new();
        for (name, ty) in self.known.iter().chain(&other.known) {
            if known.iter().all(|(known, _)| known != name) {
                let both = |members: &Members| members.get(name).unwrap_or_else(Type::null);
                known.push((name.clone(), ty.clone().or(&both(self)).or(&both(other))));
            }
        }
        let others = match (&self.others, &other.others) {
            (Some(own), Some(other)) => Some(Box::new((**own).clone().or(other))),
            (Some(others), None) | (None, Some(others)) => Some(others.clone()),
            (None, None) => None,
        };
        Members { of: "struct".to_owned(), known, others }
    }
}

/// Whether a value is one of a type, as tests of the check ask.
pub fn is_of(value: &cel::Value, ty: &Type) -> bool {
    use cel::Value as Cel;
    ty.kinds.iter().any(|kind| match (value, kind) {
        (Cel::Null, Kind::Null) | (Cel::Bool(_), Kind::Boolean) | (Cel::Int(_), Kind::Integer) | (Cel::UInt(_), Kind::Unsigned) => true,
        (Cel::Float(_), Kind::Float) | (Cel::String(_), Kind::Text) | (Cel::Bytes(_), Kind::Bytes) => true,
        (Cel::Timestamp(_), Kind::Timestamp) | (Cel::Duration(_), Kind::Duration) => true,
        (Cel::List(items), Kind::List(element)) => items.iter().all(|item| is_of(item, element)),
        (Cel::Map(map), Kind::Struct(members)) => map.map.iter().all(|(name, value)| {
            let name = match name {
                cel::objects::Key::String(name) => name.to_string(),
                _ => return members.others.as_ref().is_some_and(|others| is_of(value, others)),
            };
            members.get(&name).is_some_and(|member| is_of(value, &member))
        }),
        (Cel::Null, _) => false,
        (_, Kind::Json) => true,
        _ => false,
    })
}
