//! Golden values: a pure function of the set of contributions.
//!
//! Contributions are compared by `(as_of, received, hash, contributor)`, which is a total order, so nothing here depends on the order
//! they arrived in. [`Consolidator::golden_record`] is the only place where
//! golden values are chosen; settled values, which are stored with them, are computed by the engine's `settle`.

use crate::eval::{Evaluator, Expression};
use crate::model::definition::{API_NAME, Catalogue, Collection, ExistenceRule, Field, SourceRef, Survivorship};
use crate::model::golden::GoldenValues;
use crate::model::ids::{FieldId, IdVec};
use crate::model::links::{Derivation, KeyedLink, target_by_template};
use crate::model::parts;
use crate::model::record::{Contribution, ContributionAge, ContributionContent, Correction, Retirement};
use crate::model::union::{union, union_by};
use crate::value::{FieldType, StructMember, Value, among, member_of};

use std::sync::Arc;

/// The result of consolidating a record's contributions.
#[derive(Debug, Clone, PartialEq)]
pub struct GoldenRecord {
    /// A value per field.
    pub values: Arc<[Value]>,
    /// Whether the record exists.
    pub alive: bool,
    /// Fields with a conflict.
    pub conflicts: Vec<FieldId>,
}

/// Computes golden values for a collection's records. One per thread; it uses the thread's evaluator.
pub struct Consolidator<'c> {
    catalogue: &'c Catalogue,
    collection: &'c Collection,
    evaluator: &'c Evaluator,
    /// Derived fields, each after the fields it reads.
    derived: Vec<FieldId>,
    /// Whether the values of a single contribution are the golden values.
    plain: bool,
    /// The distinct rules of fields: whose contributions count, and in which order.
    rules: Vec<(Option<&'c [SourceRef]>, &'c Survivorship)>,
    /// The position in `rules`, by field.
    rule_of: IdVec<FieldId, usize>,
}

impl<'c> Consolidator<'c> {
    /// Orders derived fields so that each comes after those it reads.
    pub fn new(catalogue: &'c Catalogue, collection: &'c Collection, evaluator: &'c Evaluator) -> Self {
        let mut derived: Vec<FieldId> = Vec::new();
        // members without an index are only read in their structs
        let is_stored = |field: &Field| !field.is_member() || field.index.ordered;
        let is_derived_here = |field: &Field| field.derive.as_ref().is_some_and(|derive| !derive.is_settled()) && is_stored(field);
        let reads = |field: &'c Field| -> Vec<&'c str> {
            match &field.derive {
                Some(Derivation::SameRecord(expression)) => expression.variables().iter().map(String::as_str).collect(),
                Some(Derivation::TargetKey(_, when, key)) => {
                    key.names().chain(when.iter().flat_map(Expression::variables).map(String::as_str)).collect()
                }
                Some(Derivation::Member(list, _)) => vec![collection.fields[*list].name.as_str()],
                _ => Vec::new(),
            }
        };
        let mut waiting: Vec<FieldId> = collection.fields.ids().filter(|index| is_derived_here(&collection.fields[*index])).collect();
        // parsing refuses cycles, so every round places at least one
        while !waiting.is_empty() {
            let before = waiting.len();
            waiting.retain(|index| {
                let reads_waiting = reads(&collection.fields[*index]).into_iter().any(|name| {
                    collection.field(name).is_some_and(|(read, field)| is_derived_here(field) && !derived.contains(&read) && read != *index)
                });
                if !reads_waiting {
                    derived.push(*index);
                }
                reads_waiting
            });
            if waiting.len() == before {
                break;
            }
        }
        let plain = collection.fields.iter().all(|field| field.derive.is_none() && field.from.is_none() && !field.survivorship.combines());
        let mut rules = Vec::new();
        let rule_of = collection.fields.iter().map(|field| {
            let rule = (field.from.as_deref(), &field.survivorship);
            let same_rule = rules.iter().position(|same_rule| *same_rule == rule);
            same_rule.unwrap_or_else(|| {
                rules.push(rule);
                rules.len() - 1
            })
        });
        let rule_of = rule_of.collect();
        Self { catalogue, collection, evaluator, derived, plain, rules, rule_of }
    }

