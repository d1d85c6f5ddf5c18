//! The types of expressions: what a field, a `let` value or an argument is, what operators and functions make of it, and whether the
//! result is what is asked for. Absent is null, and a type says whether a value may be; see [`crate::eval`] for the one rule about it.
//!
//! What passes here fails on a record only for what nobody can know before (a division by zero, a text that is no number, JSON that
//! is something else); a property test holds the evaluator to it.

use crate::eval::{Macro, MacroKind, constant, macro_of};
use crate::expr::{Entry, Expression, Tables};
use crate::functions::{self, Fault, Form, Function};
use crate::value::{FieldType, Member, from_text};
use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
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

/// How texts become values of other types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// As texts of a document do: they are read as the field's type.
    Document,
    /// Only where no function makes the type of them: dates, sizes, UUIDs.
    Value,
}

/// What is asked of an expression.
#[derive(Debug, Clone, Copy)]
pub enum Wanted<'w> {
    /// A value of a field.
    Field(&'w FieldType, Reading),
    /// The key of a record: a text that is never null.
    Key,
    /// true or false; null does not hold.
    Condition,
    /// A number, duration or time.
    Number,
}

/// A mistake in an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Where, in bytes of the expression.
    pub span: std::ops::Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What can be done about it.
    pub help: Option<String>,
}

/// The type of an expression over names of these types.
///
/// # Errors
/// What cannot work.
pub fn type_of(expression: &Expression, tables: &Tables, names: &dyn Fn(&str) -> Option<Type>) -> Result<Type, Mistake> {
    let mut checker = Checker { tables, names, facts: Vec::new(), elements: Vec::new() };
    checker.ty(expression.root()).map_err(|wrong| wrong.placed(expression))
}

