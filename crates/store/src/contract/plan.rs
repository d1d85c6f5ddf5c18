//! What can be asked of a store: conditions, order, page, columns, aggregates.

use super::error::Result;
use super::tenant::Tenant;
use std::sync::Arc;
use stook_catalogue::ids::{CollectionId, FieldId, LinkId};
use stook_catalogue::key::Key;
use stook_catalogue::value::{FieldType, Geometry, Value};

/// A question about the records of one collection.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryPlan {
    /// Whose records.
    pub tenant: Tenant,
    /// The collection's index.
    pub collection: CollectionId,
    /// All must hold.
    pub conditions: Vec<Condition>,
    /// Order; the key decides between equals. Without it, by key (or by the columns, for distinct rows).
    pub sort: Vec<SortKey>,
    /// A list of structs, by the field's index: a row for each of them instead of one for the record.
    pub each: Option<FieldId>,
    /// What a row consists of.
    pub columns: Vec<PlanColumn>,
    /// Equal rows once.
    pub distinct: bool,
    /// Rows that `sort` leaves equal come as they are found, which may be much cheaper, instead of by key.
    pub any_order: bool,
    /// Rows to leave out at the front.
    pub offset: u64,
    /// Most rows; `None` for all.
    pub limit: Option<u64>,
}

impl QueryPlan {
    /// Every record of a collection: its key, in the order of keys.
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
    /// A golden field, by index.
    Field(FieldId),
    /// A member, by index, of the struct that the row is of: [`QueryPlan::each`].
    Element(usize),
    /// A state field, by index.
    State(usize),
    /// The names of fields on which contributors disagree.
    Conflict,
    /// The names of the tags it was given; those of queries are not among them.
    Tag,
    /// Whether all records exist that a link of it leads to, by the link's index in the definition; nothing where it leads nowhere.
    TargetsExist(LinkId),
}

impl PlanColumn {
    /// The golden field that it is; nothing of other parts.
    pub fn field(self) -> Option<FieldId> {
        match self {
            PlanColumn::Field(field) => Some(field),
            _ => None,
        }
    }
}

/// A condition on one column. On a list it holds when it holds for any element.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// The column.
    pub column: PlanColumn,
    /// What must hold of it.
    pub test: Comparison,
}

/// What must hold of a value; of ranges it must hold of one number in them. A record without a value satisfies only `ExistenceRule(false)`, `NotEqual` and `NotWildcard`.
#[derive(Debug, Clone, PartialEq)]
pub enum Comparison {
    /// Equal.
    Equal(Value),
    /// Not equal; for lists: no element is.
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
    /// Text that begins so.
    Prefix(String),
    /// Text with these pieces in this order; between two pieces, and before an empty first or after an empty last one,
    /// anything may stand: `a*b*` is `["a", "b", ""]`.
    Wildcard(Vec<String>),
    /// Text that does not match [`Comparison::Wildcard`].
    NotWildcard(Vec<String>),
    /// Has a value, or has none.
    Exists(bool),
    /// A geometry that lies so to this one.
    Lies(GeometryRelation, Arc<Geometry>),
}

/// How a geometry lies to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeometryRelation {
    /// They have a point in common.
    Intersects,
    /// All of its points are points of the other one.
    Within,
}

impl Comparison {
    /// The numbers that satisfy it, as ranges, for columns of type ranges. `NotEqual` is not told apart from `Equal`.
    pub(crate) fn windows(&self) -> Option<Vec<(i64, i64)>> {
        let one = |value: &Value| value.as_int().map(|number| (number, number));
        match self {
            Comparison::Equal(value) | Comparison::NotEqual(value) => Some(vec![one(value)?]),
            Comparison::In(values) => values.iter().map(one).collect(),
            Comparison::Range { low, high } => {
                let bound = |bound: &Option<(Value, bool)>, step: i64, none: i64| match bound {
                    None => Some(none),
                    Some((value, included)) => Some(value.as_int()?.saturating_add(if *included { 0 } else { step })),
                };
                let window = (bound(low, 1, i64::MIN)?, bound(high, -1, i64::MAX)?);
                Some(vec![window].into_iter().filter(|(low, high)| low <= high).collect())
            }
            Comparison::Prefix(_) | Comparison::Wildcard(_) | Comparison::NotWildcard(_) | Comparison::Exists(_) | Comparison::Lies(..) => None,
        }
    }
}

/// A sort criterion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortKey {
    /// The column.
    pub column: PlanColumn,
    /// Largest first.
    pub descending: bool,
}

/// The rows of a page.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ResultRows {
    /// Values in the order of the plan's columns.
    pub rows: Vec<Vec<Value>>,
}

/// A number about all rows of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aggregate {
    /// How.
    pub function: AggregateFunction,
    /// Of what; the elements of lists count one by one, absent values not at all.
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
    /// Its name in queries.
    pub fn name(self) -> &'static str {
        FUNCTIONS.iter().find(|(known, _)| *known == self).map_or("?", |(_, name)| name)
    }
}

/// The keys of a plan whose rows begin with them, all in memory.
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

/// The median of values whose two middle ones are these.
pub fn middle_of(low: &Value, high: &Value, ty: &FieldType) -> Value {
    match (low, high) {
        (Value::Int(low), Value::Int(high)) if (low ^ high) & 1 == 0 => Value::Int(low.midpoint(*high)),
        (Value::Int(low), Value::Int(high)) => mean_of(i128::from(*low) + i128::from(*high), 2, ty),
        // halves first: the sum of two large floats is none
        (Value::Float(low), Value::Float(high)) => Value::Float(if low == high { *low } else { low / 2.0 + high / 2.0 }),
        _ => Value::Null,
    }
}

/// The mean of whole numbers, rounded for types that have no fractions.
pub fn mean_of(sum: i128, count: i128, ty: &FieldType) -> Value {
    match ty.element() {
        FieldType::Integer | FieldType::Size => Value::Float(sum as f64 / count as f64),
        _ => Value::Int((sum as f64 / count as f64).round() as i64),
    }
}

/// Answers plans.
pub trait Queries {
    /// Rows that satisfy a plan, in its order.
    ///
    /// # Errors
    /// When the plan is not one of this catalogue, or the database fails.
    fn find(&self, plan: &QueryPlan) -> Result<ResultRows> {
        let mut rows = Vec::new();
        self.visit(plan, &mut |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(ResultRows { rows })
    }

    /// Calls `visit` with every row of a plan, in its order, from one snapshot. Memory does not grow with their number.
    ///
    /// # Errors
    /// As [`Queries::find`], or what `visit` says.
    fn visit(&self, plan: &QueryPlan, visit: &mut dyn FnMut(Vec<Value>) -> Result<()>) -> Result<()>;

    /// How many rows satisfy a plan, its page aside.
    ///
    /// # Errors
    /// As [`Queries::find`].
    fn count(&self, plan: &QueryPlan) -> Result<u64>;

    /// The rows of a plan's page and how many there are without it, of one snapshot.
    ///
    /// # Errors
    /// As [`Queries::find`].
    fn find_and_count(&self, plan: &QueryPlan) -> Result<(ResultRows, u64)>;

    /// One value per aggregate over all rows of a plan, its page aside.
    ///
    /// # Errors
    /// As [`Queries::find`].
    fn aggregate(&self, plan: &QueryPlan, aggregates: &[Aggregate]) -> Result<Vec<Value>>;

    /// How the database answers a plan, in words.
    ///
    /// # Errors
    /// As [`Queries::find`].
    fn explain(&self, plan: &QueryPlan) -> Result<Vec<String>>;
}
