//! Compiles conditions of a query to conditions of the store: values get the type of their field, days become ranges of times, and years, months and
//! other parts of dates the days that are theirs.

use super::columns::Resolver;
use crate::language::{ComparisonOperator, QueryCondition, ValueLiteral};
use std::borrow::Cow;
use std::sync::Arc;
use stook_catalogue::definition::KeyDefinition;
use stook_catalogue::diagnostic::Diagnostic;
use stook_catalogue::key::TemplatePart;
use stook_catalogue::value::{FieldType, Geometry, PartialDate, Value, duration_from_text, from_text};
use stook_store::plan::{Comparison, Condition, GeometryRelation, PlanColumn};

/// A day in microseconds.
const DAY: i64 = 86_400_000_000;

impl Resolver<'_> {
    /// Adds the conditions of the store that a condition of the query requires.
    pub fn condition(&self, comparison: &QueryCondition, conditions: &mut Vec<Condition>) -> Result<(), Diagnostic> {
        if self.linked_condition(comparison, conditions)? {
            return Ok(());
        }
        let (column, ty) = self.resolve(&comparison.path)?;
        if column == PlanColumn::Rank {
            let problem = Diagnostic::new(comparison.path.span.clone(), "the rank is a column and an order, not a condition");
            return Err(problem.help("records are in the order of their rank; `limit 10` ends with the tenth"));
        }
        if comparison.operator == ComparisonOperator::Words {
            conditions.push(Condition { column, test: Comparison::Words(self.words(comparison, column)?) });
            return Ok(());
        }
        if let Some(relation) = relation_of(comparison.operator) {
            if ty != FieldType::Geometry {
                let problem = Diagnostic::new(comparison.path.span.clone(), format!("`{}` is of type {ty}, not a geometry", comparison.path.text));
                return Err(problem.help("`intersects` and `within` say how geometries lie to each other"));
            }
            conditions.push(Condition { column, test: Comparison::Related(relation, geometry(&comparison.values)?) });
            return Ok(());
        }
        let element = match ty.element() {
            // one number of a range is enough to satisfy the condition
            FieldType::Ranges => FieldType::Integer,
            other => other.clone(),
        };
        if !element.is_ordered() {
            let problem =
                Diagnostic::new(comparison.path.span.clone(), format!("`{}` is of type {ty}, which cannot be compared", comparison.path.text));
            if ty == FieldType::Geometry {
                return Err(problem.help(format!("ask how it lies: {} intersects bbox(5, 45, 15, 55)", comparison.path.text)));
            }
            return Err(match ty.members().first() {
                Some(member) => problem.help(format!("its members can: {}.{}", comparison.path.text, member.name)),
                None => problem.help("it can only be shown (`grep`) and counted"),
            });
        }
        let values = comparison.values.as_slice();
        let only_value = || match values {
            [only] => Ok(only),
            _ => Err(Diagnostic::new(comparison.span.clone(), "expected one value").help("`in` takes a list")),
        };
        let test = match comparison.operator {
            ComparisonOperator::Equal | ComparisonOperator::NotEqual => self.equality(comparison, only_value()?, &element)?,
            ComparisonOperator::In => {
                if let Some(start_of_day) = values.iter().find(|value| self.start_of_day(value, &element).is_some()) {
                    return Err(Diagnostic::new(start_of_day.span.clone(), "a day is a range of times, not one time")
                        .help("`between [first day, last day]` takes whole days"));
                }
                if element == FieldType::PartialDate {
                    let problem = Diagnostic::new(comparison.span.clone(), "years, months and days are ranges of time, which `in` does not take");
                    return Err(problem.help("`or` combines several: (published=1998 or published=2003)"));
                }
                Comparison::In(values.iter().map(|value| self.value(value, &element)).collect::<Result<_, _>>()?)
            }
            ComparisonOperator::Between => {
                let [low, high] = values else {
                    return Err(Diagnostic::new(comparison.span.clone(), "expected two values").help("for example: between [1, 5]"));
                };
                Comparison::Range { low: Some(self.lower(low, &element, true)?), high: Some(self.upper(high, &element, true)?) }
            }
            ComparisonOperator::Less => Comparison::Range { low: None, high: Some(self.upper(only_value()?, &element, false)?) },
            ComparisonOperator::AtMost => Comparison::Range { low: None, high: Some(self.upper(only_value()?, &element, true)?) },
            ComparisonOperator::Greater => Comparison::Range { low: Some(self.lower(only_value()?, &element, false)?), high: None },
            ComparisonOperator::AtLeast => Comparison::Range { low: Some(self.lower(only_value()?, &element, true)?), high: None },
            // compiled above
            ComparisonOperator::Intersects | ComparisonOperator::Within | ComparisonOperator::Words => return Ok(()),
            ComparisonOperator::Last => {
                let value = only_value()?;
                if element != FieldType::Timestamp {
                    let message = format!("`last` needs a timestamp, `{}` is of type {ty}", comparison.path.text);
                    return Err(Diagnostic::new(comparison.path.span.clone(), message).help("compare it with values: < <= > >= between"));
                }
                let span = value.literal().and_then(time_span);
                let span = span.ok_or_else(|| Diagnostic::new(value.span.clone(), "expected a duration").help("for example: 24h, 60m or 7d"))?;
                Comparison::Range { low: Some((Value::Int(self.now.saturating_sub(span)), true)), high: Some((Value::Int(self.now), true)) }
            }
        };
        match self.name_in_collection(&comparison.path) {
            "key" => conditions.push(self.key_condition(column, &ty, test)),
            _ => {
                conditions.extend(self.implied_key_condition(column, &test));
                conditions.push(Condition { column, test });
            }
        }
        Ok(())
    }

    /// The condition on the key that follows from one on the key field, so that records are found by key.
    fn implied_key_condition(&self, column: PlanColumn, test: &Comparison) -> Option<Condition> {
        let index = self.collection.key_field()?;
        let field = self.collection.fields.get(index)?;
        if column != PlanColumn::Field(index)
            || field.golden_type() != &field.ty
            || matches!(test, Comparison::NotEqual(_) | Comparison::NotWildcard(_))
        {
            return None;
        }
        let found = self.key_condition(column, &field.ty, test.clone());
        // values of other types are ordered differently from their texts
        match found.column {
            PlanColumn::Key => Some(found),
            _ => (field.ty == FieldType::Text).then_some(Condition { column: PlanColumn::Key, ..found }),
        }
    }

    /// The condition on a key made of several fields that follows if all of them are given, or all but the end of the last: records are then found by
    /// key, and in its order.
    pub fn composed_key_condition(&self, conditions: &[Condition]) -> Option<Condition> {
        let KeyDefinition::Template(template) = &self.collection.key else { return None };
        template.names().nth(1)?;
        let tests_of = |name: &str| {
            // a folded field is equal to texts that make other keys
            let field = self.collection.field(name).filter(|(_, field)| !field.fold && field.golden_type() == &field.ty);
            let column = field.map(|(index, field)| (PlanColumn::Field(index), &field.ty));
            conditions.iter().filter_map(move |condition| column.filter(|(own, _)| *own == condition.column).map(|(_, ty)| (&condition.test, ty)))
        };
        let equal = |name: &str| tests_of(name).find_map(|(test, ty)| if let Comparison::Equal(value) = test { Some(value.show(ty)) } else { None });
        if let Some(key) = template.fill(|name| equal(name).map(Cow::Owned)) {
            return Some(Condition { column: PlanColumn::Key, test: Comparison::Equal(Value::text(key)) });
        }
        let Some(TemplatePart::Name(last)) = template.parts.last() else { return None };
        let begins = tests_of(last).find_map(|(test, _)| match test {
            Comparison::Prefix(prefix) => Some(prefix.clone()),
            Comparison::Wildcard(pieces) => pieces.first().filter(|first| !first.is_empty()).cloned(),
            _ => None,
        })?;
        let beginning = template.fill(|name| if name == last { Some(Cow::Borrowed(&*begins)) } else { equal(name).map(Cow::Owned) })?;
        Some(Condition { column: PlanColumn::Key, test: Comparison::Prefix(beginning) })
    }

    /// A condition on the key field; for `=`, `!=` and `in` one on the key, by which records are found faster.
    fn key_condition(&self, column: PlanColumn, ty: &FieldType, test: Comparison) -> Condition {
        let key = |value: Value| Value::text(value.show(ty));
        match test {
            Comparison::Equal(value) => Condition { column: PlanColumn::Key, test: Comparison::Equal(key(value)) },
            Comparison::NotEqual(value) => Condition { column: PlanColumn::Key, test: Comparison::NotEqual(key(value)) },
            Comparison::In(values) => Condition { column: PlanColumn::Key, test: Comparison::In(values.into_iter().map(key).collect()) },
            test => Condition { column, test },
        }
    }

    fn equality(&self, comparison: &QueryCondition, value: &ValueLiteral, ty: &FieldType) -> Result<Comparison, Diagnostic> {
        let negated = comparison.operator == ComparisonOperator::NotEqual;
        if value.literal().is_none() {
            if ty != &FieldType::Text {
                let problem = Diagnostic::new(value.span.clone(), format!("`*` is for text, `{}` is of type {ty}", comparison.path.text));
                return Err(problem.help("leave the condition out for records with any value, or compare with < <= > >="));
            }
            let pieces = value.pieces.clone();
            return Ok(match (negated, pieces.as_slice()) {
                (false, [first, last]) if last.is_empty() && !first.is_empty() => Comparison::Prefix(first.clone()),
                (false, _) => Comparison::Wildcard(pieces),
                (true, _) => Comparison::NotWildcard(pieces),
            });
        }
        if ty == &FieldType::PartialDate {
            if negated {
                let problem = Diagnostic::new(value.span.clone(), "`!=` does not take a year, a month or a day");
                return Err(problem.help("`<` is before it, `>` after it; `not` is true for everything else"));
            }
            return Ok(Comparison::During(self.partial_date(value)?));
        }
        if let Some(start) = self.start_of_day(value, ty) {
            if negated {
                return Err(Diagnostic::new(value.span.clone(), "`!=` does not take a whole day").help("`<` is before the day, `>` after it"));
            }
            return Ok(Comparison::Range { low: Some((Value::Int(start), true)), high: Some((Value::Int(start + DAY), false)) });
        }
        let value = self.value(value, ty)?;
        Ok(if negated { Comparison::NotEqual(value) } else { Comparison::Equal(value) })
    }

    /// The first moment of a day, if a value of a timestamp is written as a date.
    fn start_of_day(&self, value: &ValueLiteral, ty: &FieldType) -> Option<i64> {
        let text = value.literal().filter(|_| ty == &FieldType::Timestamp)?.trim();
        let is_digits_only = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
        let format = if is_digits_only { Some("%Y%m%d") } else { None };
        // a text with a time of day parses as a date, too
        let is_date_like = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+'));
        match from_text(text, &FieldType::Date, format) {
            Ok(Value::Int(days)) if is_date_like => Some(days * DAY),
            _ => None,
        }
    }

    fn partial_date(&self, value: &ValueLiteral) -> Result<PartialDate, Diagnostic> {
        let stored = self.value(value, &FieldType::PartialDate)?;
        stored.as_int().and_then(PartialDate::from_stored).ok_or_else(|| Diagnostic::new(value.span.clone(), "expected a date, a month or a year"))
    }

    fn lower(&self, value: &ValueLiteral, ty: &FieldType, included: bool) -> Result<(Value, bool), Diagnostic> {
        if ty == &FieldType::PartialDate {
            // what begins with it, or after it
            let date = self.partial_date(value)?;
            return Ok(match PartialDate::from_day_on(if included { date.first() } else { date.last() + 1 }) {
                Some(least) => (Value::Int(least.stored()), true),
                None => (Value::Int(i64::MAX), false),
            });
        }
        match self.start_of_day(value, ty) {
            // later than a day means from the next day on
            Some(start) => Ok((Value::Int(if included { start } else { start + DAY }), true)),
            None => Ok((self.value(value, ty)?, included)),
        }
    }

    fn upper(&self, value: &ValueLiteral, ty: &FieldType, included: bool) -> Result<(Value, bool), Diagnostic> {
        if ty == &FieldType::PartialDate {
            // what begins before it, or before its end
            let date = self.partial_date(value)?;
            let day = if included { date.last() } else { date.first() };
            let most = if included { PartialDate::between(day, day) } else { PartialDate::from_day_on(day) };
            return Ok((Value::Int(most.unwrap_or(date).stored()), included));
        }
        match self.start_of_day(value, ty) {
            Some(start) => Ok((Value::Int(if included { start + DAY } else { start }), false)),
            None => Ok((self.value(value, ty)?, included)),
        }
    }

    fn value(&self, value: &ValueLiteral, ty: &FieldType) -> Result<Value, Diagnostic> {
        let Some(text) = value.literal() else {
            return Err(Diagnostic::new(value.span.clone(), "`*` is only for = and !=").help("in single quotes it is a star"));
        };
        match from_text(text, ty, None) {
            Ok(value) => Ok(value),
            Err(error) => whole_number(text, ty).ok_or_else(|| {
                let problem = Diagnostic::new(value.span.clone(), error.to_string());
                match example(ty) {
                    Some(example) => problem.help(format!("for example: {example}")),
                    None => problem,
                }
            }),
        }
    }
}