    /// Returns the golden record of `contributions`. A derived field whose expression fails is null, and the evaluator notes the failure.
    pub fn golden_record(&self, contributions: &[Contribution]) -> GoldenRecord {
        let corrections = self.corrections(contributions);
        let contributions = &*parts::joined(self.catalogue, self.collection, contributions);
        let alive = self.alive(contributions);
        if let [Contribution { content: ContributionContent::Values(values), retired: Retirement::None, unreadable: unread, .. }] = contributions
            && unread.is_empty()
        {
            let values = self.golden_of_single(&contributions[0], values);
            return GoldenRecord { values, alive, conflicts: Vec::new() };
        }
        let counted = self.counted(contributions);
        let fields = || self.collection.fields.enumerate();
        // contributions with an unreadable value of a field are ordered by the age of the value that counts instead, which is rare
        let is_unread = |field: FieldId| contributions.iter().any(|contribution| contribution.unreadable.iter().any(|unread| unread.field == field));
        let orders: Vec<Vec<&CountedValues<'_>>> = self.rules.iter().map(|(from, rule)| self.ordered_by_rule(*from, rule, &counted, None)).collect();
        let choose = |(index, field): (FieldId, &Field)| {
            let rule = self.rule_of[index];
            let order_of_values = is_unread(index).then(|| {
                let (from, rule) = self.rules[rule];
                self.ordered_by_rule(from, rule, &counted, Some(index))
            });
            let order = order_of_values.as_ref().unwrap_or(&orders[rule]);
            match correction_of(&corrections, index) {
                None => choose_value(index, field, order),
                Some(correction) => {
                    let counts = |candidate: &&CountedValues<'_>| correction.holds() == (candidate.source == Some(SourceRef::Api));
                    choose_value(index, field, &order.iter().copied().filter(counts).collect::<Vec<_>>())
                }
            }
        };
        let mut values: Arc<[Value]> = fields().map(choose).collect();
        let is_accepted = |index: FieldId| correction_of(&corrections, index).is_some_and(FieldCorrection::holds);
        let conflicts =
            fields().filter(|(index, field)| !is_accepted(*index) && self.disagree(*index, field, &counted)).map(|(index, _)| index).collect();
        self.derive_all(Arc::make_mut(&mut values), contributions);
        GoldenRecord { values, alive, conflicts }
    }

    /// The common case of a single contribution: nothing to compare, and mostly nothing to change.
    fn golden_of_single(&self, only: &Contribution, values: &Arc<[Value]>) -> Arc<[Value]> {
        let is_unchanged = self.plain && !values.contains(&Value::Cleared);
        if is_unchanged {
            return values.clone();
        }
        let source = self.source_of(only);
        let golden_value = |(field, value): (&Field, &Value)| {
            let counted = field.from.as_ref().is_none_or(|allowed| is_among(source, allowed));
            match value {
                Value::Cleared | Value::Null => Value::Null,
                _ if !counted => Value::Null,
                value => match field.survivorship {
                    Survivorship::ByContributor => by_contributor([(only, value)], &field.ty),
                    Survivorship::Union => union([value]),
                    Survivorship::UnionBy(member) => union_by(&field.ty.members()[member].name, [value]),
                    _ => value.clone(),
                },
            }
        };
        let mut golden: Arc<[Value]> = self.collection.fields.iter().zip(values.iter()).map(golden_value).collect();
        self.derive_all(Arc::make_mut(&mut golden), std::slice::from_ref(only));
        golden
    }

    fn derive_all(&self, values: &mut [Value], contributions: &[Contribution]) {
        for &index in &self.derived {
            values[index] = match self.collection.fields[index].derive {
                Some(Derivation::Sources) => self.sources(contributions),
                _ => self.derive(index, values),
            };
        }
    }

