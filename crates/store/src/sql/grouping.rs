//! Groups of rows as one statement. Both dialects have the same functions for it, apart from what [`GroupDialect`] returns.
//!
//! The statement is made of these parts, each of which reads the one before:
//!
//! * `base` has the columns of the plan's rows that are grouped by or aggregated: `b0`, `b1` and so on;
//! * `valued` has a row for each row in each of its groups, with the group (`g0` …) and the values to aggregate (`v0` …). The elements of a list that is
//!   aggregated are rows of their own, in which the other values are null, as aggregates leave them out;
//! * `ranked` adds the position of values (`r0` …) and their number (`n0` …) within the group, if there are percentiles;
//! * `grouped` has a row for each group, with what the aggregates are computed from (`a0_0` …).

use super::during::days_sql;
use super::plan_parts::{float_aggregate, integer_aggregate, unreadable};
use super::united::{united_column, united_rows};
use crate::plan::{
    ALL_VALUES, Aggregate, AggregateFunction, GroupColumn, GroupSort, Grouping, Groups, MAX_GROUPS, Period, PlanColumn, QueryPlan, percentile_between,
};
use crate::{Result, StoreError};
use stook_catalogue::definition::Collection;
use stook_catalogue::value::{FieldType, Value};

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// Days of 400 years, after which the calendar repeats itself. Functions of databases know only some of its years.
const CALENDAR: i64 = 146_097;

/// The values of a list, joined to its row.
pub struct ElementsSql {
    /// The join.
    pub join: String,
    /// The SQL of an element.
    pub value: String,
}

/// What differs between databases.
pub trait GroupDialect {
    /// An absent value of a type.
    fn null(&self, ty: &FieldType) -> String;

    /// Joins the elements of a list, with this alias. Rows without elements are dropped.
    fn elements(&self, list: &str, alias: &str) -> ElementsSql;

    /// Joins the ranges of a column, with this alias; the values are the least and the greatest number. Rows without numbers are kept, without values.
    fn ranges(&self, column: &str, alias: &str) -> (ElementsSql, String);

    /// Joins the different values that `value` makes of the elements of a list, with this alias. Rows without elements are kept, without a value.
    fn distinct_elements(&self, list: &str, alias: &str, value: &dyn Fn(&str) -> String) -> ElementsSql;

    /// The smallest or the largest of the values in a column.
    fn extreme(&self, function: AggregateFunction, column: &str, ty: &FieldType) -> String;

    /// An expression by which values are sorted.
    fn ordered(&self, column: &str, ty: &FieldType) -> String;

    /// The first day of the month or year of a day. Days are numbers since 1970, here of less than 400 years.
    fn first_day(&self, period: Period, day: &str) -> String;
}

/// The SQL of a column, with its type and its name in messages.
pub struct GroupedColumn {
    pub sql: String,
    pub ty: FieldType,
    pub name: String,
}

/// A row of the statement.
pub trait GroupRow<E> {
    fn integer(&self, index: usize) -> std::result::Result<Option<i64>, E>;

    fn float(&self, index: usize) -> std::result::Result<Option<f64>, E>;

    /// A value of this type, or one element if the type is a list.
    fn value(&self, index: usize, ty: &FieldType) -> std::result::Result<Value, String>;
}

/// The statement of a grouping, without its page, and what its rows mean.
pub struct GroupStatement<'c> {
    pub sql: String,
    collection: &'c Collection,
    groups: Vec<(FieldType, String)>,
    aggregates: Vec<AggregateParts>,
}

/// What an aggregate is computed from: columns of the statement from `first` on.
struct AggregateParts {
    function: AggregateFunction,
    ty: FieldType,
    name: String,
    first: usize,
}

/// The percentile that a function is.
pub fn percentile_of(function: AggregateFunction) -> Option<u16> {
    match function {
        AggregateFunction::Median => Some(ALL_VALUES / 2),
        AggregateFunction::Percentile(percentile) => Some(percentile),
        _ => None,
    }
}

/// The remainder of a division that rounds down.
fn floor_mod(number: &str, divisor: i64) -> String {
    format!("((({number}) % {divisor} + {divisor}) % {divisor})")
}

