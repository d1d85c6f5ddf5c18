//! What a MARCspec finds in a record.

use crate::marcspec::{FieldPart, FieldSpec, MarcSpec, PositionRange, SpecOperator, SubSpec, SubTerm, SubTermSet, SubfieldSpec, TagPattern};
use crate::record::{MarcField, MarcRecord};
use std::borrow::Cow;

impl MarcSpec {
    /// Calls `found` with every value and the number of its field, from 0, in the order of the record. The leader's number is 0, too.
    pub fn select<'r>(&self, record: &'r MarcRecord<'_>, found: &mut dyn FnMut(Cow<'r, str>, u32)) {
        select_from_record(record, self, found);
    }

    /// Every value, in the order of the record.
    pub fn values<'r>(&self, record: &'r MarcRecord<'_>) -> Vec<Cow<'r, str>> {
        let mut values = Vec::new();
        self.select(record, &mut |value, _| values.push(value));
        values
    }
}

impl MarcSpec {
    /// The numbers of the fields of a record that it selects from, in the order of the record.
    pub fn fields(&self, record: &MarcRecord<'_>) -> Vec<u32> {
        let total = record.tagged(|tag| self.tag.matches(tag)).count();
        let wanted = self.occurrences.map_or(0..total, |range| range.resolve(total));
        let all = record.tagged(|tag| self.tag.matches(tag)).enumerate();
        let chosen = all.filter(|(occurrence, (_, field))| {
            wanted.contains(occurrence) && self.conditions.iter().all(|condition| is_satisfied(record, *field, None, condition))
        });
        chosen.map(|(_, (number, _))| number as u32).collect()
    }
}

impl FieldSpec {
    /// Calls `found` with every value in the field with this number.
    pub fn select<'r>(&self, record: &'r MarcRecord<'_>, number: u32, found: &mut dyn FnMut(Cow<'r, str>, u32)) {
        let Some(field) = record.field_at(number) else { return };
        if self.conditions.iter().all(|condition| is_satisfied(record, field, None, condition)) {
            select_part(record, field, &self.part, number, found);
        }
    }
}

/// Calls `found` with every value of `spec` and the number of its field, from 0.
fn select_from_record<'d>(record: &'d MarcRecord<'_>, spec: &MarcSpec, found: &mut dyn FnMut(Cow<'d, str>, u32)) {
    if spec.tag == TagPattern::LEADER {
        let leader = MarcField { tag: *b"LDR", data: record.leader() };
        if spec.conditions.iter().all(|condition| is_satisfied(record, leader, None, condition)) {
            select_from_control(leader.data, &spec.part, 0, found);
        }
        return;
    }
    let total = match spec.occurrences {
        None => 0,
        Some(_) => record.tagged(|tag| spec.tag.matches(tag)).count(),
    };
    let wanted_range = spec.occurrences.map(|range| range.resolve(total));
    for (occurrence, (number, field)) in record.tagged(|tag| spec.tag.matches(tag)).enumerate() {
        let in_range = wanted_range.as_ref().is_none_or(|wanted_range| wanted_range.contains(&occurrence));
        if in_range && spec.conditions.iter().all(|condition| is_satisfied(record, field, None, condition)) {
            select_part(record, field, &spec.part, number as u32, found);
        }
    }
}

fn select_part<'d>(record: &'d MarcRecord<'_>, field: MarcField<'d>, part: &FieldPart, number: u32, found: &mut dyn FnMut(Cow<'d, str>, u32)) {
    if *part == FieldPart::Tag {
        return found(Cow::Owned(String::from_utf8_lossy(&field.tag).into_owned()), number);
    }
    if field.is_control() || field.tag == *b"LDR" {
        return select_from_control(field.data, part, number, found);
    }
    match part {
        FieldPart::Whole => field.subfields().for_each(|(_, value)| found(Cow::Borrowed(value), number)),
        FieldPart::Indicator(which) => found(Cow::Borrowed(field.indicators()[usize::from(*which) - 1]), number),
        FieldPart::Characters(_) | FieldPart::Tag => {}
        FieldPart::Subfields(specs) => select_subfields(record, field, specs, number, found),
    }
}

