//! CEL, the Common Expression Language, as definitions use it: compiled once, evaluated over field values.
//!
//! Beside CEL's standard library: `coalesce(a, b, ...)` the first that is not null; `squash(list)` joins the non-empty
//! texts with single blanks; `without(map, keys)`; `lookup(table, key)` a constant table and `keys(table)` its keys;
//! `fold(text)` case folding; `trim(text)`; `uuid5(name, text)`; `md5(text)`; `strftime(time, format)`;
//! `times(duration, number)`; `substring(text, from, to)`, null where the text is too short; `hex(text)` a number, `hex(number)` a text; `abs` and `sum`
//! of numbers and durations. Absent is null. There is no clock: `now` is only known where a caller passes it.

use crate::definition::Collection;
use crate::fold::fold;
use crate::plain::{self, Lean, Plain};
use crate::value::{FieldType, Value};
use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use cel::extractors::Arguments;
use cel::objects::{Key as CelKey, Map as CelMap};
use cel::{Context, ExecutionError, Program, Value as Cel};
use regex::Regex;
use serde_json::Value as Json;
use std::cell::OnceCell;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A value as CEL has it.
pub type CelValue = Cel;

/// Constant tables by name: key to value, with an optional value for every other key.
pub type Tables = BTreeMap<String, Table>;

/// A constant table.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Values by key.
    pub rows: BTreeMap<String, Entry>,
    /// Values by the beginning of the key, tried in order when no row is equal.
    pub patterns: Vec<(Regex, Entry)>,
    /// The value of a key that has no row.
    pub otherwise: Option<Entry>,
}

/// A value of a constant table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// One text.
    Text(String),
    /// Several.
    List(Vec<String>),
}

impl Entry {
    fn to_cel(&self) -> Cel {
        match self {
            Entry::Text(text) => text_to_cel(text),
            Entry::List(items) => Cel::List(Arc::new(items.iter().map(|item| text_to_cel(item)).collect())),
        }
    }
}

impl Table {
    /// The value of `key`.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        let matching = || self.patterns.iter().find(|(pattern, _)| pattern.is_match(key)).map(|(_, entry)| entry);
        self.rows.get(key).or_else(matching).or(self.otherwise.as_ref())
    }

    /// The value of `key`, if it is a text.
    pub fn get(&self, key: &str) -> Option<&str> {
        match self.entry(key)? {
            Entry::Text(text) => Some(text),
            Entry::List(_) => None,
        }
    }
}

/// A compiled expression and its text.
#[derive(Debug, Clone)]
pub struct Expression {
    source: String,
    program: Arc<Program>,
    variables: Vec<String>,
    members: Vec<Member>,
    /// The expression, where it is plain.
    plain: Option<Arc<Plain>>,
}

/// A member of a variable that an expression reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The variable.
    pub of: String,
    /// Its member.
    pub name: String,
}

/// Functions of [`Evaluator`], for checks and messages.
const FUNCTIONS: [&str; 17] = [
    "coalesce",
    "squash",
    "without",
    "lookup",
    "keys",
    "fold",
    "trim",
    "uuid5",
    "md5",
    "strftime",
    "times",
    "substring",
    "hex",
    "abs",
    "sum",
    "min",
    "max",
];

impl Expression {
    /// Compiles an expression that may use `names`.
    ///
    /// # Errors
    /// The byte at which it is wrong, and why.
    pub fn compile(source: &str, names: &[&str]) -> Result<Self, (usize, String)> {
        let program = Program::compile(source).map_err(|errors| match errors.errors.first() {
            Some(error) => (column_to_byte(source, error.pos), clean(&error.msg)),
            None => (0, errors.to_string()),
        })?;
        let references = program.references();
        let mut variables: Vec<String> = references.variables().into_iter().map(str::to_owned).collect();
        // comprehension variables (`x` of `list.map(x, ...)`) are references too
        variables.retain(|name| !name.starts_with('@') && !is_comprehension_variable(source, name));
        for name in &variables {
            if !names.contains(&name.as_str()) {
                let at = source.find(name.as_str()).unwrap_or(0);
                let hint = crate::diagnostic::did_you_mean(name, names.iter().copied())
                    .map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
                let message = match name.as_str() {
                    "now" | "caller" => format!("`{name}` is only known in transitions: a value that reads the clock would change by itself"),
                    _ => format!("`{name}` is not known here{hint}"),
                };
                return Err((at, message));
            }
        }
        for function in references.functions() {
            let is_ours = FUNCTIONS.contains(&function);
            if !is_ours && !function.starts_with(|c: char| c.is_ascii_alphabetic()) {
                continue;
            }
            if !is_ours && !STANDARD_FUNCTIONS.contains(&function) {
                let at = source.find(function).unwrap_or(0);
                let known = FUNCTIONS.iter().chain(STANDARD_FUNCTIONS).copied();
                let hint = crate::diagnostic::did_you_mean(function, known).map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
                return Err((at, format!("there is no function `{function}`{hint}")));
            }
        }
        let mut members = Vec::new();
        collect_members(&program.expression().expr, &mut members);
        members.retain(|member| variables.contains(&member.of));
        members.dedup();
        let plain = plain::compile(&program.expression().expr).map(Arc::new);
        Ok(Self { source: source.to_owned(), program: Arc::new(program), variables, members, plain })
    }

