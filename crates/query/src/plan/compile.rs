//! Compiles a parsed query to a plan of the store: its stages become columns, order and aggregates.

use super::columns::{Resolver, ResultColumn};
use super::elements::{ElementMember, check_groups, conditioned_members};
use super::linked::LinkedUse;
use super::words::search_all_fields;
use crate::language::{FieldPath, GrepItem, GroupFunction, GroupItem, Query, SortItem, Stage};
use std::cell::RefCell;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::diagnostic::{Diagnostic, did_you_mean};
use stook_catalogue::value::FieldType;
use stook_store::Tenant;
use stook_store::plan::{ALL_VALUES, Aggregate, AggregateFunction, GroupColumn, GroupSort, Grouping, PlanColumn, QueryPlan, SortKey};

/// A query that is ready to be executed.
#[derive(Debug, Clone, PartialEq)]
pub struct CompiledQuery {
    /// The plan for the store.
    pub plan: QueryPlan,
    /// The name and type of each column; of aggregates, those of the grouping columns come first.
    pub columns: Vec<ResultColumn>,
    /// Aggregates, instead of rows, if there are any.
    pub aggregates: Vec<Aggregate>,
    /// How the rows are grouped, if there is a row of aggregates for each group.
    pub grouping: Option<Grouping>,
    /// The members of structs on which the query has conditions, which hold for what is aggregated of them: [`CompiledQuery::aggregate`].
    pub members: Vec<ElementMember>,
    /// The number of rows after which the query itself ends its result: `limit`.
    pub limit: Option<u64>,
    /// Where it reads records of other collections; whoever executes it must be allowed to.
    pub linked_uses: Vec<LinkedUse>,
}

impl CompiledQuery {
    /// Chooses the page of the result, which ends where the query itself ends it.
    pub fn set_page(&mut self, offset: u64, limit: Option<u64>) {
        let remaining = self.limit.map(|limit| limit.saturating_sub(offset));
        self.plan.offset = offset;
        self.plan.limit = [limit, remaining].into_iter().flatten().min();
    }

    /// The number of rows of the result, of which a store counts so many.
    pub fn total(&self, counted: u64) -> u64 {
        self.limit.map_or(counted, |limit| counted.min(limit))
    }

    /// The columns that are read for aggregates and groups; none if the result is rows.
    pub fn aggregated_columns(&self) -> Vec<PlanColumn> {
        let groups = self.grouping.iter().flat_map(|grouping| &grouping.by).map(|group| group.column);
        groups.chain(self.aggregates.iter().map(|aggregate| aggregate.column)).collect()
    }
}

