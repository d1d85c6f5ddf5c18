//! Query plans: conditions, order, page, columns, aggregates.

use super::error::Result;
pub use super::linked::{LinkedColumn, LinkedPart, MAX_LINKS};
use super::tenant::Tenant;
use std::sync::Arc;
use stook_catalogue::ids::{CollectionId, FieldId, LinkId};
use stook_catalogue::key::Key;
use stook_catalogue::value::{FieldType, Geometry, PartialDate, Value};
use stook_catalogue::words::WordSearch;

/// A query for records of one collection.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryPlan {
    /// The tenant whose records are read.
    pub tenant: Tenant,
    /// The collection.
    pub collection: CollectionId,
    /// Conditions, all of which must hold.
    pub conditions: Vec<Condition>,
    /// Combined conditions, all of which must hold, too.
    pub combined: Vec<CombinedCondition>,
    /// Order; records that it leaves equal are ordered by key. If empty, by key (or by the columns, for distinct rows).
    pub sort: Vec<SortKey>,
    /// A list of structs, by its field: a row for each of its elements instead of one per record.
    pub each: Option<FieldId>,
    /// The columns of a row.
    pub columns: Vec<PlanColumn>,
    /// Whether equal rows are returned once. Rows that differ only in a column of ranges, if there is one such column, are one row with all their
    /// numbers; it does not count for the order.
    pub distinct: bool,
    /// Whether rows that `sort` leaves equal may come in any order instead of by key, which may be much cheaper.
    pub any_order: bool,
    /// Number of rows to skip.
    pub offset: u64,
    /// Maximum number of rows; `None` for all.
    pub limit: Option<u64>,
}

impl QueryPlan {
    /// A plan for the keys of all records of a collection, in the order of keys.
    pub fn all(tenant: Tenant, collection: CollectionId) -> Self {
        Self {
            tenant,
            collection,
            conditions: Vec::new(),
            combined: Vec::new(),
            sort: Vec::new(),
            each: None,
            columns: vec![PlanColumn::Key],
            distinct: false,
            any_order: false,
            offset: 0,
            limit: None,
        }
    }

    /// The words that the plan searches for, with their columns: those of conditions that must hold, or that may make an alternative hold. The rank of a
    /// record is the sum of [`WordSearch::rank`] of the words in each of these columns.
    pub fn word_searches(&self) -> Vec<(PlanColumn, &WordSearch)> {
        let mut conditions: Vec<&Condition> = self.conditions.iter().collect();
        self.combined.iter().for_each(|combined| combined.add_positive(&mut conditions));
        conditions
            .into_iter()
            .filter_map(|Condition { column, test }| if let Comparison::Words(search) = test { Some((*column, &**search)) } else { None })
            .collect()
    }

    /// The columns of the combined conditions.
    pub fn combined_columns(&self) -> Vec<PlanColumn> {
        self.combined.iter().flat_map(CombinedCondition::conditions).map(|condition| condition.column).collect()
    }
}

/// Part of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PlanColumn {
    /// Its key.
    Key,
    /// Its revision.
    Revision,
    /// A golden field.
    Field(FieldId),
    /// A member, by position, of the struct that the row is for: [`QueryPlan::each`].
    Element(usize),
    /// A state field, by position.
    State(usize),
    /// The names of fields with a conflict.
    Conflict,
    /// The names of its tags, without those that stand for queries.
    Tag,
    /// Whether all targets of a link exist, by the link's id; no value if the link is empty.
    TargetsExist(LinkId),
    /// A part of the records that links lead to.
    Linked(LinkedColumn),
    /// How well the record matches the words that the plan searches for: [`QueryPlan::word_searches`]. Only a column and an order of plain rows.
    Rank,
}

impl PlanColumn {
    /// The golden field, if the column is one.
    pub fn field(self) -> Option<FieldId> {
        match self {
            PlanColumn::Field(field) => Some(field),
            _ => None,
        }
    }
}

/// A condition on one column. It holds for a list if it holds for any element.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// The column.
    pub column: PlanColumn,
    /// The comparison.
    pub test: Comparison,
}

impl Condition {
    /// That a column has this value.
    pub fn equal(column: PlanColumn, value: Value) -> Self {
        Self { column, test: Comparison::Equal(value) }
    }

    /// That a column has one of these values.
    pub fn one_of(column: PlanColumn, values: Vec<Value>) -> Self {
        Self { column, test: Comparison::In(values) }
    }
}

