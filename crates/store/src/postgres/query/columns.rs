//! The SQL of a plan's columns.

use super::super::session::DbResult;
use super::super::tables::quoted_name;
use super::super::values::column_type;
use super::super::words_index::words_column;
use super::linked::linked_column;
use crate::StoreError;
use crate::plan::{Comparison, PlanColumn};
use crate::sql::pattern::{self, fold_pieces};
use crate::sql::plan_parts::{link_of, member, no_words};
use stook_catalogue::definition::{Catalogue, Collection, FieldIndexes};
use stook_catalogue::fold::fold;
use stook_catalogue::ids::FieldId;
use stook_catalogue::value::{FieldType, StructMember, Value};

/// A column, as the SQL builder needs it.
pub struct ColumnInfo {
    /// The SQL of its value.
    pub sql: String,
    /// The SQL for comparisons and order: the folded form if there is one.
    pub compared: String,
    pub ty: FieldType,
    pub fold: bool,
    pub index: FieldIndexes,
    pub name: String,
    /// The number of the collection's tags, if it is the column of tags.
    pub tags: Option<u32>,
    /// The statement of the values with which a condition compares it, if these are in linked records.
    pub among: Option<String>,
}

pub fn column_info(catalogue: &Catalogue, collection: &Collection, each: Option<FieldId>, column: PlanColumn) -> DbResult<ColumnInfo> {
    let plain = |sql: &str, ty: FieldType| {
        let (sql, compared, name) = (sql.to_owned(), sql.to_owned(), sql.to_owned());
        ColumnInfo {
            sql: format!("r.{sql}"),
            compared: format!("r.{compared}"),
            ty,
            fold: false,
            index: FieldIndexes::default(),
            name,
            tags: None,
            among: None,
        }
    };
    match column {
        PlanColumn::Key => Ok(plain("key", FieldType::Text)),
        PlanColumn::Revision => Ok(plain("revision", FieldType::Integer)),
        // computed from the plan, see [`crate::sql::ranking`]
        PlanColumn::Rank => Ok(ColumnInfo { sql: "0::bigint".into(), compared: "0::bigint".into(), ..plain("rank", FieldType::Integer) }),
        PlanColumn::Conflict => Ok(plain("conflict", FieldType::List(Box::new(FieldType::Text)))),
        PlanColumn::Tag => {
            let tags = collection.tags.as_ref().ok_or_else(|| StoreError::Wrong("the records of this collection carry no tags".into()))?;
            let join_condition = format!("t.tenant = r.tenant AND t.collection = {} AND t.key = r.key", tags.id);
            let sql = format!("(SELECT array_agg(t.value ORDER BY t.value) FROM tagged t WHERE {join_condition})");
            let (ty, index) = (FieldType::List(Box::new(FieldType::Text)), FieldIndexes { ordered: true, ..FieldIndexes::default() });
            Ok(ColumnInfo { compared: sql.clone(), sql, ty, fold: false, index, name: "tag".into(), tags: Some(tags.id), among: None })
        }
        PlanColumn::Field(index) => {
            let field = collection.fields.get(index).ok_or_else(|| StoreError::Wrong("there is no such field".into()))?;
            let sql = match collection.member(index) {
                Some((list, member)) => member_values_sql(&quoted_name(&["f", &collection.fields[list].name]), member),
                None => format!("r.{}", quoted_name(&["f", &field.name])),
            };
            let ty = field.golden_type().clone();
            let compared = if field.fold && !ty.is_list() { format!("r.{}", quoted_name(&["x", &field.name])) } else { sql.clone() };
            Ok(ColumnInfo { sql, compared, ty, fold: field.fold, index: field.index, name: field.name.clone(), tags: None, among: None })
        }
        PlanColumn::Element(index) => {
            let member = member(collection, each, index)?;
            let value = format!("(el.value::jsonb ->> '{}')", member.name);
            // the cast gives text the same collation as in a column
            let sql = format!("{value}::{}", column_type(&member.ty));
            let ty = member.ty.clone();
            Ok(ColumnInfo {
                compared: sql.clone(),
                sql,
                ty,
                fold: false,
                index: FieldIndexes::default(),
                name: member.name.clone(),
                tags: None,
                among: None,
            })
        }
        PlanColumn::TargetsExist(index) => {
            let link = link_of(catalogue, collection, index)?;
            let (target, field) =
                (quoted_name(&["r", &catalogue.collections[link.target_collection].name]), quoted_name(&["f", &collection.fields[link.field].name]));
            let exists = |key: &str| format!("EXISTS (SELECT 1 FROM {target} lt WHERE lt.tenant = r.tenant AND lt.key = {key} AND lt.alive)");
            let targets_exist = match link.many {
                false => exists(&format!("r.{field}")),
                true => format!("NOT EXISTS (SELECT 1 FROM unnest(r.{field}) AS le(value) WHERE NOT {})", exists("le.value")),
            };
            let sql = format!("(CASE WHEN r.{field} IS NOT NULL THEN {targets_exist} END)");
            let (ty, name) = (FieldType::Boolean, format!("{}.exists", link.name));
            Ok(ColumnInfo { compared: sql.clone(), sql, ty, fold: false, index: FieldIndexes::default(), name, tags: None, among: None })
        }
        PlanColumn::Linked(linked) => linked_column(catalogue, collection, &linked),
        PlanColumn::State(index) => {
            let state = collection.states.get(index).ok_or_else(|| StoreError::Wrong("there is no such state field".into()))?;
            let sql = format!("r.{}", quoted_name(&["s", &state.name]));
            // state fields have no side tables
            let index = FieldIndexes { ordered: state.index.ordered && !state.ty.is_list(), ..FieldIndexes::default() };
            Ok(ColumnInfo { compared: sql.clone(), sql, ty: state.ty.clone(), fold: false, index, name: state.name.clone(), tags: None, among: None })
        }
    }
}