fn relation_of(operator: ComparisonOperator) -> Option<GeometryRelation> {
    match operator {
        ComparisonOperator::Intersects => Some(GeometryRelation::Intersects),
        ComparisonOperator::Within => Some(GeometryRelation::Within),
        _ => None,
    }
}

/// Reads a geometry from a text, or from the four sides of a box.
fn geometry(values: &[ValueLiteral]) -> Result<Arc<Geometry>, Diagnostic> {
    let wrong = |value: &ValueLiteral, message: String| Diagnostic::new(value.span.clone(), message);
    let [west, south, east, north] = values else {
        let Some(value) = values.first() else { return Err(Diagnostic::new(0..0, "expected a geometry")) };
        let text = value.literal().ok_or_else(|| wrong(value, "a geometry has no `*`".to_owned()).help("for example: \"POINT(14.5 50)\""))?;
        return match from_text(text, &FieldType::Geometry, None) {
            Ok(Value::Geometry(geometry)) => Ok(geometry),
            Ok(_) => Err(wrong(value, "this is not a geometry".to_owned())),
            Err(error) => Err(wrong(value, error.to_string()).help("for example: \"POINT(14.5 50)\", or bbox(west, south, east, north)")),
        };
    };
    let side = |value: &ValueLiteral, limit: f64| {
        let number = value.literal().and_then(|text| text.trim().parse::<f64>().ok()).filter(|number| number.abs() <= limit);
        number.ok_or_else(|| wrong(value, format!("expected a number of degrees from -{limit} to {limit}")).help("bbox(west, south, east, north)"))
    };
    let (longitudes, latitudes) = ([side(west, 180.0)?, side(east, 180.0)?], [side(south, 90.0)?, side(north, 90.0)?]);
    if latitudes[0] > latitudes[1] {
        let problem = wrong(south, format!("the south of this box, {}, is north of its north, {}", latitudes[0], latitudes[1]));
        return Err(problem.help("bbox(west, south, east, north)"));
    }
    Geometry::between(longitudes[0], latitudes[0], longitudes[1], latitudes[1]).map(Arc::new).map_err(|error| wrong(west, error.fault.to_string()))
}

