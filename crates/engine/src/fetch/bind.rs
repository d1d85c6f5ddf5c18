//! Which call answers a query, and whether an answer to another query does.
//!
//! An argument tells the service a condition that every document of its answer satisfies and that can be checked here. So any call
//! whose arguments follow from the query's conditions gives at least what the query needs; the store leaves out the rest.

use crate::content::order::order;
use std::cmp::Ordering;
use stook_catalogue::definition::{ArgumentForm, CallArgument, Collection, Field, ServiceBinding, ServiceCall};
use stook_catalogue::ids::FieldId;
use stook_catalogue::links::Derivation;
use stook_catalogue::parts::{self, matches};
use stook_catalogue::value::{FieldType, Value, from_text};
use stook_store::plan::{Aggregate, Comparison, PlanColumn, QueryPlan};

/// What a service is told: arguments of a call, each with the condition on its field.
pub type BoundArguments = Vec<(usize, Comparison)>;

/// Conditions of a query by field, and what it needs besides.
pub struct QueryConditions<'p> {
    by_field: Vec<(FieldId, &'p Comparison)>,
    /// Conditions on members of the struct that a row is of.
    of_row: Vec<(FieldId, &'p Comparison)>,
    /// The list that rows are structs of.
    each: Option<FieldId>,
    /// Lists that may be told in part, of which the query needs all there is.
    complete_lists: Vec<FieldId>,
}

impl<'p> QueryConditions<'p> {
    /// Those that are about fields; the key is one where it is text. With what else the query reads.
    pub fn of(collection: &Collection, asks: &ServiceBinding, plan: &'p QueryPlan, aggregates: &[Aggregate]) -> Self {
        let key = key_field(collection);
        let (mut by_field, mut of_row) = (Vec::new(), Vec::new());
        for condition in &plan.conditions {
            match condition.column {
                PlanColumn::Field(field) => by_field.push((field, &condition.test)),
                PlanColumn::Key => by_field.extend(key.map(|field| (field, &condition.test))),
                PlanColumn::Element(member) => {
                    let is_own =
                        |field: &Field| matches!(field.derive, Some(Derivation::Member(list, own)) if Some(list) == plan.each && own == member);
                    let own = collection.fields.position(is_own);
                    of_row.extend(own.map(|field| (field, &condition.test)));
                }
                _ => {}
            }
        }
        let in_part = asks.calls.iter().flat_map(|call| &call.args).filter_map(|arg| collection.member(arg.field)).map(|(list, _)| list);
        let is_read = |list: &FieldId| {
            let rows = plan.columns.iter().filter(|_| aggregates.is_empty() || plan.distinct);
            let mut read = rows.chain(plan.sort.iter().map(|sort| &sort.column)).chain(aggregates.iter().map(|aggregate| &aggregate.column));
            read.any(|column| matches!(column, PlanColumn::Field(field) if collection.member(*field).map_or(*field, |(list, _)| list) == *list))
        };
        let mut whole: Vec<FieldId> = in_part.filter(is_read).collect();
        whole.sort_unstable();
        whole.dedup();
        Self { by_field, of_row, each: plan.each, complete_lists: whole }
    }

    /// Lists of which the query needs all there is, as a text.
    pub fn needs(&self) -> String {
        format!("{:?}", self.complete_lists)
    }

    fn on(&self, field: FieldId) -> impl Iterator<Item = &'p Comparison> {
        self.by_field.iter().chain(&self.of_row).filter(move |(own, _)| *own == field).map(|(_, test)| *test)
    }

    /// Whether a condition on a field holds of everything that the query asks for. A call's default stands for a missing one.
    fn imply(&self, field: FieldId, test: &Comparison, default: Option<&Comparison>) -> bool {
        let mut own = self.on(field).peekable();
        match (own.peek(), default) {
            (None, Some(default)) => implies(default, test),
            _ => own.any(|own| implies(own, test)),
        }
    }

    /// What a call was told that the query does not say.
    pub fn by_default(&self, collection: &Collection, call: &ServiceCall, told: &BoundArguments) -> Option<String> {
        let is_said = |field: FieldId| self.on(field).next().is_some();
        let assumed = told.iter().filter_map(|(place, test)| match test {
            Comparison::Equal(value) if !is_said(call.args[*place].field) && call.args[*place].default.is_some() => {
                let arg = &call.args[*place];
                Some(format!("{}={}", collection.fields[arg.field].name, value.show(type_of(collection, arg))))
            }
            _ => None,
        });
        Some(assumed.collect::<Vec<_>>().join(" ")).filter(|assumed| !assumed.is_empty())
    }

    /// The condition that an argument needs.
    fn wanted(&self, collection: &Collection, arg: &CallArgument) -> MissingCondition {
        let name = &collection.fields[arg.field].name;
        if self.on(arg.field).next().is_none() {
            return MissingCondition::Any(name.clone());
        }
        let form = if arg.matches.is_some() { " of its form" } else { "" };
        MissingCondition::Form(match arg.takes {
            ArgumentForm::Value => format!("one value{form} of {name}"),
            ArgumentForm::Pattern => format!("a value or a pattern{form} of {name}"),
            ArgumentForm::List => format!("values{form} of {name}"),
            ArgumentForm::From | ArgumentForm::To => format!("a bound of {name}"),
        })
    }

    /// Whether an answer to what a call was told is enough for the query.
    pub fn are_covered(&self, collection: &Collection, call: &ServiceCall, told: &BoundArguments) -> bool {
        told.iter().all(|(place, test)| {
            let Some(arg) = call.args.get(*place) else { return false };
            self.bears_part(collection, arg.field, test) && self.imply(arg.field, test, default(collection, arg).as_ref())
        })
    }

    /// Whether a query needs of a list only elements of which a condition on a member holds; true for other fields.
    fn bears_part(&self, collection: &Collection, field: FieldId, test: &Comparison) -> bool {
        let Some((list, _)) = collection.member(field) else { return true };
        let is_told = |own: &(FieldId, &Comparison)| own.0 == field && implies(own.1, test);
        let mut any = self.by_field.iter().filter(|(own, _)| collection.member(*own).is_some_and(|(own, _)| own == list)).peekable();
        let of_row = if self.each == Some(list) { self.of_row.iter().any(is_told) } else { any.peek().is_some() };
        // each of several conditions may hold of another element
        of_row && any.all(is_told) && !self.complete_lists.contains(&list)
    }

    /// What a call is told of the query; of equalities only those that `wanted` says.
    ///
    /// # Errors
    /// Which condition the call needs and the query has not.
    pub fn bind(&self, collection: &Collection, call: &ServiceCall, wanted: impl Fn(usize) -> bool) -> Result<BoundArguments, MissingCondition> {
        let mut told = BoundArguments::new();
        let mut in_part = false;
        for (place, arg) in call.args.iter().enumerate() {
            let is_part = collection.member(arg.field).is_some();
            let bears = |test: &Comparison| !is_part || (!in_part && self.bears_part(collection, arg.field, test));
            let found = self.on(arg.field).filter(|_| wanted(place)).find_map(|test| take(collection, arg, test).filter(bears));
            // of one list only: what holds of two need not be told of either
            in_part |= is_part && found.is_some();
            match found.or_else(|| default(collection, arg)) {
                Some(test) => told.push((place, test)),
                None if arg.required => return Err(self.wanted(collection, arg)),
                None => {}
            }
        }
        Ok(told)
    }
}

