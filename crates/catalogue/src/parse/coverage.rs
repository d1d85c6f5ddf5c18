//! Parses coverages, and makes the collections of their rows.

use super::expressions::{Types, golden_types};
use super::fields::placeholder;
use super::keywords;
use super::links::TEXT;
use super::parser::{DefinitionParser, NamedNode};
use super::yaml::{Node, NodeKind};
use crate::eval::Expression;
use crate::eval::types::{Expected, TextConversion, Type, TypeKind};
use crate::model::definition::{Collection, ExistenceRule, Field, FieldIndexes, KeyDefinition};
use crate::model::ids::{CollectionId, FieldId, IdVec, LinkId};
use crate::model::key::Template;
use crate::model::links::{
    COVERAGE_FIELDS, Coverage, CoverageKind, CoverageTotal, GapRule, GroupedChildren, Link, Measure, MeasureCase, OVERLAP_FIELDS, OverlapRule,
    RUN_FIELDS,
};
use crate::value::FieldType;

impl DefinitionParser<'_> {
    /// Parses a coverage. Its expressions may use its parent, the parent's links and other coverages.
    pub(super) fn coverage(
        &mut self,
        parent: CollectionId,
        NamedNode { name, name_node, node }: NamedNode<'_>,
        collections: &mut IdVec<CollectionId, Collection>,
        links: &mut IdVec<LinkId, Link>,
        coverages: &mut Vec<Coverage>,
    ) -> Option<()> {
        self.section(node, "a coverage", &[keywords::COVERAGE, keywords::COVERAGE_CASE])?;
        let parent_types = golden_types(&collections[parent], true);
        let when = node.get("when").and_then(|node| self.cel_of(node, &parent_types, Expected::Condition));
        let mut with = Vec::new();
        for item in self.items(node.get("with"), "with") {
            with.extend(self.field_of(item, &collections[parent]));
        }
        let of = |kind| Coverage { name: name.to_owned(), parent, rows: CollectionId::from(collections.len()), when: when.clone(), kind };
        let (coverage, rows) = if let Some(of_node) = node.get("of") {
            let earlier: Vec<(usize, &str)> =
                coverages.iter().enumerate().filter(|(_, other)| other.parent == parent).map(|(i, o)| (i, o.name.as_str())).collect();
            let names: Vec<&str> = earlier.iter().map(|(_, name)| *name).collect();
            let position = self.reference::<usize>(of_node, "coverage above this one", &names)?;
            let summed = earlier[position].0;
            if matches!(coverages[summed].kind, CoverageKind::Runs { .. }) {
                self.problem(of_node, "`runs` have no values to sum");
            }
            let numbers = ["value", "expected", "adjusted"].map(|name| (name.to_owned(), Type::from(TypeKind::Float)));
            let row = numbers.iter().map(|(name, ty)| (name.clone(), ty.clone().or_null())).collect();
            let group = ("group".to_owned(), Type::from(TypeKind::Text));
            let mut names: Types = numbers.into_iter().chain([group.clone(), ("by".to_owned(), TypeKind::Text.into())]).collect();
            names.insert("rows".to_owned(), Type::mapping("rows", Type::structure("a row", row)));
            let by = match node.get("by") {
                Some(by) => self.cel_of(by, &[group].into(), TEXT)?,
                None => Expression::compile("'all'", &[]).ok()?,
            };
            let value = node.get("value").and_then(|node| self.cel_of(node, &names, Expected::Number));
            let expected = node.get("expected").and_then(|node| self.cel_of(node, &names, Expected::Number));
            let ty = collections[coverages[summed].rows].fields[FieldId::from(2)].ty.clone();
            (of(CoverageKind::Total(CoverageTotal { of: summed, by, value, expected })), RowKind::Group { ty, overlaps: None })
        } else {
            let link = self.required(node, "over").and_then(|over| self.over(over, parent, collections, links))?;
            let condition = self.condition(node.get("where"), &mut links[link], collections)?;
            if let Some(runs) = node.get("runs") {
                self.section(runs, "runs", &[keywords::RUNS])?;
                let edge_field = self.required(runs, "value").and_then(|value| self.edge_field(value, &mut links[link], collections))?;
                let max_gap = runs.get("max_gap").map_or(Some(0), |node| self.duration(node, "max_gap"))?;
                if links[link].span.is_none() {
                    self.problem(runs, "runs need the link's `span`");
                }
                let value = &collections[links[link].child_collection].fields[links[link].edge_fields[edge_field]];
                let ty = value.golden_type().clone();
                (of(CoverageKind::Runs { link, condition, edge_field, max_gap }), RowKind::Run(ty))
            } else {
                let mut types = parent_types.clone();
                types.insert("group".to_owned(), TypeKind::Text.into());
                let texts = FieldType::List(Box::new(FieldType::Text));
                let groups = node.get("groups").and_then(|node| self.cel_of(node, &parent_types, Expected::Field(&texts, TextConversion::Value)));
                let mut cases = Vec::new();
                for item in self.items(node.get("cases"), "cases") {
                    self.section(item, "a case", &[keywords::COVERAGE_CASE, keywords::COVERAGE_MATCH])?;
                    cases.push(self.case(item, &types, &mut links[link], collections)?);
                }
                if cases.is_empty() || node.get("measure").is_some() {
                    cases.push(self.case(node, &types, &mut links[link], collections)?);
                }
                let all_times = cases.iter().all(|case| case.measure == Measure::Union);
                let ty = if all_times { FieldType::Duration } else { FieldType::Integer };
                let children = GroupedChildren { link, condition, groups, cases };
                let overlaps = children.measures_overlaps().then_some(OVERLAP_FIELDS);
                (of(CoverageKind::Children(children)), RowKind::Group { ty, overlaps })
            }
        };
        if parent_types.contains_key("group") {
            self.problem(name_node, "a collection with coverage has no field `group`: expressions use that name");
        }
        let rows = rows_collection(&collections[parent], name, coverages.len(), rows, &with);
        coverages.push(coverage);
        collections.push(rows);
        Some(())
    }

    fn case(&mut self, node: &Node, types: &Types, link: &mut Link, collections: &IdVec<CollectionId, Collection>) -> Option<MeasureCase> {
        let pattern = node.get("match").and_then(|node| self.pattern(node));
        let measure_node = self.required(node, "measure")?;
        let measure = if matches!(measure_node.kind, NodeKind::Map(_)) {
            self.section(measure_node, "a measure", &[keywords::DISTINCT])?;
            let mut edge_fields = Vec::new();
            let distinct = self.required(measure_node, "distinct")?;
            for item in self.items(Some(distinct), "distinct") {
                edge_fields.push(self.edge_field(item, link, collections)?);
            }
            let tolerance = match measure_node.get("near") {
                Some(tolerance) => Some(self.duration(tolerance, "near")?),
                None => None,
            };
            Measure::Distinct { edge_fields, tolerance }
        } else {
            self.choice(Some(measure_node), "measure", &[("union", true), ("count", false)])
                .map(|union| if union { Measure::Union } else { Measure::Count })?
        };
        let needs_span = matches!(measure, Measure::Union | Measure::Distinct { tolerance: Some(_), .. })
            || node.get("gaps").is_some()
            || node.get("overlaps").is_some();
        if needs_span && link.span.is_none() {
            self.problem(measure_node, format!("this needs an interval: give link `{}` a `span`", link.name));
        }
        let mut with_value = types.clone();
        with_value.insert("value".to_owned(), Type::from_field_type(&measure.ty()));
        let value = node.get("value").and_then(|node| self.cel_of(node, &with_value, Expected::Number));
        let expected = node.get("expected").and_then(|node| self.cel_of(node, types, Expected::Number));
        let gaps = match node.get("gaps") {
            None => None,
            Some(gaps) => {
                self.section(gaps, "gaps", &[keywords::GAPS])?;
                let within = self.required(gaps, "within")?;
                let [from, to] = self.items(Some(within), "within") else {
                    self.problem(within, "`within` is a list of two expressions: from, to");
                    return None;
                };
                let shift = match gaps.get("shift") {
                    Some(shift) => Some(self.duration(shift, "shift")?),
                    None => None,
                };
                let until = match gaps.get("until") {
                    Some(until) => Some(self.cel_of(until, types, Expected::Number)?),
                    None => None,
                };
                Some(GapRule {
                    until,
                    within: (self.cel_of(from, types, Expected::Number)?, self.cel_of(to, types, Expected::Number)?),
                    start_tolerance: shift,
                })
            }
        };
        let overlaps = match node.get("overlaps") {
            None => None,
            Some(overlaps) => {
                self.section(overlaps, "overlaps", &[keywords::OVERLAPS])?;
                let longer = self.required(overlaps, "longer").and_then(|longer| self.duration(longer, "longer"))?;
                Some(OverlapRule { longer })
            }
        };
        Some(MeasureCase { pattern, measure, value, expected, gaps, overlaps })
    }
}