/// Compiles a query. `now` is the time from which `last` counts back, in microseconds.
///
/// # Errors
/// The first name or value that does not fit the definition, with its position.
pub fn compile(query: &Query, catalogue: &Catalogue, tenant: &Tenant, now: i64) -> Result<CompiledQuery, Diagnostic> {
    let name = &query.lookup.collection;
    let Some((index, collection)) = catalogue.collection(&name.text) else {
        let problem = Diagnostic::new(name.span.clone(), format!("there is no collection `{}`", name.text));
        let known = || catalogue.collections.iter().map(|collection| collection.name.as_str());
        if let Some((first, field)) = name.text.split_once('.').filter(|(first, _)| known().any(|known| known == *first)) {
            return Err(problem.help(format!("write the collection first, then its fields: {first} {field}=value")));
        }
        return Err(match did_you_mean(&name.text, known()) {
            Some(suggestion) => problem.help(format!("did you mean `{suggestion}`?")),
            None => problem.help(format!("collections are {}", known().collect::<Vec<_>>().join(", "))),
        });
    };
    if let Some((_, problem)) = query.lookup.extra_names.first() {
        return Err((**problem).clone());
    }
    let expanded = search_all_fields(query, collection)?;
    let query = &*expanded;
    let linked_uses = RefCell::default();
    let mut resolver = Resolver {
        catalogue,
        tenant,
        id: index,
        collection,
        each: None,
        now,
        is_ranked: query.searches_words(),
        links_followed: 0,
        linked_uses: &linked_uses,
    };
    let mut plan = QueryPlan::all(tenant.clone(), index);
    plan.columns.clear();
    let mut columns = Vec::new();
    let mut results = Vec::new();
    let mut aggregates = Vec::new();
    let mut groups = GroupColumns::default();
    let is_grouped = query.stages.iter().any(|stage| matches!(stage, Stage::Aggregates(_, by) if !by.is_empty()));
    // columns that are needed among those of unique rows
    let mut needed: Vec<(&FieldPath, PlanColumn, &str)> = Vec::new();
    for condition in &query.lookup.conditions {
        resolver.condition(condition, &mut plan.conditions)?;
    }
    for tree in &query.lookup.combined {
        resolver.combined(tree, &mut plan)?;
    }
    for stage in &query.stages {
        match stage {
            Stage::Grep(items) => {
                for item in items {
                    match item {
                        GrepItem::Condition(condition) => resolver.condition(condition, &mut plan.conditions)?,
                        GrepItem::Combined(tree) => resolver.combined(tree, &mut plan)?,
                        GrepItem::Column(path) => {
                            let (column, ty) = resolver.resolve(path)?;
                            if !plan.columns.contains(&column) {
                                plan.columns.push(column);
                                columns.push(ResultColumn { name: resolver.name_in_collection(path).to_owned(), ty });
                            }
                        }
                    }
                }
            }
            // groups are sorted by their own columns, which may follow
            Stage::Sort(_) if is_grouped => {}
            Stage::Sort(order) => {
                for SortItem { function, path, descending } in order {
                    if let Some(function) = function {
                        let name = function_text(*function, &path.text);
                        let problem = Diagnostic::new(path.span.clone(), format!("`{name}` is no column of the rows"));
                        return Err(
                            problem.help("`by` after aggregates groups the rows; then their columns can be sorted by: | count(key) by status")
                        );
                    }
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
                    return Err(Diagnostic::new(path.span.clone(), "only one list can be unfolded into rows").help("write one query for each list"));
                }
                (plan.each, resolver.each) = (Some(list), Some(list));
            }
            Stage::Unique => plan.distinct = true,
            Stage::Limit(limit) => plan.limit = Some(plan.limit.map_or(*limit, |other| other.min(*limit))),
            Stage::Aggregates(wanted, by) => {
                for (function, path) in wanted {
                    let (column, ty) = resolver.resolve(path)?;
                    if let (PlanColumn::Field(field), Some(list)) = (column, plan.each)
                        && field == list
                    {
                        let name = resolver.name_in_collection(path);
                        let problem = Diagnostic::new(path.span.clone(), format!("a row is one element of `{name}` here, not the list"));
                        return Err(problem.help(format!("count(key) counts the rows, count({name}.MEMBER) those that have a value")));
                    }
                    refuse_rank(path, column)?;
                    aggregates.push(Aggregate { function: *function, column });
                    let ty = aggregate_type(*function, path, ty)?;
                    results.push(ResultColumn { name: function_text(GroupFunction::Aggregate(*function), resolver.name_in_collection(path)), ty });
                    needed.push((path, column, "an aggregate of unique rows needs a column they have"));
                }
                if let Some(first) = by.first().filter(|_| !groups.by.is_empty()) {
                    return Err(
                        Diagnostic::new(first.path.span.clone(), "rows are grouped once").help("write all columns after one `by`, separated by `,`")
                    );
                }
                for group in by {
                    let column = groups.add(group, &resolver)?;
                    needed.push((&group.path, column, "unique rows can only be grouped by a column they have"));
                }
            }
        }
    }
    plan.conditions.extend(resolver.composed_key_condition(&plan.conditions));
    if plan.columns.is_empty() {
        (plan.columns, columns) = resolver.all_columns();
    }
    if plan.distinct && (plan.columns.contains(&PlanColumn::Rank) || plan.sort.iter().any(|sort| sort.column == PlanColumn::Rank)) {
        let span = query.lookup.collection.span.clone();
        return Err(Diagnostic::new(span, "unique rows have no rank").help("leave out `unique`, or `rank`"));
    }
    if plan.distinct && plan.columns.contains(&PlanColumn::Tag) {
        let span = query.lookup.collection.span.clone();
        return Err(Diagnostic::new(span, "tags cannot be columns of unique rows").help("count(tag) counts them"));
    }
    if plan.distinct
        && let Some((path, _, message)) = needed.iter().find(|(_, column, _)| !plan.columns.contains(column))
    {
        let problem = Diagnostic::new(path.span.clone(), *message);
        return Err(problem.help(format!("add it to the columns: grep {}", resolver.name_in_collection(path))));
    }
    if plan.sort.is_empty() && !plan.distinct && aggregates.is_empty() && resolver.is_ranked && !plan.word_searches().is_empty() {
        plan.sort.push(SortKey { column: PlanColumn::Rank, descending: true });
    }
    let limit = plan.limit;
    let members = if aggregates.is_empty() { Vec::new() } else { conditioned_members(collection, &plan) };
    if !is_grouped {
        let headings = if aggregates.is_empty() { columns } else { results };
        return Ok(CompiledQuery { plan, columns: headings, aggregates, grouping: None, members, limit, linked_uses: linked_uses.take() });
    }
    let order = query.stages.iter().flat_map(|stage| if let Stage::Sort(order) = stage { order.as_slice() } else { &[] });
    let mut headings = groups.headings;
    headings.extend(results);
    let mut sort = Vec::new();
    for item in order {
        let position = position_of(item, &resolver, (&groups.by, &aggregates), &headings)?;
        sort.push(GroupSort { position, descending: item.descending });
    }
    let compiled = CompiledQuery {
        plan,
        columns: headings,
        aggregates,
        grouping: Some(Grouping { by: groups.by, sort }),
        members,
        limit,
        linked_uses: linked_uses.take(),
    };
    check_groups(&compiled, &query.stages)?;
    Ok(compiled)
}

