//! The keywords of links, and of rollups and coverages over them.

use super::keywords::{BOOLEAN, CEL, INDEX, Keyword, NAMES, TEXT, word};

/// A link.
pub const LINK: &[Keyword] = &[
    word("to", r##"{"$ref":"#/$defs/name"}"##, "The collection of the linked record."),
    word("when", CEL, "Only records for which this holds have one."),
    word("key", TEXT, "The linked record's key: a field, or a template such as {satellite}-{number}; of a list a record for each element."),
    word(
        "same",
        r##"{"oneOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"type":"string"}},{"type":"object","minProperties":1,"additionalProperties":{"type":"string"}}]}"##,
        "Fields that are equal: own to the linked record's; of lists any element. By an own list all such records are linked.",
    ),
    word(
        "match",
        r##"{"type":"array","minItems":1,"maxItems":16,"items":{"oneOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"type":"string"}},{"type":"object","minProperties":1,"additionalProperties":{"type":"string"}}]}}"##,
        "Criteria that are tried in order: a field, several joined by +, or own fields to the linked record's; the first by which any record is found counts.",
    ),
    word(
        "several",
        r#"{"enum":["fail","smallest","every","merge"]}"#,
        "What holds if a criterion of match finds several records: fail (default; none is linked, and a warning names them), smallest (the one with the smallest key), every, or merge: records of this collection that share values of any criterion, directly or through others, have one linked record, that of the smallest of their keys.",
    ),
    word("overlap", r##"{"$ref":"#/$defs/overlap"}"##, "Intervals that overlap, too; the nearest is linked."),
    word("create", BOOLEAN, "Create the linked record if it does not exist; for collections whose key is a field."),
    word("index", INDEX, "Kinds of questions about the link answered without reading every record."),
    word("group", CEL, "The group of the linked record's children that this one is in."),
    word("span", r#"{"type":"array","minItems":2,"maxItems":2,"items":{"type":"string"}}"#, "The interval of a child: two fields of type timestamp."),
];

/// Intervals that overlap.
pub const OVERLAP: &[Keyword] = &[
    word("mine", r#"{"type":"array","minItems":2,"maxItems":2,"items":{"type":"string"}}"#, "Own fields: from, to."),
    word("theirs", r#"{"type":"array","minItems":2,"maxItems":2,"items":{"type":"string"}}"#, "The linked record's fields: from, to."),
    word("tolerance", TEXT, "How far apart they may be; default 0s."),
    word("reach", TEXT, "Typical length of an interval; longer ones cost more. Default 1h."),
];

/// An aggregate of children.
pub const ROLLUP: &[Keyword] = &[
    word("over", TEXT, "The link: COLLECTION.LINK."),
    word("groups", TEXT, "Only children whose group begins with this regular expression."),
    word("where", CEL, "Only children for which this holds."),
    word("count", BOOLEAN, "Their number."),
    word("sum", TEXT, "The sum of a field."),
    word("min", TEXT, "The smallest value of a field."),
    word("max", TEXT, "The largest value of a field."),
    word("distinct", TEXT, "The number of different values of a field."),
];

/// A coverage: a collection of rows about each record.
pub const COVERAGE: &[Keyword] = &[
    word("over", TEXT, "The children's link: COLLECTION.LINK."),
    word("of", r##"{"$ref":"#/$defs/name"}"##, "The coverage whose rows are summed up."),
    word("by", CEL, "The group in which a row of that is summed; default: all in one."),
    word("when", CEL, "Only records for which this holds have rows."),
    word("where", CEL, "Only children for which this holds count."),
    word("groups", CEL, "Groups that have a row without children, too; children of others are expected nowhere."),
    word("with", NAMES, "Fields of the record that its rows repeat."),
    word("cases", r##"{"type":"array","items":{"$ref":"#/$defs/coverage_case"}}"##, "What is measured by group; the first that matches."),
    word("runs", r##"{"$ref":"#/$defs/runs"}"##, "A row for each run of a value."),
];

/// How children are measured.
pub const COVERAGE_CASE: &[Keyword] = &[
    word(
        "measure",
        r##"{"oneOf":[{"enum":["union","count"]},{"$ref":"#/$defs/distinct"}]}"##,
        "union: length of the union of their intervals; count: their number.",
    ),
    word("value", CEL, "What becomes of the measure, over `value`, `group` and the record's fields; in a sum: what is added of a row."),
    word("expected", CEL, "What it should be, over `group` and the record's fields; in a sum: what is added of a row."),
    word("gaps", r##"{"$ref":"#/$defs/gaps"}"##, "Intervals that no child covers."),
    word("overlaps", r##"{"$ref":"#/$defs/overlaps"}"##, "Intervals that more than one child covers."),
];

/// The groups of a case.
pub const COVERAGE_MATCH: &[Keyword] = &[word("match", TEXT, "A regular expression on the group's beginning.")];

/// Numbers of different values of children.
pub const DISTINCT: &[Keyword] = &[
    word("distinct", NAMES, "Fields whose different values are counted."),
    word("near", TEXT, "Also distinguish by start time, treating starts within this duration as equal."),
];

/// Intervals that no child covers.
pub const GAPS: &[Keyword] = &[
    word("within", r#"{"type":"array","minItems":2,"maxItems":2,"items":{"type":"string"}}"#, "The interval that should be covered: from, to."),
    word("until", CEL, "Tolerance at the end: where anything is covered, the interval ends here instead."),
    word("shift", TEXT, "Tolerance at the start: a first child that starts within it, or before, leaves no gap, and the end is shifted accordingly."),
];

/// Intervals that more than one child covers.
pub const OVERLAPS: &[Keyword] = &[word("longer", TEXT, "Only intervals that are longer than this duration count; 0s for all.")];

/// Runs of a value.
pub const RUNS: &[Keyword] =
    &[word("value", TEXT, "The children's field."), word("max_gap", TEXT, "Children of a run are no farther apart than this; default 0s.")];