/// Checks an expression over names of these types, and returns its type.
///
/// # Errors
/// What cannot work, or is not what is wanted.
pub fn check(expression: &Expression, tables: &Tables, names: &dyn Fn(&str) -> Option<Type>, wanted: Wanted<'_>) -> Result<Type, Mistake> {
    let ty = type_of(expression, tables, names)?;
    let root = expression.root();
    let shown = expression.source();
    let wrong = |message: String, help: Option<String>| Wrong { at: root.id, message, help, whole: true }.placed(expression);
    match wanted {
        Wanted::Condition => {
            if let Some(kind) = ty.kinds.iter().find(|kind| !matches!(kind, Kind::Boolean | Kind::Null | Kind::Json)) {
                let help = format!("write what must hold of it, for example `{} != null`", short(shown));
                return Err(wrong(format!("a condition is true or false, this is {kind}"), Some(help)));
            }
        }
        Wanted::Number => {
            let fits = |kind: &&Kind| kind.is_number() || matches!(kind, Kind::Timestamp | Kind::Duration | Kind::Null | Kind::Json);
            if let Some(kind) = ty.kinds.iter().find(|kind| !fits(kind)) {
                return Err(wrong(format!("this is a number, a duration or a time, not {kind}"), None));
            }
        }
        Wanted::Key => {
            if let Some((kind, help)) =
                ty.present().kinds.iter().find_map(|kind| Some((kind, misfit(kind, &FieldType::Text, Reading::Value, shown)?)))
            {
                return Err(wrong(format!("a key is text, this is {kind}"), help));
            }
            if ty.may_be_null() && ty != Type::any() {
                let help = format!("wrap it in coalesce({}, 'none'), or make the fields that it is made of `required: true`", short(shown));
                return Err(wrong("a record needs a key, and this may be null".to_owned(), Some(help)));
            }
        }
        Wanted::Field(field, reading) => {
            if let Expr::Literal(LiteralValue::String(text)) = &root.expr
                && *field != FieldType::Text
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

/// Where values of a kind cannot become those of a field: what can be done about it, if anything.
fn misfit(kind: &Kind, field: &FieldType, reading: Reading, shown: &str) -> Option<Option<String>> {
    let write = |function: &str| Some(Some(format!("write {function}({})", short(shown))));
    match (kind, field) {
        (Kind::Bytes, _) => write("string"),
        (Kind::Null | Kind::Json, _) | (_, FieldType::Json) => None,
        // both forms of ranges
        (Kind::List(element), FieldType::Ranges) => {
            let inner = element.present();
            let fits = |kind: &Kind| match kind {
                Kind::Integer | Kind::Json => true,
                Kind::List(pair) => pair.present().kinds.iter().all(|kind| matches!(kind, Kind::Integer | Kind::Json)),
                _ => false,
            };
            if inner.kinds.iter().all(fits) { None } else { Some(None) }
        }
        (Kind::List(element), FieldType::List(wanted)) => {
            element.present().kinds.iter().find_map(|kind| misfit(kind, wanted, reading, shown)).map(|_| None)
        }
        (Kind::List(element), FieldType::Text) if element.present().kinds.iter().all(|kind| *kind == Kind::Text) => write("squash"),
        (Kind::List(_), _) => Some(None),
        (kind, FieldType::List(wanted)) => misfit(kind, wanted, reading, shown),
        (Kind::Struct(own), FieldType::Struct(wanted)) => {
            let kinds = |member: &Member| own.get(&member.name).map(|ty| ty.present().kinds).unwrap_or_default();
            let wrong = wanted.iter().any(|member| kinds(member).iter().any(|kind| misfit(kind, &member.ty, reading, shown).is_some()));
            wrong.then_some(None)
        }
        (Kind::Struct(_), _) | (_, FieldType::Struct(_)) => Some(None),
        (_, FieldType::Text) => None,
        (Kind::Text, FieldType::Date | FieldType::Uuid | FieldType::Size | FieldType::Ranges) => None,
        (Kind::Text, _) if reading == Reading::Document => None,
        (Kind::Text, FieldType::Integer) => write("int"),
        (Kind::Text, FieldType::Float) => write("double"),
        (Kind::Text, FieldType::Boolean) => write("bool"),
        (Kind::Text, FieldType::Timestamp) => write("timestamp"),
        (Kind::Text, FieldType::Duration) => write("duration"),
        (Kind::Integer | Kind::Unsigned, FieldType::Integer | FieldType::Size | FieldType::Float) => None,
        (Kind::Integer, FieldType::Ranges) => None,
        (Kind::Float, FieldType::Float) => None,
        (Kind::Float, FieldType::Integer | FieldType::Size) => write("int"),
        (Kind::Boolean, FieldType::Boolean) => None,
        (Kind::Timestamp, FieldType::Timestamp) => None,
        (Kind::Timestamp, FieldType::Date) => Some(Some(format!("write strftime({}, '%Y-%m-%d')", short(shown)))),
        (Kind::Duration, FieldType::Duration) => None,
        (Kind::Duration, FieldType::Float) => Some(Some(format!("write {} / duration('1s')", short(shown)))),
        (Kind::Duration, FieldType::Integer) => Some(Some(format!("write {}.getSeconds()", short(shown)))),
        _ => Some(None),
    }
}

/// An expression for a sentence.
fn short(shown: &str) -> &str {
    let shown = shown.trim();
    if shown.len() <= 60 && !shown.contains('\n') { shown } else { "..." }
}

/// A mistake at a node.
struct Wrong {
    at: u64,
    message: String,
    help: Option<String>,
    /// The whole expression is meant.
    whole: bool,
}

impl Wrong {
    fn new(at: &IdedExpr, message: impl Into<String>) -> Self {
        Self { at: at.id, message: message.into(), help: None, whole: false }
    }

    fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    fn placed(self, expression: &Expression) -> Mistake {
        let all = 0..expression.source().len();
        let span = if self.whole { all } else { expression.place(self.at).unwrap_or(all) };
        Mistake { span, message: self.message, help: self.help }
    }
}

type Checked = Result<Type, Wrong>;

/// What a condition has come out as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    True,
    False,
    NotTrue,
    NotFalse,
}

struct Checker<'c> {
    tables: &'c Tables,
    names: &'c dyn Fn(&str) -> Option<Type>,
    /// Paths of what is known not to be null here.
    facts: Vec<String>,
    /// Elements of lists that are gone through.
    elements: Vec<(String, Type)>,
}

impl Checker<'_> {
    fn ty(&mut self, expression: &IdedExpr) -> Checked {
        let found = match &expression.expr {
            Expr::Literal(literal) => match literal {
                LiteralValue::Null => Type::null(),
                LiteralValue::Boolean(_) => Kind::Boolean.into(),
                LiteralValue::Int(_) => Kind::Integer.into(),
                LiteralValue::UInt(_) => Kind::Unsigned.into(),
                LiteralValue::Double(_) => Kind::Float.into(),
                LiteralValue::String(_) => Kind::Text.into(),
                LiteralValue::Bytes(_) => Kind::Bytes.into(),
            },
            Expr::Ident(name) => match self.elements.iter().rev().find(|(known, _)| known == name) {
                Some((_, ty)) => ty.clone(),
                None => (self.names)(name).unwrap_or_else(Type::any),
            },
            Expr::Select(select) => {
                let of = self.ty(&select.operand)?;
                let found = self.member(expression, &of, &select.field)?;
                if select.test { Kind::Boolean.into() } else { found }
            }
            Expr::Call(call) => self.call(expression, call)?,
            Expr::List(list) => {
                let mut element = Type::default();
                for item in &list.elements {
                    element = element.or(&self.ty(item)?);
                }
                Type::list(element)
            }
            Expr::Map(map) => {
                let mut members = Members { of: "struct".to_owned(), known: Vec::new(), others: None };
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    let key = self.ty(&entry.key)?;
                    let fits = |kind: &Kind| matches!(kind, Kind::Text | Kind::Integer | Kind::Unsigned | Kind::Boolean | Kind::Json);
                    if let Some(kind) = key.kinds.iter().find(|kind| !fits(kind)) {
                        let wrong = Wrong::new(&entry.key, format!("a member is named by a text, this may be {kind}"));
                        return Err(if *kind == Kind::Null { wrong.help("give it a name with coalesce(..., 'none')") } else { wrong });
                    }
                    let value = self.ty(&entry.value)?;
                    match &entry.key.expr {
                        Expr::Literal(LiteralValue::String(name)) => {
                            let name = name.inner().to_owned();
                            members.known.retain(|(known, _)| *known != name);
                            members.known.push((name, value));
                        }
                        _ => members.others = Some(Box::new(members.others.map_or(value.clone(), |others| others.or(&value)))),
                    }
                }
                // a name that is computed may be one of those that are written
                if let Some(others) = members.others.clone() {
                    members.known.iter_mut().for_each(|(_, ty)| *ty = std::mem::take(ty).or(&others));
                }
                Kind::Struct(members).into()
            }
            Expr::Comprehension(made) => match macro_of(made) {
                Some(own) => self.each(expression, &own)?,
                None => return Err(Wrong::new(expression, "this macro is not known")),
            },
            Expr::Struct(_) | Expr::Unspecified => return Err(Wrong::new(expression, "messages are not known here; write {'name': value}")),
        };
        let is_there = found.may_be_null() && self.path(expression).is_some_and(|path| self.facts.contains(&path));
        Ok(if is_there { found.present() } else { found })
    }

    fn member(&self, at: &IdedExpr, of: &Type, name: &str) -> Checked {
        let mut found = Type::default();
        for kind in &of.kinds {
            found = found.or(&match kind {
                Kind::Null => Type::null(),
                Kind::Json => Type::any(),
                Kind::Struct(members) => match members.get(name) {
                    Some(member) => member,
                    None => {
                        let known = members.known.iter().map(|(name, _)| name.as_str());
                        let wrong = Wrong::new(at, format!("{} has no member `{name}`", members.of));
                        return Err(match crate::diagnostic::did_you_mean(name, known.clone()) {
                            Some(meant) => wrong.help(format!("did you mean `{meant}`?")),
                            None if members.known.is_empty() => wrong,
                            None => wrong.help(format!("its members are {}", known.take(20).collect::<Vec<_>>().join(", "))),
                        });
                    }
                },
                other => {
                    let wrong = Wrong::new(at, format!("{other} has no members, so there is no `{name}`"));
                    return Err(if matches!(other, Kind::List(_)) { wrong.help(format!("for each element: .map(x, x.{name})")) } else { wrong });
                }
            });
        }
        Ok(found)
    }

    fn condition(&mut self, at: &IdedExpr) -> Checked {
        let ty = self.ty(at)?;
        match ty.kinds.iter().find(|kind| !matches!(kind, Kind::Boolean | Kind::Null | Kind::Json)) {
            None => Ok(if ty.may_be_null() { Type::from(Kind::Boolean).or_null() } else { Kind::Boolean.into() }),
            Some(kind) => {
                Err(Wrong::new(at, format!("a condition is true or false, this is {kind}")).help("compare it with something, for example with null"))
            }
        }
    }

    /// Checks a part where a condition has come out in a certain way.
    fn given(&mut self, condition: &IdedExpr, outcome: Outcome, part: impl FnOnce(&mut Self) -> Checked) -> Checked {
        let before = self.facts.len();
        self.learn(condition, outcome);
        let found = part(self);
        self.facts.truncate(before);
        found
    }

    fn call(&mut self, at: &IdedExpr, call: &CallExpr) -> Checked {
        match (call.func_name.as_str(), call.args.as_slice()) {
            ("_?_:_", [condition, then, otherwise]) => {
                self.condition(condition)?;
                let then = self.given(condition, Outcome::True, |own| own.ty(then))?;
                let otherwise = self.given(condition, Outcome::NotTrue, |own| own.ty(otherwise))?;
                return Ok(then.or(&otherwise));
            }
            ("_&&_", [first, second]) => {
                let left = self.condition(first)?;
                return Ok(left.or(&self.given(first, Outcome::NotFalse, |own| own.condition(second))?));
            }
            ("_||_", [first, second]) => {
                let left = self.condition(first)?;
                return Ok(left.or(&self.given(first, Outcome::NotTrue, |own| own.condition(second))?));
            }
            ("!_", [inner]) => return self.condition(inner),
            ("_==_" | "_!=_", [first, second]) => {
                let (left, right) = (self.ty(first)?, self.ty(second)?);
                if !left.can_equal(&right) {
                    return Err(Wrong::new(at, format!("{} and {} are never equal", left.present(), right.present())).help(unify(&left, &right)));
                }
                return Ok(Kind::Boolean.into());
            }
            ("@in", [item, list]) => return self.contained(at, item, list),
            ("_[_]", [of, place]) => return self.element(at, of, place),
            ("-_", [inner]) => {
                let ty = self.ty(inner)?;
                return match ty.kinds.iter().find(|kind| !matches!(kind, Kind::Integer | Kind::Float | Kind::Duration | Kind::Null | Kind::Json)) {
                    None => Ok(ty),
                    Some(kind) => Err(Wrong::new(at, format!("`-` takes a number or a duration, this is {kind}"))),
                };
            }
            ("_+_" | "_-_" | "_*_" | "_/_" | "_%_" | "_<_" | "_<=_" | "_>_" | "_>=_", [first, second]) => {
                let (left, right) = (self.ty(first)?, self.ty(second)?);
                self.is_sound(at, call)?;
                return binary(at, &call.func_name, &left, &right);
            }
            _ => {}
        }
        let name = call.func_name.as_str();
        let Some(function) = functions::function(name) else { return Err(Wrong::new(at, format!("there is no function `{name}`"))) };
        match (function.form, &call.target) {
            (Form::Global, Some(_)) => return Err(Wrong::new(at, format!("`{name}` stands before what it is about: {name}(...)"))),
            (Form::Member, None) => return Err(Wrong::new(at, format!("`{name}` stands behind what it is about: x.{name}(...)"))),
            (Form::Macro, _) => return Err(Wrong::new(at, format!("`{name}` is written {}", function.signatures[0]))),
            _ => {}
        }
        let args: Vec<&IdedExpr> = call.target.iter().map(|target| &**target).chain(&call.args).collect();
        let mut types = Vec::with_capacity(args.len());
        for argument in &args {
            types.push(self.ty(argument)?);
        }
        let found = self.function(at, function, &args, &types)?;
        self.is_sound(at, call)?;
        Ok(found)
    }

    /// A call of constants is the same for every record: if it fails, it always does. So do patterns and formats.
    fn is_sound(&self, at: &IdedExpr, call: &CallExpr) -> Result<(), Wrong> {
        let literal = |argument: &IdedExpr| match &argument.expr {
            Expr::Literal(literal) if *literal != LiteralValue::Null => Some(constant(literal)),
            _ => None,
        };
        let parts = || call.target.iter().map(|target| &**target).chain(&call.args);
        let given: Option<Vec<_>> = parts().map(literal).collect();
        let failed = |fault: Fault| Wrong::new(at, fault.message());
        let last = call.args.last().and_then(literal);
        match (call.func_name.as_str(), given, last) {
            ("matches", _, Some(cel::Value::String(pattern))) => functions::regex(&pattern).map(drop).map_err(failed),
            ("strftime", _, Some(format)) => {
                let time = cel::Value::Timestamp(chrono::DateTime::UNIX_EPOCH.fixed_offset());
                functions::call("strftime", &[time, format], self.tables).map(drop).map_err(failed)
            }
            ("_/_" | "_%_", _, Some(cel::Value::Int(0))) => Err(Wrong::new(at, "this is a division by zero")),
            (name, Some(given), _) if name.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                functions::call(name, &given, self.tables).map(drop).map_err(failed)
            }
            _ => Ok(()),
        }
    }

    fn contained(&mut self, at: &IdedExpr, item: &IdedExpr, list: &IdedExpr) -> Checked {
        let (left, right) = (self.ty(item)?, self.ty(list)?);
        let mut found: Type = Kind::Boolean.into();
        for kind in &right.kinds {
            match kind {
                Kind::Null => found = found.or_null(),
                Kind::Json => {}
                Kind::Struct(_) if left.can_equal(&Kind::Text.into()) => {}
                Kind::Struct(_) => return Err(Wrong::new(at, format!("members are named by texts, {} is none", left.present()))),
                Kind::List(element) if element.kinds.is_empty() || left.can_equal(element) => {}
                Kind::List(element) => {
                    let message = format!("{} is never among elements that are {}", left.present(), element.present());
                    return Err(Wrong::new(at, message).help(unify(&left, element)));
                }
                other => {
                    let wrong = Wrong::new(at, format!("`in` asks a list, this is {other}"));
                    return Err(if *other == Kind::Text { wrong.help("of a text: text.contains('part')") } else { wrong });
                }
            }
        }
        Ok(found)
    }

    fn element(&mut self, at: &IdedExpr, of: &IdedExpr, place: &IdedExpr) -> Checked {
        let (ty, index) = (self.ty(of)?, self.ty(place)?);
        let mut found = if index.may_be_null() { Type::null() } else { Type::default() };
        for kind in &ty.kinds {
            let wanted = match kind {
                Kind::List(_) => Some(Kind::Integer),
                Kind::Struct(_) => Some(Kind::Text),
                _ => None,
            };
            if let Some(wanted) = wanted
                && let Some(other) = index.present().kinds.iter().find(|kind| **kind != wanted && **kind != Kind::Json)
            {
                let named = if wanted == Kind::Integer { "elements of a list have a number" } else { "members are named by texts" };
                return Err(Wrong::new(place, format!("{named}, this is {other}")));
            }
            found = found.or(&match (kind, &place.expr) {
                (Kind::Null, _) => Type::null(),
                (Kind::Json, _) => Type::any(),
                (Kind::List(element), _) => (**element).clone().or_null(),
                (Kind::Struct(_), Expr::Literal(LiteralValue::String(name))) => self.member(at, &kind.clone().into(), name.inner())?,
                (Kind::Struct(members), _) => members.any(),
                (other, _) => return Err(Wrong::new(at, format!("{other} has no elements"))),
            });
        }
        Ok(found)
    }

    fn each(&mut self, at: &IdedExpr, own: &Macro<'_>) -> Checked {
        let range = self.ty(own.range)?;
        let mut element = Type::default();
        for kind in range.present().kinds() {
            element = element.or(&match kind {
                Kind::Json => Type::any(),
                Kind::List(element) => (**element).clone(),
                Kind::Struct(_) => Kind::Text.into(),
                other => return Err(Wrong::new(own.range, format!("this goes through a list, and here is {other}"))),
            });
        }
        self.elements.push((own.name.to_owned(), element));
        let inner = match own.kind {
            MacroKind::Map(None, made) => self.ty(made).map(Type::list),
            MacroKind::Map(Some(condition), made) => {
                self.condition(condition).and_then(|_| self.given(condition, Outcome::True, |own| own.ty(made))).map(Type::list)
            }
            MacroKind::ExistsOne(condition) => self.condition(condition).map(|_| Kind::Boolean.into()),
            MacroKind::All(condition) | MacroKind::Exists(condition) => self.condition(condition),
        };
        self.elements.pop();
        let _ = at;
        let found = inner?;
        Ok(if range.may_be_null() { found.or_null() } else { found })
    }

    fn function(&mut self, at: &IdedExpr, function: &Function, args: &[&IdedExpr], types: &[Type]) -> Checked {
        let absent = !function.null_counts && types.iter().any(Type::may_be_null);
        let or_null = |ty: Type, may: bool| if may { ty.or_null() } else { ty };
        match (function.name, types) {
            ("coalesce", []) | ("min", []) | ("max", []) => Err(Wrong::new(at, format!("`{}` needs a value", function.name))),
            ("coalesce", all) => {
                let some = all.iter().fold(Type::default(), |some: Type, ty| some.or(&ty.present()));
                Ok(or_null(some, all.iter().all(Type::may_be_null)))
            }
            ("dyn", [_]) => Ok(Type::any()),
            ("lookup", [_, key]) => {
                if let Some(kind) = key.kinds.iter().find(|kind| !matches!(kind, Kind::Text | Kind::Integer | Kind::Null | Kind::Json)) {
                    return Err(Wrong::new(args[1], format!("keys of a table are texts, this is {kind}")));
                }
                let Some(table) = self.table(args[0])? else {
                    return Ok(Type::from(Kind::Text).or(&Type::list(Kind::Text.into())).or_null());
                };
                let kind = |entry: &Entry| match entry {
                    Entry::Text(_) => Type::from(Kind::Text),
                    Entry::List(_) => Type::list(Kind::Text.into()),
                };
                if let Expr::Literal(LiteralValue::String(key)) = &args[1].expr {
                    return Ok(table.entry(key.inner()).map_or_else(Type::null, kind));
                }
                let all = table.rows.values().chain(table.patterns.iter().map(|(_, entry)| entry)).chain(&table.otherwise);
                Ok(or_null(all.fold(Type::default(), |all: Type, entry| all.or(&kind(entry))), table.otherwise.is_none()))
            }
            ("keys", [_]) => self.table(args[0]).map(|_| Type::list(Kind::Text.into())),
            ("sum", [list]) => {
                let elements = self.elements_of(at, function, list)?;
                let number = elements.kinds.iter().all(|kind| kind.is_number() || *kind == Kind::Json);
                let length = elements.kinds.iter().all(|kind| matches!(kind, Kind::Duration | Kind::Json));
                if !number && !length || elements.kinds.contains(&Kind::Unsigned) && elements.kinds.len() > 1 {
                    return Err(Wrong::new(at, format!("`sum` takes a list of numbers, or of durations, not of {elements}")));
                }
                Ok(elements.or_null())
            }
            ("min" | "max", all) => {
                let values = match all {
                    [list] if list.kinds.iter().any(|kind| matches!(kind, Kind::List(_))) => self.elements_of(at, function, list)?,
                    several => several.iter().fold(Type::default(), |all: Type, ty| all.or(&ty.present())),
                };
                for kind in &values.kinds {
                    if let Some(other) = values.kinds.iter().find(|other| !kind.is_ordered_with(other)) {
                        let both = if kind == other { format!("{kind} has no order") } else { format!("{kind} is not compared with {other}") };
                        return Err(Wrong::new(at, format!("`{}`: {both}", function.name)));
                    }
                }
                let may = all.len() == 1 && all[0].kinds.iter().any(|kind| matches!(kind, Kind::List(_) | Kind::Json));
                Ok(or_null(values, may || all.iter().all(Type::may_be_null)))
            }
            ("without", [of, names]) => {
                if let Some(kind) = of.kinds.iter().find(|kind| !matches!(kind, Kind::Struct(_) | Kind::Json | Kind::Null)) {
                    return Err(Wrong::new(args[0], format!("`without` takes a struct, this is {kind}")));
                }
                self.signature(at, function, args, &[Kind::Json.into(), names.clone()])?;
                Ok(or_null(Type::mapping("struct", Type::any()), absent))
            }
            ("squash", [list]) if list.kinds.iter().any(|kind| matches!(kind, Kind::List(_))) => {
                let elements = self.elements_of(at, function, list)?;
                if let Some(kind) = elements.kinds.iter().find(|kind| !matches!(kind, Kind::Text | Kind::Json)) {
                    return Err(Wrong::new(at, format!("`squash` takes texts, this has {kind}")).help("write string(x) of what is no text"));
                }
                Ok(or_null(Kind::Text.into(), absent))
            }
            _ => self.signature(at, function, args, types),
        }
    }

    /// The table that a constant names.
    fn table(&self, name: &IdedExpr) -> Result<Option<&crate::expr::Table>, Wrong> {
        match &name.expr {
            Expr::Literal(LiteralValue::String(text)) => match self.tables.get(text.inner()) {
                Some(table) => Ok(Some(table)),
                None => {
                    let wrong = Wrong::new(name, format!("there is no table `{}` under `lookups`", text.inner()));
                    let meant = crate::diagnostic::did_you_mean(text.inner(), self.tables.keys().map(String::as_str));
                    Err(meant.map_or(Wrong { help: None, ..Wrong::new(name, wrong.message.clone()) }, |meant| {
                        wrong.help(format!("did you mean `{meant}`?"))
                    }))
                }
            },
            _ => Err(Wrong::new(name, "the name of a table is written as a constant text")),
        }
    }

    /// What the elements of an argument are, if not null.
    fn elements_of(&self, at: &IdedExpr, function: &Function, list: &Type) -> Checked {
        let mut elements = Type::default();
        for kind in &list.kinds {
            match kind {
                Kind::List(element) => elements = elements.or(&element.present()),
                Kind::Json => elements = elements.or(&Kind::Json.into()),
                Kind::Null => {}
                other => return Err(Wrong::new(at, format!("`{}` takes a list, this is {other}", function.name))),
            }
        }
        Ok(elements)
    }

    /// What a function gives by its signatures: each combination of kinds has to fit one.
    fn signature(&self, at: &IdedExpr, function: &Function, args: &[&IdedExpr], types: &[Type]) -> Checked {
        let all: Vec<Signature> = function.signatures.iter().map(|text| Signature::of(text)).collect();
        let fitting: Vec<&Signature> = all.iter().filter(|signature| signature.args.len() == types.len()).collect();
        if fitting.is_empty() {
            let counts: Vec<String> = all.iter().map(|signature| signature.args.len().to_string()).collect();
            let mut counts: Vec<&str> = counts.iter().map(String::as_str).collect();
            counts.dedup();
            let help = format!("it is written {}", function.signatures.join(", or "));
            return Err(Wrong::new(at, format!("`{}` takes {} arguments, here are {}", function.name, counts.join(" or "), types.len())).help(help));
        }
        let mut left: Vec<Vec<Kind>> = vec![Vec::new()];
        for ty in types {
            let kinds: Vec<Kind> = if function.null_counts { ty.kinds.clone() } else { ty.present().kinds };
            left = left.iter().flat_map(|before| kinds.iter().map(|kind| [before.as_slice(), std::slice::from_ref(kind)].concat())).collect();
        }
        let mut found = Type::default();
        for kinds in left {
            let own: Vec<&&Signature> =
                fitting.iter().filter(|signature| signature.args.iter().zip(&kinds).all(|(wanted, kind)| takes(wanted, kind))).collect();
            if own.is_empty() {
                let place = (0..kinds.len()).find(|place| fitting.iter().all(|signature| !takes(&signature.args[*place], &kinds[*place])));
                let place = place.unwrap_or(0);
                let mut wanted: Vec<&str> = fitting.iter().map(|signature| signature.args[place].as_str()).collect();
                wanted.dedup();
                let wrong = Wrong::new(args[place], format!("`{}` takes {} here, this is {}", function.name, wanted.join(" or "), kinds[place]));
                return Err(match (&kinds[place], function.name) {
                    (Kind::Duration, "double") => wrong.help("a duration in seconds: x / duration('1s')"),
                    (Kind::Duration, "int") => wrong.help("a duration in seconds: x.getSeconds()"),
                    (other, _) if wanted.contains(&"text") && (other.is_number() || *other == Kind::Boolean) => {
                        wrong.help("string(x) makes a text of it")
                    }
                    _ => wrong,
                });
            }
            for signature in own {
                found = found.or(&signature.gives);
            }
        }
        let absent = !function.null_counts && types.iter().any(Type::may_be_null);
        Ok(if absent { found.or_null() } else { found })
    }

    /// How a value is called that is asked twice: `planned.mode`.
    fn path(&self, expression: &IdedExpr) -> Option<String> {
        match &expression.expr {
            Expr::Ident(name) => Some(match self.elements.iter().rposition(|(known, _)| known == name) {
                Some(depth) => format!("{depth}:{name}"),
                None => name.clone(),
            }),
            Expr::Select(select) if !select.test => Some(format!("{}.{}", self.path(&select.operand)?, select.field)),
            Expr::Call(call) if call.func_name == "_[_]" => match call.args.as_slice() {
                [of, IdedExpr { expr: Expr::Literal(LiteralValue::String(name)), .. }] if !name.inner().contains(['.', '[']) => {
                    Some(format!("{}.{}", self.path(of)?, name.inner()))
                }
                [of, IdedExpr { expr: Expr::Literal(LiteralValue::Int(place)), .. }] => Some(format!("{}[{}]", self.path(of)?, place.inner())),
                _ => None,
            },
            _ => None,
        }
    }

    /// Notes that a value is there, and what it is a member of.
    fn is_there(&mut self, expression: &IdedExpr) {
        self.facts.extend(self.path(expression));
        match &expression.expr {
            Expr::Select(select) => self.is_there(&select.operand),
            Expr::Call(call) => match call.func_name.as_str() {
                // what is null where a part is
                "_+_" | "_-_" | "_*_" | "_/_" | "_%_" | "-_" | "_[_]" | "_<_" | "_<=_" | "_>_" | "_>=_" => {
                    call.args.iter().for_each(|part| self.is_there(part))
                }
                name => {
                    let spreads = functions::function(name).is_some_and(|function| !function.null_counts && function.name != "lookup");
                    if spreads {
                        call.target.iter().map(|target| &**target).chain(&call.args).for_each(|part| self.is_there(part));
                    }
                }
            },
            _ => {}
        }
    }

    /// What is known not to be null where a condition has come out in a certain way.
    fn learn(&mut self, condition: &IdedExpr, outcome: Outcome) {
        match &condition.expr {
            // these are never null themselves
            Expr::Select(select) if select.test => {
                if matches!(outcome, Outcome::True | Outcome::NotFalse) {
                    self.facts.extend(self.path(&select.operand).map(|of| format!("{of}.{}", select.field)));
                    self.is_there(&select.operand);
                }
            }
            Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
                ("_==_" | "_!=_", [first, second]) => {
                    let holds = matches!(outcome, Outcome::True | Outcome::NotFalse);
                    let is_null = |side: &IdedExpr| matches!(side.expr, Expr::Literal(LiteralValue::Null));
                    let equal = holds == (call.func_name == "_==_");
                    for (side, other) in [(first, second), (second, first)] {
                        let never_null = |own: &mut Self| own.ty(other).is_ok_and(|ty| !ty.may_be_null());
                        if (is_null(other) && !equal) || (!is_null(other) && equal && never_null(self)) {
                            self.is_there(side);
                        }
                    }
                }
                ("!_", [inner]) => self.learn(
                    inner,
                    match outcome {
                        Outcome::True => Outcome::False,
                        Outcome::False => Outcome::True,
                        Outcome::NotTrue => Outcome::NotFalse,
                        Outcome::NotFalse => Outcome::NotTrue,
                    },
                ),
                ("_&&_", [first, second]) if matches!(outcome, Outcome::True | Outcome::NotFalse) => {
                    self.learn(first, outcome);
                    self.learn(second, outcome);
                }
                ("_||_", [first, second]) if matches!(outcome, Outcome::False | Outcome::NotTrue) => {
                    self.learn(first, outcome);
                    self.learn(second, outcome);
                }
                ("_?_:_" | "_&&_" | "_||_", _) => {}
                // what the condition of an element says holds of that element alone
                ("@in", [_, list]) if matches!(outcome, Outcome::True | Outcome::False) => self.is_there(list),
                _ if matches!(outcome, Outcome::True | Outcome::False) => self.is_there(condition),
                _ => {}
            },
            _ if matches!(outcome, Outcome::True | Outcome::False) => self.is_there(condition),
            _ => {}
        }
    }
}

