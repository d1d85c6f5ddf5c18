//! CEL, the Common Expression Language, as definitions use it: compiled once, evaluated over field values. Its functions are those of
//! [`crate::eval::functions`], its types those of [`crate::eval::types`]. Absent is null. There is no clock: `now` is only known where a caller passes it.

use crate::eval::functions::{self, EvalError, FUNCTIONS};
use crate::eval::plain::{self, PlainExpression, PlainValue};
use crate::eval::walk::EvalContext;
use crate::model::definition::Collection;
use crate::value::{FieldType, Value};
use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, IdedExpr};
use cel::objects::{Key as CelKey, Map as CelMap};
use cel::{Program, Value as Cel};
use regex::Regex;
use serde_json::Value as Json;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// A value as CEL has it.
pub type CelValue = Cel;

/// Constant tables by name: key to value, with an optional value for every other key.
pub type ConstantTables = BTreeMap<String, ConstantTable>;

/// A constant table.
#[derive(Debug, Clone, Default)]
pub struct ConstantTable {
    /// Values by key.
    pub rows: BTreeMap<String, TableValue>,
    /// Values by the beginning of the key, tried in order when no row is equal.
    pub patterns: Vec<(Regex, TableValue)>,
    /// The value of a key that has no row.
    pub default: Option<TableValue>,
}

/// A value of a constant table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableValue {
    /// One text.
    Text(String),
    /// Several.
    List(Vec<String>),
}

impl TableValue {
    pub(crate) fn to_cel(&self) -> Cel {
        match self {
            TableValue::Text(text) => text_to_cel(text),
            TableValue::List(items) => Cel::List(Arc::new(items.iter().map(|item| text_to_cel(item)).collect())),
        }
    }
}

impl ConstantTable {
    /// The value of `key`.
    pub fn entry(&self, key: &str) -> Option<&TableValue> {
        let matching = || self.patterns.iter().find(|(pattern, _)| pattern.is_match(key)).map(|(_, entry)| entry);
        self.rows.get(key).or_else(matching).or(self.default.as_ref())
    }

    /// The value of `key`, if it is a text.
    pub fn get(&self, key: &str) -> Option<&str> {
        match self.entry(key)? {
            TableValue::Text(text) => Some(text),
            TableValue::List(_) => None,
        }
    }
}

/// A compiled expression and its text.
#[derive(Debug, Clone)]
pub struct Expression {
    source: String,
    program: Arc<Program>,
    variables: Vec<String>,
    members: Vec<MemberReference>,
    /// The expression, where it is plain.
    plain: Option<Arc<PlainExpression>>,
}

/// A member of a variable that an expression reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberReference {
    /// The variable.
    pub of: String,
    /// Its member.
    pub name: String,
}

impl Expression {
    /// Compiles an expression that may use `names`.
    ///
    /// # Errors
    /// The byte at which it is wrong, and why.
    pub fn compile(source: &str, names: &[&str]) -> Result<Self, (usize, String)> {
        let program = parsed(source)?;
        let place = |id: u64| program.source_info().offset_for(id).map_or(0, |(start, _)| (start as usize).min(source.len()));
        let mut found = References::default();
        found.collect(program.expression(), &mut Vec::new());
        for (name, id) in &found.variables {
            if !names.contains(&name.as_str()) {
                let hint = crate::diagnostic::did_you_mean(name, names.iter().copied())
                    .map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
                let message = match name.as_str() {
                    "now" | "caller" => format!("`{name}` is only known in transitions: a value that reads the clock would change by itself"),
                    _ => format!("unknown name `{name}`{hint}"),
                };
                return Err((place(*id), message));
            }
        }
        for name in &found.functions {
            if name.starts_with(|c: char| c.is_ascii_alphabetic()) && functions::function(name).is_none() {
                let known = FUNCTIONS.iter().map(|function| function.name);
                let hint = crate::diagnostic::did_you_mean(name, known).map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
                return Err((source.find(name.as_str()).unwrap_or(0), format!("there is no function `{name}`{hint}")));
            }
        }
        let References { variables, mut members, .. } = found;
        members.dedup();
        let mut variables: Vec<String> = variables.into_iter().map(|(name, _)| name).collect();
        variables.sort_unstable();
        variables.dedup();
        let plain = plain::compile(&program.expression().expr).map(Arc::new);
        Ok(Self { source: source.to_owned(), program: Arc::new(program), variables, members, plain })
    }