/// A condition that a call needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MissingCondition {
    /// One on this field.
    Any(String),
    /// Another one than the query has, in words.
    Form(String),
}

/// The field that is the key, where it is text.
pub fn key_field(collection: &Collection) -> Option<FieldId> {
    collection.key_field().filter(|field| collection.fields[*field].ty == FieldType::Text)
}

/// The type of what an argument says: that of one element where its field has several.
pub fn type_of<'c>(collection: &'c Collection, arg: &CallArgument) -> &'c FieldType {
    collection.fields[arg.field].golden_type().element()
}

/// Of which list an answer tells only some elements, and which: a contributor's part. Nothing for an answer that tells the whole.
pub fn part(collection: &Collection, call: &ServiceCall, told: &BoundArguments) -> Option<String> {
    told.iter().find_map(|(place, test)| {
        let arg = &call.args[*place];
        collection.member(arg.field)?;
        Some(parts::name(collection, arg.field, &pattern(collection, arg, test)?))
    })
}

/// What a part is called by; nothing where it could not be told from a pattern, or is too long.
fn pattern(collection: &Collection, arg: &CallArgument, test: &Comparison) -> Option<String> {
    let text = match test {
        Comparison::Equal(value) => Some(value.show(type_of(collection, arg))).filter(|text| !text.contains('*'))?,
        other => pieces(other)?.join("*"),
    };
    (text.len() <= parts::LONGEST).then_some(text)
}

fn default(collection: &Collection, arg: &CallArgument) -> Option<Comparison> {
    let text = arg.default.as_deref()?;
    from_text(text, type_of(collection, arg), None).ok().map(Comparison::Equal)
}

/// What an argument takes of a condition.
fn take(collection: &Collection, arg: &CallArgument, test: &Comparison) -> Option<Comparison> {
    let ty = type_of(collection, arg);
    let fits = |value: &Value| *value != Value::Null && arg.matches.as_ref().is_none_or(|shape| shape.is_match(&value.show(ty)));
    let taken = match (arg.takes, test) {
        (ArgumentForm::Value | ArgumentForm::Pattern | ArgumentForm::List, Comparison::Equal(value)) => fits(value).then(|| test.clone()),
        (ArgumentForm::Value | ArgumentForm::Pattern, Comparison::In(values)) => match values.as_slice() {
            [only] => fits(only).then(|| Comparison::Equal(only.clone())),
            _ => None,
        },
        (ArgumentForm::List, Comparison::In(values)) => (!values.is_empty() && values.iter().all(fits)).then(|| test.clone()),
        (ArgumentForm::Pattern, Comparison::Prefix(_) | Comparison::Wildcard(_)) => {
            let shown = pieces(test)?.join("*");
            arg.matches.as_ref().is_none_or(|shape| shape.is_match(&shown)).then(|| test.clone())
        }
        // a service's bounds are included, so what it is told may be a little wider
        (ArgumentForm::From, _) => bounds(test)?.0.map(|low| Comparison::Range { low: Some((low, true)), high: None }),
        (ArgumentForm::To, _) => bounds(test)?.1.map(|high| Comparison::Range { low: None, high: Some((high, true)) }),
        _ => None,
    };
    taken.filter(|test| collection.member(arg.field).is_none() || pattern(collection, arg, test).is_some())
}

