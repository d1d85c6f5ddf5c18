//! The plain part of CEL, evaluated over values as they are: comparisons, choices, texts, times, and the functions that
//! definitions use most. Building CEL's own values for a condition such as `mission == 'S1'` costs ten times what the
//! condition does.
//!
//! What is not plain, in an expression or in the values it meets, is left to CEL, so both give the same answers; a test
//! compares them.

use crate::expr::{Entry, Tables};
use crate::value::{FieldType, SmolStr, Value, from_json};
use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};
use serde_json::{Map, Value as Json};
use std::ops::Deref;

/// A compiled plain expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Plain {
    Variable(Box<str>),
    Member(Box<str>, Box<str>),
    Constant(Constant),
    Equal(Box<[Plain; 2]>),
    Different(Box<[Plain; 2]>),
    And(Box<[Plain; 2]>),
    Or(Box<[Plain; 2]>),
    Not(Box<Plain>),
    If(Box<[Plain; 3]>),
    In(Box<Plain>, Box<[Plain]>),
    /// A value among those of a table's list.
    InTable(Box<Plain>, Box<[Plain; 2]>),
    /// What is not plain; beside it, what is may already decide.
    Unknown,
    Sum(Box<[Plain; 2]>),
    Difference(Box<[Plain; 2]>),
    /// An object without members of these names.
    Without(Box<Plain>, Box<[Box<str>]>),
    Compare(Comparison, Box<[Plain; 2]>),
    Call(Function, Box<[Plain]>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Constant {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Box<str>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
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

/// A value as plain expressions see it.
#[derive(Debug, Clone, PartialEq)]
pub enum Lean<'v> {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(Words<'v>),
    /// Microseconds since 1970.
    Time(i64),
    /// Microseconds.
    Length(i64),
    /// Anything else: it can be handed on, but not looked into.
    Whole(&'v Value, &'v FieldType),
    /// An object that was made.
    Made(Json),
    /// An object of which only members are known.
    Object,
}

/// A text as it was found: a value's own is shared by whoever keeps it.
#[derive(Debug, Clone)]
pub enum Words<'v> {
    /// A value's.
    Value(&'v SmolStr),
    /// Of something else.
    Borrowed(&'v str),
    /// Made by a function.
    Made(String),
}

impl Deref for Words<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Words::Value(text) => text,
            Words::Borrowed(text) => text,
            Words::Made(text) => text,
        }
    }
}

impl PartialEq for Words<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl From<Words<'_>> for SmolStr {
    fn from(text: Words<'_>) -> Self {
        match text {
            Words::Value(text) => text.clone(),
            Words::Borrowed(text) => text.into(),
            Words::Made(text) => text.into(),
        }
    }
}

impl<'v> Lean<'v> {
    /// A field's value.
    pub fn of(value: &'v Value, ty: &'v FieldType) -> Self {
        match (value, ty) {
            (Value::Null | Value::Cleared, _) => Lean::Null,
            (Value::Bool(value), _) => Lean::Bool(*value),
            (Value::Int(number), FieldType::Timestamp) => Lean::Time(*number),
            (Value::Int(number), FieldType::Duration) => Lean::Length(*number),
            (Value::Int(number), FieldType::Integer | FieldType::Size) => Lean::Int(*number),
            (Value::Float(number), _) => Lean::Float(*number),
            (Value::Text(text), _) => Lean::Text(Words::Value(text)),
            _ => Lean::Whole(value, ty),
        }
    }

    /// A member of a JSON value; nothing for what is not plain.
    pub fn of_json(json: &'v Json) -> Option<Self> {
        Some(match json {
            Json::Null => Lean::Null,
            Json::Bool(value) => Lean::Bool(*value),
            Json::String(text) => Lean::Text(Words::Borrowed(text)),
            Json::Number(number) => number.as_i64().map(Lean::Int)?,
            Json::Array(_) | Json::Object(_) => return None,
        })
    }