    /// What was parsed.
    pub(crate) fn root(&self) -> &IdedExpr {
        self.program.expression()
    }

    /// Where a node was written, in bytes.
    pub(crate) fn place(&self, id: u64) -> Option<Range<usize>> {
        let (start, stop) = self.program.source_info().offset_for(id)?;
        let end = self.source.len();
        let start = (start as usize).min(end);
        Some(start..(stop as usize + 1).min(end).max(start))
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
    pub fn members(&self) -> &[MemberReference] {
        &self.members
    }
}

/// Deepest expression.
const MOST_DEPTH: usize = 200;
/// Longest text of an expression.
const MOST_BYTES: usize = 16 << 10;
/// Texts so short that the parser's calls fit every thread's stack, whatever they say.
const SHORT: usize = 512;
/// Stack for a text of [`MOST_BYTES`] that opens a level with each byte; only what is used of it is memory.
const MOST_STACK: usize = 1 << 30;

fn parts(expression: &Expr) -> Vec<&IdedExpr> {
    match expression {
        Expr::Select(select) => vec![&select.operand],
        Expr::Call(call) => call.target.iter().map(|target| &**target).chain(&call.args).collect(),
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map
            .entries
            .iter()
            .flat_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
                EntryExpr::StructField(field) => vec![&field.value],
            })
            .collect(),
        Expr::Comprehension(fold) => vec![&fold.iter_range, &fold.accu_init, &fold.loop_cond, &fold.loop_step, &fold.result],
        Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Vec::new(),
    }
}

/// Parses an expression. The parser calls itself for each level, before anybody can count them: what may have many is parsed on a stack
/// that is large enough for all that the text can hold.
fn parsed(source: &str) -> Result<Program, (usize, String)> {
    if source.len() > MOST_BYTES {
        return Err((0, format!("an expression has at most {MOST_BYTES} bytes; put long lists into a table (`lookups`)")));
    }
    let parse = || {
        let program = Program::compile(source).map_err(|errors| match errors.errors.first() {
            Some(error) => (column_to_byte(source, error.pos), clean(&error.msg)),
            None => (0, errors.to_string()),
        })?;
        // one that is too deep ends here, on the large stack
        if depth(program.expression()) > MOST_DEPTH { Err((0, format!("an expression has at most {MOST_DEPTH} levels"))) } else { Ok(program) }
    };
    if source.len() < SHORT {
        return parse();
    }
    std::thread::scope(|scope| {
        let parsing = std::thread::Builder::new().stack_size(MOST_STACK).spawn_scoped(scope, parse);
        let parsing = parsing.map_err(|error| (0, format!("not enough memory to parse an expression of {} bytes: {error}", source.len())))?;
        parsing.join().unwrap_or_else(|_| Err((0, "it cannot be parsed".into())))
    })
}

fn depth(expression: &IdedExpr) -> usize {
    let (mut deepest, mut waiting) = (0, vec![(expression, 1)]);
    while let Some((next, depth)) = waiting.pop() {
        deepest = deepest.max(depth);
        waiting.extend(parts(&next.expr).into_iter().map(|part| (part, depth + 1)));
    }
    deepest
}

/// What an expression speaks of.
#[derive(Default)]
struct References {
    /// Names that are not those of elements, each with where it stands.
    variables: Vec<(String, u64)>,
    functions: Vec<String>,
    members: Vec<MemberReference>,
}