/// How two values that differ in type can be compared.
fn unify(left: &Type, right: &Type) -> String {
    let has = |ty: &Type, kind: &dyn Fn(&Kind) -> bool| ty.kinds.iter().any(kind);
    let text = |ty: &Type| has(ty, &|kind| *kind == Kind::Text);
    let either = |kind: &dyn Fn(&Kind) -> bool| has(left, kind) || has(right, kind);
    match () {
        () if (text(left) || text(right)) && either(&Kind::is_number) => {
            "compare texts with texts: string(x), or numbers with numbers: int(x)".to_owned()
        }
        () if (text(left) || text(right)) && either(&|kind| *kind == Kind::Timestamp) => {
            "timestamp('2026-01-31T00:00:00Z') makes a time of a text".to_owned()
        }
        () if (text(left) || text(right)) && either(&|kind| *kind == Kind::Duration) => "duration('90s') makes a duration of a text".to_owned(),
        () if (text(left) || text(right)) && either(&|kind| *kind == Kind::Boolean) => "true and false are written without quotes".to_owned(),
        () => "compare values of one type".to_owned(),
    }
}

/// What an operator makes of two values.
fn binary(at: &IdedExpr, operator: &str, left: &Type, right: &Type) -> Checked {
    let sign = operator.trim_matches('_');
    let compares = matches!(sign, "<" | "<=" | ">" | ">=");
    let mut found = Type::default();
    for first in left.present().kinds() {
        for second in right.present().kinds() {
            let one = if compares { first.is_ordered_with(second).then_some(Kind::Boolean) } else { arithmetic(sign, first, second) };
            match one {
                Some(kind) => found = found.or(&kind.into()),
                None if compares => {
                    let wrong = Wrong::new(at, format!("{first} is not compared with {second}"));
                    return Err(wrong.help(unify(&first.clone().into(), &second.clone().into())));
                }
                None => {
                    let wrong = Wrong::new(at, format!("`{sign}` does not take {first} and {second}"));
                    let is_text = *first == Kind::Text || *second == Kind::Text;
                    return Err(if sign == "+" && is_text { wrong.help("string(x) makes a text of it") } else { wrong });
                }
            }
        }
    }
    // a comparison of nothing is nothing that is known
    let absent = left.may_be_null() || right.may_be_null() || found.kinds.is_empty();
    Ok(if absent { found.or_null() } else { found })
}

