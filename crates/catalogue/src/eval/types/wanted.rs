//! Checks whether an expression has the type that is expected at its position.

use super::checker::{ExpressionError, TypeError};
use super::infer::type_of;
use super::{Type, TypeKind};
use crate::eval::expression::Expression;
use crate::eval::tables::ConstantTables;
use crate::value::{FieldType, StructMember, from_text};
use cel::common::ast::{Expr, LiteralValue};

/// How texts may become values of other types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextConversion {
    /// Like texts of a document: they are converted to the field's type.
    Document,
    /// Only to types that no function makes: dates, sizes, UUIDs.
    Value,
}

/// What is expected of an expression.
#[derive(Debug, Clone, Copy)]
pub enum Expected<'w> {
    /// A value of a field.
    Field(&'w FieldType, TextConversion),
    /// The key of a record: a text that is never null.
    Key,
    /// true or false; null means false.
    Condition,
    /// A number, duration or time.
    Number,
}

/// Checks an expression over names of these types, and returns its type.
///
/// # Errors
/// What can never work, or does not have the expected type.
pub fn check(
    expression: &Expression,
    tables: &ConstantTables,
    names: &dyn Fn(&str) -> Option<Type>,
    wanted: Expected<'_>,
) -> Result<Type, ExpressionError> {
    let ty = type_of(expression, tables, names)?;
    let root = expression.root();
    let shown = expression.source();
    let wrong = |message: String, help: Option<String>| TypeError { at: root.id, message, help, whole: true }.locate(expression);
    match wanted {
        Expected::Condition => {
            if let Some(kind) = ty.kinds.iter().find(|kind| !matches!(kind, TypeKind::Boolean | TypeKind::Null | TypeKind::Json)) {
                let help = format!("write what must hold of it, for example `{} != null`", short(shown));
                return Err(wrong(format!("a condition is true or false, this is {kind}"), Some(help)));
            }
        }
        Expected::Number => {
            let fits =
                |kind: &&TypeKind| kind.is_number() || matches!(kind, TypeKind::Timestamp | TypeKind::Duration | TypeKind::Null | TypeKind::Json);
            if let Some(kind) = ty.kinds.iter().find(|kind| !fits(kind)) {
                return Err(wrong(format!("this is a number, a duration or a time, not {kind}"), None));
            }
        }
        Expected::Key => {
            if let Some((kind, help)) =
                ty.present().kinds.iter().find_map(|kind| Some((kind, misfit(kind, &FieldType::Text, TextConversion::Value, shown)?)))
            {
                return Err(wrong(format!("a key is text, this is {kind}"), help));
            }
            if ty.may_be_null() && ty != Type::any() {
                let help = format!("wrap it in coalesce({}, 'none'), or make the fields that it is made of `required: true`", short(shown));
                return Err(wrong("a record needs a key, and this may be null".to_owned(), Some(help)));
            }
        }
        Expected::Field(field, reading) => {
            if let Expr::Literal(LiteralValue::String(text)) = &root.expr
                && *field != FieldType::Text
                // a text is JSON as it is, unless it is read as a document
                && (*field.element() != FieldType::Json || reading == TextConversion::Document)
                && let Err(error) = from_text(text.inner(), field.element(), None)
            {
                return Err(wrong(error.to_string(), None));
            }
            if let Some((kind, help)) = ty.present().kinds.iter().find_map(|kind| Some((kind, misfit(kind, field, reading, shown)?))) {
                return Err(wrong(format!("this is {kind}, and {field} is needed"), help));
            }
        }
    }
    Ok(ty)
}

