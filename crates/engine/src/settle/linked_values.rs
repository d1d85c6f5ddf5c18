//! Fields through links: values of a record that are computed from the records it links to.

use super::targets::target_keys;
use crate::relations::SettleRules;
use cel::objects::{Key as CelKey, Map as CelMap};
use std::sync::Arc;
use stook_catalogue::definition::{Catalogue, Collection, Field};
use stook_catalogue::eval::{Evaluator, Expression, MemberReference, Name, Scope, to_cel};
use stook_catalogue::golden::GoldenValues;
use stook_catalogue::ids::{CollectionId, FieldId, LinkId};
use stook_catalogue::key::Key;
use stook_catalogue::links::{Derivation, Link, members_of};
use stook_catalogue::plain::PlainValue;
use stook_catalogue::value::{FieldType, Value, among};
use stook_store::{ReadDetail, Result, Store, StoredRecord, Tenant};

/// Computes settled fields that have expressions. `target` returns the values of a linked record, by link and key.
pub(super) fn read_through<'t>(
    rules: &'t SettleRules,
    evaluator: &'t Evaluator,
    collection: CollectionId,
    values: &mut [Value],
    target: &dyn Fn(LinkId, &Key) -> Option<&'t [Value]>,
) {
    let relations = &rules.relations[collection];
    let definition = &rules.catalogue.collections[collection];
    let resolve = |index: &LinkId| {
        let link = &rules.catalogue.links[*index];
        let keys = if link.is_read() { target_keys(link, values) } else { Vec::new() };
        let targets = keys.iter().map(|key| target(*index, key)).collect();
        ResolvedLink { link, of: &rules.catalogue.collections[link.target_collection], key: values[link.field].clone(), targets }
    };
    let linked: Vec<ResolvedLink<'_>> = relations.from.iter().map(resolve).collect();
    for field in &relations.link_expressions {
        let definition_of_field = &definition.fields[*field];
        let found = value_through(evaluator, definition, &linked, values, definition_of_field);
        values[*field] = found.unwrap_or_else(|(expression, error)| {
            evaluator.note(&format!("field `{}`", definition_of_field.name), expression, &error);
            Value::Null
        });
    }
}

/// The value of a settled field that has an expression, or which expression has failed and why.
fn value_through<'d>(
    evaluator: &Evaluator,
    definition: &Collection,
    linked: &[ResolvedLink<'_>],
    values: &[Value],
    field: &'d Field,
) -> std::result::Result<Value, (&'d Expression, String)> {
    let Field { derive: Some(Derivation::ThroughLinks(expression)), ty, .. } = field else { return Ok(Value::Null) };
    let computed = linked.iter().flat_map(|own| own.computed_for(expression)).collect();
    let found = evaluator.value(expression, ty, &LinkedScope { golden: GoldenValues::new(definition, values), linked, expression, computed });
    found.and_then(|value| among(value, ty, &field.one_of)).map_err(|error| (expression, error))
}

/// The variables of an expression through links: the record's own values, and what the expression reads of each link.
struct LinkedScope<'s> {
    golden: GoldenValues<'s>,
    linked: &'s [ResolvedLink<'s>],
    expression: &'s Expression,
    /// The values that the expression reads and that are not simply those of one target.
    computed: Vec<ComputedMember<'s>>,
}

impl<'s> LinkedScope<'s> {
    fn linked_by(&self, name: &str) -> Option<&'s ResolvedLink<'s>> {
        self.linked.iter().find(|own| own.link.name == name)
    }

    fn computed(&self, of: &ResolvedLink<'_>, name: &str) -> Option<&(Value, FieldType)> {
        self.computed.iter().find(|computed| computed.of == of.link.name && computed.name == name).map(|computed| &computed.value)
    }
}

impl Scope for LinkedScope<'_> {
    fn plain(&self, name: &Name, member: Option<&Name>) -> Option<PlainValue<'_>> {
        match (member, self.linked_by(name.as_str())) {
            (Some(member), Some(own)) => {
                let field = own.of.field_named(member).map(|(field, _)| field);
                let (value, ty) = own.member(field, self.computed(own, member.as_str()));
                Some(PlainValue::from_value(value, ty))
            }
            (None, None) => self.golden.plain(name, None),
            _ => None,
        }
    }

    fn cel(&self, name: &str, read: &[MemberReference]) -> cel::Value {
        let Some(own) = self.linked_by(name) else { return self.golden.cel(name, read) };
        let member = |member: &MemberReference| {
            let (value, ty) = own.member(own.of.field(&member.name).map(|(field, _)| field), self.computed(own, &member.name));
            (CelKey::String(Arc::new(member.name.clone())), to_cel(value, ty))
        };
        cel::Value::Map(CelMap { map: Arc::new(members_of(self.expression, name).map(member).collect()) })
    }
}