    /// As a value of a type; nothing where it has to be converted.
    pub fn into_value(self, ty: &FieldType) -> Option<Value> {
        Some(match (self, ty) {
            (Lean::Null, _) => Value::Null,
            (Lean::Bool(value), FieldType::Boolean) => Value::Bool(value),
            (Lean::Int(number), FieldType::Integer | FieldType::Size) => Value::Int(number),
            (Lean::Float(number), FieldType::Float) => Value::float(number),
            (Lean::Text(text), FieldType::Text) => Value::text(text),
            (Lean::Time(micros), FieldType::Timestamp) => Value::Int(crate::time::in_range(micros)?),
            (Lean::Length(micros), FieldType::Duration) => Value::Int(micros),
            (Lean::Whole(value, own), ty) if own == ty => value.clone(),
            (Lean::Text(text), FieldType::Uuid) => from_json(&(*text).into(), ty, None).ok()?,
            (Lean::Made(json), FieldType::Json) => from_json(&json, ty, None).ok()?,
            _ => return None,
        })
    }
}

/// Compiles an expression if it is plain throughout.
pub(crate) fn compile(expression: &Expr) -> Option<Plain> {
    Some(match expression {
        Expr::Ident(name) => Plain::Variable(name.as_str().into()),
        Expr::Select(select) if !select.test => match &select.operand.expr {
            Expr::Ident(of) => Plain::Member(of.as_str().into(), select.field.as_str().into()),
            _ => return None,
        },
        Expr::Literal(literal) => Plain::Constant(match literal {
            LiteralValue::Null => Constant::Null,
            LiteralValue::Boolean(value) => Constant::Bool(*value.inner()),
            LiteralValue::Int(number) => Constant::Int(*number.inner()),
            LiteralValue::Double(number) => Constant::Float(*number.inner()),
            LiteralValue::String(text) => Constant::Text(text.inner().into()),
            LiteralValue::Bytes(_) | LiteralValue::UInt(_) => return None,
        }),
        Expr::Call(call) => compile_call(call)?,
        _ => return None,
    })
}

fn compile_call(call: &CallExpr) -> Option<Plain> {
    let all = |items: &[IdedExpr]| items.iter().map(|item| compile(&item.expr)).collect::<Option<Vec<Plain>>>();
    if let Some(target) = &call.target {
        let function = match call.func_name.as_str() {
            "startsWith" => Function::StartsWith,
            "endsWith" => Function::EndsWith,
            _ => return None,
        };
        let mut parts = vec![compile(&target.expr)?];
        parts.extend(all(&call.args)?);
        return Some(Plain::Call(function, parts.into()));
    }
    if call.func_name == "@in" {
        let [item, list] = call.args.as_slice() else { return None };
        let list = match &list.expr {
            Expr::List(list) => list,
            Expr::Call(call) if call.func_name == "lookup" && call.target.is_none() => {
                let place = <[Plain; 2]>::try_from(all(&call.args)?).ok()?;
                return Some(Plain::InTable(Box::new(compile(&item.expr)?), Box::new(place)));
            }
            _ => return None,
        };
        return Some(Plain::In(Box::new(compile(&item.expr)?), all(&list.elements)?.into()));
    }
    if let ("without", [of, IdedExpr { expr: Expr::List(names), .. }]) = (call.func_name.as_str(), call.args.as_slice()) {
        let name = |item: &IdedExpr| match &item.expr {
            Expr::Literal(LiteralValue::String(text)) => Some(text.inner().into()),
            _ => None,
        };
        return Some(Plain::Without(Box::new(compile(&of.expr)?), names.elements.iter().map(name).collect::<Option<_>>()?));
    }
    let parts = match (call.func_name.as_str(), call.args.as_slice()) {
        ("_&&_" | "_||_" | "_?_:_", [first, rest @ ..]) => {
            let rest = rest.iter().map(|part| compile(&part.expr).unwrap_or(Plain::Unknown));
            std::iter::once(compile(&first.expr)?).chain(rest).collect()
        }
        (_, parts) => all(parts)?,
    };
    let two = |parts: Vec<Plain>| <[Plain; 2]>::try_from(parts).ok().map(Box::new);
    Some(match call.func_name.as_str() {
        "_==_" => Plain::Equal(two(parts)?),
        "_!=_" => Plain::Different(two(parts)?),
        "_&&_" => Plain::And(two(parts)?),
        "_||_" => Plain::Or(two(parts)?),
        "_+_" => Plain::Sum(two(parts)?),
        "_-_" => Plain::Difference(two(parts)?),
        "_<_" => Plain::Compare(Comparison::Less, two(parts)?),
        "_<=_" => Plain::Compare(Comparison::LessOrEqual, two(parts)?),
        "_>_" => Plain::Compare(Comparison::Greater, two(parts)?),
        "_>=_" => Plain::Compare(Comparison::GreaterOrEqual, two(parts)?),
        "!_" => Plain::Not(Box::new(parts.into_iter().next()?)),
        "_?_:_" => Plain::If(Box::new(<[Plain; 3]>::try_from(parts).ok()?)),
        name => {
            let function = match name {
                "coalesce" => Function::Coalesce,
                "lookup" => Function::Lookup,
                "substring" => Function::Substring,
                "md5" => Function::Md5,
                "hex" => Function::Hex,
                "string" => Function::Text,
                "int" => Function::Int,
                "abs" => Function::Abs,
                "size" => Function::Size,
                "trim" => Function::Trim,
                "uuid5" => Function::Uuid5,
                _ => return None,
            };
            Plain::Call(function, parts.into())
        }
    })
}