    /// The text it was compiled from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The names it reads.
    pub fn variables(&self) -> &[String] {
        &self.variables
    }

    /// The members of variables it reads: `plan` and `number` of `plan.number`.
    pub fn members(&self) -> &[Member] {
        &self.members
    }
}

fn collect_members(expression: &Expr, members: &mut Vec<Member>) {
    let mut inside = |inner: &IdedExpr| collect_members(&inner.expr, members);
    match expression {
        Expr::Select(select) => match &select.operand.expr {
            Expr::Ident(of) => members.push(Member { of: of.clone(), name: select.field.clone() }),
            _ => inside(&select.operand),
        },
        Expr::Call(call) => call.target.iter().map(|target| &**target).chain(&call.args).for_each(inside),
        Expr::List(list) => list.elements.iter().for_each(inside),
        Expr::Map(map) => map.entries.iter().for_each(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => {
                inside(&entry.key);
                inside(&entry.value);
            }
            EntryExpr::StructField(field) => inside(&field.value),
        }),
        Expr::Comprehension(fold) => {
            [&fold.iter_range, &fold.accu_init, &fold.loop_cond, &fold.loop_step, &fold.result].into_iter().for_each(inside);
        }
        Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
    }
}

/// What CEL itself offers, and its `strings`, `lists` and `math` extensions are not loaded.
const STANDARD_FUNCTIONS: &[&str] = &[
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "string",
    "bytes",
    "double",
    "int",
    "uint",
    "bool",
    "duration",
    "timestamp",
    "type",
    "dyn",
    "has",
    "all",
    "exists",
    "exists_one",
    "map",
    "filter",
    "getFullYear",
    "getMonth",
    "getDayOfYear",
    "getDayOfMonth",
    "getDate",
    "getDayOfWeek",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
];

fn is_comprehension_variable(source: &str, name: &str) -> bool {
    ["map", "filter", "all", "exists", "exists_one"].iter().any(|function| {
        source.match_indices(&format!(".{function}(")).any(|(at, matched)| {
            let rest = source[at + matched.len()..].trim_start();
            rest.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with(','))
        })
    })
}

fn column_to_byte(source: &str, (line, column): (isize, isize)) -> usize {
    let line_start: usize = source.split_inclusive('\n').take((line - 1).max(0) as usize).map(str::len).sum();
    source[line_start..].char_indices().nth((column - 1).max(0) as usize).map_or(source.len(), |(at, _)| line_start + at)
}

fn clean(message: &str) -> String {
    let first = message.lines().next().unwrap_or(message);
    let mut characters = first.chars();
    let lower: String = characters.next().map(|c| c.to_ascii_lowercase()).into_iter().chain(characters).collect();
    format!("not CEL: {lower}")
}

/// Evaluates expressions. One per thread: evaluating borrows it. What CEL needs is made when something is not plain, and left to
/// the next evaluator of the same tables.
pub struct Evaluator {
    root: OnceCell<Root>,
    tables: Arc<Tables>,
}

/// CEL with its functions, which cost more to register than most expressions to evaluate.
type Root = Context<'static, 'static>;

/// Those that no evaluator has, by their tables.
static SPARE: Mutex<Vec<(Weak<Tables>, Root)>> = Mutex::new(Vec::new());
/// Most of them.
const MOST_SPARE: usize = 64;

fn spare() -> MutexGuard<'static, Vec<(Weak<Tables>, Root)>> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Evaluator {
    fn drop(&mut self) {
        let Some(root) = self.root.take() else { return };
        let mut spare = spare();
        if spare.len() >= MOST_SPARE {
            spare.retain(|(tables, _)| tables.strong_count() > 0);
        }
        if spare.len() < MOST_SPARE {
            spare.push((Arc::downgrade(&self.tables), root));
        }
    }
}

impl Evaluator {
    /// An evaluator that knows the constant tables.
    pub fn new(tables: Arc<Tables>) -> Self {
        Self { root: OnceCell::new(), tables }
    }

    fn root(&self) -> &Root {
        self.root.get_or_init(|| {
            let mut spare = spare();
            let own = spare.iter().rposition(|(tables, _)| std::ptr::eq(tables.as_ptr(), Arc::as_ptr(&self.tables)));
            let found = own.map(|own| spare.swap_remove(own).1);
            drop(spare);
            found.unwrap_or_else(|| Self::make_root(&self.tables))
        })
    }

