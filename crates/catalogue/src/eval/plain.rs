//! The plain part of CEL, evaluated directly over values of fields: comparisons, conditionals, texts, times, and the functions that definitions use
//! most. Converting values to CEL's for a condition such as `mission == 'S1'` costs ten times as much as the condition.
//!
//! Expressions and values that are not plain are left to CEL, so both give the same results; a test compares them.

use super::functions;
pub use super::plain_value::{PlainText, PlainValue};
use super::scope::{Name, Scope};
use super::tables::{ConstantTables, TableValue};
use super::walk::macro_of;
use crate::value::time::in_range;
use crate::value::{FieldType, Value};
use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};
use serde_json::{Map, Value as Json};

/// A compiled plain expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PlainExpression {
    Variable(Name),
    Member(Name, Name),
    Constant(PlainConstant),
    Equal(Box<[PlainExpression; 2]>),
    Different(Box<[PlainExpression; 2]>),
    And(Box<[PlainExpression; 2]>),
    Or(Box<[PlainExpression; 2]>),
    Not(Box<PlainExpression>),
    If(Box<[PlainExpression; 3]>),
    In(Box<PlainExpression>, Box<[PlainExpression]>),
    /// Whether a value is in a list from a constant table.
    InTable(Box<PlainExpression>, Box<[PlainExpression; 2]>),
    /// A part that is not plain; the other side of an operator may decide without it.
    Unknown,
    /// What is not plain, but null if one of these parts is: of most records, most fields that are computed from others are.
    NullIfAny(Box<[PlainExpression]>),
    /// What is not plain, but null if all of these parts are.
    NullIfAll(Box<[PlainExpression]>),
    Sum(Box<[PlainExpression; 2]>),
    Difference(Box<[PlainExpression; 2]>),
    /// An object without the members of these names.
    Without(Box<PlainExpression>, Box<[Box<str>]>),
    Compare(PlainComparison, Box<[PlainExpression; 2]>),
    Call(PlainFunction, Box<[PlainExpression]>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PlainConstant {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Box<str>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlainComparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlainFunction {
    Coalesce,
    Lookup,
    Substring,
    StartsWith,
    EndsWith,
    Md5,
    Hex,
    Text,
    Int,
    Abs,
    Size,
    Trim,
    Uuid5,
}

/// Compiles an expression if it is plain. Parts that may not be evaluated (of `&&`, `||` and `?:`) need not be plain.
pub(crate) fn compile(expression: &Expr) -> Option<PlainExpression> {
    Some(match expression {
        Expr::Ident(name) => PlainExpression::Variable(Name::new(name)),
        Expr::Select(select) if !select.test => match &select.operand.expr {
            Expr::Ident(of) => PlainExpression::Member(Name::new(of), Name::new(&select.field)),
            of => PlainExpression::NullIfAny([compile(of)?].into()),
        },
        Expr::Comprehension(made) => PlainExpression::NullIfAny([compile(&macro_of(made)?.range.expr)?].into()),
        Expr::Literal(literal) => PlainExpression::Constant(match literal {
            LiteralValue::Null => PlainConstant::Null,
            LiteralValue::Boolean(value) => PlainConstant::Bool(*value.inner()),
            LiteralValue::Int(number) => PlainConstant::Int(*number.inner()),
            LiteralValue::Double(number) => PlainConstant::Float(*number.inner()),
            LiteralValue::String(text) => PlainConstant::Text(text.inner().into()),
            LiteralValue::Bytes(_) | LiteralValue::UInt(_) => return None,
        }),
        Expr::Call(call) => compile_call(call)?,
        _ => return None,
    })
}

fn compile_call(call: &CallExpr) -> Option<PlainExpression> {
    let all = |items: &[IdedExpr]| items.iter().map(|item| compile(&item.expr)).collect::<Option<Vec<PlainExpression>>>();
    if let Some(target) = &call.target {
        let mut parts = vec![compile(&target.expr)?];
        parts.extend(all(&call.args)?);
        let function = match call.func_name.as_str() {
            "startsWith" => PlainFunction::StartsWith,
            "endsWith" => PlainFunction::EndsWith,
            name => return null_of(name, parts),
        };
        return Some(PlainExpression::Call(function, parts.into()));
    }
    if call.func_name == "@in" {
        let [item, list] = call.args.as_slice() else { return None };
        let list = match &list.expr {
            Expr::List(list) => list,
            Expr::Call(call) if call.func_name == "lookup" && call.target.is_none() => {
                let table_and_key = <[PlainExpression; 2]>::try_from(all(&call.args)?).ok()?;
                return Some(PlainExpression::InTable(Box::new(compile(&item.expr)?), Box::new(table_and_key)));
            }
            _ => return None,
        };
        return Some(PlainExpression::In(Box::new(compile(&item.expr)?), all(&list.elements)?.into()));
    }
    if let ("without", [of, IdedExpr { expr: Expr::List(names), .. }]) = (call.func_name.as_str(), call.args.as_slice()) {
        let name = |item: &IdedExpr| match &item.expr {
            Expr::Literal(LiteralValue::String(text)) => Some(text.inner().into()),
            _ => None,
        };
        return Some(PlainExpression::Without(Box::new(compile(&of.expr)?), names.elements.iter().map(name).collect::<Option<_>>()?));
    }
    let parts = match (call.func_name.as_str(), call.args.as_slice()) {
        ("_&&_" | "_||_" | "_?_:_", [first, rest @ ..]) => {
            let rest = rest.iter().map(|part| compile(&part.expr).unwrap_or(PlainExpression::Unknown));
            std::iter::once(compile(&first.expr)?).chain(rest).collect()
        }
        (_, parts) => all(parts)?,
    };
    let pair = |parts: Vec<PlainExpression>| <[PlainExpression; 2]>::try_from(parts).ok().map(Box::new);
    Some(match call.func_name.as_str() {
        "_==_" => PlainExpression::Equal(pair(parts)?),
        "_!=_" => PlainExpression::Different(pair(parts)?),
        "_&&_" => PlainExpression::And(pair(parts)?),
        "_||_" => PlainExpression::Or(pair(parts)?),
        "_+_" => PlainExpression::Sum(pair(parts)?),
        "_-_" => PlainExpression::Difference(pair(parts)?),
        "_<_" => PlainExpression::Compare(PlainComparison::Less, pair(parts)?),
        "_<=_" => PlainExpression::Compare(PlainComparison::LessOrEqual, pair(parts)?),
        "_>_" => PlainExpression::Compare(PlainComparison::Greater, pair(parts)?),
        "_>=_" => PlainExpression::Compare(PlainComparison::GreaterOrEqual, pair(parts)?),
        "!_" => PlainExpression::Not(Box::new(parts.into_iter().next()?)),
        "_?_:_" => PlainExpression::If(Box::new(<[PlainExpression; 3]>::try_from(parts).ok()?)),
        name => {
            let function = match name {
                "coalesce" => PlainFunction::Coalesce,
                "lookup" => PlainFunction::Lookup,
                "substring" => PlainFunction::Substring,
                "md5" => PlainFunction::Md5,
                "hex" => PlainFunction::Hex,
                "string" => PlainFunction::Text,
                "int" => PlainFunction::Int,
                "abs" => PlainFunction::Abs,
                "size" => PlainFunction::Size,
                "trim" => PlainFunction::Trim,
                "uuid5" => PlainFunction::Uuid5,
                name => return null_of(name, parts),
            };
            PlainExpression::Call(function, parts.into())
        }
    })
}

/// A call of an operator or function that is not plain, unless null decides.
fn null_of(name: &str, parts: Vec<PlainExpression>) -> Option<PlainExpression> {
    match name {
        "min" | "max" => Some(PlainExpression::NullIfAll(parts.into())),
        name if functions::function(name).is_some_and(|function| function.null_counts) => None,
        _ => Some(PlainExpression::NullIfAny(parts.into())),
    }
}

impl PlainExpression {
    /// Evaluates the expression; `None` if it meets a value that is not plain.
    pub(crate) fn evaluate<'v>(&'v self, tables: &'v ConstantTables, scope: &'v dyn Scope) -> Option<PlainValue<'v>> {
        let truth = |plain: &'v PlainExpression, scope: &'v dyn Scope| match plain.evaluate(tables, scope)? {
            PlainValue::Bool(value) => Some(value),
            _ => None,
        };
        Some(match self {
            PlainExpression::Variable(name) => scope.plain(name, None)?,
            PlainExpression::Member(of, name) => scope.plain(of, Some(name))?,
            PlainExpression::Constant(constant) => constant.value(),
            PlainExpression::Equal(sides) => PlainValue::Bool(equal(&sides[0].evaluate(tables, scope)?, &sides[1].evaluate(tables, scope)?)?),
            PlainExpression::Different(sides) => PlainValue::Bool(!equal(&sides[0].evaluate(tables, scope)?, &sides[1].evaluate(tables, scope)?)?),
            PlainExpression::And(sides) => PlainValue::Bool(truth(&sides[0], scope)? && truth(&sides[1], scope)?),
            PlainExpression::Or(sides) => PlainValue::Bool(truth(&sides[0], scope)? || truth(&sides[1], scope)?),
            PlainExpression::Not(inner) => match inner.evaluate(tables, scope)? {
                PlainValue::Bool(value) => PlainValue::Bool(!value),
                PlainValue::Null => PlainValue::Null,
                _ => return None,
            },
            PlainExpression::If(parts) => {
                let chosen = if truth(&parts[0], scope)? { &parts[1] } else { &parts[2] };
                chosen.evaluate(tables, scope)?
            }
            PlainExpression::In(item, list) => {
                let item = item.evaluate(tables, scope)?;
                let mut found = false;
                for other in list {
                    found = found || equal(&item, &other.evaluate(tables, scope)?)?;
                }
                PlainValue::Bool(found)
            }
            PlainExpression::InTable(item, table_and_key) => {
                let (PlainValue::Text(table), PlainValue::Text(key)) =
                    (table_and_key[0].evaluate(tables, scope)?, table_and_key[1].evaluate(tables, scope)?)
                else {
                    return None;
                };
                let (PlainValue::Text(item), Some(TableValue::List(list))) = (item.evaluate(tables, scope)?, tables.get(&table)?.entry(&key)) else {
                    return None;
                };
                PlainValue::Bool(list.iter().any(|listed| **listed == *item))
            }
            PlainExpression::Unknown => return None,
            PlainExpression::NullIfAny(parts) => {
                // all are evaluated: one that fails does so whatever the others are
                let mut has_null = false;
                for part in parts {
                    has_null |= matches!(part.evaluate(tables, scope)?, PlainValue::Null);
                }
                if !has_null {
                    return None;
                }
                PlainValue::Null
            }
            PlainExpression::NullIfAll(parts) => {
                for part in parts {
                    if !matches!(part.evaluate(tables, scope)?, PlainValue::Null) {
                        return None;
                    }
                }
                PlainValue::Null
            }
            PlainExpression::Sum(sides) => match (sides[0].evaluate(tables, scope)?, sides[1].evaluate(tables, scope)?) {
                (PlainValue::Text(first), PlainValue::Text(second)) if first.len() + second.len() <= functions::MAX_TEXT_BYTES => {
                    PlainValue::Text(PlainText::Made([&*first, &*second].concat()))
                }
                (PlainValue::Length(first), PlainValue::Length(second)) => PlainValue::Length(first.checked_add(second)?),
                (PlainValue::Time(first), PlainValue::Length(second)) => PlainValue::Time(in_range(first.checked_add(second)?)?),
                (PlainValue::Int(first), PlainValue::Int(second)) => PlainValue::Int(first.checked_add(second)?),
                (PlainValue::Null, _) | (_, PlainValue::Null) => PlainValue::Null,
                _ => return None,
            },
            PlainExpression::Difference(sides) => match (sides[0].evaluate(tables, scope)?, sides[1].evaluate(tables, scope)?) {
                (PlainValue::Time(first), PlainValue::Time(second)) | (PlainValue::Length(first), PlainValue::Length(second)) => {
                    PlainValue::Length(first.checked_sub(second)?)
                }
                (PlainValue::Time(first), PlainValue::Length(second)) => PlainValue::Time(in_range(first.checked_sub(second)?)?),
                (PlainValue::Int(first), PlainValue::Int(second)) => PlainValue::Int(first.checked_sub(second)?),
                (PlainValue::Null, _) | (_, PlainValue::Null) => PlainValue::Null,
                _ => return None,
            },
            PlainExpression::Without(of, names) => match of.evaluate(tables, scope)? {
                PlainValue::Whole(Value::Json(json), FieldType::Json) => PlainValue::Made(without(json.as_object()?, names)?),
                _ => return None,
            },
            PlainExpression::Compare(comparison, sides) => {
                let order = match (sides[0].evaluate(tables, scope)?, sides[1].evaluate(tables, scope)?) {
                    (PlainValue::Int(first), PlainValue::Int(second))
                    | (PlainValue::Time(first), PlainValue::Time(second))
                    | (PlainValue::Length(first), PlainValue::Length(second)) => first.cmp(&second),
                    (PlainValue::Float(first), PlainValue::Float(second)) => first.partial_cmp(&second)?,
                    (PlainValue::Null, _) | (_, PlainValue::Null) => return Some(PlainValue::Null),
                    _ => return None,
                };
                PlainValue::Bool(match comparison {
                    PlainComparison::Less => order.is_lt(),
                    PlainComparison::LessOrEqual => order.is_le(),
                    PlainComparison::Greater => order.is_gt(),
                    PlainComparison::GreaterOrEqual => order.is_ge(),
                })
            }
            PlainExpression::Call(PlainFunction::Coalesce, parts) => {
                for part in parts {
                    match part.evaluate(tables, scope)? {
                        PlainValue::Null => {}
                        found => return Some(found),
                    }
                }
                PlainValue::Null
            }
            PlainExpression::Call(function, parts) => {
                let mut arguments: [PlainValue<'v>; 3] = [PlainValue::Null, PlainValue::Null, PlainValue::Null];
                if parts.len() > arguments.len() {
                    return None;
                }
                for (argument, part) in arguments.iter_mut().zip(parts) {
                    *argument = part.evaluate(tables, scope)?;
                }
                if *function != PlainFunction::Lookup && arguments[..parts.len()].contains(&PlainValue::Null) {
                    return Some(PlainValue::Null);
                }
                call(*function, arguments, parts.len(), tables)?
            }
        })
    }
}

impl PlainConstant {
    fn value(&self) -> PlainValue<'_> {
        match self {
            PlainConstant::Null => PlainValue::Null,
            PlainConstant::Bool(value) => PlainValue::Bool(*value),
            PlainConstant::Int(number) => PlainValue::Int(*number),
            PlainConstant::Float(number) => PlainValue::Float(*number),
            PlainConstant::Text(text) => PlainValue::Text(PlainText::Borrowed(text)),
        }
    }
}