/// Where values come from: a name, and its member.
pub type Source<'s, 'v> = dyn FnMut(&str, Option<&str>) -> Option<Lean<'v>> + 's;

impl Plain {
    /// The expression's value; nothing where it meets something that is not plain.
    pub(crate) fn evaluate<'v>(&'v self, tables: &'v Tables, values: &mut Source<'_, 'v>) -> Option<Lean<'v>> {
        let truth = |plain: &'v Plain, values: &mut Source<'_, 'v>| match plain.evaluate(tables, values)? {
            Lean::Bool(value) => Some(value),
            _ => None,
        };
        Some(match self {
            Plain::Variable(name) => values(name, None)?,
            Plain::Member(of, name) => values(of, Some(name))?,
            Plain::Constant(constant) => constant.lean(),
            Plain::Equal(sides) => Lean::Bool(equal(&sides[0].evaluate(tables, values)?, &sides[1].evaluate(tables, values)?)?),
            Plain::Different(sides) => Lean::Bool(!equal(&sides[0].evaluate(tables, values)?, &sides[1].evaluate(tables, values)?)?),
            Plain::And(sides) => Lean::Bool(truth(&sides[0], values)? && truth(&sides[1], values)?),
            Plain::Or(sides) => Lean::Bool(truth(&sides[0], values)? || truth(&sides[1], values)?),
            Plain::Not(inner) => match inner.evaluate(tables, values)? {
                Lean::Bool(value) => Lean::Bool(!value),
                Lean::Null => Lean::Null,
                _ => return None,
            },
            Plain::If(parts) => {
                let chosen = if truth(&parts[0], values)? { &parts[1] } else { &parts[2] };
                chosen.evaluate(tables, values)?
            }
            Plain::In(item, list) => {
                let item = item.evaluate(tables, values)?;
                let mut found = false;
                for other in list {
                    found = found || equal(&item, &other.evaluate(tables, values)?)?;
                }
                Lean::Bool(found)
            }
            Plain::InTable(item, place) => {
                let (Lean::Text(table), Lean::Text(key)) = (place[0].evaluate(tables, values)?, place[1].evaluate(tables, values)?) else {
                    return None;
                };
                let (Lean::Text(item), Some(Entry::List(list))) = (item.evaluate(tables, values)?, tables.get(&*table)?.entry(&key)) else {
                    return None;
                };
                Lean::Bool(list.iter().any(|own| **own == *item))
            }
            Plain::Unknown => return None,
            Plain::Sum(sides) => match (sides[0].evaluate(tables, values)?, sides[1].evaluate(tables, values)?) {
                (Lean::Text(first), Lean::Text(second)) => Lean::Text(Words::Made([&*first, &*second].concat())),
                (Lean::Length(first), Lean::Length(second)) => Lean::Length(first.checked_add(second)?),
                (Lean::Time(first), Lean::Length(second)) => Lean::Time(crate::time::in_range(first.checked_add(second)?)?),
                (Lean::Int(first), Lean::Int(second)) => Lean::Int(first.checked_add(second)?),
                (Lean::Null, _) | (_, Lean::Null) => Lean::Null,
                _ => return None,
            },
            Plain::Difference(sides) => match (sides[0].evaluate(tables, values)?, sides[1].evaluate(tables, values)?) {
                (Lean::Time(first), Lean::Time(second)) | (Lean::Length(first), Lean::Length(second)) => Lean::Length(first.checked_sub(second)?),
                (Lean::Time(first), Lean::Length(second)) => Lean::Time(crate::time::in_range(first.checked_sub(second)?)?),
                (Lean::Int(first), Lean::Int(second)) => Lean::Int(first.checked_sub(second)?),
                (Lean::Null, _) | (_, Lean::Null) => Lean::Null,
                _ => return None,
            },
            Plain::Without(of, names) => match of.evaluate(tables, values)? {
                Lean::Whole(Value::Json(json), FieldType::Json) => Lean::Made(without(json.as_object()?, names)?),
                _ => return None,
            },
            Plain::Compare(comparison, sides) => {
                let order = match (sides[0].evaluate(tables, values)?, sides[1].evaluate(tables, values)?) {
                    (Lean::Int(first), Lean::Int(second)) | (Lean::Time(first), Lean::Time(second)) | (Lean::Length(first), Lean::Length(second)) => {
                        first.cmp(&second)
                    }
                    (Lean::Float(first), Lean::Float(second)) => first.partial_cmp(&second)?,
                    (Lean::Null, _) | (_, Lean::Null) => return Some(Lean::Null),
                    _ => return None,
                };
                Lean::Bool(match comparison {
                    Comparison::Less => order.is_lt(),
                    Comparison::LessOrEqual => order.is_le(),
                    Comparison::Greater => order.is_gt(),
                    Comparison::GreaterOrEqual => order.is_ge(),
                })
            }
            Plain::Call(Function::Coalesce, parts) => {
                for part in parts {
                    match part.evaluate(tables, values)? {
                        Lean::Null => {}
                        found => return Some(found),
                    }
                }
                Lean::Null
            }
            Plain::Call(function, parts) => {
                let mut given: [Lean<'v>; 3] = [Lean::Null, Lean::Null, Lean::Null];
                if parts.len() > given.len() {
                    return None;
                }
                for (place, part) in given.iter_mut().zip(parts) {
                    *place = part.evaluate(tables, values)?;
                }
                if *function != Function::Lookup && given[..parts.len()].contains(&Lean::Null) {
                    return Some(Lean::Null);
                }
                call(*function, given, parts.len(), tables)?
            }
        })
    }
}