    fn make_root(tables: &Arc<Tables>) -> Root {
        let mut root = Context::default();
        // `add_function` only fails for names the standard library has; a test calls every one of these.
        let _ = root.add_function("coalesce", |Arguments(args): Arguments| {
            args.iter().find(|value| !matches!(value, Cel::Null)).cloned().unwrap_or(Cel::Null)
        });
        let _ = root.add_function("squash", |Arguments(args): Arguments| squash(&args));
        let _ = root.add_function("without", |Arguments(args): Arguments| without(&args));
        // whoever evaluates has them
        let (for_lookup, for_keys) = (Arc::downgrade(tables), Arc::downgrade(tables));
        let _ = root.add_function("lookup", move |Arguments(args): Arguments| lookup(&for_lookup.upgrade().unwrap_or_default(), &args));
        let _ = root.add_function("keys", move |Arguments(args): Arguments| keys(&for_keys.upgrade().unwrap_or_default(), &args));
        let _ = root.add_function("fold", |text: Arc<String>| Cel::String(Arc::new(fold(&text))));
        let _ = root.add_function("trim", |text: Arc<String>| Cel::String(Arc::new(text.trim().to_owned())));
        let _ = root.add_function("uuid5", |name: Arc<String>, text: Arc<String>| Cel::String(Arc::new(uuid5(&name, &text))));
        let _ = root.add_function("md5", |text: Arc<String>| Cel::String(Arc::new(md5(&text))));
        let _ = root.add_function("strftime", |Arguments(args): Arguments| strftime(&args));
        let _ = root.add_function("times", |Arguments(args): Arguments| times(&args));
        let _ = root.add_function("substring", |Arguments(args): Arguments| substring(&args));
        let _ = root.add_function("hex", |Arguments(args): Arguments| hex(&args));
        let _ = root.add_function("abs", |Arguments(args): Arguments| abs(&args));
        let _ = root.add_function("sum", |Arguments(args): Arguments| sum(&args));
        let _ = root.add_function("min", |Arguments(args): Arguments| extreme("min", &args, Ordering::Less));
        let _ = root.add_function("max", |Arguments(args): Arguments| extreme("max", &args, Ordering::Greater));
        root
    }

    /// The value of a plain expression over plain values, which `values` gives by name and member; nothing where it is not
    /// plain, or meets what is not.
    pub fn lean<'v>(&'v self, expression: &'v Expression, values: &mut plain::Source<'_, 'v>) -> Option<Lean<'v>> {
        expression.plain.as_ref()?.evaluate(&self.tables, values)
    }

    /// Whether a condition holds of a record's golden values; trouble with it is no.
    pub fn holds_of(&self, expression: &Expression, collection: &Collection, values: &[Value]) -> bool {
        match self.lean(expression, &mut |name, member| lean_field(collection, values, name, member)) {
            Some(Lean::Bool(value)) => value,
            Some(Lean::Null) => false,
            _ => self.holds(expression, |name| cel_field(collection, values, name)).unwrap_or(false),
        }
    }

    /// The value of an expression over a record's golden values; null where there is trouble with it.
    pub fn value_of(&self, expression: &Expression, ty: &FieldType, collection: &Collection, values: &[Value]) -> Value {
        let lean = self.lean(expression, &mut |name, member| lean_field(collection, values, name, member));
        if let Some(value) = lean.and_then(|lean| lean.into_value(ty)) {
            return value;
        }
        let found = self.evaluate(expression, |name| cel_field(collection, values, name)).ok();
        found.and_then(|found| from_cel(&found, ty).ok()).unwrap_or_default()
    }

    /// Why an expression has no value, where it failed.
    pub fn failure_of(&self, expression: &Expression, ty: &FieldType, collection: &Collection, values: &[Value]) -> Option<String> {
        let lean = self.lean(expression, &mut |name, member| lean_field(collection, values, name, member));
        if lean.and_then(|lean| lean.into_value(ty)).is_some() {
            return None;
        }
        let found = self.evaluate(expression, |name| cel_field(collection, values, name));
        found.and_then(|found| from_cel(&found, ty).map_err(|error| error.to_string())).err()
    }

    /// Evaluates `expression`; names it does not find in `variable` are null.
    ///
    /// # Errors
    /// CEL's own message, for example for an addition of text and number.
    pub fn evaluate(&self, expression: &Expression, mut variable: impl FnMut(&str) -> Cel) -> Result<Cel, String> {
        let mut scope = self.root().new_inner_scope();
        for name in &expression.variables {
            scope.add_variable_from_value(name.as_str(), variable(name));
        }
        expression.program.execute(&scope).map_err(|error| describe(&error))
    }

