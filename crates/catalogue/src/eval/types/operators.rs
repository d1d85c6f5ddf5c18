//! The result types of operators.

use super::checker::{TypeError, TypeResult};
use super::{Type, TypeKind};
use cel::common::ast::IdedExpr;

/// Suggests how two values of different types can be compared.
pub(super) fn comparison_help(left: &Type, right: &Type) -> String {
    let has = |ty: &Type, kind: &dyn Fn(&TypeKind) -> bool| ty.kinds.iter().any(kind);
    let text = |ty: &Type| has(ty, &|kind| *kind == TypeKind::Text);
    let either = |kind: &dyn Fn(&TypeKind) -> bool| has(left, kind) || has(right, kind);
    match () {
        () if (text(left) || text(right)) && either(&TypeKind::is_number) => {
            "compare texts with texts: string(x), or numbers with numbers: int(x)".to_owned()
        }
        () if (text(left) || text(right)) && either(&|kind| *kind == TypeKind::Timestamp) => {
            "timestamp('2026-01-31T00:00:00Z') makes a time of a text".to_owned()
        }
        () if (text(left) || text(right)) && either(&|kind| *kind == TypeKind::Duration) => "duration('90s') makes a duration of a text".to_owned(),
        () if (text(left) || text(right)) && either(&|kind| *kind == TypeKind::Geometry) => {
            "geometry('POINT(14.5 50)') makes a geometry of a text".to_owned()
        }
        () if (text(left) || text(right)) && either(&|kind| *kind == TypeKind::Boolean) => "true and false are written without quotes".to_owned(),
        () => "compare values of one type".to_owned(),
    }
}

/// Returns the result type of a binary operator.
pub(super) fn binary(at: &IdedExpr, operator: &str, left: &Type, right: &Type) -> TypeResult {
    let sign = operator.trim_matches('_');
    let compares = matches!(sign, "<" | "<=" | ">" | ">=");
    let mut found = Type::default();
    for first in left.present().kinds() {
        for second in right.present().kinds() {
            let result = if compares { first.is_ordered_with(second).then_some(TypeKind::Boolean) } else { arithmetic(sign, first, second) };
            match result {
                Some(kind) => found = found.or(&kind.into()),
                None if compares => {
                    let wrong = TypeError::new(at, format!("{first} is not compared with {second}"));
                    return Err(wrong.help(comparison_help(&first.clone().into(), &second.clone().into())));
                }
                None => {
                    let wrong = TypeError::new(at, format!("`{sign}` does not take {first} and {second}"));
                    let is_text = *first == TypeKind::Text || *second == TypeKind::Text;
                    return Err(if sign == "+" && is_text { wrong.help("string(x) makes a text of it") } else { wrong });
                }
            }
        }
    }
    // without any kind, the result is unknown
    let absent = left.may_be_null() || right.may_be_null() || found.kinds.is_empty();
    Ok(if absent { found.or_null() } else { found })
}

fn arithmetic(sign: &str, first: &TypeKind, second: &TypeKind) -> Option<TypeKind> {
    use TypeKind::{Bytes, Duration, Float, Integer, Json, List, Text, Timestamp, Unsigned};
    Some(match (sign, first, second) {
        ("+", Text, Text | Json) | ("+", Json, Text) => Text,
        ("+", Bytes, Bytes | Json) | ("+", Json, Bytes) => Bytes,
        ("+", List(own), List(other)) => List(Box::new((**own).clone().or(other))),
        ("+", List(own), Json) | ("+", Json, List(own)) => List(Box::new((**own).clone().or(&Type::any()))),
        (_, Json, Json) => Json,
        (_, Json, Integer | Float | Unsigned | Duration | Timestamp) | (_, Integer | Float | Unsigned | Duration | Timestamp, Json) => Json,
        ("+" | "-" | "*" | "/" | "%", Integer, Integer) => Integer,
        ("+" | "-" | "*" | "/" | "%", Unsigned, Unsigned) => Unsigned,
        ("+" | "-" | "*" | "/", Integer | Float, Integer | Float) => Float,
        ("+", Timestamp, Duration) | ("+", Duration, Timestamp) | ("-", Timestamp, Duration) => Timestamp,
        ("+" | "-", Duration, Duration) | ("-", Timestamp, Timestamp) => Duration,
        ("*", Duration, Integer | Float) | ("*", Integer | Float, Duration) | ("/", Duration, Integer | Float) => Duration,
        ("/", Duration, Duration) => Float,
        _ => return None,
    })
}
