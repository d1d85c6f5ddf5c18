//! What records say about each other: links, what is read through them, rollups, coverage.
//!
//! A link belongs to the collection of the *child* and leads to one record of the *target*'s collection, or to several. The child's
//! field of the link's name holds the target's key, or a list of keys. A child tells its target through an *edge*, which carries what the target's rules
//! need; so a target is settled from its edges alone. Where targets have no rules about children the field is all there is to
//! tell. Children may only tell what documents said of them, never what was read through a link: that is what keeps settling
//! finite.

use crate::eval::expression::{Evaluator, Expression, MemberReference};
use crate::model::definition::Collection;
use crate::model::key::{Key, KeyError, Template};
use crate::value::{FieldType, SmolStr, Value};
use regex::Regex;

/// A link.
#[derive(Debug, Clone)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// The name edges have in a store; the three numbers behind it are the link's, too.
    pub id: u32,
    /// The child's collection.
    pub child_collection: usize,
    /// The target's collection.
    pub target_collection: usize,
    /// The child's field that holds the target's key, or the keys of all targets.
    pub field: usize,
    /// Whether a child has all records as targets that the rule finds; else one.
    pub many: bool,
    /// Only children for which this holds have a target.
    pub when: Option<Expression>,
    /// Which record is the target.
    pub target_rule: TargetRule,
    /// A target exists because a child names it.
    pub create: bool,
    /// Groups a target's children.
    pub group: Option<Expression>,
    /// The child's interval: fields of type timestamp.
    pub span: Option<(usize, usize)>,
    /// Conditions on children that the target's rules ask about, in the order of their bits in edges.
    pub conditions: Vec<Expression>,
    /// The child's fields that edges carry.
    pub edge_fields: Vec<usize>,
    /// The target's fields that the child's fields read.
    pub read_fields: Vec<usize>,
    /// Whether the child's fields read if the target exists.
    pub reads_existence: bool,
}

impl Link {
    /// The name under which edges to targets are stored, by target, group and start.
    pub fn edges(&self) -> u32 {
        self.id
    }

    /// The name under which children wait for targets, by what must be equal, and start.
    pub fn children(&self) -> u32 {
        self.id | 1
    }

    /// The name under which targets can be found, by what must be equal, and start.
    pub fn targets(&self) -> u32 {
        self.id | 2
    }

    /// Whether the target has rules about its children.
    pub fn is_measured(&self) -> bool {
        self.create || !self.conditions.is_empty()
    }

    /// Whether children read anything of the target.
    pub fn is_read(&self) -> bool {
        self.reads_existence || !self.read_fields.is_empty()
    }

    /// Whether children read the target, which asks nothing of them: then edges would say no more than the children's field, which
    /// is indexed instead.
    pub fn is_only_read(&self) -> bool {
        !self.is_measured() && self.is_read()
    }

    /// The keys of a child's targets.
    pub fn leads_to<'v>(&self, values: &'v [Value]) -> impl Iterator<Item = &'v SmolStr> {
        values[self.field].elements().iter().filter_map(|value| match value {
            Value::Text(key) => Some(key),
            _ => None,
        })
    }

    /// Whether lists take part in finding the target.
    pub fn speaks_of_lists(&self, collections: &[Collection]) -> bool {
        let is_list = |collection: usize, field: usize| collections[collection].fields[field].golden_type().is_list();
        self.many
            || matches!(&self.target_rule, TargetRule::Same { fields, .. } if fields.iter().any(|(own, other)| is_list(self.child_collection, *own) || is_list(self.target_collection, *other)))
    }

    /// How many elements of a list, or combinations of elements of several, are looked for, or found, by equal fields.
    pub fn most_equal(&self, collection: &Collection, fields: impl Iterator<Item = usize>) -> usize {
        let is_timed = matches!(self.target_rule, TargetRule::Same { overlap: Some(_), .. });
        let lists = fields.filter(|field| collection.fields[*field].golden_type().is_list()).count();
        if is_timed || lists > 1 { MOST_COMBINED } else { MOST_TARGETS }
    }
}

/// Most targets of a record by one link.
pub const MOST_TARGETS: usize = 10_000;

/// Most combinations of elements where several lists must be equal, and most elements where intervals overlap: each is registered once
/// for every part of a long interval.
pub const MOST_COMBINED: usize = 64;

