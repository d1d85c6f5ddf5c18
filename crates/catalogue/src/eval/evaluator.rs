//! Evaluates expressions over the values of a scope: directly if the expression and the values are plain, otherwise with CEL's values.

use super::convert::{CelValue as Cel, from_cel};
use super::expression::Expression;
use super::functions::{self, EvalError};
use super::plain_value::PlainValue;
use super::scope::Scope;
use super::tables::ConstantTables;
use super::walk::EvalContext;
use crate::value::{FieldType, Value};
use std::cell::RefCell;
use std::sync::Arc;

/// Max failures kept until they are collected.
const MAX_FAILURES: usize = 1_000;

/// Evaluates expressions. One per thread.
pub struct Evaluator {
    tables: Arc<ConstantTables>,
    /// Failures since the last call of [`Evaluator::failures`].
    failures: RefCell<Vec<String>>,
}

impl Evaluator {
    /// Creates an evaluator with constant tables.
    pub fn new(tables: Arc<ConstantTables>) -> Self {
        Self { tables, failures: RefCell::default() }
    }

    /// Notes that an expression has failed and its value is missing.
    pub fn note(&self, subject: &str, expression: &Expression, error: &str) {
        self.note_message(|| format!("{subject}: `{}`: {error}; the value is missing", expression.source().trim()));
    }

    /// Notes another reason why a value is missing.
    pub fn note_message(&self, message: impl FnOnce() -> String) {
        let mut failures = self.failures.borrow_mut();
        if failures.len() < MAX_FAILURES {
            let message = message();
            if !failures.contains(&message) {
                failures.push(message);
            }
        }
    }

    /// Returns the distinct notes since the last call. Allocates nothing if there are none.
    pub fn failures(&self) -> Vec<String> {
        std::mem::take(&mut *self.failures.borrow_mut())
    }

    /// Evaluates an expression over a scope. `plain` converts the result if the expression and its values are plain; if they are not, or `plain`
    /// returns `None`, `cel` converts CEL's result.
    ///
    /// # Errors
    /// Why it has no value, for example a division by zero, or the error of `cel`.
    pub fn eval<'v, T>(
        &'v self,
        expression: &'v Expression,
        scope: &'v dyn Scope,
        plain: impl FnOnce(PlainValue<'v>) -> Option<T>,
        cel: impl FnOnce(Cel) -> Result<T, String>,
    ) -> Result<T, String> {
        match self.plain(expression, scope).and_then(plain) {
            Some(found) => Ok(found),
            None => cel(self.cel(expression, scope).map_err(|error| error.message().to_owned())?),
        }
    }

    /// Evaluates an expression to a value of a type.
    ///
    /// # Errors
    /// Why it has no value.
    pub fn value(&self, expression: &Expression, ty: &FieldType, scope: &dyn Scope) -> Result<Value, String> {
        self.eval(expression, scope, |plain| plain.into_value(ty), |found| from_cel(&found, ty).map_err(|error| error.to_string()))
    }