/// The smallest and the largest value that a condition lets pass.
fn bounds(test: &Comparison) -> Option<(Option<Value>, Option<Value>)> {
    match test {
        Comparison::Equal(value) => Some((Some(value.clone()), Some(value.clone()))),
        Comparison::In(values) => {
            let least = values.iter().min_by(|a, b| order(a, b).unwrap_or(Ordering::Equal))?;
            let most = values.iter().max_by(|a, b| order(a, b).unwrap_or(Ordering::Equal))?;
            Some((Some(least.clone()), Some(most.clone())))
        }
        Comparison::Range { low, high } => Some((low.as_ref().map(|(low, _)| low.clone()), high.as_ref().map(|(high, _)| high.clone()))),
        _ => None,
    }
}

/// The pieces of a pattern between its stars.
pub fn pieces(test: &Comparison) -> Option<Vec<String>> {
    match test {
        Comparison::Prefix(prefix) => Some(vec![prefix.clone(), String::new()]),
        Comparison::Wildcard(pieces) => Some(pieces.clone()),
        _ => None,
    }
}

/// Whether a value satisfies what an argument may say.
pub fn holds(test: &Comparison, value: &Value) -> bool {
    let above = |low: &Option<(Value, bool)>| match low {
        None => true,
        Some((low, included)) => order(value, low).is_some_and(|order| order == Ordering::Greater || (*included && order == Ordering::Equal)),
    };
    let below = |high: &Option<(Value, bool)>| match high {
        None => true,
        Some((high, included)) => order(value, high).is_some_and(|order| order == Ordering::Less || (*included && order == Ordering::Equal)),
    };
    match test {
        Comparison::Equal(own) => order(value, own) == Some(Ordering::Equal),
        Comparison::In(values) => values.iter().any(|own| order(value, own) == Some(Ordering::Equal)),
        Comparison::Range { low, high } => *value != Value::Null && above(low) && below(high),
        Comparison::Prefix(_) | Comparison::Wildcard(_) => match (value, pieces(test)) {
            (Value::Text(text), Some(pieces)) => matches(&pieces, text),
            _ => false,
        },
        Comparison::NotEqual(_) | Comparison::NotWildcard(_) | Comparison::Exists(_) | Comparison::Lies(..) => false,
    }
}

/// Whether everything that satisfies `narrow` satisfies `wide`.
pub fn implies(narrow: &Comparison, wide: &Comparison) -> bool {
    // only a star of the wider pattern takes a star of the narrower one
    const STAR: &str = "\0";
    match (narrow, wide) {
        (Comparison::Equal(value), _) => holds(wide, value),
        (Comparison::In(values), _) => values.iter().all(|value| holds(wide, value)),
        (Comparison::Range { low, high }, Comparison::Range { low: least, high: most }) => {
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
        (Comparison::Prefix(_) | Comparison::Wildcard(_), Comparison::Prefix(_) | Comparison::Wildcard(_)) => match (pieces(narrow), pieces(wide)) {
            (Some(narrow), Some(wide)) => matches(&wide, &narrow.join(STAR)),
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Comparison {
        Comparison::Wildcard(text.split('*').map(str::to_owned).collect())
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
        assert!(implies(&Comparison::Equal(Value::text("T1_CH_CERN")), &pattern("T1_*")));
        assert!(!implies(&Comparison::Equal(Value::text("/a/b/c*")), &Comparison::Equal(Value::text("/a/b/c"))));
        assert!(!implies(&pattern("site*"), &Comparison::Equal(Value::text("site_ch"))));
    }

    #[test]
    fn ranges_and_lists_contain_each_other() {
        let range = |low: Option<(i64, bool)>, high: Option<(i64, bool)>| Comparison::Range {
            low: low.map(|(value, included)| (Value::Int(value), included)),
            high: high.map(|(value, included)| (Value::Int(value), included)),
        };
        let list = |values: &[i64]| Comparison::In(values.iter().map(|value| Value::Int(*value)).collect());
        assert!(implies(&range(Some((10, false)), None), &range(Some((9, false)), None)));
        assert!(!implies(&range(Some((10, false)), None), &range(Some((11, false)), None)));
        assert!(implies(&range(Some((10, false)), None), &range(Some((10, true)), None)));
        assert!(!implies(&range(Some((10, true)), None), &range(Some((10, false)), None)));
        assert!(implies(&list(&[2, 3]), &list(&[1, 2, 3])) && !implies(&list(&[1, 2, 3]), &list(&[2, 3])));
        // a number inside a range, which the original did not find
        assert!(implies(&Comparison::Equal(Value::Int(5)), &range(Some((1, true)), Some((10, true)))));
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