/// Why a settled field of a record has no value, if its expression fails with the present values of the record and its targets.
///
/// # Errors
/// When the store fails.
pub fn failure_of(
    (catalogue, evaluator): (&Catalogue, &Evaluator),
    (store, tenant): (&dyn Store, &Tenant),
    definition: &Collection,
    values: &[Value],
    field: &Field,
) -> Result<Option<String>> {
    let mut records: Vec<(&Link, Vec<Option<StoredRecord>>)> = Vec::new();
    for link in catalogue.links.iter().filter(|link| catalogue.collections[link.child_collection].name == definition.name && link.is_read()) {
        let keys = target_keys(link, values);
        records.push((link, if keys.is_empty() { Vec::new() } else { store.read(tenant, link.target_collection, &keys, ReadDetail::Values)? }));
    }
    let linked = records.iter().map(|(link, records)| {
        let targets = records.iter().map(|record| record.as_ref().filter(|record| record.exists).map(|record| &*record.golden)).collect();
        ResolvedLink { link, of: &catalogue.collections[link.target_collection], key: values[link.field].clone(), targets }
    });
    let linked: Vec<ResolvedLink<'_>> = linked.collect();
    Ok(value_through(evaluator, definition, &linked, values, field).err().map(|(_, error)| error))
}

/// A link of a record, with the values of its targets.
struct ResolvedLink<'t> {
    link: &'t Link,
    of: &'t Collection,
    /// The key of its target, or a list of keys if it has many.
    key: Value,
    /// The values of the targets, in the order of the keys; `None` for those that do not exist.
    targets: Vec<Option<&'t [Value]>>,
}

/// The maximum number of values that one name may collect from several targets, whose fields may themselves be lists.
const MAX_VALUES: usize = 100_000;

/// A value that an expression reads of a link and that is not simply a value of one target.
struct ComputedMember<'e> {
    /// The name of the link.
    of: &'e str,
    /// The name by which the expression reads it.
    name: &'e str,
    value: (Value, FieldType),
}

impl ResolvedLink<'_> {
    fn computed_for<'l>(&'l self, expression: &'l Expression) -> impl Iterator<Item = ComputedMember<'l>> {
        members_of(expression, &self.link.name)
            .filter_map(|member| Some(ComputedMember { of: &member.of, name: &member.name, value: self.computed(&member.name)? }))
    }

    /// The value of this name if it is not simply a value of one target: whether all targets exist, or the concatenated values of several
    /// targets.
    fn computed(&self, name: &str) -> Option<(Value, FieldType)> {
        match self.of.field(name) {
            None if name == "exists" => {
                let all = self.targets.iter().all(Option::is_some);
                Some((if self.targets.is_empty() { Value::Null } else { Value::Bool(all) }, FieldType::Boolean))
            }
            None if self.link.many => Some((self.key.clone(), FieldType::List(Box::new(FieldType::Text)))),
            Some((index, field)) if self.link.many => {
                let values = self.targets.iter().flatten().flat_map(|target| target[index].elements());
                let values: Vec<Value> = values.filter(|value| !value.is_null()).take(MAX_VALUES + 1).cloned().collect();
                let has_none = values.is_empty() || values.len() > MAX_VALUES;
                let ty = FieldType::List(Box::new(field.golden_type().element().clone()));
                Some((if has_none { Value::Null } else { Value::List(values) }, ty))
            }
            _ => None,
        }
    }

    /// The value that is computed for a name, or else that of the target's field of this name; null if the target does not exist.
    fn member<'l>(&'l self, field: Option<FieldId>, computed: Option<&'l (Value, FieldType)>) -> (&'l Value, &'l FieldType) {
        match (computed, field, self.targets.first()) {
            (Some((value, ty)), ..) => (value, ty),
            (_, None, _) => (&self.key, &FieldType::Text),
            (_, Some(field), Some(Some(target))) => (&target[field], self.of.fields[field].golden_type()),
            (_, Some(field), _) => (&Value::Null, self.of.fields[field].golden_type()),
        }
    }
}