/// Conditions combined by `and`, `or` and `not`.
#[derive(Debug, Clone, PartialEq)]
pub enum CombinedCondition {
    /// The condition holds.
    Is(Condition),
    /// The condition does not hold, be it because there is no value.
    IsNot(Condition),
    /// All hold; of none, this is so.
    All(Vec<CombinedCondition>),
    /// One holds; of none, this is not so.
    Any(Vec<CombinedCondition>),
}

impl CombinedCondition {
    /// Adds the single conditions that are not negated.
    fn add_positive<'c>(&'c self, conditions: &mut Vec<&'c Condition>) {
        match self {
            Self::Is(condition) => conditions.push(condition),
            Self::IsNot(_) => {}
            Self::All(inner) | Self::Any(inner) => inner.iter().for_each(|inner| inner.add_positive(conditions)),
        }
    }

    /// The single conditions in it.
    pub fn conditions(&self) -> Vec<&Condition> {
        match self {
            Self::Is(condition) | Self::IsNot(condition) => vec![condition],
            Self::All(inner) | Self::Any(inner) => inner.iter().flat_map(Self::conditions).collect(),
        }
    }
}

/// A comparison with a column's value; for ranges it must hold for one number in them. A record without a value satisfies only `Exists(false)`,
/// `NotEqual`, `NotWildcard` and `NotAmong`.
#[derive(Debug, Clone, PartialEq)]
pub enum Comparison {
    /// Equal.
    Equal(Value),
    /// Not equal; for lists: no element is equal.
    NotEqual(Value),
    /// One of these.
    In(Vec<Value>),
    /// Between bounds, each with whether it is included.
    Range {
        /// Lower.
        low: Option<(Value, bool)>,
        /// Upper.
        high: Option<(Value, bool)>,
    },
    /// Text with this prefix.
    Prefix(String),
    /// Text with these pieces in this order; any characters may come between two pieces, before an empty first and after an empty last piece: `a*b*`
    /// is `["a", "b", ""]`.
    Wildcard(Vec<String>),
    /// Text that does not match [`Comparison::Wildcard`].
    NotWildcard(Vec<String>),
    /// Whether there is a value.
    Exists(bool),
    /// A date or a part of a date, all of whose days are days of this one.
    During(PartialDate),
    /// A geometry in this relation to another one.
    Related(GeometryRelation, Arc<Geometry>),
    /// A text, or a list of texts, in which all these words occur; the field has an index of words.
    Words(Arc<WordSearch>),
    /// One of the values in the first column of a plan's rows: a condition on linked records. The plan has only conditions, none of them on geometries,
    /// and its column is the key or a link.
    Among(Arc<QueryPlan>),
    /// None of these values.
    NotAmong(Arc<QueryPlan>),
}

/// A relation of a geometry to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeometryRelation {
    /// They have a point in common.
    Intersects,
    /// All of its points are also points of the other one.
    Within,
}

impl Comparison {
    /// The numbers that satisfy the comparison, as intervals, for columns of type ranges. `NotEqual` gives the same as `Equal`.
    pub(crate) fn windows(&self) -> Option<Vec<(i64, i64)>> {
        let single = |value: &Value| value.as_int().map(|number| (number, number));
        match self {
            Comparison::Equal(value) | Comparison::NotEqual(value) => Some(vec![single(value)?]),
            Comparison::In(values) => values.iter().map(single).collect(),
            Comparison::Range { low, high } => {
                let bound = |bound: &Option<(Value, bool)>, step: i64, unbounded: i64| match bound {
                    None => Some(unbounded),
                    Some((value, included)) => Some(value.as_int()?.saturating_add(if *included { 0 } else { step })),
                };
                let interval = (bound(low, 1, i64::MIN)?, bound(high, -1, i64::MAX)?);
                Some(vec![interval].into_iter().filter(|(low, high)| low <= high).collect())
            }
            Comparison::Prefix(_) | Comparison::Wildcard(_) | Comparison::NotWildcard(_) | Comparison::Exists(_) => None,
            Comparison::During(_) | Comparison::Related(..) | Comparison::Words(_) | Comparison::Among(_) | Comparison::NotAmong(_) => None,
        }
    }
}

/// A column to sort by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortKey {
    /// The column.
    pub column: PlanColumn,
    /// Whether the largest value comes first.
    pub descending: bool,
}

/// The rows of a result.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ResultRows {
    /// Values in the order of the plan's columns.
    pub rows: Vec<Vec<Value>>,
}

/// An aggregate over all rows of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aggregate {
    /// The function.
    pub function: AggregateFunction,
    /// The column; the elements of lists count one by one, absent values not at all.
    pub column: PlanColumn,
}

