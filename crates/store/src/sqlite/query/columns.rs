//! The SQL of a plan's columns.

use super::super::tables::ordered_index;
use super::super::words_index::words_column;
use super::access::SqlStatement;
use super::linked::linked_column;
use crate::plan::PlanColumn;
use crate::sql::pattern::fold_pieces;
use crate::sql::plan_parts::{link_of, member, no_words};
use crate::{Result, StoreError};
use stook_catalogue::definition::{Catalogue, Collection, FieldIndexes};
use stook_catalogue::fold::fold;
use stook_catalogue::ids::FieldId;
use stook_catalogue::value::{FieldType, StructMember, Value};

/// A column, as the SQL builder needs it.
pub struct ColumnInfo {
    /// The SQL of its value.
    pub sql: String,
    /// The SQL for comparisons and order: the folded form if there is one; keys as their index has them.
    pub compared: String,
    pub ty: FieldType,
    pub fold: bool,
    pub index: FieldIndexes,
    /// The name without prefix and quotes, for indexes and side tables.
    pub name: String,
    pub is_key: bool,
    pub unique: bool,
    /// The number of the collection's tags, if it is the column of tags.
    pub tags: Option<u32>,
    /// Whether it is the column of conflicts, and records with conflicts are indexed.
    pub conflicts: bool,
    /// The statement of the values with which a condition compares it, if these are in linked records.
    pub among: Option<SqlStatement>,
}

/// The SQL of a record's key as its index has it, see [`super::super::packed`].
pub fn packed_key(collection: &Collection) -> String {
    format!("\"r_{}\".packed", collection.name)
}

pub fn column_info(catalogue: &Catalogue, collection: &Collection, each: Option<FieldId>, column: PlanColumn) -> Result<ColumnInfo> {
    let plain = |sql: &str, ty: FieldType| ColumnInfo {
        sql: sql.to_owned(),
        compared: sql.to_owned(),
        ty,
        fold: false,
        index: FieldIndexes::default(),
        name: sql.to_owned(),
        is_key: sql == "key",
        unique: false,
        tags: None,
        conflicts: false,
        among: None,
    };
    match column {
        // qualified, because records may be joined with tables that also have a key
        PlanColumn::Key => {
            let sql = format!("\"r_{}\".key", collection.name);
            Ok(ColumnInfo { compared: packed_key(collection), sql, name: "key".into(), is_key: true, ..plain("key", FieldType::Text) })
        }
        PlanColumn::Revision => Ok(plain("revision", FieldType::Integer)),
        // computed from the plan, see [`crate::sql::ranking`]
        PlanColumn::Rank => Ok(ColumnInfo { name: "rank".into(), ..plain("0", FieldType::Integer) }),
        PlanColumn::Conflict => Ok(ColumnInfo { conflicts: collection.compares(), ..plain("conflict", FieldType::List(Box::new(FieldType::Text))) }),
        PlanColumn::Tag => {
            let tags = collection.tags.as_ref().ok_or_else(|| StoreError::Wrong("the records of this collection carry no tags".into()))?;
            // an ordered aggregate, by an ordered sub-query
            let sql = format!(
                "(SELECT nullif(json_group_array(value), '[]') FROM (SELECT value FROM tagged WHERE tagged.tenant = \"r_{0}\".tenant \
                 AND tagged.collection = {1} AND tagged.key = \"r_{0}\".key ORDER BY value))",
                collection.name, tags.id
            );
            let index = FieldIndexes { ordered: true, ..FieldIndexes::default() };
            let name = "tag".to_owned();
            let ty = FieldType::List(Box::new(FieldType::Text));
            Ok(ColumnInfo {
                compared: sql.clone(),
                sql,
                ty,
                fold: false,
                index,
                name,
                is_key: false,
                unique: false,
                tags: Some(tags.id),
                conflicts: false,
                among: None,
            })
        }
        PlanColumn::Field(index) => {
            let field = collection.fields.get(index).ok_or_else(|| StoreError::Wrong("there is no such field".into()))?;
            let sql = match collection.member(index) {
                Some((list, member)) => member_values_sql(&collection.name, &collection.fields[list].name, member),
                None => format!("\"f_{}\"", field.name),
            };
            let folded = field.fold && !field.ty.is_list();
            let compared = if folded { format!("\"x_{}\"", field.name) } else { sql.clone() };
            let ty = field.golden_type().clone();
            Ok(ColumnInfo {
                sql,
                compared,
                ty,
                fold: field.fold,
                index: field.index,
                name: field.name.clone(),
                is_key: false,
                unique: field.unique,
                tags: None,
                conflicts: false,
                among: None,
            })
        }
        PlanColumn::Element(index) => {
            let member = member(collection, each, index)?;
            let value = format!("el.value ->> '{}'", member.name);
            let sql = if member.ty == FieldType::Uuid { format!("unhex({value})") } else { format!("({value})") };
            Ok(ColumnInfo { name: member.name.clone(), is_key: false, ..plain(&sql, member.ty.clone()) })
        }
        PlanColumn::TargetsExist(index) => {
            let link = link_of(catalogue, collection, index)?;
            let (target, field) = (&catalogue.collections[link.target_collection].name, &collection.fields[link.field].name);
            let record_table = format!("\"r_{}\"", collection.name);
            let exists = |key: &str| {
                format!(
                    "EXISTS (SELECT 1 FROM \"r_{target}\" AS lt WHERE lt.tenant = {record_table}.tenant AND packed(lt.key) = packed({key}) AND lt.alive)"
                )
            };
            let targets_exist = match link.many {
                false => exists(&format!("{record_table}.\"f_{field}\"")),
                true => format!("NOT EXISTS (SELECT 1 FROM json_each({record_table}.\"f_{field}\") AS le WHERE NOT {})", exists("le.value")),
            };
            let sql = format!("(CASE WHEN {record_table}.\"f_{field}\" IS NOT NULL THEN {targets_exist} END)");
            Ok(ColumnInfo { name: format!("{}.exists", link.name), ..plain(&sql, FieldType::Boolean) })
        }
        PlanColumn::Linked(linked) => linked_column(catalogue, collection, &linked),
        PlanColumn::State(index) => {
            let state = collection.states.get(index).ok_or_else(|| StoreError::Wrong("there is no such state field".into()))?;
            let sql = format!("\"s_{}\"", state.name);
            // state fields have no side tables
            let index = FieldIndexes { ordered: state.index.ordered && !state.ty.is_list(), ..FieldIndexes::default() };
            Ok(ColumnInfo {
                compared: sql.clone(),
                sql,
                ty: state.ty.clone(),
                fold: false,
                index,
                name: state.name.clone(),
                is_key: false,
                unique: false,
                tags: None,
                conflicts: false,
                among: None,
            })
        }
    }
}