    /// Evaluates a condition: true, or anything else for false; null is false.
    ///
    /// # Errors
    /// As [`Evaluator::evaluate`], or when the result is neither boolean nor null.
    pub fn holds(&self, expression: &Expression, variable: impl FnMut(&str) -> Cel) -> Result<bool, String> {
        match self.evaluate(expression, variable)? {
            Cel::Bool(value) => Ok(value),
            Cel::Null => Ok(false),
            other => Err(format!("`{}` is {}, not true or false", expression.source, other.type_of())),
        }
    }
}

fn lean_field<'v>(collection: &'v Collection, values: &'v [Value], name: &str, member: Option<&str>) -> Option<Lean<'v>> {
    let (index, field) = collection.field(name)?;
    match (member, &values[index]) {
        (None, value) => Some(Lean::of(value, field.golden_type())),
        (Some(member), Value::Json(json)) => Lean::of_json(json.get(member)?),
        _ => None,
    }
}

fn cel_field(collection: &Collection, values: &[Value], name: &str) -> Cel {
    collection.field(name).map_or(Cel::Null, |(index, field)| to_cel(&values[index], field.golden_type()))
}

fn describe(error: &ExecutionError) -> String {
    let text = error.to_string();
    let mut characters = text.chars();
    characters.next().map(|c| c.to_ascii_lowercase()).into_iter().chain(characters).collect()
}

fn squash(args: &[Cel]) -> Cel {
    let Some(Cel::List(items)) = args.first() else { return Cel::Null };
    let words: Vec<String> = items
        .iter()
        .filter_map(|item| if let Cel::String(text) = item { Some(text.split_whitespace().collect::<Vec<_>>().join(" ")) } else { None })
        .filter(|text| !text.is_empty())
        .collect();
    Cel::String(Arc::new(words.join(" ")))
}

/// The UUID of a text in the space of a name.
pub(crate) fn uuid5(name: &str, text: &str) -> String {
    let space = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, name.as_bytes());
    uuid::Uuid::new_v5(&space, text.as_bytes()).to_string()
}

fn without(args: &[Cel]) -> Cel {
    let (Some(Cel::Map(map)), Some(Cel::List(keys))) = (args.first(), args.get(1)) else { return Cel::Null };
    let dropped: Vec<&str> = keys.iter().filter_map(|key| if let Cel::String(text) = key { Some(text.as_str()) } else { None }).collect();
    let kept: HashMap<CelKey, Cel> = map
        .map
        .iter()
        .filter(|(key, _)| !matches!(key, CelKey::String(name) if dropped.contains(&name.as_str())))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    Cel::Map(CelMap { map: Arc::new(kept) })
}

fn lookup(tables: &Tables, args: &[Cel]) -> Result<Cel, ExecutionError> {
    let Some(Cel::String(name)) = args.first() else {
        return Err(ExecutionError::function_error("lookup", "the first argument is the name of a table"));
    };
    let table = tables.get(name.as_str()).ok_or_else(|| ExecutionError::function_error("lookup", format!("there is no table `{name}`")))?;
    let found = match args.get(1) {
        Some(Cel::String(key)) => table.entry(key),
        Some(Cel::Int(key)) => table.entry(&key.to_string()),
        _ => table.otherwise.as_ref(),
    };
    Ok(found.map_or(Cel::Null, Entry::to_cel))
}

fn keys(tables: &Tables, args: &[Cel]) -> Result<Cel, ExecutionError> {
    let Some(Cel::String(name)) = args.first() else {
        return Err(ExecutionError::function_error("keys", "the argument is the name of a table"));
    };
    let table = tables.get(name.as_str()).ok_or_else(|| ExecutionError::function_error("keys", format!("there is no table `{name}`")))?;
    Ok(Cel::List(Arc::new(table.rows.keys().map(|key| text_to_cel(key)).collect())))
}

pub(crate) fn md5(text: &str) -> String {
    use md5::Digest;
    let digits = b"0123456789abcdef";
    let digest = md5::Md5::digest(text.as_bytes());
    digest.iter().flat_map(|byte| [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]).map(char::from).collect()
}

/// A duration as often as a number says; CEL has no product of the two.
fn times(args: &[Cel]) -> Cel {
    match (args.first(), args.get(1)) {
        (Some(Cel::Duration(length)), Some(Cel::Int(number))) => {
            let micros = length.num_microseconds().and_then(|micros| micros.checked_mul(*number));
            micros.map_or(Cel::Null, |micros| Cel::Duration(chrono::Duration::microseconds(micros)))
        }
        (Some(Cel::Duration(length)), Some(Cel::Float(number))) => {
            let micros = length.num_microseconds().unwrap_or(0) as f64 * number;
            Cel::Duration(chrono::Duration::microseconds(micros.round() as i64))
        }
        _ => Cel::Null,
    }
}