/// What a row of a coverage describes.
enum RowKind {
    /// A group of children, with values of a type, and with the fields of overlaps if they are measured.
    Group { ty: FieldType, overlaps: Option<[&'static str; 2]> },
    /// A run of equal values of this type.
    Run(FieldType),
}

/// Makes the collection of a coverage's rows.
fn rows_collection(parent: &Collection, name: &str, coverage: usize, kind: RowKind, with: &[FieldId]) -> Collection {
    let ordered = FieldIndexes { ordered: true, ..FieldIndexes::default() };
    let field = |name: &str, ty: FieldType, index: FieldIndexes| Field { ty, index, ..placeholder(name) };
    let key_text;
    let mut fields = IdVec::from(vec![field(&parent.name, FieldType::Text, ordered)]);
    match kind {
        RowKind::Group { ty, overlaps } => {
            key_text = format!("{{{}}}#{{group}}", parent.name);
            let types = [FieldType::Text, ty.clone(), ty.clone(), ty, FieldType::Float, FieldType::Text, FieldType::Json];
            for (name, ty) in COVERAGE_FIELDS.into_iter().zip(types) {
                fields.push(field(name, ty, if matches!(name, "group" | "status") { ordered } else { FieldIndexes::default() }));
            }
            if let Some([length, parts]) = overlaps {
                fields.push(field(length, FieldType::Duration, ordered));
                fields.push(field(parts, FieldType::Json, FieldIndexes::default()));
            }
        }
        RowKind::Run(ty) => {
            key_text = format!("{{{}}}@{{start}}", parent.name);
            let has_index = !matches!(ty.element(), FieldType::Json | FieldType::Ranges | FieldType::Struct(_));
            let types = [ty, FieldType::Timestamp, FieldType::Timestamp, FieldType::Duration];
            for (name, ty) in RUN_FIELDS.into_iter().zip(types) {
                let is_indexed = name == "start" || name == "value" && has_index;
                fields.push(field(name, ty, if is_indexed { ordered } else { FieldIndexes::default() }));
            }
        }
    }
    for copied in with {
        let copied = &parent.fields[*copied];
        if fields.iter().all(|known| known.name != copied.name) {
            fields.push(field(&copied.name, copied.golden_type().clone(), FieldIndexes { ordered: copied.index.ordered, ..FieldIndexes::default() }));
        }
    }
    let key = Template::parse(&key_text).map_or(KeyDefinition::Field(FieldId::from(0)), KeyDefinition::Template);
    Collection {
        name: format!("{}.{name}", parent.name),
        key,
        key_text,
        title: None,
        keep_raw: false,
        exists: ExistenceRule::Latest,
        history: None,
        changes: None,
        fields,
        states: Vec::new(),
        transitions: Vec::new(),
        tags: None,
        compose: None,
        publish: None,
        rows_of: Some(coverage),
    }
}