/// An example of a value of a type.
fn example(ty: &FieldType) -> Option<&'static str> {
    Some(match ty {
        FieldType::Integer => "42 or 1e6",
        FieldType::Float => "2.5 or 1e-3",
        FieldType::Boolean => "true",
        FieldType::Timestamp => "2018-01-31 for the whole day, or 2018-01-31T12:30:00Z",
        FieldType::Date => "2018-01-31",
        FieldType::PartialDate => "2018 for the whole year, 2018-01, 2018-01-31 or 2018/2020",
        FieldType::Duration => "1h30m",
        FieldType::Size => "1.5GB, 512MiB or 1e9",
        FieldType::Uuid => "67e55044-10b1-426f-9247-bb680e5fe0c8",
        FieldType::Text | FieldType::Json | FieldType::Ranges | FieldType::Geometry | FieldType::Struct(_) | FieldType::List(_) => return None,
    })
}

/// A number such as 1e9, as an integer or a size.
fn whole_number(text: &str, ty: &FieldType) -> Option<Value> {
    let may_be_scientific = matches!(ty, FieldType::Integer | FieldType::Size) && text.contains(['e', 'E']);
    // beyond this, not every integer can be represented as a float
    let number =
        text.trim().parse::<f64>().ok().filter(|number| may_be_scientific && number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0)?;
    Some(Value::Int(number as i64))
}

/// The duration after `last`, in microseconds; a day has 24 hours.
fn time_span(text: &str) -> Option<i64> {
    let (days, rest) = text.split_once('d').unwrap_or(("0", text));
    let days = i64::from(days.trim().parse::<u32>().ok()?).checked_mul(DAY)?;
    let rest = if rest.is_empty() { 0 } else { duration_from_text(rest.trim(), None)? };
    days.checked_add(rest).filter(|span| rest >= 0 && *span > 0)
}