/// Characters from a place, from 0, to another, or to the end; nothing of a text that is too short.
fn substring(args: &[Cel]) -> Cel {
    let (Some(Cel::String(text)), Some(Cel::Int(from))) = (args.first(), args.get(1)) else { return Cel::Null };
    let length = text.chars().count() as i64;
    let to = match args.get(2) {
        Some(Cel::Int(to)) => *to,
        _ => length,
    };
    if *from < 0 || to < *from || to > length {
        return Cel::Null;
    }
    Cel::String(Arc::new(text.chars().skip(*from as usize).take((to - from) as usize).collect()))
}

fn hex(args: &[Cel]) -> Cel {
    match args.first() {
        Some(Cel::String(digits)) => i64::from_str_radix(digits, 16).map_or(Cel::Null, Cel::Int),
        Some(Cel::Int(number)) => Cel::String(Arc::new(format!("{number:X}"))),
        _ => Cel::Null,
    }
}

fn abs(args: &[Cel]) -> Cel {
    match args.first() {
        Some(Cel::Int(number)) => Cel::Int(number.saturating_abs()),
        Some(Cel::Float(number)) => Cel::Float(number.abs()),
        Some(Cel::Duration(length)) => Cel::Duration(length.abs()),
        _ => Cel::Null,
    }
}

/// The sum of a list of numbers or durations; those that are null do not count.
fn sum(args: &[Cel]) -> Result<Cel, ExecutionError> {
    let Some(Cel::List(items)) = args.first() else { return Ok(Cel::Null) };
    let mut total = Cel::Null;
    for item in items.iter().filter(|item| !matches!(item, Cel::Null)) {
        total = match (total, item) {
            (Cel::Null, item) => item.clone(),
            (Cel::Int(a), Cel::Int(b)) => Cel::Int(a.saturating_add(*b)),
            (Cel::Int(a), Cel::Float(b)) => Cel::Float(a as f64 + b),
            (Cel::Float(a), Cel::Int(b)) => Cel::Float(a + *b as f64),
            (Cel::Float(a), Cel::Float(b)) => Cel::Float(a + b),
            (Cel::Duration(a), Cel::Duration(b)) => Cel::Duration(a + *b),
            _ => return Err(ExecutionError::function_error("sum", "expects numbers, or durations")),
        };
    }
    Ok(total)
}

/// The least or greatest of a list, or of the arguments; those that are null do not count.
fn extreme(name: &str, args: &[Cel], wanted: Ordering) -> Result<Cel, ExecutionError> {
    let all = match args {
        [Cel::List(items)] => &items[..],
        several => several,
    };
    let mut best = Cel::Null;
    for value in all.iter().filter(|value| !matches!(value, Cel::Null)) {
        if matches!(best, Cel::Null) {
            best = value.clone();
            continue;
        }
        match value.partial_cmp(&best) {
            Some(ordering) if ordering == wanted => best = value.clone(),
            Some(_) => {}
            None => return Err(ExecutionError::function_error(name, "expects values that can be compared with each other")),
        }
    }
    Ok(best)
}

fn strftime(args: &[Cel]) -> Result<Cel, ExecutionError> {
    let (Some(Cel::Timestamp(time)), Some(Cel::String(format))) = (args.first(), args.get(1)) else {
        return Err(ExecutionError::function_error("strftime", "expects a time and a format"));
    };
    let micros = time.timestamp_micros();
    let shown = jiff::Timestamp::from_microsecond(micros)
        .ok()
        .and_then(|time| jiff::fmt::strtime::format(format.as_str(), &time.to_zoned(jiff::tz::TimeZone::UTC)).ok());
    shown.map(|text| Cel::String(Arc::new(text))).ok_or_else(|| ExecutionError::function_error("strftime", format!("`{format}` is not a format")))
}

/// A field value as CEL sees it.
pub fn to_cel(value: &Value, ty: &FieldType) -> Cel {
    match value {
        Value::Null | Value::Cleared => Cel::Null,
        Value::Bool(value) => Cel::Bool(*value),
        Value::Int(number) => match ty.element() {
            FieldType::Timestamp => chrono::DateTime::from_timestamp_micros(*number).map_or(Cel::Null, |time| Cel::Timestamp(time.fixed_offset())),
            FieldType::Duration => Cel::Duration(chrono::Duration::microseconds(*number)),
            FieldType::Date => text_to_cel(&value.show(ty)),
            _ => Cel::Int(*number),
        },
        Value::Float(number) => Cel::Float(*number),
        Value::Text(text) => text_to_cel(text),
        Value::Uuid(_) => text_to_cel(&value.show(ty)),
        Value::Json(json) => match ty.element() {
            FieldType::Struct(members) => {
                let said = members.iter().map(|member| (member, crate::value::member_of(json, member))).filter(|(_, value)| !value.is_null());
                let map: HashMap<CelKey, Cel> =
                    said.map(|(member, value)| (CelKey::String(Arc::new(member.name.clone())), to_cel(&value, &member.ty))).collect();
                Cel::Map(CelMap { map: Arc::new(map) })
            }
            _ => json_to_cel(json),
        },
        Value::List(items) => Cel::List(Arc::new(items.iter().map(|item| to_cel(item, ty.element())).collect())),
    }
}