impl ColumnInfo {
    /// The name of the ordered index on this column, if there is one.
    pub fn ordered_index(&self, collection: &Collection) -> Option<String> {
        if self.is_key {
            return Some(format!("\"k_{}\"", collection.name));
        }
        (self.index.ordered && !self.ty.is_list()).then(|| ordered_index(&collection.name, self.compared.trim_matches('"')))
    }

    /// The SQL of the words of its value, if these have an index.
    pub fn kept_words(&self) -> Result<String> {
        if self.index.words { Ok(words_column(&self.name)) } else { Err(no_words(&self.name)) }
    }

    /// The table of the elements of an indexed list.
    pub fn elements_table(&self, collection: &Collection) -> String {
        match self.tags {
            Some(_) => "tagged".to_owned(),
            None => format!("\"i_{}_{}\"", collection.name, self.name),
        }
    }

    /// The condition that finds the elements of a tenant's records in that table.
    pub fn tenant_condition(&self) -> String {
        self.tags.map_or("tenant = ?".to_owned(), |tags| format!("tenant = ? AND collection = {tags}"))
    }

    pub fn folded(&self, value: &Value) -> Value {
        match value {
            Value::Text(text) if self.fold => Value::text(fold(text)),
            other => other.clone(),
        }
    }

    /// Converts pieces of a pattern to the form that is compared.
    pub fn fold_pattern(&self, pieces: &[String]) -> Vec<String> {
        if self.fold { fold_pieces(pieces) } else { pieces.to_vec() }
    }
}

/// The SQL of the values of a member of the structs in a list, as a list is stored; for ranges, all ranges.
pub fn member_values_sql(collection: &str, list: &str, member: &StructMember) -> String {
    let (list, name) = (format!("json_each(\"r_{collection}\".\"f_{list}\") AS m"), &member.name);
    match member.ty {
        FieldType::Ranges => {
            format!("(SELECT nullif(json_group_array(json(g.value)), '[]') FROM {list}, json_each(m.value -> '{name}') AS g)")
        }
        _ => format!("(SELECT nullif(json_group_array(m.value ->> '{name}'), '[]') FROM {list} WHERE m.value ->> '{name}' IS NOT NULL)"),
    }
}