impl Constant {
    fn lean(&self) -> Lean<'_> {
        match self {
            Constant::Null => Lean::Null,
            Constant::Bool(value) => Lean::Bool(*value),
            Constant::Int(number) => Lean::Int(*number),
            Constant::Float(number) => Lean::Float(*number),
            Constant::Text(text) => Lean::Text(Words::Borrowed(text)),
        }
    }
}

/// CEL's equality of plain values: those of different types differ.
fn equal(first: &Lean<'_>, second: &Lean<'_>) -> Option<bool> {
    Some(match (first, second) {
        (Lean::Whole(..) | Lean::Object, Lean::Null) | (Lean::Null, Lean::Whole(..) | Lean::Object) => false,
        (Lean::Whole(..) | Lean::Made(_) | Lean::Object | Lean::Float(_), _)
        | (_, Lean::Whole(..) | Lean::Made(_) | Lean::Object | Lean::Float(_)) => {
            return None;
        }
        (first, second) => first == second,
    })
}

/// An object without some of its members, in the order that CEL's have; nothing where CEL would round a number.
fn without(members: &Map<String, Json>, names: &[Box<str>]) -> Option<Json> {
    fn keeps(json: &Json) -> bool {
        match json {
            Json::Number(number) => number.is_i64() || number.is_f64(),
            Json::Array(items) => items.iter().all(keeps),
            Json::Object(members) => members.values().all(keeps),
            Json::Null | Json::Bool(_) | Json::String(_) => true,
        }
    }
    let kept = members.iter().filter(|(name, _)| !names.iter().any(|own| **own == **name));
    let mut made = Json::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect());
    made.sort_all_objects();
    keeps(&made).then_some(made)
}