impl References {
    fn collect<'e>(&mut self, expression: &'e IdedExpr, bound: &mut Vec<&'e str>) {
        match &expression.expr {
            Expr::Ident(name) if !bound.contains(&name.as_str()) => self.variables.push((name.clone(), expression.id)),
            Expr::Select(select) => {
                if let Expr::Ident(of) = &select.operand.expr
                    && !bound.contains(&of.as_str())
                {
                    self.members.push(MemberReference { of: of.clone(), name: select.field.clone() });
                }
                self.collect(&select.operand, bound);
            }
            Expr::Comprehension(made) => {
                let ComprehensionExpr { iter_range, iter_var, accu_var, accu_init, loop_cond, loop_step, result, .. } = &**made;
                self.collect(iter_range, bound);
                let before = bound.len();
                bound.extend([iter_var.as_str(), accu_var.as_str()]);
                [accu_init, loop_cond, loop_step, result].into_iter().for_each(|part| self.collect(part, bound));
                bound.truncate(before);
            }
            Expr::Call(call) => {
                self.functions.push(call.func_name.clone());
                parts(&expression.expr).into_iter().for_each(|part| self.collect(part, bound));
            }
            other => parts(other).into_iter().for_each(|part| self.collect(part, bound)),
        }
    }
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

/// Most failures that are kept until somebody asks for them.
const MOST_FAILURES: usize = 1_000;

/// What of expressions has failed on records.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExpressionFailures {
    /// How often expressions of a record were found to fail; of one record it may be found again and again.
    pub count: u64,
    /// What has failed first, in sentences that name the record, each once.
    pub first: Vec<String>,
    /// Whether other sentences are left out.
    pub truncated: bool,
}

impl ExpressionFailures {
    /// Most sentences.
    const MOST: usize = 20;

    /// Adds what has failed on a record, if anything.
    pub fn add(&mut self, collection: &str, key: &str, failures: Vec<String>) {
        if !failures.is_empty() {
            let first = failures.into_iter().map(|failure| format!("{collection} {key}: {failure}")).collect();
            self.include(ExpressionFailures { count: 1, first, truncated: false });
        }
    }

    /// Adds others.
    pub fn include(&mut self, other: ExpressionFailures) {
        self.count += other.count;
        self.truncated |= other.truncated;
        for failure in other.first {
            if self.first.contains(&failure) {
                continue;
            }
            match self.first.len() < Self::MOST {
                true => self.first.push(failure),
                false => self.truncated = true,
            }
        }
    }
}

/// Evaluates expressions. One per thread.
pub struct Evaluator {
    tables: Arc<ConstantTables>,
    /// What has failed where the work went on without it, until somebody tells it.
    failures: RefCell<Vec<String>>,
}

impl Evaluator {
    /// An evaluator that knows the constant tables.
    pub fn new(tables: Arc<ConstantTables>) -> Self {
        Self { tables, failures: RefCell::default() }
    }

    /// Notes that an expression has failed where the work goes on without its value.
    pub fn note(&self, what: &str, expression: &Expression, error: &str) {
        self.note_message(|| format!("{what}: `{}`: {error}; the value is missing", expression.source.trim()));
    }

    /// Notes that something else than an expression has no value, and why.
    pub fn note_message(&self, message: impl FnOnce() -> String) {
        let mut failures = self.failures.borrow_mut();
        if failures.len() < MOST_FAILURES {
            let message = message();
            if !failures.contains(&message) {
                failures.push(message);
            }
        }
    }

    /// What was noted since the last call, each once. Nothing is allocated where nothing has failed.
    pub fn failures(&self) -> Vec<String> {
        std::mem::take(&mut *self.failures.borrow_mut())
    }

    /// The value of a plain expression over plain values, which `values` gives by name and member; nothing where it is not
    /// plain, or meets what is not.
    pub fn lean<'v>(&'v self, expression: &'v Expression, values: &mut plain::ValueLookup<'_, 'v>) -> Option<PlainValue<'v>> {
        expression.plain.as_ref()?.evaluate(&self.tables, values)
    }