    /// Returns the names of the sources whose contributions count.
    fn sources(&self, contributions: &[Contribution]) -> Value {
        let counted =
            contributions.iter().filter(|contribution| contribution.counts() && matches!(contribution.content, ContributionContent::Values(_)));
        let mut names: Vec<&str> = counted.filter_map(|contribution| self.catalogue.shown_source_name(contribution.source())).collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() { Value::Null } else { Value::List(names.into_iter().map(Value::text).collect()) }
    }

    fn alive(&self, contributions: &[Contribution]) -> bool {
        let living = |contribution: &Contribution| matches!(contribution.content, ContributionContent::Values(_));
        match self.collection.exists {
            ExistenceRule::Any => contributions.iter().filter(|contribution| contribution.counts()).any(living),
            ExistenceRule::Latest => {
                let counted = contributions.iter().filter(|contribution| contribution.counts());
                counted.max_by_key(|contribution| contribution.order()).is_some_and(living)
            }
        }
    }

    /// Returns the source of a contribution; `None` if the definition no longer has it, or if a link with `create` made the contribution.
    fn source_of(&self, contribution: &Contribution) -> Option<SourceRef> {
        let name = contribution.source();
        let known = self.catalogue.sources.position(|source| source.name == name);
        known.map(SourceRef::Source).or((name == API_NAME).then_some(SourceRef::Api))
    }

