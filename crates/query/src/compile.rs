//! [`Query`] to a store plan: names and types are resolved against the definition.

use crate::parse::{ComparisonOperator, FieldPath, GrepItem, Query, QueryCondition, Stage, ValueLiteral};
use stook_catalogue::definition::{Catalogue, Collection, Field};
use stook_catalogue::diagnostic::{Diagnostic, did_you_mean};
use stook_catalogue::value::{FieldType, Value, duration_from_text, from_text};
use stook_store::Tenant;
use stook_store::plan::{Aggregate, Comparison, Condition, PlanColumn, QueryPlan, SortKey};

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// A query ready to be asked.
#[derive(Debug, Clone, PartialEq)]
pub struct CompiledQuery {
    /// What the store is asked.
    pub plan: QueryPlan,
    /// The name and type of each column, or of each aggregate.
    pub columns: Vec<ResultColumn>,
    /// Aggregates, instead of rows, if there are any.
    pub aggregates: Vec<Aggregate>,
}

/// A column of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultColumn {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub ty: FieldType,
}

/// Resolves a query. `now` is the time `last` counts back from, in microseconds.
///
/// # Errors
/// The first name or value that does not fit the definition, with its place.
pub fn compile(query: &Query, catalogue: &Catalogue, tenant: &Tenant, now: i64) -> Result<CompiledQuery, Diagnostic> {
    let name = &query.lookup.collection;
    let Some((index, collection)) = catalogue.collection(&name.text) else {
        let problem = Diagnostic::new(name.span.clone(), format!("there is no collection `{}`", name.text));
        let known = || catalogue.collections.iter().map(|collection| collection.name.as_str());
        if let Some((first, field)) = name.text.split_once('.').filter(|(first, _)| known().any(|known| known == *first)) {
            return Err(problem.help(format!("write the collection first, then its fields: {first} {field}=value")));
        }
        return Err(match did_you_mean(&name.text, known()) {
            Some(meant) => problem.help(format!("did you mean `{meant}`?")),
            None => problem.help(format!("collections are {}", known().collect::<Vec<_>>().join(", "))),
        });
    };
    if let Some((_, problem)) = query.lookup.extra_names.first() {
        return Err((**problem).clone());
    }
    let mut resolver = Resolver { catalogue, collection, each: None, now };
    let mut plan = QueryPlan::all(tenant.clone(), index);
    plan.columns.clear();
    let mut columns = Vec::new();
    let mut results = Vec::new();
    let mut aggregates = Vec::new();
    // columns that unique rows must have
    let mut needed: Vec<(&FieldPath, PlanColumn, &str)> = Vec::new();
    for condition in &query.lookup.conditions {
        resolver.condition(condition, &mut plan.conditions)?;
    }
    for stage in &query.stages {
        match stage {
            Stage::Grep(items) => {
                for item in items {
                    match item {
                        GrepItem::Condition(condition) => resolver.condition(condition, &mut plan.conditions)?,
                        GrepItem::Column(path) => {
                            let (column, ty) = resolver.resolve(path)?;
                            if !plan.columns.contains(&column) {
                                plan.columns.push(column);
                                columns.push(ResultColumn { name: resolver.short(path).to_owned(), ty });
                            }
                        }
                    }
                }
            }
            Stage::Sort(order) => {
                for (path, descending) in order {
                    let (column, ty) = resolver.resolve(path)?;
                    if !ty.is_ordered() {
                        let message = format!("`{}` is of type {ty}, which has no order", path.text);
                        return Err(Diagnostic::new(path.span.clone(), message).help("sort by a field with one value, or by `key`"));
                    }
                    plan.sort.push(SortKey { column, descending: *descending });
                    needed.push((path, column, "unique rows can only be sorted by a column they have"));
                }
            }
            Stage::Each(path) => {
                let list = resolver.structs(path)?;
                if plan.each.is_some() {
                    return Err(Diagnostic::new(path.span.clone(), "rows are of one list").help("ask twice, once for each list"));
                }
                (plan.each, resolver.each) = (Some(list), Some(list));
            }
            Stage::Unique => plan.distinct = true,
            Stage::Aggregates(wanted) => {
                for (function, path) in wanted {
                    let (column, ty) = resolver.resolve(path)?;
                    if let (PlanColumn::Field(field), Some(list)) = (column, plan.each)
                        && field == list
                    {
                        let name = resolver.short(path);
                        let problem = Diagnostic::new(path.span.clone(), format!("a row is one element of `{name}` here, not the list"));
                        return Err(problem.help(format!("count(key) counts the rows, count({name}.MEMBER) those that have a value")));
                    }
                    aggregates.push(Aggregate { function: *function, column });
                    let name = function.name();
                    let ty = resolver.aggregate_type(*function, path, ty)?;
                    results.push(ResultColumn { name: format!("{name}({})", resolver.short(path)), ty });
                    needed.push((path, column, "an aggregate of unique rows needs a column they have"));
                }
            }
        }
    }
    if plan.columns.is_empty() {
        (plan.columns, columns) = resolver.everything();
    }
    if plan.distinct && plan.columns.contains(&PlanColumn::Tag) {
        let span = query.lookup.collection.span.clone();
        return Err(Diagnostic::new(span, "tags cannot be columns of unique rows").help("count(tag) counts them"));
    }
    if plan.distinct
        && let Some((path, _, what)) = needed.iter().find(|(_, column, _)| !plan.columns.contains(column))
    {
        let problem = Diagnostic::new(path.span.clone(), *what);
        return Err(problem.help(format!("add it to the columns: grep {}", resolver.short(path))));
    }
    let headings = if aggregates.is_empty() { columns } else { results };
    Ok(CompiledQuery { plan, columns: headings, aggregates })
}