    /// Whether a condition holds of a record's golden values. One that fails does not, and is noted.
    pub fn holds_of(&self, what: &dyn Fn() -> String, condition: &Expression, collection: &Collection, values: &[Value]) -> bool {
        match self.lean(condition, &mut |name, member| lean_field(collection, values, name, member)) {
            Some(PlainValue::Bool(value)) => value,
            Some(PlainValue::Null) => false,
            _ => self.holds(condition, |name| cel_field(collection, values, name)).unwrap_or_else(|error| {
                self.note(&what(), condition, &error);
                false
            }),
        }
    }

    /// The value of an expression over a record's golden values.
    ///
    /// # Errors
    /// Why it has none.
    pub fn value_of(&self, expression: &Expression, ty: &FieldType, collection: &Collection, values: &[Value]) -> Result<Value, String> {
        let lean = self.lean(expression, &mut |name, member| lean_field(collection, values, name, member));
        if let Some(value) = lean.and_then(|lean| lean.into_value(ty)) {
            return Ok(value);
        }
        let found = self.evaluate(expression, |name| cel_field(collection, values, name))?;
        from_cel(&found, ty).map_err(|error| error.to_string())
    }

    /// Evaluates `expression`; names it does not find in `variable` are null.
    ///
    /// # Errors
    /// Why it has no value, for example a division by zero.
    pub fn evaluate(&self, expression: &Expression, variable: impl FnMut(&str) -> Cel) -> Result<Cel, String> {
        self.find(expression, variable).map_err(|fault| fault.message().to_owned())
    }

    /// The value of `expression`; names that `variable` does not know are null.
    ///
    /// # Errors
    /// Why it has none.
    pub fn find(&self, expression: &Expression, mut variable: impl FnMut(&str) -> Cel) -> Result<Cel, EvalError> {
        let variables = expression.variables.iter().map(|name| (name.as_str(), variable(name))).collect();
        EvalContext { tables: &self.tables, variables, elements: Vec::new(), steps: 0 }.value(expression.root())
    }

    /// Evaluates a condition: true, or anything else for false; null is false.
    ///
    /// # Errors
    /// As [`Evaluator::evaluate`], or when the result is neither boolean nor null.
    pub fn holds(&self, expression: &Expression, variable: impl FnMut(&str) -> Cel) -> Result<bool, String> {
        match self.evaluate(expression, variable)? {
            Cel::Bool(value) => Ok(value),
            Cel::Null => Ok(false),
            other => Err(format!("`{}` is {}, not true or false", expression.source, functions::kind_of(&other))),
        }
    }
}

fn lean_field<'v>(collection: &'v Collection, values: &'v [Value], name: &str, member: Option<&str>) -> Option<PlainValue<'v>> {
    let (index, field) = collection.field(name)?;
    match (member, &values[index]) {
        (None, value) => Some(PlainValue::of(value, field.golden_type())),
        (Some(_), Value::Null | Value::Cleared) => Some(PlainValue::Null),
        (Some(member), Value::Json(json)) if json.is_object() => json.get(member).map_or(Some(PlainValue::Null), PlainValue::of_json),
        _ => None,
    }
}