/// Functions over all values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AggregateFunction {
    /// Sum of numbers.
    Sum,
    /// Number of values.
    Count,
    /// Number of different values.
    CountDistinct,
    /// Smallest.
    Min,
    /// Largest.
    Max,
    /// Mean.
    Avg,
    /// The middle value, or the mean of the two middle ones.
    Median,
    /// The value below which this part of the values lies, in hundredths of a percent, between the two values next to it: 5 000 is the median.
    Percentile(u16),
}

/// All of the values, in hundredths of a percent.
pub const ALL_VALUES: u16 = 10_000;

/// All functions of a column alone, with their names.
pub const FUNCTIONS: [(AggregateFunction, &str); 6] = [
    (AggregateFunction::Sum, "sum"),
    (AggregateFunction::Count, "count"),
    (AggregateFunction::Min, "min"),
    (AggregateFunction::Max, "max"),
    (AggregateFunction::Avg, "avg"),
    (AggregateFunction::Median, "median"),
];

impl AggregateFunction {
    /// The function's name in queries.
    pub fn name(self) -> &'static str {
        match self {
            AggregateFunction::Percentile(_) => return PERCENTILE,
            AggregateFunction::CountDistinct => return AggregateFunction::Count.name(),
            _ => {}
        }
        FUNCTIONS.iter().find(|(function, _)| *function == self).map_or("?", |(_, name)| name)
    }
}

/// The name of [`AggregateFunction::Percentile`] in queries.
pub const PERCENTILE: &str = "percentile";

/// How the rows of a plan are grouped. There is a row for each combination of values of the columns, with these values and the aggregates of its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grouping {
    /// The columns; absent values are equal to each other.
    pub by: Vec<GroupColumn>,
    /// Order of the groups. Those that it leaves equal are ordered by the columns.
    pub sort: Vec<GroupSort>,
}

/// A column by which rows are grouped. A row with a list is in the group of each of its different elements, once; one with an empty list, or with
/// none, is in the group without a value. Texts are taken as they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupColumn {
    /// The column, of timestamps, dates or partial dates if there is a period. A partial date that does not lie in one period has none.
    pub column: PlanColumn,
    /// The period of its times; the value of the group is the date on which it begins.
    pub period: Option<Period>,
}

/// A period of the calendar, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// A day.
    Day,
    /// A week, from Monday.
    Week,
    /// A month.
    Month,
    /// A year.
    Year,
}

/// All periods with their names in queries.
pub const PERIODS: [(Period, &str); 4] = [(Period::Day, "day"), (Period::Week, "week"), (Period::Month, "month"), (Period::Year, "year")];

impl Period {
    /// The period's name in queries.
    pub fn name(self) -> &'static str {
        PERIODS.iter().find(|(period, _)| *period == self).map_or("?", |(_, name)| name)
    }
}

/// A column of groups to sort by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupSort {
    /// Its position among the columns of [`Grouping::by`], followed by the aggregates.
    pub position: usize,
    /// Whether the largest value comes first.
    pub descending: bool,
}

/// Groups of rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Groups {
    /// The page of groups: the values of [`Grouping::by`], followed by the aggregates.
    pub rows: Vec<Vec<Value>>,
    /// Number of all groups, ignoring the page.
    pub total: u64,
}

/// Maximum number of groups that are returned if the plan has no limit.
pub const MAX_GROUPS: u64 = 10_000;

/// Returns the keys that a plan finds, all in memory. The key must be its first column.
///
/// # Errors
/// When the store fails.
pub fn matching_keys(store: &dyn Queries, plan: &QueryPlan) -> Result<Vec<Key>> {
    let mut keys = Vec::new();
    store.visit(plan, &mut |row| {
        keys.extend(row.first().and_then(Value::as_text).and_then(|key| Key::new(key).ok()));
        Ok(())
    })?;
    Ok(keys)
}

/// The median of values of type `ty` whose two middle ones are these.
pub fn median_of_middle(low: &Value, high: &Value, ty: &FieldType) -> Value {
    match (low, high) {
        (Value::Int(low), Value::Int(high)) if (low ^ high) & 1 == 0 => Value::Int(low.midpoint(*high)),
        (Value::Int(low), Value::Int(high)) => mean_of(i128::from(*low) + i128::from(*high), 2, ty),
        // halves first: the sum of two large floats may overflow
        (Value::Float(low), Value::Float(high)) => Value::Float(if low == high { *low } else { low / 2.0 + high / 2.0 }),
        _ => Value::Null,
    }
}

