//! Query plans: conditions, order, page, columns, aggregates.

use super::error::Result;
use super::tenant::Tenant;
use std::sync::Arc;
use stook_catalogue::ids::{CollectionId, FieldId, LinkId};
use stook_catalogue::key::Key;
use stook_catalogue::value::{FieldType, Geometry, Value};

/// A query for records of one collection.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryPlan {
    /// The tenant whose records are read.
    pub tenant: Tenant,
    /// The collection.
    pub collection: CollectionId,
    /// Conditions, all of which must hold.
    pub conditions: Vec<Condition>,
    /// Order; records that it leaves equal are ordered by key. If empty, by key (or by the columns, for distinct rows).
    pub sort: Vec<SortKey>,
    /// A list of structs, by its field: a row for each of its elements instead of one per record.
    pub each: Option<FieldId>,
    /// The columns of a row.
    pub columns: Vec<PlanColumn>,
    /// Whether equal rows are returned once.
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
            sort: Vec::new(),
            each: None,
            columns: vec![PlanColumn::Key],
            distinct: false,
            any_order: false,
            offset: 0,
            limit: None,
        }
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
    /// A member, by index, of the struct that the row is for: [`QueryPlan::each`].
    Element(usize),
    /// A state field, by index.
    State(usize),
    /// The names of fields with a conflict.
    Conflict,
    /// The names of its tags, without those that stand for queries.
    Tag,
    /// Whether all targets of a link exist, by the link's index in the definition; no value if the link is empty.
    TargetsExist(LinkId),
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

/// A comparison with a column's value; for ranges it must hold for one number in them. A record without a value satisfies only `Exists(false)`,
/// `NotEqual` and `NotWildcard`.
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
    /// A geometry in this relation to another one.
    Related(GeometryRelation, Arc<Geometry>),
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
            Comparison::Prefix(_) | Comparison::Wildcard(_) | Comparison::NotWildcard(_) | Comparison::Exists(_) | Comparison::Related(..) => None,
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
    /// Smallest.
    Min,
    /// Largest.
    Max,
    /// Mean.
    Avg,
    /// The middle value, or the mean of the two middle ones.
    Median,
}

/// All functions with their names.
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
        FUNCTIONS.iter().find(|(function, _)| *function == self).map_or("?", |(_, name)| name)
    }
}

/// Returns the keys that a plan finds, all in memory. The key must be its first column.
///
/// # Errors
/// When the store fails.
pub fn keys_of(store: &dyn Queries, plan: &QueryPlan) -> Result<Vec<Key>> {
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

/// The mean of `count` whole numbers with this sum, rounded for types without fractions.
pub fn mean_of(sum: i128, count: i128, ty: &FieldType) -> Value {
    match ty.element() {
        FieldType::Integer | FieldType::Size => Value::Float(sum as f64 / count as f64),
        _ => Value::Int((sum as f64 / count as f64).round() as i64),
    }
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
    fn aggregate(&self, plan: &QueryPlan, aggregates: &[Aggregate]) -> Result<Vec<Value>>;

    /// Describes how the database executes a plan.
    ///
    /// # Errors
    /// As [`Queries::find`].
    fn explain(&self, plan: &QueryPlan) -> Result<Vec<String>>;
}