struct Resolver<'c> {
    catalogue: &'c Catalogue,
    collection: &'c Collection,
    /// The list of structs, by the field's index, that rows are of.
    each: Option<usize>,
    now: i64,
}

impl<'c> Resolver<'c> {
    /// The path without the collection's name.
    fn short<'p>(&self, path: &'p FieldPath) -> &'p str {
        if path.text == self.collection.name {
            return "key";
        }
        path.text.strip_prefix(self.collection.name.as_str()).and_then(|rest| rest.strip_prefix('.')).unwrap_or(&path.text)
    }

    /// The field that is the key, if the key is one and its values are more than their text.
    fn typed_key(&self) -> Option<(usize, &'c FieldType)> {
        let index = self.collection.key_field()?;
        let field = self.collection.fields.get(index)?;
        (field.ty != FieldType::Text && field.golden_type() == &field.ty).then_some((index, &field.ty))
    }

    fn resolve(&self, path: &FieldPath) -> Result<(PlanColumn, FieldType), Diagnostic> {
        let name = self.short(path);
        match name {
            "key" => {
                let typed = self.typed_key().map(|(index, ty)| (PlanColumn::Field(index), ty.clone()));
                return Ok(typed.unwrap_or((PlanColumn::Key, FieldType::Text)));
            }
            "conflict" => return Ok((PlanColumn::Conflict, FieldType::List(Box::new(FieldType::Text)))),
            "tag" if self.collection.tags.is_some() => return Ok((PlanColumn::Tag, FieldType::List(Box::new(FieldType::Text)))),
            _ => {}
        }
        let member = self.each.and_then(|list| {
            let list = &self.collection.fields[list];
            let name = name.strip_prefix(list.name.as_str())?.strip_prefix('.')?;
            list.ty.members().iter().enumerate().find(|(_, member)| member.name == name)
        });
        if let Some((index, member)) = member {
            return Ok((PlanColumn::Element(index), member.ty.clone()));
        }
        if let Some((index, field)) = self.collection.field(name) {
            return Ok((PlanColumn::Field(index), field.golden_type().clone()));
        }
        if let Some((index, state)) = self.collection.state(name) {
            return Ok((PlanColumn::State(index), state.ty.clone()));
        }
        let links = || {
            self.catalogue.links.iter().enumerate().filter(|(_, link)| self.catalogue.collections[link.child_collection].name == self.collection.name)
        };
        if let Some(link) = name.strip_suffix(".exists")
            && let Some((index, _)) = links().find(|(_, own)| own.name == link)
        {
            return Ok((PlanColumn::TargetsExist(index), FieldType::Boolean));
        }
        if let Some((link, member)) = name.split_once('.')
            && let Some((_, own)) = links().find(|(_, own)| own.name == link)
        {
            let (of, to) = (&self.collection.name, &self.catalogue.collections[own.target_collection].name);
            let problem = Diagnostic::new(path.span.clone(), format!("`{of}` has no field `{name}`: `{link}` is a link to `{to}`"));
            let help = format!("a field with `derive: {name}` has it; `{link}.exists` asks whether there is such a record, `{link}=KEY` for one");
            return Err(problem.help(if member == "key" { format!("`{link}` is the key itself") } else { help }));
        }
        let known = || {
            let fields = self.collection.fields.iter().map(|field| field.name.as_str());
            let tag = self.collection.tags.as_ref().map(|_| "tag");
            fields.chain(self.collection.states.iter().map(|state| state.name.as_str())).chain(["key", "conflict"]).chain(tag)
        };
        let problem = Diagnostic::new(path.span.clone(), format!("`{}` has no field `{name}`", self.collection.name));
        Err(match did_you_mean(name, known()) {
            Some(meant) => problem.help(format!("did you mean `{meant}`?")),
            None => problem.help(format!("its fields are {}", known().collect::<Vec<_>>().join(", "))),
        })
    }

    /// The list of structs that a path names.
    fn structs(&self, path: &FieldPath) -> Result<usize, Diagnostic> {
        let name = self.short(path);
        let has_structs = |field: &Field| !field.golden_type().members().is_empty();
        if let Some((index, _)) = self.collection.field(name).filter(|(_, field)| has_structs(field)) {
            return Ok(index);
        }
        let problem = Diagnostic::new(path.span.clone(), format!("`{name}` is no list of structs of `{}`", self.collection.name));
        let lists: Vec<&str> = self.collection.fields.iter().filter(|field| has_structs(field)).map(|field| field.name.as_str()).collect();
        Err(problem.help(if lists.is_empty() { "it has none".into() } else { format!("it has {}", lists.join(", ")) }))
    }

    fn everything(&self) -> (Vec<PlanColumn>, Vec<ResultColumn>) {
        let mut columns = vec![PlanColumn::Key];
        let mut headings = vec![ResultColumn { name: "key".into(), ty: FieldType::Text }];
        if let Some(list) = self.each.and_then(|list| self.collection.fields.get(list)) {
            for (index, member) in list.ty.members().iter().enumerate() {
                columns.push(PlanColumn::Element(index));
                headings.push(ResultColumn { name: format!("{}.{}", list.name, member.name), ty: member.ty.clone() });
            }
            return (columns, headings);
        }
        for (index, field) in self.collection.shown_fields() {
            columns.push(PlanColumn::Field(index));
            headings.push(ResultColumn { name: field.name.clone(), ty: field.golden_type().clone() });
        }
        for (index, state) in self.collection.states.iter().enumerate() {
            columns.push(PlanColumn::State(index));
            headings.push(ResultColumn { name: state.name.clone(), ty: state.ty.clone() });
        }
        (columns, headings)
    }

    fn aggregate_type(&self, function: stook_store::plan::AggregateFunction, path: &FieldPath, ty: FieldType) -> Result<FieldType, Diagnostic> {
        use stook_store::plan::AggregateFunction;
        let element = ty.element().clone();
        let numeric = matches!(element, FieldType::Integer | FieldType::Float | FieldType::Size | FieldType::Duration);
        let (ranges, ordered) = (element == FieldType::Ranges, element.is_ordered());
        let wrong = |what: &str| {
            let problem = Diagnostic::new(path.span.clone(), format!("`{}` is of type {ty}, {what}", path.text));
            Err(problem.help(format!("count({}) takes values of any type", path.text)))
        };
        match function {
            AggregateFunction::Count => Ok(FieldType::Integer),
            AggregateFunction::Min | AggregateFunction::Max if ranges => Ok(FieldType::Integer),
            AggregateFunction::Min | AggregateFunction::Max if ordered => Ok(element),
            AggregateFunction::Min | AggregateFunction::Max => wrong("which has no order"),
            AggregateFunction::Sum | AggregateFunction::Avg | AggregateFunction::Median if !numeric => wrong("not a number"),
            // the middle one is a value; the mean of two shows its fraction whatever the type
            AggregateFunction::Sum | AggregateFunction::Median => Ok(element),
            // a mean of integers need not be one
            AggregateFunction::Avg => Ok(if element == FieldType::Duration { element } else { FieldType::Float }),
        }
    }

    fn condition(&self, comparison: &QueryCondition, conditions: &mut Vec<Condition>) -> Result<(), Diagnostic> {
        let (column, ty) = self.resolve(&comparison.path)?;
        let element = match ty.element() {
            // one number in them satisfies the condition
            FieldType::Ranges => FieldType::Integer,
            other => other.clone(),
        };
        if !element.is_ordered() {
            let problem =
                Diagnostic::new(comparison.path.span.clone(), format!("`{}` is of type {ty}, which cannot be compared", comparison.path.text));
            return Err(match ty.members().first() {
                Some(member) => problem.help(format!("its members can: {}.{}", comparison.path.text, member.name)),
                None => problem.help("it can only be shown (`grep`) and counted"),
            });
        }
        let values = comparison.values.as_slice();
        let one = || match values {
            [only] => Ok(only),
            _ => Err(Diagnostic::new(comparison.span.clone(), "expected one value").help("`in` takes a list")),
        };
        let test = match comparison.operator {
            ComparisonOperator::Equal | ComparisonOperator::NotEqual => self.equality(comparison, one()?, &element)?,
            ComparisonOperator::In => {
                if let Some(day) = values.iter().find(|value| self.day(value, &element).is_some()) {
                    return Err(Diagnostic::new(day.span.clone(), "a day is a range of times, not one time")
                        .help("`between [first day, last day]` takes whole days"));
                }
                Comparison::In(values.iter().map(|value| self.value(value, &element)).collect::<Result<_, _>>()?)
            }
            ComparisonOperator::Between => {
                let [low, high] = values else {
                    return Err(Diagnostic::new(comparison.span.clone(), "expected two values").help("for example: between [1, 5]"));
                };
                Comparison::Range { low: Some(self.lower(low, &element, true)?), high: Some(self.upper(high, &element, true)?) }
            }
            ComparisonOperator::Less => Comparison::Range { low: None, high: Some(self.upper(one()?, &element, false)?) },
            ComparisonOperator::AtMost => Comparison::Range { low: None, high: Some(self.upper(one()?, &element, true)?) },
            ComparisonOperator::Greater => Comparison::Range { low: Some(self.lower(one()?, &element, false)?), high: None },
            ComparisonOperator::AtLeast => Comparison::Range { low: Some(self.lower(one()?, &element, true)?), high: None },
            ComparisonOperator::Last => {
                let value = one()?;
                if element != FieldType::Timestamp {
                    let message = format!("`last` needs a timestamp, `{}` is of type {ty}", comparison.path.text);
                    return Err(Diagnostic::new(comparison.path.span.clone(), message).help("compare it with values: < <= > >= between"));
                }
                let span = value.literal().and_then(time_span);
                let span = span.ok_or_else(|| Diagnostic::new(value.span.clone(), "expected a duration").help("for example: 24h, 60m or 7d"))?;
                Comparison::Range { low: Some((Value::Int(self.now.saturating_sub(span)), true)), high: Some((Value::Int(self.now), true)) }
            }
        };
        match self.short(&comparison.path) {
            "key" => conditions.push(self.of_key(column, &ty, test)),
            _ => {
                conditions.extend(self.implied(column, &test));
                conditions.push(Condition { column, test });
            }
        }
        Ok(())
    }

    /// What a condition on the field that is the key says of the key, by which records are found.
    fn implied(&self, column: PlanColumn, test: &Comparison) -> Option<Condition> {
        let index = self.collection.key_field()?;
        let field = self.collection.fields.get(index)?;
        if column != PlanColumn::Field(index)
            || field.golden_type() != &field.ty
            || matches!(test, Comparison::NotEqual(_) | Comparison::NotWildcard(_))
        {
            return None;
        }
        let found = self.of_key(column, &field.ty, test.clone());
        // other types than text have another order than their text
        match found.column {
            PlanColumn::Key => Some(found),
            _ => (field.ty == FieldType::Text).then_some(Condition { column: PlanColumn::Key, ..found }),
        }
    }

    /// A condition on the key: the key itself finds records by their values.
    fn of_key(&self, column: PlanColumn, ty: &FieldType, test: Comparison) -> Condition {
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
        if let Some(start) = self.day(value, ty) {
            if negated {
                return Err(Diagnostic::new(value.span.clone(), "`!=` does not take a whole day").help("`<` is before the day, `>` after it"));
            }
            return Ok(Comparison::Range { low: Some((Value::Int(start), true)), high: Some((Value::Int(start + DAY), false)) });
        }
        let value = self.value(value, ty)?;
        Ok(if negated { Comparison::NotEqual(value) } else { Comparison::Equal(value) })
    }

    /// The first moment of the day a value is, for timestamps written as dates.
    fn day(&self, value: &ValueLiteral, ty: &FieldType) -> Option<i64> {
        let text = value.literal().filter(|_| ty == &FieldType::Timestamp)?.trim();
        let digits = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
        let format = if digits { Some("%Y%m%d") } else { None };
        // what has a time of day parses as a date too
        let date = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+'));
        match from_text(text, &FieldType::Date, format) {
            Ok(Value::Int(days)) if date => Some(days * DAY),
            _ => None,
        }
    }

    fn lower(&self, value: &ValueLiteral, ty: &FieldType, included: bool) -> Result<(Value, bool), Diagnostic> {
        match self.day(value, ty) {
            // after a day is from the next day on
            Some(start) => Ok((Value::Int(if included { start } else { start + DAY }), true)),
            None => Ok((self.value(value, ty)?, included)),
        }
    }

    fn upper(&self, value: &ValueLiteral, ty: &FieldType, included: bool) -> Result<(Value, bool), Diagnostic> {
        match self.day(value, ty) {
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

/// A value of a type, as it can be written.
fn example(ty: &FieldType) -> Option<&'static str> {
    Some(match ty {
        FieldType::Integer => "42 or 1e6",
        FieldType::Float => "2.5 or 1e-3",
        FieldType::Boolean => "true",
        FieldType::Timestamp => "2018-01-31 for the whole day, or 2018-01-31T12:30:00Z",
        FieldType::Date => "2018-01-31",
        FieldType::Duration => "1h30m",
        FieldType::Size => "1.5GB, 512MiB or 1e9",
        FieldType::Uuid => "67e55044-10b1-426f-9247-bb680e5fe0c8",
        FieldType::Text | FieldType::Json | FieldType::Ranges | FieldType::Struct(_) | FieldType::List(_) => return None,
    })
}

/// 1e9 of a type that counts.
fn whole_number(text: &str, ty: &FieldType) -> Option<Value> {
    let counts = matches!(ty, FieldType::Integer | FieldType::Size) && text.contains(['e', 'E']);
    // beyond this, not every integer is a float
    let number = text.trim().parse::<f64>().ok().filter(|number| counts && number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0)?;
    Some(Value::Int(number as i64))
}

/// Microseconds of what `last` takes: a duration, in which days have 24 hours.
fn time_span(text: &str) -> Option<i64> {
    let (days, rest) = text.split_once('d').unwrap_or(("0", text));
    let days = i64::from(days.trim().parse::<u32>().ok()?).checked_mul(DAY)?;
    let rest = if rest.is_empty() { 0 } else { duration_from_text(rest.trim(), None)? };
    days.checked_add(rest).filter(|span| rest >= 0 && *span > 0)
}