fn select_from_control<'d>(data: &'d str, part: &FieldPart, number: u32, found: &mut dyn FnMut(Cow<'d, str>, u32)) {
    match part {
        FieldPart::Whole => found(Cow::Borrowed(data), number),
        FieldPart::Characters(range) => {
            let text = characters(data, range);
            if !text.is_empty() {
                found(Cow::Borrowed(text), number);
            }
        }
        FieldPart::Indicator(_) | FieldPart::Subfields(_) | FieldPart::Tag => {}
    }
}

fn characters<'d>(data: &'d str, range: &PositionRange) -> &'d str {
    if data.is_ascii() {
        return &data[range.resolve(data.len())];
    }
    let wanted_range = range.resolve(data.chars().count());
    let byte = |position: usize| data.char_indices().nth(position).map_or(data.len(), |(at, _)| at);
    &data[byte(wanted_range.start)..byte(wanted_range.end)]
}

fn select_subfields<'d>(
    record: &'d MarcRecord<'_>,
    field: MarcField<'d>,
    specs: &[SubfieldSpec],
    number: u32,
    found: &mut dyn FnMut(Cow<'d, str>, u32),
) {
    for (index, (code, value)) in field.subfields().enumerate() {
        let code_byte = code.as_bytes()[0].to_ascii_lowercase();
        for spec in specs {
            if !(spec.first..=spec.last).contains(&code_byte) {
                continue;
            }
            if let Some(range) = spec.occurrences {
                let has_same_code = |(_, (other, _)): &(usize, (&str, &str))| *other == code;
                let total = field.subfields().enumerate().filter(has_same_code).count();
                let index_among_same = field.subfields().enumerate().filter(has_same_code).filter(|(position, _)| *position < index).count();
                if !range.resolve(total).contains(&index_among_same) {
                    continue;
                }
            }
            if !spec.conditions.iter().all(|condition| is_satisfied(record, field, Some(value), condition)) {
                continue;
            }
            let text = spec.characters.as_ref().map_or(value, |range| characters(value, range));
            found(Cow::Borrowed(text), number);
            break;
        }
    }
}

/// A condition holds when one of its tests does.
fn is_satisfied(record: &MarcRecord<'_>, field: MarcField<'_>, value: Option<&str>, condition: &SubSpec) -> bool {
    condition.0.iter().any(|test| is_test_true(record, field, value, test))
}

fn is_test_true(record: &MarcRecord<'_>, field: MarcField<'_>, value: Option<&str>, test: &SubTermSet) -> bool {
    let right = operand(record, field, &test.right);
    match test.operator {
        SpecOperator::Exists => return !right.is_empty(),
        SpecOperator::Missing => return right.is_empty(),
        _ => {}
    }
    let left = match &test.left {
        Some(left) => operand(record, field, left),
        None => value.or((field.is_control()).then_some(field.data)).map(str::to_owned).into_iter().collect(),
    };
    let any = |compare: fn(&str, &str) -> bool| left.iter().any(|left| right.iter().any(|right| compare(left, right)));
    match test.operator {
        SpecOperator::Equal => any(|left, right| left == right),
        SpecOperator::NotEqual => !any(|left, right| left == right),
        SpecOperator::Includes => any(|left, right| left.contains(right)),
        SpecOperator::NotIncludes => !any(|left, right| left.contains(right)),
        SpecOperator::Exists | SpecOperator::Missing => false,
    }
}

fn operand(record: &MarcRecord<'_>, field: MarcField<'_>, operand: &SubTerm) -> Vec<String> {
    let mut values = Vec::new();
    match operand {
        SubTerm::Literal(text) => values.push(text.clone()),
        SubTerm::Abbreviated(part) => select_part(record, field, part, 0, &mut |text, _| values.push(text.into_owned())),
        SubTerm::Spec(spec) => select_from_record(record, spec, &mut |text, _| values.push(text.into_owned())),
    }
    values
}
