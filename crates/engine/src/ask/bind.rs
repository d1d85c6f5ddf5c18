//! Which call answers a query, and whether an answer to another query does.
//!
//! An argument tells the service a condition that every document of its answer satisfies and that can be checked here. So any call
//! whose arguments follow from the query's conditions gives at least what the query needs; the store leaves out the rest.

use std::cmp::Ordering;
use stook_catalogue::definition::{Call, CallArg, Collection, Takes};
use stook_catalogue::value::{FieldType, Value, from_text};
use stook_store::plan::{Column, Condition, Test};

/// What a service is told: arguments of a call, each with the condition on its field.
pub type Told = Vec<(usize, Test)>;

/// Conditions of a query by field.
pub struct Conditions<'p> {
    by_field: Vec<(usize, &'p Test)>,
}

impl<'p> Conditions<'p> {
    /// Those that are about fields; the key is one where it is text.
    pub fn of(collection: &Collection, conditions: &'p [Condition]) -> Self {
        let key = key_field(collection);
        let field = |condition: &'p Condition| match condition.column {
            Column::Field(field) => Some((field, &condition.test)),
            Column::Key => key.map(|field| (field, &condition.test)),
            _ => None,
        };
        Self { by_field: conditions.iter().filter_map(field).collect() }
    }

    fn on(&self, field: usize) -> impl Iterator<Item = &'p Test> {
        self.by_field.iter().filter(move |(own, _)| *own == field).map(|(_, test)| *test)
    }

    /// Whether a condition on a field holds of everything that the query asks for. A call's default stands for a missing one.
    fn imply(&self, field: usize, test: &Test, default: Option<&Test>) -> bool {
        let mut own = self.on(field).peekable();
        match (own.peek(), default) {
            (None, Some(default)) => implies(default, test),
            _ => own.any(|own| implies(own, test)),
        }
    }

    /// Whether an answer to what a call was told is enough for the query.
    pub fn are_covered(&self, collection: &Collection, call: &Call, told: &Told) -> bool {
        told.iter().all(|(place, test)| {
            let Some(arg) = call.args.get(*place) else { return false };
            self.imply(arg.field, test, default(collection, arg).as_ref())
        })
    }

    /// What a call is told of the query; of equalities only those that `wanted` says.
    ///
    /// # Errors
    /// Which field has no condition that the call needs.
    pub fn bind(&self, collection: &Collection, call: &Call, wanted: impl Fn(usize) -> bool) -> Result<Told, String> {
        let mut told = Told::new();
        for (place, arg) in call.args.iter().enumerate() {
            let found = self.on(arg.field).filter(|_| wanted(place)).find_map(|test| take(collection, arg, test));
            match found.or_else(|| default(collection, arg)) {
                Some(test) => told.push((place, test)),
                None if arg.required => return Err(collection.fields[arg.field].name.clone()),
                None => {}
            }
        }
        Ok(told)
    }
}

/// The field that is the key, where it is text.
pub fn key_field(collection: &Collection) -> Option<usize> {
    collection.key_field().filter(|field| collection.fields[*field].ty == FieldType::Text)
}

fn default(collection: &Collection, arg: &CallArg) -> Option<Test> {
    let text = arg.default.as_deref()?;
    from_text(text, collection.fields[arg.field].golden_type(), None).ok().map(Test::Equal)
}

/// What an argument takes of a condition.
fn take(collection: &Collection, arg: &CallArg, test: &Test) -> Option<Test> {
    let ty = collection.fields[arg.field].golden_type();
    let fits = |value: &Value| *value != Value::Null && arg.shape.as_ref().is_none_or(|shape| shape.is_match(&value.show(ty)));
    match (arg.takes, test) {
        (Takes::Value | Takes::Pattern | Takes::List, Test::Equal(value)) => fits(value).then(|| test.clone()),
        (Takes::Value | Takes::Pattern, Test::In(values)) => match values.as_slice() {
            [only] => fits(only).then(|| Test::Equal(only.clone())),
            _ => None,
        },
        (Takes::List, Test::In(values)) => (!values.is_empty() && values.iter().all(fits)).then(|| test.clone()),
        (Takes::Pattern, Test::Prefix(_) | Test::Wildcard(_)) => {
            let shown = pieces(test)?.join("*");
            arg.shape.as_ref().is_none_or(|shape| shape.is_match(&shown)).then(|| test.clone())
        }
        // a service's bounds are included, so what it is told may be a little wider
        (Takes::From, _) => bounds(test)?.0.map(|low| Test::Range { low: Some((low, true)), high: None }),
        (Takes::To, _) => bounds(test)?.1.map(|high| Test::Range { low: None, high: Some((high, true)) }),
        _ => None,
    }
}