/// The value of a grouping column: the value itself, or the day on which its period begins.
fn group_value(dialect: &impl GroupDialect, period: Option<Period>, ty: &FieldType, value: &str) -> String {
    let Some(period) = period else { return value.to_owned() };
    match ty.element() {
        FieldType::Timestamp => period_of(dialect, period, format!("(({value} - {}) / {DAY})", floor_mod(value, DAY))),
        FieldType::PartialDate => {
            let [first, last] = days_sql(value).map(|day| period_of(dialect, period, day));
            format!("(CASE WHEN {first} = {last} THEN {first} END)")
        }
        _ => period_of(dialect, period, value.to_owned()),
    }
}

/// The day on which the period of a day begins.
fn period_of(dialect: &impl GroupDialect, period: Period, day: String) -> String {
    match period {
        Period::Day => day,
        // 1970 began on a Thursday
        Period::Week => format!("({day} - {})", floor_mod(&format!("{day} + 3"), 7)),
        Period::Month | Period::Year => {
            let within = floor_mod(&day, CALENDAR);
            format!("({day} - {within} + {})", dialect.first_day(period, &within))
        }
    }
}

/// Makes the statement. `from` is the FROM clause of the plan's rows, `column_of` returns the SQL of a column in it.
pub fn group_statement<'c, E: From<StoreError>>(
    dialect: &impl GroupDialect,
    collection: &'c Collection,
    plan: &QueryPlan,
    (aggregates, grouping): (&[Aggregate], &Grouping),
    from: &str,
    column_of: impl Fn(PlanColumn) -> std::result::Result<GroupedColumn, E>,
) -> std::result::Result<GroupStatement<'c>, E> {
    let mut base: Vec<PlanColumn> = if plan.distinct { plan.columns.clone() } else { Vec::new() };
    for column in grouping.by.iter().map(|group| group.column).chain(aggregates.iter().map(|aggregate| aggregate.column)) {
        if !base.contains(&column) {
            if plan.distinct {
                return Err(StoreError::Wrong(format!("unique rows have no `{}`", column_of(column)?.name)).into());
            }
            base.push(column);
        }
    }
    let columns: Vec<GroupedColumn> = base.iter().map(|column| column_of(*column)).collect::<std::result::Result<_, E>>()?;
    let position = |column: PlanColumn| base.iter().position(|other| *other == column).unwrap_or_default();
    let selected: Vec<String> = columns.iter().enumerate().map(|(index, column)| format!("{} AS b{index}", column.sql)).collect();
    let base_sql = match united_column(columns.iter().map(|column| &column.ty)).filter(|_| plan.distinct) {
        Some(ranges) => {
            let renamed: Vec<String> = (0..columns.len()).map(|index| format!("u{index} AS b{index}")).collect();
            let own: Vec<String> = columns.iter().map(|column| column.sql.clone()).collect();
            format!("SELECT {} FROM ({}) AS united", renamed.join(", "), united_rows(dialect, &own, &[], ranges, from))
        }
        None => format!("SELECT {}{} FROM {from}", if plan.distinct { "DISTINCT " } else { "" }, selected.join(", ")),
    };

    let (mut joins, mut groups, mut types) = (String::new(), Vec::new(), Vec::new());
    for (index, GroupColumn { column, period }) in grouping.by.iter().copied().enumerate() {
        let at = position(column);
        let GroupedColumn { ty, name, .. } = &columns[at];
        let value = |value: &str| group_value(dialect, period, ty, value);
        groups.push(if ty.is_list() {
            let elements = dialect.distinct_elements(&format!("base.b{at}"), &format!("e{index}"), &value);
            joins.push_str(&elements.join);
            elements.value
        } else {
            value(&format!("base.b{at}"))
        });
        types.push((if period.is_some() { FieldType::Date } else { ty.clone() }, name.clone()));
    }
    let group_names: Vec<String> = (0..groups.len()).map(|index| format!("g{index}")).collect();
    let group_list = group_names.join(", ");

    let mut aggregated: Vec<usize> = Vec::new();
    for aggregate in aggregates {
        let at = position(aggregate.column);
        if !aggregated.contains(&at) {
            aggregated.push(at);
        }
    }
    let is_ranges = |at: usize| columns[at].ty == FieldType::Ranges;
    let mut branches = Vec::new();
    let unnested = || aggregated.iter().copied().filter(|at| columns[*at].ty.is_list() || is_ranges(*at));
    for unnested in std::iter::once(None).chain(unnested().map(Some)) {
        let mut selected: Vec<String> = groups.iter().zip(&group_names).map(|(value, name)| format!("{value} AS {name}")).collect();
        let mut join = joins.clone();
        for at in aggregated.iter().copied() {
            let ty = &columns[at].ty;
            let whole = FieldType::Integer;
            let (value, greatest) = match (unnested == Some(at), is_ranges(at)) {
                (true, true) => {
                    let (elements, greatest) = dialect.ranges(&format!("base.b{at}"), "m");
                    join.push_str(&elements.join);
                    (elements.value, greatest)
                }
                (true, false) => {
                    let elements = dialect.elements(&format!("base.b{at}"), "m");
                    join.push_str(&elements.join);
                    (elements.value, String::new())
                }
                (false, true) => (dialect.null(&whole), dialect.null(&whole)),
                (false, false) if ty.is_list() || unnested.is_some() => (dialect.null(ty.element()), String::new()),
                (false, false) => (format!("base.b{at}"), String::new()),
            };
            selected.push(format!("{value} AS v{at}"));
            if is_ranges(at) {
                selected.push(format!("{greatest} AS w{at}"));
            }
        }
        branches.push(format!("SELECT {} FROM base{join}", selected.join(", ")));
    }
    let mut rows = format!("({}) AS valued", branches.join(" UNION ALL "));
    let ranked: Vec<usize> = aggregated
        .iter()
        .copied()
        .filter(|at| aggregates.iter().any(|aggregate| percentile_of(aggregate.function).is_some() && position(aggregate.column) == *at))
        .collect();
    if !ranked.is_empty() {
        let ranks = ranked.iter().map(|at| {
            format!(
                ", row_number() OVER (PARTITION BY {group_list} ORDER BY v{at} IS NULL, v{at}) AS r{at}, \
                 count(v{at}) OVER (PARTITION BY {group_list}) AS n{at}"
            )
        });
        rows = format!("(SELECT valued.*{} FROM {rows}) AS ranked", ranks.collect::<String>());
    }

    let mut statement = GroupStatement { sql: String::new(), collection, groups: types, aggregates: Vec::new() };
    let mut selected: Vec<String> = group_names.clone();
    for (number, aggregate) in aggregates.iter().enumerate() {
        let at = position(aggregate.column);
        let GroupedColumn { ty, name, .. } = &columns[at];
        let parts = aggregate_parts(dialect, aggregate.function, ty, at)?;
        statement.aggregates.push(AggregateParts { function: aggregate.function, ty: ty.clone(), name: name.clone(), first: selected.len() });
        selected.extend(parts.iter().enumerate().map(|(part, sql)| format!("{sql} AS a{number}_{part}")));
    }
    let order = order_of(dialect, &statement, aggregates, grouping)?;
    // rows with lists are read once for each list
    let materialized = if branches.len() > 1 { "MATERIALIZED " } else { "" };
    statement.sql = format!(
        "WITH base AS {materialized}({base_sql}) SELECT grouped.*, count(*) OVER () AS total \
         FROM (SELECT {} FROM {rows} GROUP BY {group_list}) AS grouped ORDER BY {order}",
        selected.join(", ")
    );
    Ok(statement)
}

