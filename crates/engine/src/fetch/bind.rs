//! Chooses the call that answers a query, and decides whether an answer to another query does.
//!
//! An argument passes a condition to the service which every document of its answer satisfies and which can be checked here. So any call
//! whose arguments follow from the query's conditions returns at least what the query needs, and the store filters out the rest.

use crate::content::order::order;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use stook_catalogue::definition::{ArgumentForm, CallArgument, Collection, Field, ServiceBinding, ServiceCall};
use stook_catalogue::ids::FieldId;
use stook_catalogue::links::Derivation;
use stook_catalogue::parts::{self, matches};
use stook_catalogue::value::{FieldType, PartialDate, Value, from_text};
use stook_store::plan::{Comparison, PlanColumn, QueryPlan};

/// Conditions that are passed to a call, each with the position of its argument.
pub type BoundArguments = Vec<(usize, Comparison)>;

/// The conditions of a query by field, and what else it needs.
pub struct QueryConditions<'p> {
    by_field: Vec<(FieldId, &'p Comparison)>,
    /// Conditions on members of the struct that is a row of the query.
    of_row: Vec<(FieldId, &'p Comparison)>,
    /// The list whose elements are the rows.
    each: Option<FieldId>,
    /// Lists that a service may return in part, but of which the query needs all elements.
    complete_lists: Vec<FieldId>,
}

impl<'p> QueryConditions<'p> {
    /// The conditions of a query that are on fields, including the key if it is text, and what else the query reads.
    pub fn from_plan(collection: &Collection, binding: &ServiceBinding, plan: &'p QueryPlan, aggregated: &[PlanColumn]) -> Self {
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
        let in_part = binding.calls.iter().flat_map(|call| &call.args).filter_map(|arg| collection.member(arg.field)).map(|(list, _)| list);
        let combined_columns = plan.combined_columns();
        let is_read = |list: &FieldId| {
            let rows = plan.columns.iter().filter(|_| aggregated.is_empty() || plan.distinct);
            let mut read = rows.chain(plan.sort.iter().map(|sort| &sort.column)).chain(aggregated).chain(&combined_columns);
            read.any(|column| matches!(column, PlanColumn::Field(field) if collection.member(*field).map_or(*field, |(list, _)| list) == *list))
        };
        let mut complete_lists: Vec<FieldId> = in_part.filter(is_read).collect();
        complete_lists.sort_unstable();
        complete_lists.dedup();
        Self { by_field, of_row, each: plan.each, complete_lists }
    }

    /// The lists of which the query needs all elements, as text.
    pub fn needs(&self) -> String {
        format!("{:?}", self.complete_lists)
    }

    fn conditions_on(&self, field: FieldId) -> impl Iterator<Item = &'p Comparison> {
        self.by_field.iter().chain(&self.of_row).filter(move |(own, _)| *own == field).map(|(_, test)| *test)
    }

    /// Whether the query's conditions on a field imply `test`. A call's default replaces a missing condition.
    fn is_implied_by_query(&self, field: FieldId, test: &Comparison, default: Option<&Comparison>) -> bool {
        let mut own = self.conditions_on(field).peekable();
        match (own.peek(), default) {
            (None, Some(default)) => implies(default, test),
            _ => own.any(|own| implies(own, test)),
        }
    }

    /// The conditions that are passed to a call by default, because the query has none on these fields.
    pub fn by_default(&self, collection: &Collection, call: &ServiceCall, arguments: &BoundArguments) -> Option<String> {
        let is_restricted = |field: FieldId| self.conditions_on(field).next().is_some();
        let assumed = arguments.iter().filter_map(|(position, test)| match test {
            Comparison::Equal(value) if !is_restricted(call.args[*position].field) && call.args[*position].default.is_some() => {
                let arg = &call.args[*position];
                Some(format!("{}={}", collection.fields[arg.field].name, value.show(type_of(collection, arg))))
            }
            _ => None,
        });
        Some(assumed.collect::<Vec<_>>().join(" ")).filter(|assumed| !assumed.is_empty())
    }

    /// The condition that an argument requires.
    fn missing_condition(&self, collection: &Collection, arg: &CallArgument) -> MissingCondition {
        let name = &collection.fields[arg.field].name;
        if self.conditions_on(arg.field).next().is_none() {
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

    /// Whether an answer of a call with these arguments has all that the query needs.
    pub fn are_covered(&self, collection: &Collection, call: &ServiceCall, arguments: &BoundArguments) -> bool {
        arguments.iter().all(|(position, test)| {
            let Some(arg) = call.args.get(*position) else { return false };
            self.allows_part(collection, arg.field, test) && self.is_implied_by_query(arg.field, test, default(collection, arg).as_ref())
        })
    }

    /// Whether the query needs only those elements of a list that satisfy a condition on a member; true for fields that are not members of lists.
    fn allows_part(&self, collection: &Collection, field: FieldId, test: &Comparison) -> bool {
        let Some((list, _)) = collection.member(field) else { return true };
        let is_implied = |own: &(FieldId, &Comparison)| own.0 == field && implies(own.1, test);
        let mut any = self.by_field.iter().filter(|(own, _)| collection.member(*own).is_some_and(|(own, _)| own == list)).peekable();
        let of_row = if self.each == Some(list) { self.of_row.iter().any(is_implied) } else { any.peek().is_some() };
        // several conditions may be satisfied by different elements
        of_row && any.all(is_implied) && !self.complete_lists.contains(&list)
    }

    /// The arguments that a call gets from the query; from equalities only those for which `wanted` returns true.
    ///
    /// # Errors
    /// Returns the condition that the call requires and the query does not have.
    pub fn bind(&self, collection: &Collection, call: &ServiceCall, wanted: impl Fn(usize) -> bool) -> Result<BoundArguments, MissingCondition> {
        let mut arguments = BoundArguments::new();
        let mut in_part = false;
        for (position, arg) in call.args.iter().enumerate() {
            let is_part = collection.member(arg.field).is_some();
            let is_allowed = |test: &Comparison| !is_part || (!in_part && self.allows_part(collection, arg.field, test));
            let found = self.conditions_on(arg.field).filter(|_| wanted(position)).find_map(|test| take(collection, arg, test).filter(is_allowed));
            // at most one condition on members is passed: it names the part of a list that the answer contains
            in_part |= is_part && found.is_some();
            // a default takes the place of a missing condition, not of one that the argument cannot take
            let assumed = default(collection, arg).filter(|_| self.conditions_on(arg.field).next().is_none());
            match found.or(assumed) {
                Some(test) => arguments.push((position, test)),
                None if arg.required || arg.default.is_some() => return Err(self.missing_condition(collection, arg)),
                None => {}
            }
        }
        Ok(arguments)
    }
}

/// A condition that a call requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MissingCondition {
    /// Any condition on this field.
    Any(String),
    /// A condition of another form than the query has, in words.
    Form(String),
}

/// The key field, if it is text.
pub fn key_field(collection: &Collection) -> Option<FieldId> {
    collection.key_field().filter(|field| collection.fields[*field].ty == FieldType::Text)
}

/// The type of an argument's values: the type of one element if its field is a list.
pub fn type_of<'c>(collection: &'c Collection, arg: &CallArgument) -> &'c FieldType {
    collection.fields[arg.field].golden_type().element()
}