    /// Whether a condition holds; null does not hold.
    ///
    /// # Errors
    /// Why it has no value, or that it is neither boolean nor null.
    pub fn holds(&self, condition: &Expression, scope: &dyn Scope) -> Result<bool, String> {
        let plain = |plain: PlainValue<'_>| match plain {
            PlainValue::Bool(value) => Some(value),
            PlainValue::Null => Some(false),
            _ => None,
        };
        self.eval(condition, scope, plain, |found| match found {
            Cel::Bool(value) => Ok(value),
            Cel::Null => Ok(false),
            other => Err(format!("`{}` is {}, not true or false", condition.source(), functions::kind_of(&other))),
        })
    }

    /// Whether a condition holds. One that fails does not hold, and is noted.
    pub fn holds_or_note(&self, subject: &dyn Fn() -> String, condition: &Expression, scope: &dyn Scope) -> bool {
        self.holds(condition, scope).unwrap_or_else(|error| {
            self.note(&subject(), condition, &error);
            false
        })
    }

    /// Evaluates a plain expression over plain values; `None` if either is not plain.
    pub fn plain<'v>(&'v self, expression: &'v Expression, scope: &'v dyn Scope) -> Option<PlainValue<'v>> {
        expression.plain()?.evaluate(&self.tables, scope)
    }

    /// Evaluates an expression with CEL's values, whether it is plain or not.
    ///
    /// # Errors
    /// Why it has no value.
    pub fn cel(&self, expression: &Expression, scope: &dyn Scope) -> Result<Cel, EvalError> {
        let variables = expression.variables().iter().map(|name| (name.as_str(), scope.cel(name, expression.members_unless_whole(name)))).collect();
        EvalContext { tables: &self.tables, variables, elements: Vec::new(), steps: 0 }.value(expression.root())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::convert::{cel_to_json, text_to_cel, to_cel};
    use crate::eval::expression::MAX_BYTES;
    use crate::eval::functions::FUNCTIONS;
    use crate::eval::scope::{MemberReference, Name};
    use crate::eval::tables::{ConstantTable, TableValue};
    use regex::Regex;

    fn evaluate(source: &str, names: &[(&str, Cel)]) -> Result<Value, String> {
        let known: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        let expression = Expression::compile(source, &known).map_err(|(at, message)| format!("{at}: {message}"))?;
        let text = |text: &str| TableValue::Text(text.to_owned());
        let patterns = vec![(Regex::new("^(?:x.)").expect("valid"), text("pattern"))];
        let table = ConstantTable { rows: [("a".to_owned(), text("lcsh"))].into(), patterns, default: Some(text("other")) };
        let evaluator = Evaluator::new(Arc::new([("systems".to_owned(), table)].into()));
        let found =
            evaluator.cel(&expression, &|name: &str| names.iter().find(|(known, _)| *known == name).map_or(Cel::Null, |(_, value)| value.clone()));
        let found = found.map_err(|error| error.message().to_owned())?;
        from_cel(&found, &FieldType::Text).map_err(|error| error.to_string())
    }

    #[test]
    fn functions_return_what_their_names_say() {
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

    /// The table of functions is correct: its examples pass the type check, and have the values it states.
    #[test]
    fn every_function_has_an_example_with_its_value() {
        let table = ConstantTable { rows: [("B".to_owned(), TableValue::Text("business".to_owned()))].into(), ..ConstantTable::default() };
        let mut tables: ConstantTables = [("kinds".to_owned(), table)].into();
        let sea = r#"{"type":"FeatureCollection","features":[{"type":"Feature","properties":{"name":"North Sea"},"geometry":{"type":"Polygon","coordinates":[[[0,52],[7,52],[7,58],[0,58],[0,52]]]}}]}"#;
        tables.insert_areas("seas", stook_geometry::NamedAreas::read(sea, "name", &stook_geometry::Limits::AREA).ok().map(|(areas, _)| areas));
        let evaluator = Evaluator::new(Arc::new(tables));
        for function in FUNCTIONS {
            let expression = Expression::compile(function.example, &[]).unwrap_or_else(|error| panic!("{}: {error:?}", function.example));
            let ty = crate::eval::types::type_of(&expression, &evaluator.tables, &|_| None)
                .unwrap_or_else(|error| panic!("{}: {error:?}", function.example));
            let found = evaluator.cel(&expression, &|_: &str| Cel::Null).unwrap_or_else(|error| panic!("{}: {error:?}", function.example));
            assert_eq!(cel_to_json(&found).to_string(), function.value, "{}", function.example);
            assert!(crate::eval::types::value_has_type(&found, &ty), "{} is {found:?}, not {ty}", function.example);
            assert!(function.example.contains(&format!("{}(", function.name)), "{} shows {}", function.example, function.name);
        }
    }

    /// Values by name.
    struct Given<'v>(Vec<(&'static str, &'v Value, &'v FieldType)>);

    impl Scope for Given<'_> {
        fn plain(&self, name: &Name, _: Option<&Name>) -> Option<PlainValue<'_>> {
            self.0.iter().find(|(known, ..)| *known == name.as_str()).map(|(_, value, ty)| PlainValue::from_value(value, ty))
        }

        fn cel(&self, name: &str, _: &[MemberReference]) -> Cel {
            self.0.iter().find(|(known, ..)| *known == name).map_or(Cel::Null, |(_, value, ty)| to_cel(value, ty))
        }
    }

    /// Every plain expression gives the same result as CEL, for every combination of values.
    #[test]
    fn plain_evaluation_agrees_with_cel() {
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
            "l.filter(x, x == a)",
            "l.map(x, x + a)[0]",
            "l.exists(x, x == a)",
            "l.all(x, x == a) || b == 1",
            "l.filter(x, x == a).map(x, x)[b]",
            "l[0]",
            "l[b]",
            "max(l)",
            "max(l, l)",
            "max(b, b)",
            "min(l.filter(x, x != a))",
            "flatten(l)",
            "j.p.z",
            "j.o.x",
            "a.contains('x')",
            "matches(a, b == 1 ? 'x' : 'y')",
            "b * 2",
            "b / 0",
            "b % 2",
            "-b",
            "coalesce(l, l).filter(x, a == x)[0]",
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
        let listed = TableValue::List(vec!["x".to_owned(), "12".to_owned()]);
        let lists = ConstantTable { rows: [("some".to_owned(), listed)].into(), ..ConstantTable::default() };
        let evaluator = Evaluator::new(Arc::new([("systems".to_owned(), table), ("lists".to_owned(), lists)].into()));
        for source in expressions {
            let expression = Expression::compile(source, &names).unwrap_or_else(|error| panic!("{source}: {error:?}"));
            assert!(expression.plain().is_some() || source.contains("duration("), "{source} is plain");
            let mut choices = [0; 7];
            loop {
                let given =
                    Given(names.iter().zip(values).zip(&types).zip(choices).map(|(((name, values), ty), at)| (*name, &values[at], ty)).collect());
                let plain_value = evaluator.plain(&expression, &given);
                let cel_value = evaluator.cel(&expression, &given);
                if let Some(plain_value) = plain_value {
                    let cel_value = cel_value.unwrap_or_else(|error| panic!("{source} at {choices:?} is {plain_value:?}, CEL says {error:?}"));
                    for ty in types.iter().chain([&FieldType::Boolean, &FieldType::Uuid]) {
                        if let Some(converted) = plain_value.clone().into_value(ty) {
                            assert_eq!(Ok(converted), from_cel(&cel_value, ty).map_err(|error| error.to_string()), "{source} at {choices:?} as {ty}");
                        }
                    }
                }
                let Some(next) = (0..7).find(|index| choices[*index] + 1 < values[*index].len()) else { break };
                choices[next] += 1;
                choices[..next].fill(0);
            }
        }
    }

    #[test]
    fn absent_is_null_and_null_is_false() {
        assert_eq!(evaluate("a == null ? 'absent' : 'there'", &[("a", Cel::Null)]), Ok(Value::text("absent")));
        assert_eq!(evaluate("a == 'x' ? 'x' : 'not x'", &[("a", Cel::Null)]), Ok(Value::text("not x")));
    }

    #[test]
    fn a_text_of_json_is_not_silently_another_time() {
        let time = Cel::Timestamp(chrono::DateTime::from_timestamp_micros(0).expect("a time").fixed_offset());
        let json = Cel::String("1970-01-01T00:00:00Z".to_owned().into());
        let names = [("t", time), ("j", json), ("d", Cel::Duration(chrono::Duration::seconds(1)))];
        for source in ["j == t ? 'a' : 'b'", "t != j ? 'a' : 'b'"] {
            assert!(evaluate(source, &names).is_err_and(|error| error.contains("timestamp(x) makes one of it")), "{source}");
        }
        assert!(evaluate("d == j ? 'a' : 'b'", &names).is_err_and(|error| error.contains("duration(x) makes one of it")));
        assert_eq!(evaluate("timestamp(j) == t ? 'a' : 'b'", &names), Ok(Value::text("a")));
    }

    #[test]
    fn expressions_that_are_too_deep_and_loops_that_are_too_long_are_refused() {
        for level in ["(", "[", "!", "-", "1 + ", "a ? b : ", "{1: "] {
            for length in [500, 511, 513, 5_000, MAX_BYTES] {
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