/// The columns from which an aggregate of `v{at}` is computed.
fn aggregate_parts(dialect: &impl GroupDialect, function: AggregateFunction, ty: &FieldType, at: usize) -> Result<Vec<String>> {
    let value = format!("v{at}");
    if let Some(percentile) = percentile_of(function) {
        let (last, all) = (format!("(n{at} - 1) * {percentile}"), ALL_VALUES);
        return Ok(vec![
            format!("max(n{at})"),
            format!("min(CASE WHEN r{at} = {last} / {all} + 1 THEN {value} END)"),
            format!("max(CASE WHEN r{at} = ({last} + {all} - 1) / {all} + 1 THEN {value} END)"),
        ]);
    }
    if *ty == FieldType::Ranges {
        return Ok(vec![match function {
            AggregateFunction::Count => format!("CAST(coalesce(sum(w{at} - v{at} + 1), 0) AS BIGINT)"),
            AggregateFunction::Min => format!("min(v{at})"),
            AggregateFunction::Max => format!("max(w{at})"),
            other => return Err(StoreError::Wrong(format!("ranges have no {}", other.name()))),
        }]);
    }
    Ok(match function {
        AggregateFunction::Count => vec![format!("count({value})")],
        AggregateFunction::CountDistinct => vec![format!("count(DISTINCT {value})")],
        AggregateFunction::Min | AggregateFunction::Max => vec![dialect.extreme(function, &value, ty.element())],
        _ if *ty.element() == FieldType::Float => vec![format!("count({value})"), format!("sum({value})")],
        // in two halves, which cannot overflow on the way to a sum that fits
        _ => vec![format!("count({value})"), format!("CAST(sum({value} >> 32) AS BIGINT)"), format!("CAST(sum({value} & 4294967295) AS BIGINT)")],
    })
}