/// CEL's equality of plain values: those of different types differ. `None` if CEL must decide.
fn equal(first: &PlainValue<'_>, second: &PlainValue<'_>) -> Option<bool> {
    Some(match (first, second) {
        (PlainValue::Whole(..) | PlainValue::Object, PlainValue::Null) | (PlainValue::Null, PlainValue::Whole(..) | PlainValue::Object) => false,
        (PlainValue::Whole(..) | PlainValue::Made(_) | PlainValue::Object | PlainValue::Float(_), _)
        | (_, PlainValue::Whole(..) | PlainValue::Made(_) | PlainValue::Object | PlainValue::Float(_)) => {
            return None;
        }
        // CEL says what is wrong
        (PlainValue::Text(_), PlainValue::Time(_) | PlainValue::Length(_)) | (PlainValue::Time(_) | PlainValue::Length(_), PlainValue::Text(_)) => {
            return None;
        }
        (first, second) => first == second,
    })
}

/// Returns an object without some of its members, in the order of CEL's objects; `None` if CEL would round a number.
fn without(members: &Map<String, Json>, names: &[Box<str>]) -> Option<Json> {
    fn is_exact(json: &Json) -> bool {
        match json {
            Json::Number(number) => number.is_i64() || number.is_f64(),
            Json::Array(items) => items.iter().all(is_exact),
            Json::Object(members) => members.values().all(is_exact),
            Json::Null | Json::Bool(_) | Json::String(_) => true,
        }
    }
    let kept = members.iter().filter(|(name, _)| !names.iter().any(|dropped| **dropped == **name));
    let mut made = Json::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect());
    made.sort_all_objects();
    is_exact(&made).then_some(made)
}