/// The field of a link by key: the key of the target, or, where the key has the elements of a list, the keys of all targets, each once, in
/// their order. A key that no record can have leads nowhere; one that is too long for that, or has a NUL character, is noted.
pub fn keyed(evaluator: &Evaluator, collection: &Collection, link: &str, when: Option<&Expression>, key: &Template, values: &[Value]) -> Value {
    let what = || format!("`when` of link `{link}`");
    if !when.is_none_or(|when| evaluator.holds_of(&what, when, collection, values)) {
        return Value::Null;
    }
    let filled = |element: Option<&Value>| {
        let filled = key.fill(|name| {
            let (index, field) = collection.field(name)?;
            let ty = field.golden_type();
            let value = element.filter(|_| ty.is_list()).or(values.get(index)).filter(|value| !value.is_null())?;
            Some(value.show(if element.is_some() { ty.element() } else { ty }).into())
        });
        filled.filter(|key| match Key::new(key.as_str()) {
            Ok(_) => true,
            Err(KeyError::Empty) => false,
            Err(error) => {
                evaluator.note_message(|| format!("link `{link}`: {error}; the value is missing"));
                false
            }
        })
    };
    match listed(collection, key) {
        None => filled(None).map_or(Value::Null, Value::text),
        Some(list) => {
            let keys = values[list].elements().iter().filter(|element| !element.is_null()).filter_map(|element| filled(Some(element)));
            in_order(keys.map(SmolStr::from).collect())
        }
    }
}

/// The list whose elements a key has, one for each target.
pub fn listed(collection: &Collection, key: &Template) -> Option<usize> {
    key.names().filter_map(|name| collection.field(name)).find(|(_, field)| field.golden_type().is_list()).map(|(index, _)| index)
}

/// Keys of targets as a link's field holds them: each once, in their order, as many as there may be.
pub fn in_order(mut keys: Vec<SmolStr>) -> Value {
    keys.sort_unstable();
    keys.dedup();
    keys.truncate(MOST_TARGETS);
    if keys.is_empty() { Value::Null } else { Value::List(keys.into_iter().map(Value::Text).collect()) }
}

/// The number of a name in a store: it must not change when others are added beside it. The last two bits are free.
pub fn id_of(name: &str) -> u32 {
    let hash = blake3::hash(name.as_bytes());
    let mut first = [0; 4];
    first.copy_from_slice(&hash.as_bytes()[..4]);
    // a store may keep it as a signed number
    (u32::from_le_bytes(first) >> 1) & !3
}

/// Which record is the target.
#[derive(Debug, Clone)]
pub enum TargetRule {
    /// The one with this key.
    Key(Template),
    /// One with equal fields.
    Same {
        /// The child's and the target's fields; of a list any element.
        fields: Vec<(usize, usize)>,
        /// Intervals that must overlap.
        overlap: Option<IntervalOverlap>,
    },
}

/// Intervals of child and target that must overlap. Of several targets the nearest to the middle of the child's interval is
/// chosen, then the earliest, then the one with the smallest key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntervalOverlap {
    /// The child's fields: from, to.
    pub mine: (usize, usize),
    /// The target's fields: from, to.
    pub theirs: (usize, usize),
    /// How far apart they may be, in microseconds.
    pub tolerance: i64,
    /// The usual length of an interval, in microseconds: longer ones cost a row for each.
    pub reach: i64,
}

/// How a field gets its value from other fields.
#[derive(Debug, Clone)]
pub enum Derivation {
    /// From golden values of the same record.
    SameRecord(Expression),
    /// The key of a link's target, or keys, from golden values of the same record: index of the link, condition, key.
    TargetKey(usize, Option<Expression>, Template),
    /// A member of the structs in a list of the same record, one value for each that has one: indexes of the field and of the member.
    Member(usize, usize),
    /// The names of the sources that say something of the record: of one that is asked, its service's.
    Sources,
    /// Settled: the key of the target of the link with this index, or the keys.
    LinkKeys(usize),
    /// Settled: from golden values, some of them settled or of linked records.
    ThroughLinks(Expression),
    /// Settled: from the record's children.
    Rollup(Rollup),
}

impl Derivation {
    /// Whether the settle machine gives the value, not the record's own contributions.
    pub fn is_settled(&self) -> bool {
        !matches!(self, Derivation::SameRecord(_) | Derivation::TargetKey(..) | Derivation::Member(..) | Derivation::Sources)
    }

    /// The expression, where there is one.
    pub fn expression(&self) -> Option<&Expression> {
        match self {
            Derivation::SameRecord(expression) | Derivation::ThroughLinks(expression) => Some(expression),
            _ => None,
        }
    }
}