    /// Returns the contributions that count and are not deletions.
    fn counted<'a>(&self, contributions: &'a [Contribution]) -> Vec<CountedValues<'a>> {
        let counted = contributions.iter().filter(|contribution| contribution.counts());
        let with_values = |contribution: &'a Contribution| match &contribution.content {
            ContributionContent::Values(_) => Some(CountedValues { contribution, source: self.source_of(contribution) }),
            ContributionContent::Tombstone => None,
        };
        counted.filter_map(with_values).collect()
    }

    /// Returns the contributions that have a value for a field and count for it, with their values.
    fn contributed_values<'a>(
        &self,
        index: FieldId,
        field: &Field,
        candidates: &[CountedValues<'a>],
    ) -> impl Iterator<Item = (&'a Contribution, &'a Value)> {
        candidates.iter().filter_map(move |candidate| {
            let (value, _) = candidate.contribution.value(index)?;
            let counted = field.from.as_ref().is_none_or(|allowed| is_among(candidate.source, allowed));
            counted.then_some((candidate.contribution, value))
        })
    }

    /// Returns the contributions that count for a rule, in the order of the rule: by the age of the contributions, or of their values of `field`.
    fn ordered_by_rule<'a, 'v>(
        &self,
        from: Option<&[SourceRef]>,
        rule: &Survivorship,
        candidates: &'v [CountedValues<'a>],
        field: Option<FieldId>,
    ) -> Vec<&'v CountedValues<'a>> {
        let mut counted: Vec<&CountedValues<'_>> =
            candidates.iter().filter(|candidate| from.is_none_or(|allowed| is_among(candidate.source, allowed))).collect();
        match field {
            None => counted.sort_by_key(|candidate| candidate.contribution.order()),
            Some(field) => counted.sort_by_key(|candidate| order_of(candidate.contribution, field)),
        }
        if matches!(rule, Survivorship::Latest | Survivorship::Prefer { then_earliest: false, .. }) {
            counted.reverse();
        }
        // stable sort: equal ones keep their order
        match rule {
            Survivorship::Prefer { sources, .. } => {
                let rank = |source| sources.iter().position(|candidate| Some(*candidate) == source).unwrap_or(sources.len());
                counted.sort_by_key(|candidate| rank(candidate.source));
            }
            Survivorship::ByContributor => counted.sort_by_key(|candidate| &candidate.contribution.contributor),
            Survivorship::Latest | Survivorship::Earliest | Survivorship::Union | Survivorship::UnionBy(_) => {}
        }
        counted
    }

    /// Returns the contributions that count and are not deletions, in the order of a rule.
    pub fn ranked<'a>(&self, rule: &Survivorship, contributions: &'a [Contribution]) -> Vec<&'a Contribution> {
        let counted = self.counted(contributions);
        self.ordered_by_rule(None, rule, &counted, None).into_iter().map(|candidate| candidate.contribution).collect()
    }

    /// Returns the corrections that name values of others, by field, and whether each holds. Parts of a partial answer are contributors of their own.
    fn corrections<'a>(&self, contributions: &'a [Contribution]) -> Vec<FieldCorrection<'a>> {
        let is_own = |contribution: &&Contribution| *contribution.contributor == *API_NAME && contribution.counts();
        let Some(own) = contributions.iter().find(is_own).filter(|own| !own.corrections.is_empty()) else { return Vec::new() };
        let counted = self.counted(contributions);
        let state = |correction: &'a Correction| {
            let (index, field) = (correction.field, &self.collection.fields[correction.field]);
            correction.corrects.as_ref()?;
            let mut contributed = self.contributed_values(index, field, &counted);
            let (_, value) = contributed.find(|(contribution, _)| std::ptr::eq(*contribution, own))?;
            let others = self.contributed_values(index, field, &counted).filter(|(contribution, _)| !std::ptr::eq(*contribution, own));
            let contradicted_by = correction.contradicted_by(field, value, others.map(|(contribution, value)| (&*contribution.contributor, value)));
            Some(FieldCorrection { field: index, contradicted_by })
        };
        own.corrections.iter().filter_map(state).collect()
    }

    /// Returns the contributor because of which a correction of a field does not hold.
    pub fn contradicted_by<'a>(&self, index: FieldId, contributions: &'a [Contribution]) -> Option<&'a str> {
        correction_of(&self.corrections(contributions), index)?.contradicted_by
    }

    fn disagree(&self, index: FieldId, field: &Field, counted: &[CountedValues<'_>]) -> bool {
        let Some(comparison) = field.compare else { return false };
        let contributed = self.contributed_values(index, field, counted).map(|(_, value)| value).filter(|value| !matches!(value, Value::Cleared));
        !comparison.agree(contributed)
    }

    fn derive(&self, index: FieldId, values: &[Value]) -> Value {
        let field = &self.collection.fields[index];
        match &field.derive {
            Some(Derivation::SameRecord(expression)) => {
                let found = self.evaluator.value(expression, &field.ty, &GoldenValues::new(self.collection, values));
                found.and_then(|value| among(value, &field.ty, &field.one_of)).unwrap_or_else(|error| {
                    self.evaluator.note(&format!("field `{}`", field.name), expression, &error);
                    Value::Null
                })
            }
            Some(Derivation::Member(..)) => self.collection.member(index).map_or(Value::Null, |(list, member)| members_of(&values[list], member)),
            Some(Derivation::TargetKey(_, when, key)) => {
                target_by_template(self.evaluator, self.collection, &KeyedLink { name: &field.name, when: when.as_ref(), key }, values)
            }
            _ => Value::Null,
        }
    }

    /// Explains each field: which contributions gave its golden value, and which were overruled. Both are empty for derived fields.
    pub fn explain<'a>(&'a self, contributions: &'a [Contribution], golden: &GoldenRecord) -> Vec<Explanation<'a>> {
        let counted = self.counted(contributions);
        let corrections = self.corrections(contributions);
        let explain_field = |(index, field): (FieldId, &'a Field)| {
            let contributed: Vec<(&Contribution, &Value)> = self.contributed_values(index, field, &counted).collect();
            let value = &golden.values[index];
            let correction = correction_of(&corrections, index);
            let is_combined = |own: &Contribution| {
                field.survivorship.combines() && correction.is_none_or(|correction| correction.holds() == (*own.contributor == *API_NAME))
            };
            let is_value = |contributed: &Value| contributed == value || value.is_null() && *contributed == Value::Cleared;
            let (won, lost) = contributed.into_iter().partition(|(own, contributed)| is_combined(own) || is_value(contributed));
            Explanation { field: index, won, lost }
        };
        self.collection.fields.enumerate().map(explain_field).collect()
    }
}