/// The ORDER BY clause.
fn order_of(dialect: &impl GroupDialect, statement: &GroupStatement<'_>, aggregates: &[Aggregate], grouping: &Grouping) -> Result<String> {
    let columns = grouping.by.len();
    let mut sort = grouping.sort.clone();
    sort.extend((0..columns).map(|position| GroupSort { position, descending: false }));
    let mut order = Vec::new();
    for (index, GroupSort { position, descending }) in sort.iter().copied().enumerate() {
        if sort[..index].iter().any(|before| before.position == position) {
            continue;
        }
        let expressions = if position < columns {
            vec![dialect.ordered(&format!("g{position}"), statement.groups[position].0.element())]
        } else {
            let number = position - columns;
            let parts = statement.aggregates.get(number).zip(aggregates.get(number));
            let (parts, aggregate) = parts.ok_or_else(|| StoreError::Wrong("there is no such column of groups".into()))?;
            aggregate_order(dialect, aggregate.function, &parts.ty, number)
        };
        let direction = if descending { "DESC NULLS LAST" } else { "ASC NULLS FIRST" };
        order.extend(expressions.into_iter().map(|expression| format!("{expression} {direction}")));
    }
    Ok(order.join(", "))
}

/// The expressions that sort by an aggregate.
fn aggregate_order(dialect: &impl GroupDialect, function: AggregateFunction, ty: &FieldType, number: usize) -> Vec<String> {
    let part = |part: usize| format!("a{number}_{part}");
    let real = |sql: &str| format!("CAST({sql} AS DOUBLE PRECISION)");
    // some databases refuse to divide what would become zero
    let is_tiny = |sql: &str| format!("abs({sql}) < 1e-300");
    let (first, second, third) = (part(0), part(1), part(2));
    let is_float = *ty.element() == FieldType::Float;
    if let Some(percentile) = percentile_of(function) {
        let part = format!("((({first} - 1) * {percentile}) % {ALL_VALUES})");
        if is_float {
            // the arithmetic of the values that are shown, so that equal ones are in the order of the groups
            let half = |sql: &str| format!("(CASE WHEN {} THEN 0 ELSE {} END / 2)", is_tiny(sql), real(sql));
            let (low, high, share) = (half(&second), half(&third), format!("({} / {ALL_VALUES})", real(&part)));
            return vec![format!("CASE WHEN {second} = {third} THEN {second} ELSE ({low} + ({high} - {low}) * {share}) * 2 END")];
        }
        // in two halves, which cannot overflow
        let weighted = |low: &str, high: &str| format!("({low} * ({ALL_VALUES} - {part}) + {high} * {part})");
        let upper = weighted(&format!("({second} >> 32)"), &format!("({third} >> 32)"));
        let lower = weighted(&format!("({second} & 4294967295)"), &format!("({third} & 4294967295)"));
        return vec![format!("({upper} + ({lower} >> 32))"), format!("({lower} & 4294967295)")];
    }
    let (high, low) = (format!("({second} + ({third} >> 32))"), format!("({third} & 4294967295)"));
    match function {
        AggregateFunction::Sum if is_float => vec![second],
        AggregateFunction::Avg if is_float => vec![format!("CASE WHEN {} THEN {second} ELSE {} / {first} END", is_tiny(&second), real(&second))],
        AggregateFunction::Sum => vec![high, low],
        AggregateFunction::Avg => vec![format!("({} * {} + {}) / {first}", real(&high), real("4294967296"), real(&low))],
        _ if *ty == FieldType::Ranges => vec![first],
        AggregateFunction::Count | AggregateFunction::CountDistinct => vec![first],
        _ => vec![dialect.ordered(&first, ty.element())],
    }
}