/// Returns `Some` if values of a kind cannot become those of a field, with a suggestion if there is one.
fn misfit(kind: &TypeKind, field: &FieldType, reading: TextConversion, shown: &str) -> Option<Option<String>> {
    let write = |function: &str| Some(Some(format!("write {function}({})", short(shown))));
    match (kind, field) {
        (TypeKind::Bytes, _) => write("string"),
        (TypeKind::Null | TypeKind::Json, _) | (_, FieldType::Json) => None,
        // ranges in both of their forms
        (TypeKind::List(element), FieldType::Ranges) => {
            let inner = element.present();
            let fits = |kind: &TypeKind| match kind {
                TypeKind::Integer | TypeKind::Json => true,
                TypeKind::List(pair) => pair.present().kinds.iter().all(|kind| matches!(kind, TypeKind::Integer | TypeKind::Json)),
                _ => false,
            };
            if inner.kinds.iter().all(fits) { None } else { Some(None) }
        }
        (TypeKind::List(element), FieldType::List(wanted)) => {
            element.present().kinds.iter().find_map(|kind| misfit(kind, wanted, reading, shown)).map(|_| None)
        }
        (TypeKind::List(element), FieldType::Text) if element.present().kinds.iter().all(|kind| *kind == TypeKind::Text) => write("squash"),
        (TypeKind::List(_), _) => Some(None),
        (kind, FieldType::List(wanted)) => misfit(kind, wanted, reading, shown),
        (TypeKind::Struct(actual), FieldType::Struct(wanted)) => {
            let kinds = |member: &StructMember| actual.get(&member.name).map(|ty| ty.present().kinds).unwrap_or_default();
            let wrong = wanted.iter().any(|member| kinds(member).iter().any(|kind| misfit(kind, &member.ty, reading, shown).is_some()));
            wrong.then_some(None)
        }
        (TypeKind::Struct(_) | TypeKind::Geometry, FieldType::Geometry) => None,
        (TypeKind::Struct(_), _) | (_, FieldType::Struct(_)) => Some(None),
        (TypeKind::Geometry, FieldType::Text) => write("string"),
        (_, FieldType::Text) => None,
        (TypeKind::Text, FieldType::Date | FieldType::PartialDate | FieldType::Uuid | FieldType::Size | FieldType::Ranges) => None,
        (TypeKind::Text, _) if reading == TextConversion::Document => None,
        (TypeKind::Text, FieldType::Integer) => write("int"),
        (TypeKind::Text, FieldType::Float) => write("double"),
        (TypeKind::Text, FieldType::Boolean) => write("bool"),
        (TypeKind::Text, FieldType::Timestamp) => write("timestamp"),
        (TypeKind::Text, FieldType::Duration) => write("duration"),
        (TypeKind::Text, FieldType::Geometry) => write("geometry"),
        (TypeKind::Integer | TypeKind::Unsigned, FieldType::Integer | FieldType::Size | FieldType::Float) => None,
        // a year may be a number
        (TypeKind::Integer, FieldType::Ranges | FieldType::PartialDate) => None,
        (TypeKind::Float, FieldType::Float) => None,
        (TypeKind::Float, FieldType::Integer | FieldType::Size) => write("int"),
        (TypeKind::Boolean, FieldType::Boolean) => None,
        (TypeKind::Timestamp, FieldType::Timestamp) => None,
        (TypeKind::Timestamp, FieldType::Date | FieldType::PartialDate) => Some(Some(format!("write strftime({}, '%Y-%m-%d')", short(shown)))),
        (TypeKind::Duration, FieldType::Duration) => None,
        (TypeKind::Duration, FieldType::Float) => Some(Some(format!("write {} / duration('1s')", enclosed(shown)))),
        (TypeKind::Duration, FieldType::Integer) => Some(Some(format!("write {}.getSeconds()", enclosed(shown)))),
        _ => Some(None),
    }
}

/// Puts an expression in parentheses if another one needs that.
fn enclosed(shown: &str) -> std::borrow::Cow<'_, str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let shown = short(shown);
    if shown.chars().all(is_name) { shown.into() } else { format!("({shown})").into() }
}

/// Shortens an expression for a message.
fn short(shown: &str) -> &str {
    let shown = shown.trim();
    if shown.len() <= 60 && !shown.contains('\n') { shown } else { "..." }
}