impl ColumnInfo {
    pub fn folded(&self, value: &Value) -> Value {
        match value {
            Value::Text(text) if self.fold => Value::text(fold(text)),
            other => other.clone(),
        }
    }

    /// Whether an index finds the records that satisfy a condition.
    pub fn finds(&self, test: &Comparison) -> bool {
        let ordered = self.index.ordered || self.name == "key";
        let contained = |pieces: &[String]| self.index.contains && !pattern::trigrams(&self.fold_pattern(pieces)).is_empty();
        match test {
            Comparison::Equal(wanted) => ordered || wanted.as_text().is_some_and(|text| contained(&[text.to_owned()])),
            Comparison::Prefix(prefix) => ordered || contained(std::slice::from_ref(prefix)),
            Comparison::In(_) | Comparison::During(_) | Comparison::Among(_) => ordered,
            Comparison::Related(..) => self.index.intersects,
            Comparison::Words(_) => self.index.words,
            Comparison::Range { low, high } => ordered && (low.is_some() || high.is_some()),
            Comparison::Wildcard(pieces) => (ordered && pieces.first().is_some_and(|first| !first.is_empty())) || contained(pieces),
            Comparison::NotEqual(_) | Comparison::NotWildcard(_) | Comparison::NotAmong(_) | Comparison::Exists(_) => false,
        }
    }

    /// The SQL of the words of its value, if these have an index.
    pub fn kept_words(&self) -> DbResult<String> {
        if self.index.words { Ok(format!("r.{}", words_column(&self.name))) } else { Err(no_words(&self.name).into()) }
    }

    pub fn fold_pattern(&self, pieces: &[String]) -> Vec<String> {
        if self.fold { fold_pieces(pieces) } else { pieces.to_vec() }
    }
}

/// The SQL of the values of a member of the structs in a list, as a list is stored; for ranges, all ranges.
pub fn member_values_sql(list: &str, member: &StructMember) -> String {
    let from = format!("unnest(r.{list}) WITH ORDINALITY AS m(value, place)");
    match member.ty {
        FieldType::Ranges => format!(
            "(SELECT jsonb_agg(g.v ORDER BY m.place, g.place)::text COLLATE \"C\" FROM {from}, \
             jsonb_array_elements(m.value::jsonb -> '{}') WITH ORDINALITY AS g(v, place))",
            member.name
        ),
        _ => {
            let value = format!("(m.value::jsonb ->> '{}')", member.name);
            format!("(SELECT array_agg({value}::{} ORDER BY m.place) FROM {from} WHERE {value} IS NOT NULL)", column_type(&member.ty))
        }
    }
}