/// Text as CEL sees it.
pub fn text_to_cel(text: &str) -> Cel {
    Cel::String(Arc::new(text.to_owned()))
}

/// JSON as CEL sees it.
pub fn json_to_cel(json: &Json) -> Cel {
    match json {
        Json::Null => Cel::Null,
        Json::Bool(value) => Cel::Bool(*value),
        Json::Number(number) => number.as_i64().map_or_else(|| Cel::Float(number.as_f64().unwrap_or(f64::NAN)), Cel::Int),
        Json::String(text) => text_to_cel(text),
        Json::Array(items) => Cel::List(Arc::new(items.iter().map(json_to_cel).collect())),
        Json::Object(entries) => {
            let map: HashMap<CelKey, Cel> = entries.iter().map(|(key, value)| (CelKey::String(Arc::new(key.clone())), json_to_cel(value))).collect();
            Cel::Map(CelMap { map: Arc::new(map) })
        }
    }
}

fn cel_to_json(value: &Cel) -> Json {
    match value {
        Cel::Bool(value) => Json::Bool(*value),
        Cel::Int(number) => Json::from(*number),
        Cel::UInt(number) => Json::from(*number),
        Cel::Float(number) => Json::from(*number),
        Cel::String(text) => Json::from(text.as_str()),
        Cel::Timestamp(time) => Json::from(crate::value::show_timestamp(time.timestamp_micros())),
        Cel::Duration(duration) => {
            let micros = duration.num_microseconds().unwrap_or(i64::MAX);
            Json::from(jiff::SignedDuration::from_micros(micros).to_string())
        }
        Cel::List(items) => Json::Array(items.iter().map(cel_to_json).collect()),
        Cel::Map(map) => {
            let sorted: BTreeMap<String, Json> = map
                .map
                .iter()
                .map(|(key, value)| {
                    let name = match key {
                        CelKey::String(text) => text.to_string(),
                        CelKey::Int(number) => number.to_string(),
                        CelKey::Uint(number) => number.to_string(),
                        CelKey::Bool(value) => value.to_string(),
                    };
                    (name, cel_to_json(value))
                })
                .collect();
            Json::Object(sorted.into_iter().collect())
        }
        _ => Json::Null,
    }
}