/// The smallest and the largest value that a condition lets pass.
fn bounds(test: &Test) -> Option<(Option<Value>, Option<Value>)> {
    match test {
        Test::Equal(value) => Some((Some(value.clone()), Some(value.clone()))),
        Test::In(values) => {
            let least = values.iter().min_by(|a, b| order(a, b).unwrap_or(Ordering::Equal))?;
            let most = values.iter().max_by(|a, b| order(a, b).unwrap_or(Ordering::Equal))?;
            Some((Some(least.clone()), Some(most.clone())))
        }
        Test::Range { low, high } => Some((low.as_ref().map(|(low, _)| low.clone()), high.as_ref().map(|(high, _)| high.clone()))),
        _ => None,
    }
}

/// The pieces of a pattern between its stars.
pub fn pieces(test: &Test) -> Option<Vec<String>> {
    match test {
        Test::Prefix(prefix) => Some(vec![prefix.clone(), String::new()]),
        Test::Wildcard(pieces) => Some(pieces.clone()),
        _ => None,
    }
}

/// How two values of one type are ordered: texts by their bytes.
pub fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Text(a), Value::Text(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        (Value::Uuid(a), Value::Uuid(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

/// Whether a value satisfies what an argument may say.
pub fn holds(test: &Test, value: &Value) -> bool {
    let above = |low: &Option<(Value, bool)>| match low {
        None => true,
        Some((low, included)) => order(value, low).is_some_and(|order| order == Ordering::Greater || (*included && order == Ordering::Equal)),
    };
    let below = |high: &Option<(Value, bool)>| match high {
        None => true,
        Some((high, included)) => order(value, high).is_some_and(|order| order == Ordering::Less || (*included && order == Ordering::Equal)),
    };
    match test {
        Test::Equal(own) => order(value, own) == Some(Ordering::Equal),
        Test::In(values) => values.iter().any(|own| order(value, own) == Some(Ordering::Equal)),
        Test::Range { low, high } => *value != Value::Null && above(low) && below(high),
        Test::Prefix(_) | Test::Wildcard(_) => match (value, pieces(test)) {
            (Value::Text(text), Some(pieces)) => matches(&pieces, text),
            _ => false,
        },
        Test::NotEqual(_) | Test::NotWildcard(_) | Test::Exists(_) => false,
    }
}

/// Whether a text is one of a pattern.
fn matches(pieces: &[String], text: &str) -> bool {
    let Some((first, rest)) = pieces.split_first() else { return false };
    let Some(mut text) = text.strip_prefix(first.as_str()) else { return false };
    let Some((last, between)) = rest.split_last() else { return text.is_empty() };
    for piece in between {
        let Some((_, behind)) = text.split_once(piece.as_str()) else { return false };
        text = behind;
    }
    text.ends_with(last.as_str())
}

/// Whether everything that satisfies `narrow` satisfies `wide`.
pub fn implies(narrow: &Test, wide: &Test) -> bool {
    // only a star of the wider pattern takes a star of the narrower one
    const STAR: &str = "\0";
    match (narrow, wide) {
        (Test::Equal(value), _) => holds(wide, value),
        (Test::In(values), _) => values.iter().all(|value| holds(wide, value)),
        (Test::Range { low, high }, Test::Range { low: least, high: most }) => {
            let inside = |own: &Option<(Value, bool)>, bound: &Option<(Value, bool)>, towards: Ordering| match (own, bound) {
                (_, None) => true,
                (None, Some(_)) => false,
                (Some((own, own_in)), Some((bound, bound_in))) => match order(own, bound) {
                    Some(Ordering::Equal) => *bound_in || !*own_in,
                    Some(order) => order == towards,
                    None => false,
                },
            };
            inside(low, least, Ordering::Greater) && inside(high, most, Ordering::Less)
        }
        (Test::Prefix(_) | Test::Wildcard(_), Test::Prefix(_) | Test::Wildcard(_)) => match (pieces(narrow), pieces(wide)) {
            (Some(narrow), Some(wide)) => matches(&wide, &narrow.join(STAR)),
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Test {
        Test::Wildcard(text.split('*').map(str::to_owned).collect())
    }

    #[test]
    fn patterns_contain_each_other_as_the_digest_says() {
        let contains = |narrow: &str, wide: &str| implies(&pattern(narrow), &pattern(wide));
        for (narrow, wide, expected) in [
            ("*Run2011*RECO", "*Run201*RECO", true),
            ("*Cosmics*Run20*RECO", "*Run20*RECO", true),
            ("*Cosmics*Run20*RECO", "*Run201*RECO", false),
            ("*Run2011*PromptReco*RECO*", "*Run2011*RECO", false),
            ("*Run2011*PromptReco*RECO*", "*Run20*RECO*", true),
            ("Run*0RECO*0RECO", "Run*RECO*RECO", true),
            ("Run*0RECO*0RECO", "Run*RECO1*RECO2", false),
            ("T1_*", "*", true),
            ("*", "T1_*", false),
            ("a*b", "a*b", true),
            ("a*", "a*a", false),
        ] {
            assert_eq!(contains(narrow, wide), expected, "{narrow} in {wide}");
        }
        assert!(implies(&Test::Equal(Value::text("T1_CH_CERN")), &pattern("T1_*")));
        assert!(!implies(&Test::Equal(Value::text("/a/b/c*")), &Test::Equal(Value::text("/a/b/c"))));
        assert!(!implies(&pattern("site*"), &Test::Equal(Value::text("site_ch"))));
    }

    #[test]
    fn ranges_and_lists_contain_each_other() {
        let range = |low: Option<(i64, bool)>, high: Option<(i64, bool)>| Test::Range {
            low: low.map(|(value, included)| (Value::Int(value), included)),
            high: high.map(|(value, included)| (Value::Int(value), included)),
        };
        let list = |values: &[i64]| Test::In(values.iter().map(|value| Value::Int(*value)).collect());
        assert!(implies(&range(Some((10, false)), None), &range(Some((9, false)), None)));
        assert!(!implies(&range(Some((10, false)), None), &range(Some((11, false)), None)));
        assert!(implies(&range(Some((10, false)), None), &range(Some((10, true)), None)));
        assert!(!implies(&range(Some((10, true)), None), &range(Some((10, false)), None)));
        assert!(implies(&list(&[2, 3]), &list(&[1, 2, 3])) && !implies(&list(&[1, 2, 3]), &list(&[2, 3])));
        // a number inside a range, which the original did not find
        assert!(implies(&Test::Equal(Value::Int(5)), &range(Some((1, true)), Some((10, true)))));
    }

    /// Whatever one test implies of another holds of values.
    #[test]
    fn what_is_implied_holds() {
        let texts = ["", "a", "b", "ab", "ba", "aab", "aba", "abab", "bab", "abb"];
        let patterns = ["*", "a*", "*a", "a*b", "*ab*", "ab*", "*b*a*", "a*a*b", "ab", "**", "a**b"];
        for narrow in patterns.map(pattern) {
            for wide in patterns.map(pattern) {
                let implied = implies(&narrow, &wide);
                for text in texts.map(Value::text) {
                    assert!(!implied || !holds(&narrow, &text) || holds(&wide, &text), "{narrow:?} {wide:?} {text:?}");
                }
            }
        }
    }
}