/// The percentile, in hundredths of a percent, of `count` values of type `ty` of which the two next to it are these.
pub fn percentile_between(low: &Value, high: &Value, percentile: u16, count: u64, ty: &FieldType) -> Value {
    let (part, all) = (percentile_position(percentile, count).1, u64::from(ALL_VALUES));
    if part * 2 == all {
        return median_of_middle(low, high, ty);
    }
    let (from_low, from_high) = (i128::from(all - part), i128::from(part));
    match (low, high) {
        (Value::Int(low), Value::Int(high)) => {
            let weighted = i128::from(*low) * from_low + i128::from(*high) * from_high;
            let exact = (weighted % i128::from(all) == 0).then(|| i64::try_from(weighted / i128::from(all)).ok()).flatten();
            exact.map_or_else(|| mean_of(weighted, i128::from(all), ty), Value::Int)
        }
        (Value::Float(low), Value::Float(high)) => {
            let from_high = part as f64 / all as f64;
            // of halves, because the difference of two large floats may overflow
            Value::Float(if low == high { *low } else { (low / 2.0 + (high / 2.0 - low / 2.0) * from_high) * 2.0 })
        }
        _ => Value::Null,
    }
}

/// The position, from 0, of the last of `count` sorted values that is not above a percentile, and how far the percentile is from there to the next
/// value, in parts of [`ALL_VALUES`].
pub fn percentile_position(percentile: u16, count: u64) -> (u64, u64) {
    let (steps, all) = (u128::from(count.saturating_sub(1)) * u128::from(percentile), u128::from(ALL_VALUES));
    ((steps / all) as u64, (steps % all) as u64)
}

/// The mean of `count` whole numbers with this sum, rounded for types without fractions.
pub fn mean_of(sum: i128, count: i128, ty: &FieldType) -> Value {
    match ty.element() {
        FieldType::Integer | FieldType::Size => Value::Float(sum as f64 / count as f64),
        _ => Value::Int((sum as f64 / count as f64).round() as i64),
    }
}

/// Aggregates over all rows of a plan.
#[derive(Debug, Clone, Copy)]
pub struct AggregatedRows<'p> {
    /// Which rows.
    pub plan: &'p QueryPlan,
    /// What is aggregated of them.
    pub aggregates: &'p [Aggregate],
}

/// Executes plans.
pub trait Queries {
    /// Returns the rows of a plan, in its order.
    ///
    /// # Errors
    /// When the plan does not fit this catalogue, or the database fails.
    fn find(&self, plan: &QueryPlan) -> Result<ResultRows> {
        let mut rows = Vec::new();
        self.visit(plan, &mut |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(ResultRows { rows })
    }

    /// Calls `visit` with every row of a plan, in its order. Memory does not grow with their number. The rows are of one snapshot, unless the store
    /// reads a plan in the order of keys a page at a time, as SQLite does: then each page is of one snapshot.
    ///
    /// # Errors
    /// As [`Queries::find`], or what `visit` returns.
    fn visit(&self, plan: &QueryPlan, visit: &mut dyn FnMut(Vec<Value>) -> Result<()>) -> Result<()>;

    /// Returns the number of rows of a plan, ignoring its page.
    ///
    /// # Errors
    /// As [`Queries::find`].
    fn count(&self, plan: &QueryPlan) -> Result<u64>;

    /// Returns the rows of a plan and their number ignoring its page, from one snapshot.
    ///
    /// # Errors
    /// As [`Queries::find`].
    fn find_and_count(&self, plan: &QueryPlan) -> Result<(ResultRows, u64)>;

    /// Returns one value per aggregate over all rows of a plan, ignoring its page.
    ///
    /// # Errors
    /// As [`Queries::find`].
    fn aggregate(&self, plan: &QueryPlan, aggregates: &[Aggregate]) -> Result<Vec<Value>> {
        Ok(self.aggregate_together(&[AggregatedRows { plan, aggregates }])?.pop().unwrap_or_default())
    }

    /// Returns for each plan one value per aggregate over all its rows, ignoring its page. All are of one state of the store.
    ///
    /// # Errors
    /// As [`Queries::find`].
    fn aggregate_together(&self, wanted: &[AggregatedRows<'_>]) -> Result<Vec<Vec<Value>>>;

    /// Returns the groups of all rows of a plan, with one value per aggregate. The page of the plan is one of groups; its order is not used.
    ///
    /// # Errors
    /// As [`Queries::find`], and when there are more than [`MAX_GROUPS`] but the plan has no limit.
    fn group(&self, plan: &QueryPlan, aggregates: &[Aggregate], grouping: &Grouping) -> Result<Groups>;

    /// Describes how the database executes a plan.
    ///
    /// # Errors
    /// As [`Queries::find`].
    fn explain(&self, plan: &QueryPlan) -> Result<Vec<String>>;
}