fn arithmetic(sign: &str, first: &Kind, second: &Kind) -> Option<Kind> {
    use Kind::{Bytes, Duration, Float, Integer, Json, List, Text, Timestamp, Unsigned};
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

/// A way to call a function.
struct Signature {
    args: Vec<String>,
    gives: Type,
}

impl Signature {
    fn of(text: &str) -> Self {
        let (call, gives) = text.split_once(" -> ").unwrap_or((text, "any"));
        let (name, inside) = call.trim_end_matches(')').split_once('(').unwrap_or((call, ""));
        let target = name.split_once('.').map(|(target, _)| target.to_owned());
        let args = target.into_iter().chain(inside.split(", ").filter(|arg| !arg.is_empty()).map(str::to_owned)).collect();
        let gives = gives.strip_suffix('?').map_or_else(|| named(gives), |kind| named(kind).or_null());
        Self { args, gives }
    }
}

/// The type that a signature names.
fn named(kind: &str) -> Type {
    match kind {
        "text" => Kind::Text.into(),
        "integer" => Kind::Integer.into(),
        "unsigned" => Kind::Unsigned.into(),
        "float" => Kind::Float.into(),
        "boolean" => Kind::Boolean.into(),
        "timestamp" => Kind::Timestamp.into(),
        "duration" => Kind::Duration.into(),
        "bytes" => Kind::Bytes.into(),
        "[text]" => Type::list(Kind::Text.into()),
        "struct" => Type::mapping("struct", Type::any()),
        _ => Type::any(),
    }
}

/// Whether a signature's argument takes values of a kind.
fn takes(wanted: &str, kind: &Kind) -> bool {
    match (wanted, kind) {
        ("any", _) | (_, Kind::Json) => true,
        ("text", Kind::Text) | ("integer", Kind::Integer) | ("unsigned", Kind::Unsigned) | ("float", Kind::Float) | ("boolean", Kind::Boolean) => {
            true
        }
        ("timestamp", Kind::Timestamp)
        | ("duration", Kind::Duration)
        | ("bytes", Kind::Bytes)
        | ("struct", Kind::Struct(_))
        | ("[any]", Kind::List(_)) => true,
        ("[text]", Kind::List(element)) => element.present().kinds.iter().all(|kind| matches!(kind, Kind::Text | Kind::Json)),
        _ => false,
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