fn call<'v>(
    function: PlainFunction,
    [first, second, third]: [PlainValue<'v>; 3],
    count: usize,
    tables: &'v ConstantTables,
) -> Option<PlainValue<'v>> {
    Some(match (function, first, second) {
        (PlainFunction::Lookup, PlainValue::Text(table), PlainValue::Text(key)) => match tables.get(&table)?.entry(&key) {
            Some(TableValue::Text(found)) => PlainValue::Text(PlainText::Borrowed(found)),
            Some(TableValue::List(_)) => return None,
            None => PlainValue::Null,
        },
        (PlainFunction::Substring, PlainValue::Text(text), PlainValue::Int(from)) => {
            if !text.is_ascii() {
                return None;
            }
            let to = match (count, third) {
                (2, _) => text.len() as i64,
                (_, PlainValue::Int(to)) => to,
                _ => return None,
            };
            if from < 0 || to < from || to > text.len() as i64 {
                return Some(PlainValue::Null);
            }
            let (from, to) = (from as usize, to as usize);
            match text {
                PlainText::Value(text) => PlainValue::Text(PlainText::Borrowed(&text[from..to])),
                PlainText::Borrowed(text) => PlainValue::Text(PlainText::Borrowed(&text[from..to])),
                PlainText::Made(text) => PlainValue::Text(PlainText::Made(text[from..to].to_owned())),
            }
        }
        (PlainFunction::StartsWith, PlainValue::Text(text), PlainValue::Text(beginning)) => PlainValue::Bool(text.starts_with(&*beginning)),
        (PlainFunction::EndsWith, PlainValue::Text(text), PlainValue::Text(end)) => PlainValue::Bool(text.ends_with(&*end)),
        (PlainFunction::Md5, PlainValue::Text(text), _) => PlainValue::Text(PlainText::Made(functions::md5(&text))),
        (PlainFunction::Hex, PlainValue::Text(digits), _) => PlainValue::Int(i64::from_str_radix(&digits, 16).ok()?),
        (PlainFunction::Hex, PlainValue::Int(number), _) => PlainValue::Text(PlainText::Made(format!("{number:X}"))),
        (PlainFunction::Text, PlainValue::Int(number), _) => PlainValue::Text(PlainText::Made(number.to_string())),
        (PlainFunction::Text, PlainValue::Text(text), _) => PlainValue::Text(text),
        (PlainFunction::Int, PlainValue::Text(text), _) => PlainValue::Int(text.parse().ok()?),
        (PlainFunction::Int, PlainValue::Int(number), _) => PlainValue::Int(number),
        (PlainFunction::Abs, PlainValue::Int(number), _) => PlainValue::Int(number.checked_abs()?),
        (PlainFunction::Abs, PlainValue::Length(length), _) => PlainValue::Length(length.checked_abs()?),
        // the size of a text is left to CEL
        (PlainFunction::Size, PlainValue::Whole(Value::List(items), _), _) => PlainValue::Int(items.len() as i64),
        (PlainFunction::Size, PlainValue::Whole(Value::Json(json), FieldType::Json), _) => match &**json {
            Json::Array(items) => PlainValue::Int(items.len() as i64),
            Json::Object(members) => PlainValue::Int(members.len() as i64),
            _ => return None,
        },
        (PlainFunction::Uuid5, PlainValue::Text(name), PlainValue::Text(text)) => PlainValue::Text(PlainText::Made(functions::uuid5(&name, &text))),
        (PlainFunction::Trim, PlainValue::Text(text), _) if count == 1 => PlainValue::Text(PlainText::Made(text.trim().to_owned())),
        _ => return None,
    })
}