/// A contribution that counts and is not a deletion.
struct CountedValues<'a> {
    contribution: &'a Contribution,
    source: Option<SourceRef>,
}

fn is_among(source: Option<SourceRef>, allowed: &[SourceRef]) -> bool {
    source.is_some_and(|source| allowed.contains(&source))
}

/// What becomes of a correction that names values of others.
struct FieldCorrection<'a> {
    field: FieldId,
    /// The contributor with a value that it does not know; `None` while it holds.
    contradicted_by: Option<&'a str>,
}

impl FieldCorrection<'_> {
    /// Whether its value is the golden value; otherwise it does not count.
    fn holds(&self) -> bool {
        self.contradicted_by.is_none()
    }
}

fn correction_of<'c, 'a>(corrections: &'c [FieldCorrection<'a>], field: FieldId) -> Option<&'c FieldCorrection<'a>> {
    corrections.iter().find(|correction| correction.field == field)
}

/// Why a golden field has its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation<'a> {
    /// The field.
    pub field: FieldId,
    /// Contributions with the golden value, or all that were combined.
    pub won: Vec<(&'a Contribution, &'a Value)>,
    /// Contributions with another value.
    pub lost: Vec<(&'a Contribution, &'a Value)>,
}

/// Chooses the golden value of a field from contributions in the order of its rule.
fn choose_value(index: FieldId, field: &Field, counted: &[&CountedValues<'_>]) -> Value {
    let mut contributed = counted.iter().filter_map(|candidate| Some((candidate.contribution, candidate.contribution.value(index)?.0)));
    match field.survivorship {
        Survivorship::Union => union(contributed.map(|(_, value)| value)),
        Survivorship::UnionBy(member) => union_by(&field.ty.members()[member].name, contributed.map(|(_, value)| value)),
        Survivorship::ByContributor => by_contributor(contributed, &field.ty),
        Survivorship::Latest | Survivorship::Earliest | Survivorship::Prefer { .. } => match contributed.next() {
            None | Some((_, Value::Cleared)) => Value::Null,
            Some((_, value)) => value.clone(),
        },
    }
}

/// Orders contributions by the age of their value of a field, which is older than the contribution if that value was unreadable.
fn order_of(contribution: &Contribution, field: FieldId) -> (ContributionAge, &str) {
    let age = contribution.value(field).map_or_else(|| contribution.age(), |(_, age)| age);
    (age, &contribution.contributor)
}

/// Returns the values of one member of the structs in a list; for ranges, all ranges concatenated.
pub fn members_of(list: &Value, member: &StructMember) -> Value {
    let structs = list.elements().iter().filter_map(|element| if let Value::Json(json) = element { Some(json) } else { None });
    if member.ty == FieldType::Ranges {
        let all: Vec<serde_json::Value> = structs.filter_map(|json| json.get(&member.name)?.as_array()).flatten().cloned().collect();
        return if all.is_empty() { Value::Null } else { Value::Json(Arc::new(all.into())) };
    }
    let values: Vec<Value> = structs.map(|json| member_of(json, member)).filter(|value| !value.is_null()).collect();
    if values.is_empty() { Value::Null } else { Value::List(values) }
}

fn by_contributor<'a>(contributed: impl IntoIterator<Item = (&'a Contribution, &'a Value)>, ty: &FieldType) -> Value {
    let entries: serde_json::Map<String, serde_json::Value> = contributed
        .into_iter()
        .filter(|(_, value)| !matches!(value, Value::Cleared))
        .map(|(contribution, value)| {
            let name = contribution.contributor.split_once(':').map_or(&*contribution.contributor, |(_, part)| part);
            (name.to_owned(), value.to_json(ty))
        })
        .collect();
    if entries.is_empty() { Value::Null } else { Value::Json(Arc::new(entries.into())) }
}