fn call<'v>(function: Function, [first, second, third]: [Lean<'v>; 3], count: usize, tables: &'v Tables) -> Option<Lean<'v>> {
    Some(match (function, first, second) {
        (Function::Lookup, Lean::Text(table), Lean::Text(key)) => match tables.get(&*table)?.entry(&key) {
            Some(Entry::Text(found)) => Lean::Text(Words::Borrowed(found)),
            Some(Entry::List(_)) => return None,
            None => Lean::Null,
        },
        (Function::Substring, Lean::Text(text), Lean::Int(from)) => {
            if !text.is_ascii() {
                return None;
            }
            let to = match (count, third) {
                (2, _) => text.len() as i64,
                (_, Lean::Int(to)) => to,
                _ => return None,
            };
            if from < 0 || to < from || to > text.len() as i64 {
                return Some(Lean::Null);
            }
            let (from, to) = (from as usize, to as usize);
            match text {
                Words::Value(text) => Lean::Text(Words::Borrowed(&text[from..to])),
                Words::Borrowed(text) => Lean::Text(Words::Borrowed(&text[from..to])),
                Words::Made(text) => Lean::Text(Words::Made(text[from..to].to_owned())),
            }
        }
        (Function::StartsWith, Lean::Text(text), Lean::Text(beginning)) => Lean::Bool(text.starts_with(&*beginning)),
        (Function::EndsWith, Lean::Text(text), Lean::Text(end)) => Lean::Bool(text.ends_with(&*end)),
        (Function::Md5, Lean::Text(text), _) => Lean::Text(Words::Made(crate::functions::md5(&text))),
        (Function::Hex, Lean::Text(digits), _) => Lean::Int(i64::from_str_radix(&digits, 16).ok()?),
        (Function::Hex, Lean::Int(number), _) => Lean::Text(Words::Made(format!("{number:X}"))),
        (Function::Text, Lean::Int(number), _) => Lean::Text(Words::Made(number.to_string())),
        (Function::Text, Lean::Text(text), _) => Lean::Text(text),
        (Function::Int, Lean::Text(text), _) => Lean::Int(text.parse().ok()?),
        (Function::Int, Lean::Int(number), _) => Lean::Int(number),
        (Function::Abs, Lean::Int(number), _) => Lean::Int(number.checked_abs()?),
        (Function::Abs, Lean::Length(length), _) => Lean::Length(length.checked_abs()?),
        // of a text CEL counts
        (Function::Size, Lean::Whole(Value::List(items), _), _) => Lean::Int(items.len() as i64),
        (Function::Size, Lean::Whole(Value::Json(json), FieldType::Json), _) => match &**json {
            Json::Array(items) => Lean::Int(items.len() as i64),
            Json::Object(members) => Lean::Int(members.len() as i64),
            _ => return None,
        },
        (Function::Uuid5, Lean::Text(name), Lean::Text(text)) => Lean::Text(Words::Made(crate::functions::uuid5(&name, &text))),
        (Function::Trim, Lean::Text(text), _) => Lean::Text(Words::Made(text.trim().to_owned())),
        _ => return None,
    })
}