/// The arguments that have one value, with this as text; documents may not say it themselves.
pub fn single_values(collection: &Collection, call: &ServiceCall, arguments: &BoundArguments) -> BTreeMap<String, String> {
    let single_value = |(position, test): &(usize, Comparison)| match (&call.args[*position], test) {
        (arg, Comparison::Equal(value)) => Some((arg.name.clone(), value.show(type_of(collection, arg)))),
        _ => None,
    };
    arguments.iter().filter_map(single_value).collect()
}

/// If an answer returns only some elements of a list, which ones: the part of its contributor's name.
pub fn part(collection: &Collection, call: &ServiceCall, arguments: &BoundArguments) -> Option<String> {
    arguments.iter().find_map(|(position, test)| {
        let arg = &call.args[*position];
        collection.member(arg.field)?;
        Some(parts::name(collection, arg.field, &pattern(collection, arg, test)?))
    })
}

/// The name of a part; `None` if it could not be distinguished from a pattern or is too long.
fn pattern(collection: &Collection, arg: &CallArgument, test: &Comparison) -> Option<String> {
    let text = match test {
        Comparison::Equal(value) => Some(value.show(type_of(collection, arg))).filter(|text| !text.contains('*'))?,
        other => pieces(other)?.join("*"),
    };
    (text.len() <= parts::MAX_VALUE_BYTES).then_some(text)
}