fn cel_field(collection: &Collection, values: &[Value], name: &str) -> Cel {
    collection.field(name).map_or(Cel::Null, |(index, field)| to_cel(&values[index], field.golden_type()))
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
        (Cel::Timestamp(time), FieldType::Timestamp) if !ty.is_list() => crate::value::time::in_range(time.timestamp_micros())
            .map(Value::Int)
            .ok_or_else(|| crate::value::ConvertError::new("this time", "a time in the years -9999 to 9999")),
        (Cel::Duration(duration), FieldType::Duration) if !ty.is_list() => {
            duration.num_microseconds().map(Value::Int).ok_or_else(|| crate::value::ConvertError::new("this length", "a duration that can be kept"))
        }
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
        let text = |text: &str| TableValue::Text(text.to_owned());
        let patterns = vec![(Regex::new("^(?:x.)").expect("valid"), text("pattern"))];
        let table = ConstantTable { rows: [("a".to_owned(), text("lcsh"))].into(), patterns, default: Some(text("other")) };
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

    /// The table of functions is what is there: its examples pass the check, and have the values that it says.
    #[test]
    fn every_function_has_an_example_with_its_value() {
        let table = ConstantTable { rows: [("B".to_owned(), TableValue::Text("business".to_owned()))].into(), ..ConstantTable::default() };
        let evaluator = Evaluator::new(Arc::new([("kinds".to_owned(), table)].into()));
        for function in FUNCTIONS {
            let expression = Expression::compile(function.example, &[]).unwrap_or_else(|error| panic!("{}: {error:?}", function.example));
            let ty = crate::eval::types::type_of(&expression, &evaluator.tables, &|_| None)
                .unwrap_or_else(|error| panic!("{}: {error:?}", function.example));
            let found = evaluator.find(&expression, |_| Cel::Null).unwrap_or_else(|error| panic!("{}: {error:?}", function.example));
            assert_eq!(cel_to_json(&found).to_string(), function.value, "{}", function.example);
            assert!(crate::eval::types::is_of(&found, &ty), "{} is {found:?}, not {ty}", function.example);
            assert!(function.example.contains(&format!("{}(", function.name)), "{} shows {}", function.example, function.name);
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
        let text = |text: &str| TableValue::Text(text.to_owned());
        let table = ConstantTable { rows: [("x".to_owned(), text("found"))].into(), ..ConstantTable::default() };
        let some = TableValue::List(vec!["x".to_owned(), "12".to_owned()]);
        let lists = ConstantTable { rows: [("some".to_owned(), some)].into(), ..ConstantTable::default() };
        let evaluator = Evaluator::new(Arc::new([("systems".to_owned(), table), ("lists".to_owned(), lists)].into()));
        for source in expressions {
            let expression = Expression::compile(source, &names).unwrap_or_else(|error| panic!("{source}: {error:?}"));
            assert!(expression.plain.is_some() || source.contains("duration("), "{source} is plain");
            let mut places = [0; 7];
            loop {
                let value = |name: &str| names.iter().position(|known| *known == name).map(|index| (&values[index][places[index]], &types[index]));
                let lean = evaluator.lean(&expression, &mut |name, _| value(name).map(|(value, ty)| PlainValue::of(value, ty)));
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
    fn expressions_of_any_depth_are_refused_and_loops_have_an_end() {
        for level in ["(", "[", "!", "-", "1 + ", "a ? b : ", "{1: "] {
            for length in [500, 511, 513, 5_000, MOST_BYTES] {
                let source = level.repeat(length / level.len());
                assert!(Expression::compile(&source, &["a", "b"]).is_err(), "{length} of {level}");
            }
        }
        let sum = |terms: usize| vec!["1"; terms].join("+");
        assert!(Expression::compile(&sum(100), &[]).is_ok());
        assert!(Expression::compile(&sum(8_000), &[]).is_err_and(|(_, message)| message.contains("levels")));
        assert!(Expression::compile(&sum(12_000), &[]).is_err_and(|(_, message)| message.contains("bytes")));
        let nested = (0..8).fold("true".to_owned(), |inner, level| format!("l.all(x{level}, {inner})"));
        let numbers = Cel::List(Arc::new((0..100).map(Cel::Int).collect()));
        assert!(evaluate(&nested, &[("l", numbers)]).is_err_and(|message| message.contains("steps")));
    }

    #[test]
    fn mistakes_are_found_when_compiling() {
        assert_eq!(
            evaluate("a + heding", &[("a", Cel::Null), ("heading", Cel::Null)]),
            Err("4: unknown name `heding`; did you mean `heading`?".into())
        );
        assert!(evaluate("coalece(a)", &[("a", Cel::Null)]).is_err_and(|error| error.contains("did you mean `coalesce`")));
        assert!(evaluate("now", &[]).is_err_and(|error| error.contains("only known in transitions")));
        assert!(evaluate("a ?? 'x'", &[("a", Cel::Null)]).is_err());
    }
}