/// The columns by which rows are grouped.
#[derive(Default)]
struct GroupColumns {
    by: Vec<GroupColumn>,
    headings: Vec<ResultColumn>,
}

impl GroupColumns {
    /// Adds a column, unless it is one already, and returns which column of the rows it is made of.
    fn add(&mut self, group: &GroupItem, resolver: &Resolver<'_>) -> Result<PlanColumn, Diagnostic> {
        let GroupItem { period, path } = group;
        let (column, ty) = resolver.resolve(path)?;
        refuse_rank(path, column)?;
        let element = ty.element().clone();
        if let Some(period) = period
            && !matches!(element, FieldType::Timestamp | FieldType::Date | FieldType::PartialDate)
        {
            let problem = Diagnostic::new(path.span.clone(), format!("`{}` is of type {ty}, which has no {}", path.text, period.name()));
            return Err(problem.help("day, week, month and year are of timestamps and dates"));
        }
        if !element.is_ordered() {
            let problem = Diagnostic::new(path.span.clone(), format!("`{}` is of type {ty}, by which rows are not grouped", path.text));
            return Err(match ty.members().first() {
                Some(member) => problem.help(format!("group by one of its members: {}.{}", path.text, member.name)),
                None => problem.help("group by fields whose values have an order, or lists of such values"),
            });
        }
        let grouped = GroupColumn { column, period: *period };
        if !self.by.contains(&grouped) {
            self.by.push(grouped);
            let name = resolver.name_in_collection(path);
            self.headings.push(match period {
                Some(period) => ResultColumn { name: function_text(GroupFunction::Period(*period), name), ty: FieldType::Date },
                None => ResultColumn { name: name.to_owned(), ty: element },
            });
        }
        Ok(column)
    }
}