fn default(collection: &Collection, arg: &CallArgument) -> Option<Comparison> {
    let text = arg.default.as_deref()?;
    from_text(text, type_of(collection, arg), None).ok().map(Comparison::Equal)
}

/// The condition that an argument can take from `test`, if any.
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
        // the bounds of services are inclusive, so the range that is passed may be slightly wider
        (ArgumentForm::From, _) => bounds(test)?.0.map(|low| Comparison::Range { low: Some((low, true)), high: None }),
        (ArgumentForm::To, _) => bounds(test)?.1.map(|high| Comparison::Range { low: None, high: Some((high, true)) }),
        _ => None,
    };
    taken.filter(|test| collection.member(arg.field).is_none() || pattern(collection, arg, test).is_some())
}

/// The lowest and the highest value that satisfy a condition, if there are bounds.
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

/// The parts of a pattern between its stars.
pub fn pieces(test: &Comparison) -> Option<Vec<String>> {
    match test {
        Comparison::Prefix(prefix) => Some(vec![prefix.clone(), String::new()]),
        Comparison::Wildcard(pieces) => Some(pieces.clone()),
        _ => None,
    }
}

/// Whether a value satisfies a condition.
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
        Comparison::During(days) => value.as_int().and_then(PartialDate::from_stored).is_some_and(|date| date.lies_in(*days)),
        Comparison::NotEqual(_) | Comparison::NotWildcard(_) | Comparison::Exists(_) => false,
        Comparison::Related(..) | Comparison::Words(_) | Comparison::Among(_) | Comparison::NotAmong(_) => false,
    }
}

/// Whether every value that satisfies `narrow` satisfies `wide`.
pub fn implies(narrow: &Comparison, wide: &Comparison) -> bool {
    // a star of the narrower pattern can only be matched by a star of the wider one
    const STAR: &str = "\0";
    match (narrow, wide) {
        (Comparison::Equal(value), _) => holds(wide, value),
        (Comparison::In(values), _) => values.iter().all(|value| holds(wide, value)),
        (Comparison::Range { low, high }, Comparison::Range { low: least, high: most }) => {
            let is_within = |own: &Option<(Value, bool)>, bound: &Option<(Value, bool)>, towards: Ordering| match (own, bound) {
                (_, None) => true,
                (None, Some(_)) => false,
                (Some((own, own_in)), Some((bound, bound_in))) => match order(own, bound) {
                    Some(Ordering::Equal) => *bound_in || !*own_in,
                    Some(order) => order == towards,
                    None => false,
                },
            };
            is_within(low, least, Ordering::Greater) && is_within(high, most, Ordering::Less)
        }
        (Comparison::During(narrow), Comparison::During(wide)) => narrow.lies_in(*wide),
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
    fn a_pattern_is_implied_by_the_patterns_that_it_contains() {
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
    fn ranges_and_lists_imply_those_that_contain_them() {
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

    /// If one condition implies another, every value that satisfies the first satisfies the second.
    #[test]
    fn an_implied_condition_holds_for_every_matching_value() {
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