/// A number about a record's children.
#[derive(Debug, Clone)]
pub struct Rollup {
    /// The link, by index.
    pub link: usize,
    /// Only children of these groups.
    pub groups: Option<Regex>,
    /// Only children that meet the link's condition with this number.
    pub condition: usize,
    /// How.
    pub function: RollupFunction,
    /// Of which of the fields that edges carry; nothing for `count`.
    pub edge_field: Option<usize>,
}

/// Functions over children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollupFunction {
    /// Their number.
    Count,
    /// Sum.
    Sum,
    /// Smallest.
    Min,
    /// Largest.
    Max,
    /// Number of different values; elements of lists one by one.
    Distinct,
}

/// How much of a record its children cover.
#[derive(Debug, Clone)]
pub struct Coverage {
    /// Its name.
    pub name: String,
    /// The parent's collection.
    pub parent: usize,
    /// The collection of its rows.
    pub rows: usize,
    /// Only parents for which this holds have rows.
    pub when: Option<Expression>,
    /// What is measured.
    pub kind: CoverageKind,
}

/// What a coverage measures.
#[derive(Debug, Clone)]
pub enum CoverageKind {
    /// Children by group.
    Children(GroupedChildren),
    /// Runs of a value: a row for each.
    Runs {
        /// The link, by index.
        link: usize,
        /// Only children that meet the link's condition with this number.
        condition: usize,
        /// Which of the fields that edges carry.
        told: usize,
        /// Longest gap inside a run, in microseconds.
        max_gap: i64,
    },
    /// Sums over the rows of another coverage.
    Total(CoverageTotal),
}

/// Children measured by group.
#[derive(Debug, Clone)]
pub struct GroupedChildren {
    /// The link, by index.
    pub link: usize,
    /// Only children that meet the link's condition with this number.
    pub condition: usize,
    /// Groups that have a row without children, too: a list of texts. Others have no expected value then.
    pub groups: Option<Expression>,
    /// By group, the first that matches.
    pub cases: Vec<MeasureCase>,
}

/// How children of some groups are measured.
#[derive(Debug, Clone)]
pub struct MeasureCase {
    /// Matches the group's beginning; nothing for all.
    pub pattern: Option<Regex>,
    /// How.
    pub measure: Measure,
    /// What becomes of the measure: CEL over `value`, `group` and the parent's fields.
    pub value: Option<Expression>,
    /// What it should be: CEL over `group` and the parent's fields.
    pub expected: Option<Expression>,
    /// What is missing.
    pub gaps: Option<GapRule>,
}

/// A measure of children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Measure {
    /// The length of the union of their intervals, in microseconds.
    Union,
    /// Their number.
    Count,
    /// The number of different values.
    Distinct {
        /// Of which of the fields that edges carry.
        edge_fields: Vec<usize>,
        /// Starts no farther apart than this, in microseconds, count as one; nothing where starts do not matter.
        tolerance: Option<i64>,
    },
}

impl Measure {
    /// The type of values.
    pub fn ty(&self) -> FieldType {
        if *self == Measure::Union { FieldType::Duration } else { FieldType::Integer }
    }
}

/// Intervals that no child covers.
#[derive(Debug, Clone)]
pub struct GapRule {
    /// Inside which interval: CEL over `group` and the parent's fields.
    pub within: (Expression, Expression),
    /// A first child that comes no later than this after the beginning moves the end along, and leaves no gap.
    pub start_tolerance: Option<i64>,
}

/// Sums over the rows of another coverage that expect something.
#[derive(Debug, Clone)]
pub struct CoverageTotal {
    /// The other coverage of the same parent, by index.
    pub of: usize,
    /// The group a row is summed into: CEL over `group`.
    pub by: Expression,
    /// What of a row is summed: CEL over `group`, `by`, `value`, `expected`, `adjusted` and `rows` by group; default `adjusted`.
    pub value: Option<Expression>,
    /// The same for what is expected; default `expected`.
    pub expected: Option<Expression>,
}

/// The names of fields that every coverage has, in their order behind the parent's key.
pub const COVERAGE_FIELDS: [&str; 7] = ["group", "value", "expected", "adjusted", "percentage", "status", "gaps"];

/// The names of fields of runs, in their order behind the parent's key.
pub const RUN_FIELDS: [&str; 4] = ["value", "start", "stop", "duration"];

/// The members of links that an expression reads.
pub fn members_of<'e>(expression: &'e Expression, name: &'e str) -> impl Iterator<Item = &'e MemberReference> {
    expression.members().iter().filter(move |member| member.of == name)
}