impl GroupStatement<'_> {
    /// Reads the values of a group, and the number of all groups.
    pub fn read<E: From<StoreError>>(&self, row: &impl GroupRow<E>) -> std::result::Result<(Vec<Value>, u64), E> {
        let mut values = Vec::with_capacity(self.groups.len() + self.aggregates.len());
        let unfit = |name: &str, reason: String| E::from(unreadable(self.collection, name, &reason));
        for (index, (ty, name)) in self.groups.iter().enumerate() {
            values.push(row.value(index, ty).map_err(|reason| unfit(name, reason))?);
        }
        let mut end = self.groups.len();
        for AggregateParts { function, ty, name, first } in &self.aggregates {
            let value = |index: usize| row.value(index, ty).map_err(|reason| unfit(name, reason));
            let count = || Ok::<_, E>(row.integer(*first)?.unwrap_or(0));
            end = match function {
                AggregateFunction::Count | AggregateFunction::CountDistinct | AggregateFunction::Min | AggregateFunction::Max => first + 1,
                AggregateFunction::Sum | AggregateFunction::Avg if *ty.element() == FieldType::Float => first + 2,
                _ => first + 3,
            };
            values.push(match function {
                AggregateFunction::Count | AggregateFunction::CountDistinct => Value::Int(count()?),
                AggregateFunction::Min | AggregateFunction::Max if *ty == FieldType::Ranges => row.integer(*first)?.map_or(Value::Null, Value::Int),
                AggregateFunction::Min | AggregateFunction::Max => value(*first)?,
                AggregateFunction::Sum | AggregateFunction::Avg => match count()? {
                    0 => Value::Null,
                    count if *ty.element() == FieldType::Float => float_aggregate(*function, count, row.float(first + 1)?)?,
                    count => {
                        let (high, low) = (row.integer(first + 1)?.unwrap_or(0), row.integer(first + 2)?.unwrap_or(0));
                        integer_aggregate(*function, count, (i128::from(high) << 32) + i128::from(low), ty)?
                    }
                },
                AggregateFunction::Median | AggregateFunction::Percentile(_) => {
                    let percentile = percentile_of(*function).unwrap_or_default();
                    percentile_between(&value(first + 1)?, &value(first + 2)?, percentile, count()?.max(0) as u64, ty)
                }
            });
        }
        Ok((values, row.integer(end)?.unwrap_or(0).max(0) as u64))
    }
}

/// The page of groups that a store reads: one more than may be returned, if there is no limit.
fn page_limit(plan: &QueryPlan) -> u64 {
    plan.limit.unwrap_or(MAX_GROUPS + 1)
}

/// Reads the page of groups that the plan wants. `page` reads groups by limit and offset.
pub fn read_groups<E: From<StoreError>>(
    plan: &QueryPlan,
    mut page: impl FnMut(u64, u64) -> std::result::Result<Groups, E>,
) -> std::result::Result<Groups, E> {
    let groups = page(page_limit(plan), plan.offset)?;
    if groups.rows.is_empty() && (plan.offset > 0 || plan.limit == Some(0)) {
        // the number of groups is in the rows
        return Ok(Groups { total: page(1, 0)?.total, ..groups });
    }
    Ok(checked(plan, groups)?)
}

/// Returns the groups, unless there are more than may be returned.
fn checked(plan: &QueryPlan, groups: Groups) -> Result<Groups> {
    if plan.limit.is_none() && groups.rows.len() as u64 > MAX_GROUPS {
        return Err(StoreError::Wrong(format!(
            "there are {} groups, and at most {MAX_GROUPS} are returned without a limit; \
             group by fewer columns or longer periods, add conditions, or ask for the first ones with a limit",
            groups.total
        )));
    }
    Ok(groups)
}