/// Refuses the rank where records are not rows.
fn refuse_rank(path: &FieldPath, column: PlanColumn) -> Result<(), Diagnostic> {
    if column != PlanColumn::Rank {
        return Ok(());
    }
    Err(Diagnostic::new(path.span.clone(), "the rank is a column and an order of records").help("leave it out of aggregates and groups"))
}

/// The position, among the columns of groups, of the one that an item of `sort` names.
fn position_of(
    item: &SortItem,
    resolver: &Resolver<'_>,
    (by, aggregates): (&[GroupColumn], &[Aggregate]),
    headings: &[ResultColumn],
) -> Result<usize, Diagnostic> {
    let (column, _) = resolver.resolve(&item.path)?;
    let position = match item.function {
        Some(GroupFunction::Aggregate(function)) => {
            let wanted = Aggregate { function, column };
            aggregates.iter().position(|aggregate| *aggregate == wanted).map(|position| by.len() + position)
        }
        Some(GroupFunction::Period(period)) => by.iter().position(|group| *group == GroupColumn { column, period: Some(period) }),
        None => by.iter().position(|group| *group == GroupColumn { column, period: None }),
    };
    position.ok_or_else(|| {
        let problem = Diagnostic::new(item.path.span.clone(), "groups can only be sorted by a column they have");
        let names: Vec<&str> = headings.iter().map(|heading| heading.name.as_str()).collect();
        problem.help(format!("their columns are {}", names.join(", ")))
    })
}

/// A function of a field as it is written, which is the name of its column.
fn function_text(function: GroupFunction, field: &str) -> String {
    match function {
        GroupFunction::Aggregate(AggregateFunction::Percentile(percentile)) => {
            let (whole, hundredths) = (percentile / (ALL_VALUES / 100), percentile % (ALL_VALUES / 100));
            let number = if hundredths == 0 { whole.to_string() } else { format!("{whole}.{hundredths:02}").trim_end_matches('0').to_owned() };
            format!("{}({field}, {number})", AggregateFunction::Percentile(percentile).name())
        }
        GroupFunction::Aggregate(AggregateFunction::CountDistinct) => format!("{}(distinct {field})", AggregateFunction::Count.name()),
        GroupFunction::Aggregate(function) => format!("{}({field})", function.name()),
        GroupFunction::Period(period) => format!("{}({field})", period.name()),
    }
}

/// The type of an aggregate.
fn aggregate_type(function: AggregateFunction, path: &FieldPath, ty: FieldType) -> Result<FieldType, Diagnostic> {
    let element = ty.element().clone();
    let numeric = matches!(element, FieldType::Integer | FieldType::Float | FieldType::Size | FieldType::Duration);
    let (ranges, ordered) = (element == FieldType::Ranges, element.is_ordered());
    let wrong = |reason: &str| {
        let problem = Diagnostic::new(path.span.clone(), format!("`{}` is of type {ty}, {reason}", path.text));
        Err(problem.help(format!("count({}) takes values of any type", path.text)))
    };
    match function {
        AggregateFunction::Count => Ok(FieldType::Integer),
        AggregateFunction::CountDistinct if ordered => Ok(FieldType::Integer),
        AggregateFunction::CountDistinct => wrong("whose values are not told apart"),
        AggregateFunction::Min | AggregateFunction::Max if ranges => Ok(FieldType::Integer),
        AggregateFunction::Min | AggregateFunction::Max if ordered => Ok(element),
        AggregateFunction::Min | AggregateFunction::Max => wrong("which has no order"),
        AggregateFunction::Sum | AggregateFunction::Avg | AggregateFunction::Median | AggregateFunction::Percentile(_) if !numeric => {
            wrong("not a number")
        }
        // a median is a value; the mean of two values may have a fraction whatever the type
        AggregateFunction::Sum | AggregateFunction::Median | AggregateFunction::Percentile(_) => Ok(element),
        // a mean of integers may have a fraction
        AggregateFunction::Avg => Ok(if element == FieldType::Duration { element } else { FieldType::Float }),
    }
}
