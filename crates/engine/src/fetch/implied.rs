//! What the conditions of a query imply for other fields of the same record, and for records at the other end of a link.
//!
//! A condition on a field implies the same condition on its copies, and on the field that it copies. So `site dataset=D`, where
//! `datasets` is derived as `blocks.dataset`, needs the blocks with `dataset=D`; and a link by equal fields passes on conditions on the
//! field at this end.

use stook_catalogue::definition::{Catalogue, Collection, KeyDefinition};
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::key::{Template, TemplatePart};
use stook_catalogue::links::{Derivation, LinkEnd, LinkedRead, TargetRule};
use stook_catalogue::value::{FieldType, Value, from_text};
use stook_store::plan::{Comparison, Condition, PlanColumn};

/// The maximum number of alternative sets of conditions.
const MAX_ALTERNATIVES: usize = 8;

/// A pair of fields at the two ends of a link that are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EqualFields {
    /// The field of the record that reads.
    pub own: PlanColumn,
    /// The field of the record that is read.
    pub other: PlanColumn,
}

/// A condition on linked records that follows from a condition on a field.
pub(super) struct LinkedCondition {
    pub read: LinkedRead,
    /// What at least one of them must satisfy.
    pub test: Option<Condition>,
}

/// Whether a condition needs a value that satisfies it.
fn is_positive(test: &Comparison) -> bool {
    !matches!(test, Comparison::NotEqual(_) | Comparison::NotWildcard(_) | Comparison::NotAmong(_) | Comparison::Exists(_))
}

/// The column of the key: its field, if there is one.
pub(super) fn key_column(collection: &Collection) -> PlanColumn {
    collection.key_field().map_or(PlanColumn::Key, PlanColumn::Field)
}

fn type_of(collection: &Collection, column: PlanColumn) -> &FieldType {
    match column {
        PlanColumn::Field(field) => collection.fields[field].golden_type().element(),
        _ => &FieldType::Text,
    }
}

/// Converts a value to the type of another column.
pub(super) fn converted(value: &Value, (from, of): (&Collection, PlanColumn), (to, column): (&Collection, PlanColumn)) -> Option<Value> {
    let (from, to) = (type_of(from, of), type_of(to, column));
    if from == to { Some(value.clone()) } else { from_text(&value.show(from), to, None).ok() }.filter(|value| *value != Value::Null)
}

/// The fields of the same record that a field copies, if it does nothing else.
fn copied(collection: &Collection, field: FieldId) -> Option<Vec<FieldId>> {
    let Some(Derivation::SameRecord(expression)) = &collection.fields[field].derive else { return None };
    let paths = expression.copies()?;
    paths.iter().map(|path| Some(collection.field(&path.join("."))?.0)).collect()
}

/// The single field with a single value that a field is or copies.
fn single_origin(collection: &Collection, field: FieldId) -> Option<FieldId> {
    let is_one = |field: FieldId| !collection.fields[field].golden_type().is_list() && collection.member(field).is_none();
    match copied(collection, field).as_deref() {
        Some([only]) => Some(*only).filter(|only| is_one(*only)),
        _ => Some(field).filter(|field| is_one(*field)),
    }
}

/// Adds the conditions that follow for copies and for copied fields; returns several sets if a field copies one of several.
pub(super) fn with_implied(collection: &Collection, conditions: &[Condition]) -> Vec<Vec<Condition>> {
    let mut all = vec![Vec::new()];
    for condition in conditions {
        let own = |column: PlanColumn| Condition { column, test: condition.test.clone() };
        let field = match condition.column {
            PlanColumn::Field(field) => field,
            PlanColumn::Key => match collection.key_field().filter(|field| collection.fields[*field].ty == FieldType::Text) {
                Some(field) => field,
                None => {
                    all.iter_mut().for_each(|set| set.push(condition.clone()));
                    continue;
                }
            },
            _ => continue,
        };
        let is_known = |set: &[Condition], new: &Condition| set.iter().any(|known| known == new);
        let originals = copied(collection, field).filter(|_| is_positive(&condition.test)).unwrap_or_default();
        let copies = collection.fields.ids().filter(|copy| *copy != field && single_origin(collection, *copy) == Some(field));
        let copies: Vec<FieldId> = copies.filter(|copy| copied(collection, *copy).is_some()).collect();
        let mut sets = Vec::new();
        for set in all {
            let with = |original: Option<FieldId>| {
                let mut set = set.clone();
                for field in std::iter::once(field).chain(original).chain(copies.iter().copied()) {
                    let new = own(PlanColumn::Field(field));
                    if !is_known(&set, &new) {
                        set.push(new);
                    }
                }
                set
            };
            match originals.as_slice() {
                [] => sets.push(with(None)),
                originals => sets.extend(originals.iter().map(|original| with(Some(*original)))),
            }
        }
        if sets.len() > MAX_ALTERNATIVES {
            return vec![conditions.to_vec()];
        }
        all = sets;
    }
    all
}

/// What a condition on a field that is read through links requires of the linked records.
pub(super) fn linked_conditions(catalogue: &Catalogue, index: CollectionId, condition: &Condition) -> Vec<LinkedCondition> {
    let field = match condition.column {
        PlanColumn::Field(field) => field,
        PlanColumn::TargetsExist(link) => {
            let read = LinkedRead { link, end: LinkEnd::Targets, fields: Vec::new() };
            return vec![LinkedCondition { read, test: None }];
        }
        _ => return Vec::new(),
    };
    let narrow = is_positive(&condition.test).then(|| conditions_on_copies(catalogue, index, field, &condition.test)).flatten();
    narrow.unwrap_or_else(|| catalogue.linked_reads(index, field).into_iter().map(|read| LinkedCondition { read, test: None }).collect())
}