/// A CEL result as a value of a field.
///
/// # Errors
/// When it does not fit the field's type.
pub fn from_cel(cel: &Cel, ty: &FieldType) -> Result<Value, crate::value::ConvertError> {
    match (cel, ty.element()) {
        (Cel::Null, _) => Ok(Value::Null),
        (Cel::Timestamp(time), FieldType::Timestamp) if !ty.is_list() => Ok(Value::Int(time.timestamp_micros())),
        (Cel::Duration(duration), FieldType::Duration) if !ty.is_list() => Ok(duration.num_microseconds().map_or(Value::Null, Value::Int)),
        (Cel::String(text), FieldType::Text) if !ty.is_list() => Ok(Value::text(text.as_str())),
        _ => crate::value::from_json(&cel_to_json(cel), ty, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluate(source: &str, names: &[(&str, Cel)]) -> Result<Value, String> {
        let known: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        let expression = Expression::compile(source, &known).map_err(|(at, message)| format!("{at}: {message}"))?;
        let text = |text: &str| Entry::Text(text.to_owned());
        let patterns = vec![(Regex::new("^(?:x.)").expect("valid"), text("pattern"))];
        let table = Table { rows: [("a".to_owned(), text("lcsh"))].into(), patterns, otherwise: Some(text("other")) };
        let evaluator = Evaluator::new(Arc::new([("systems".to_owned(), table)].into()));
        let found =
            evaluator.evaluate(&expression, |name| names.iter().find(|(known, _)| *known == name).map_or(Cel::Null, |(_, value)| value.clone()))?;
        from_cel(&found, &FieldType::Text).map_err(|error| error.to_string())
    }

    #[test]
    fn every_function_answers() {
        let a = [("a", Cel::Null), ("b", text_to_cel(" x  y "))];
        assert_eq!(evaluate("coalesce(a, b)", &a), Ok(Value::text(" x  y ")));
        assert_eq!(evaluate("squash([a, b, 'z'])", &a), Ok(Value::text("x y z")));
        assert_eq!(evaluate("trim(b)", &a), Ok(Value::text("x  y")));
        assert_eq!(evaluate("fold('ÅSA')", &a), Ok(Value::text("åsa")));
        assert_eq!(evaluate("lookup('systems', 'a') + lookup('systems', 'q')", &a), Ok(Value::text("lcshother")));
        assert_eq!(evaluate("string(size(without({'p': 1, 'q': 2}, ['p'])))", &a), Ok(Value::text("1")));
        assert_eq!(evaluate("uuid5('business', '1')", &a), evaluate("uuid5('business', '1')", &a));
        assert_eq!(evaluate("strftime(timestamp('2020-01-02T00:00:00Z'), '%Y/%m')", &a), Ok(Value::text("2020/01")));
        assert_eq!(evaluate("string([1, 2].map(x, x * 2)[1])", &a), Ok(Value::text("4")));
        assert_eq!(evaluate("lookup('systems', 'xy')", &a), Ok(Value::text("pattern")));
        assert_eq!(evaluate("keys('systems')[0]", &a), Ok(Value::text("a")));
        assert_eq!(evaluate("md5('abc')", &a), Ok(Value::text("900150983cd24fb0d6963f7d28e17f72")));
        assert_eq!(evaluate("substring('S1A_IW', 0, 3) + string(substring('ab', 3) == null)", &a), Ok(Value::text("S1Atrue")));
        assert_eq!(evaluate("string(hex('04F9D1')) + hex(318318)", &a), Ok(Value::text("3260974DB6E")));
        assert_eq!(evaluate("string(times(duration('2s'), 3))", &a), Ok(Value::text("6s")));
        assert_eq!(evaluate("string(abs(-2) + sum([1, 2, null]))", &a), Ok(Value::text("5")));
        assert_eq!(evaluate("string(min(3, 1, null, 2)) + string(max([1.5, 7, -2])) + string(max(a, a) == null)", &a), Ok(Value::text("17true")));
        assert_eq!(evaluate("string(max(duration('1s'), duration('90s'))) + min('b', 'a')", &a), Ok(Value::text("90sa")));
        assert_eq!(
            evaluate("string(min([timestamp('2020-01-02T00:00:00Z'), timestamp('2020-01-01T00:00:00Z')]))", &a),
            Ok(Value::text("2020-01-01T00:00:00Z"))
        );
        assert!(evaluate("min(1, 'a')", &a).is_err());
        assert_eq!(evaluate("string(abs(duration('-2s')) + sum([duration('1s'), duration('-500ms')]))", &a), Ok(Value::text("2.5s")));
    }

    /// Whatever passes the check of names is there when it is called.
    #[test]
    fn standard_functions_are_there() {
        let time = "timestamp('2020-01-02T03:04:05.006Z')";
        for name in STANDARD_FUNCTIONS {
            let call = match *name {
                "size" => "size('ab') == 2".to_owned(),
                "contains" | "startsWith" | "endsWith" | "matches" => format!("'ab'.{name}('ab')"),
                "string" => "string(1) == '1'".to_owned(),
                "bytes" => "size(bytes('ab')) == 2".to_owned(),
                "double" | "int" | "uint" => format!("{name}('1') == {name}(1)"),
                "bool" => "bool('true')".to_owned(),
                "duration" => "duration('1s') == duration('1000ms')".to_owned(),
                "timestamp" => format!("{time} == {time}"),
                "type" => "type(1) == type(2)".to_owned(),
                "dyn" => "dyn(1) == 1".to_owned(),
                "has" => "has({'a': 1}.a)".to_owned(),
                "all" | "exists" | "exists_one" => format!("[1].{name}(x, x == 1)"),
                "map" | "filter" => format!("size([1].{name}(x, x == 1)) == 1"),
                part => format!("{time}.{part}() >= 0"),
            };
            assert_eq!(evaluate(&format!("string({call})"), &[]), Ok(Value::text("true")), "{name}: {call}");
        }
    }

    /// Every plain expression gives what CEL gives, over every combination of values.
    #[test]
    fn plain_expressions_are_what_cel_says() {
        let expressions = [
            "a == 'x'",
            "a != 'x'",
            "a == null",
            "a != null && b > 1",
            "a == 'x' || b == 2",
            "!(a == 'x')",
            "b == 1 ? a : 'other'",
            "a in ['x', 'y']",
            "b in [1, 2]",
            "a in lookup('lists', 'some')",
            "a in lookup('lists', a)",
            "b == 1 && a in lookup('lists', 'some')",
            "b == 1 && a.contains('x')",
            "b == 1 || a.contains('x')",
            "b == 1 ? a : string(a.contains('x'))",
            "b == 1 && size(a) > 0",
            "b == 1 || size(a) > 0",
            "b == 1 ? a : string(size(a))",
            "size(a)",
            "size(l)",
            "size(j)",
            "a + 'z'",
            "b + 1",
            "b - 1",
            "t - t",
            "t - d",
            "t + d",
            "d + d",
            "d - d",
            "d < duration('2s')",
            "t < t",
            "b <= 2",
            "coalesce(a, 'none')",
            "coalesce(a, b)",
            "lookup('systems', a)",
            "substring(a, 0, 1)",
            "substring(a, 1)",
            "a.startsWith('x')",
            "a.endsWith('y')",
            "md5(a)",
            "hex(a)",
            "hex(b)",
            "string(b)",
            "string(a)",
            "int(a)",
            "abs(d)",
            "abs(b)",
            "trim(a)",
            "f == 1.5",
            "f > 1.0",
            "a == null ? null : a + a",
            "t",
            "d",
            "a",
            "b",
            "f",
            "true",
            "1.5",
            "b == a",
            "t == d",
            "true && a == 'x'",
            "a",
            "l == null",
            "l",
            "uuid5('name', a)",
            "uuid5(a, a)",
            "without(j, ['p', 'q'])",
            "without(j, [])",
            "without(a, ['p'])",
        ];
        let names = ["a", "b", "t", "d", "f", "l", "j"];
        let types = [
            FieldType::Text,
            FieldType::Integer,
            FieldType::Timestamp,
            FieldType::Duration,
            FieldType::Float,
            FieldType::List(Box::new(FieldType::Text)),
            FieldType::Json,
        ];
        let json = |text: &str| Value::Json(Arc::new(serde_json::from_str(text).expect("JSON")));
        let values: [&[Value]; 7] = [
            &[Value::Null, Value::text("x"), Value::text("12"), Value::text(" \u{e4}y")],
            &[Value::Null, Value::Int(1), Value::Int(-2)],
            &[Value::Null, Value::Int(1_700_000_000_123_456)],
            &[Value::Null, Value::Int(-1_500_000)],
            &[Value::Null, Value::Float(1.5)],
            &[Value::Null, Value::List(vec![Value::text("p")])],
            &[
                Value::Null,
                json(r#"{ "q": 1, "p": { "z": [1.0, -0.5e-7, { "y": 1, "b": null }], "a": 1e300 }, "o": "x" }"#),
                json(r#"{ "p": 18446744073709551615, "o": 18446744073709551615 }"#),
                json("[1]"),
            ],
        ];
        let text = |text: &str| Entry::Text(text.to_owned());
        let table = Table { rows: [("x".to_owned(), text("found"))].into(), ..Table::default() };
        let some = Entry::List(vec!["x".to_owned(), "12".to_owned()]);
        let lists = Table { rows: [("some".to_owned(), some)].into(), ..Table::default() };
        let evaluator = Evaluator::new(Arc::new([("systems".to_owned(), table), ("lists".to_owned(), lists)].into()));
        for source in expressions {
            let expression = Expression::compile(source, &names).unwrap_or_else(|error| panic!("{source}: {error:?}"));
            assert!(expression.plain.is_some() || source.contains("duration("), "{source} is plain");
            let mut places = [0; 7];
            loop {
                let value = |name: &str| names.iter().position(|known| *known == name).map(|index| (&values[index][places[index]], &types[index]));
                let lean = evaluator.lean(&expression, &mut |name, _| value(name).map(|(value, ty)| Lean::of(value, ty)));
                let full = evaluator.evaluate(&expression, |name| value(name).map_or(Cel::Null, |(value, ty)| to_cel(value, ty)));
                if let Some(lean) = lean {
                    let full = full.unwrap_or_else(|error| panic!("{source} at {places:?} is {lean:?}, CEL says {error}"));
                    for ty in types.iter().chain([&FieldType::Boolean, &FieldType::Uuid]) {
                        if let Some(own) = lean.clone().into_value(ty) {
                            assert_eq!(Ok(own), from_cel(&full, ty).map_err(|error| error.to_string()), "{source} at {places:?} as {ty}");
                        }
                    }
                }
                let Some(next) = (0..7).find(|index| places[*index] + 1 < values[*index].len()) else { break };
                places[next] += 1;
                places[..next].fill(0);
            }
        }
    }

    #[test]
    fn absent_is_null_and_null_is_false() {
        assert_eq!(evaluate("a == null ? 'absent' : 'there'", &[("a", Cel::Null)]), Ok(Value::text("absent")));
        assert_eq!(evaluate("a == 'x' ? 'x' : 'not x'", &[("a", Cel::Null)]), Ok(Value::text("not x")));
    }

    #[test]
    fn mistakes_are_found_when_compiling() {
        assert_eq!(
            evaluate("a + heding", &[("a", Cel::Null), ("heading", Cel::Null)]),
            Err("4: `heding` is not known here; did you mean `heading`?".into())
        );
        assert!(evaluate("coalece(a)", &[("a", Cel::Null)]).is_err_and(|error| error.contains("did you mean `coalesce`")));
        assert!(evaluate("now", &[]).is_err_and(|error| error.contains("only known in transitions")));
        assert!(evaluate("a ?? 'x'", &[("a", Cel::Null)]).is_err());
    }
}