/// The same for a field that only copies what it reads.
fn conditions_on_copies(catalogue: &Catalogue, index: CollectionId, field: FieldId, test: &Comparison) -> Option<Vec<LinkedCondition>> {
    let collection = &catalogue.collections[index];
    let end = LinkEnd::Targets;
    let key_of = |target: &Collection| {
        let column = key_column(target);
        (type_of(target, column) == &FieldType::Text).then_some(column)
    };
    match &collection.fields[field].derive {
        Some(Derivation::LinkKeys(link)) => {
            let target = &catalogue.collections[catalogue.links[*link].target_collection];
            let test = Condition { column: key_of(target)?, test: test.clone() };
            Some(vec![LinkedCondition { read: LinkedRead { link: *link, end, fields: Vec::new() }, test: Some(test) }])
        }
        Some(Derivation::ThroughLinks(expression)) => {
            let one = |path: Vec<&str>| {
                let (first, rest) = path.split_first()?;
                let (link, own) = catalogue.link_of(index, first)?;
                let target = &catalogue.collections[own.target_collection];
                let rest = rest.join(".");
                let column = match target.field(&rest) {
                    Some((field, _)) => PlanColumn::Field(field),
                    None if rest == "key" => key_of(target)?,
                    None => return None,
                };
                let fields = if let PlanColumn::Field(field) = column { vec![field] } else { Vec::new() };
                // a value that is converted when it is copied would compare differently
                let is_same = type_of(target, column) == type_of(collection, PlanColumn::Field(field));
                is_same.then(|| LinkedCondition { read: LinkedRead { link, end, fields }, test: Some(Condition { column, test: test.clone() }) })
            };
            expression.copies()?.into_iter().map(one).collect()
        }
        _ => None,
    }
}

/// The pairs of fields that are equal at both ends of a link, seen from the end that reads.
pub(super) fn equal_fields(catalogue: &Catalogue, read: &LinkedRead) -> Vec<EqualFields> {
    let link = &catalogue.links[read.link];
    let (child, target) = (&catalogue.collections[link.child_collection], &catalogue.collections[link.target_collection]);
    let pairs: Vec<(PlanColumn, PlanColumn)> = match &link.target_rule {
        TargetRule::Same { criteria, .. } => match criteria.as_slice() {
            [fields] => fields.iter().map(|(own, other)| (PlanColumn::Field(*own), PlanColumn::Field(*other))).collect(),
            // any of several criteria may be the one that counts
            _ => Vec::new(),
        },
        TargetRule::Merged { .. } => Vec::new(),
        TargetRule::Key(template) => match (composed(template, child, target), only_name(template), read.end) {
            (Some(pairs), ..) => pairs,
            (None, Some(name), _) if child.field(name).is_some() => {
                child.field(name).map(|(field, _)| (PlanColumn::Field(field), key_column(target))).into_iter().collect()
            }
            // a child knows the keys of its targets, but a target does not know those of its children
            (None, _, LinkEnd::Targets) => vec![(PlanColumn::Field(link.field), key_column(target))],
            (None, _, LinkEnd::Children) => Vec::new(),
        },
    };
    let turned = |(child, target): (PlanColumn, PlanColumn)| match read.end {
        LinkEnd::Targets => EqualFields { own: child, other: target },
        LinkEnd::Children => EqualFields { own: target, other: child },
    };
    pairs.into_iter().map(turned).collect()
}

/// The pairs of fields of a link and of its target that stand at the same places of keys made of several fields.
fn composed(link: &Template, child: &Collection, target: &Collection) -> Option<Vec<(PlanColumn, PlanColumn)>> {
    let KeyDefinition::Template(key) = &target.key else { return None };
    if link.parts.len() != key.parts.len() {
        return None;
    }
    let mut pairs = Vec::new();
    for parts in link.parts.iter().zip(&key.parts) {
        match parts {
            (TemplatePart::Literal(own), TemplatePart::Literal(other)) if own == other => {}
            (TemplatePart::Name(own), TemplatePart::Name(other)) => {
                let (own, other) = (child.field(own)?.0, target.field(other)?.0);
                pairs.push((PlanColumn::Field(own), PlanColumn::Field(other)));
            }
            _ => return None,
        }
    }
    Some(pairs)
}

/// The name, if a template consists of nothing else.
fn only_name(template: &Template) -> Option<&str> {
    match template.parts.as_slice() {
        [TemplatePart::Name(name)] => Some(name),
        _ => None,
    }
}

/// The conditions on the records that are read that follow from conditions on those that read.
pub(super) fn passed_on(catalogue: &Catalogue, index: CollectionId, read: &LinkedRead, conditions: &[Condition]) -> Vec<Condition> {
    let (own, other) = (&catalogue.collections[index], &catalogue.collections[read.collection(catalogue)]);
    let mut passed = Vec::new();
    for set in [with_implied(own, conditions)].iter().filter(|sets| sets.len() == 1).flatten() {
        for pair in equal_fields(catalogue, read) {
            let holds_of_all = match pair.own {
                PlanColumn::Field(field) => single_origin(own, field).is_some(),
                _ => true,
            };
            let is_same = type_of(own, pair.own) == type_of(other, pair.other);
            if holds_of_all && is_same {
                let own = set.iter().filter(|condition| condition.column == pair.own && is_positive(&condition.test));
                passed.extend(own.map(|condition| Condition { column: pair.other, test: condition.test.clone() }));
            }
        }
    }
    passed
}
