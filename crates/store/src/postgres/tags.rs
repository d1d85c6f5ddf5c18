//! Reads and writes tags and trees.

use super::session::{DbResult, Session};
use super::tables::{StoreTables, TenantTables};
use super::values::RowExt;
use crate::sql::row::read_json;
use crate::sql::tagging::{self, differences};
use crate::tag::{CollectionTags, Tag, TagChanges, TagDefinition, TagRename, TagWrites, TreeWrite};
use crate::{PackedTrees, StoreError, Unit};
use ::tokio_postgres::Row;
use std::collections::HashMap;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;

fn id_of(tables: &StoreTables, collection: CollectionId) -> DbResult<i64> {
    Ok(tagging::id_of(tables.catalogue(), collection)?.into())
}

pub fn tags(session: &mut Session, tables: &StoreTables, tenant: i64, collection: CollectionId) -> DbResult<CollectionTags> {
    // the revision first: tags that change after it are read again later, never missed
    let revision = session.query_first("SELECT stamp FROM tag_stamps WHERE tenant = $1", &[&tenant])?.map(|row| row.at(0)).transpose()?.unwrap_or(0);
    let sql = "SELECT name, kind, definition, comment, attributes, created, changed, generation, job FROM tags WHERE tenant = $1 AND collection = $2 ORDER BY name";
    let tag = |row: Row| -> DbResult<Tag> {
        let name: String = row.at(0)?;
        Ok(Tag {
            definition: TagDefinition::from_parts(&name, row.at(1)?, row.at(2)?)?,
            comment: row.at(3)?,
            attributes: read_json(row.at(4)?, || format!("tag `{name}`"))?,
            created: row.at(5)?,
            changed: row.at(6)?,
            generation: row.at(7)?,
            job: row.at::<i64>(8)? as u64,
            name,
        })
    };
    let tags = session.query(sql, &[&tenant, &id_of(tables, collection)?])?.into_iter().map(tag).collect::<DbResult<_>>()?;
    Ok(CollectionTags { revision, tags })
}

/// Sets the revision of a tenant's tags. Units that evaluate tags wait until this transaction has ended.
fn set_tags_revision(session: &mut Session, tenant: i64, revision: i64) -> DbResult<()> {
    let sql = "INSERT INTO tag_stamps(tenant, stamp) VALUES ($1, $2) ON CONFLICT (tenant) DO UPDATE SET stamp = excluded.stamp";
    session.execute(sql, &[&tenant, &revision])?;
    Ok(())
}

/// Writes tags, which must not exist if `new`.
pub fn put(tenant_tables: TenantTables<'_>, collection: CollectionId, tags: &[Tag], new: bool, revision: i64) -> DbResult<()> {
    let TenantTables { session, tables, tenant } = tenant_tables;
    let collection = id_of(tables, collection)?;
    set_tags_revision(session, tenant, revision)?;
    for tag in tags {
        let (kind, definition) = tag.definition.parts();
        let attributes = serde_json::Value::Object(tag.attributes.clone()).to_string();
        let (job, on_conflict) = (
            tag.job as i64,
            if new {
                "DO NOTHING"
            } else {
                "DO UPDATE SET kind = excluded.kind, definition = excluded.definition, comment = excluded.comment, attributes = excluded.attributes, \
             created = excluded.created, changed = excluded.changed, generation = excluded.generation, job = excluded.job"
            },
        );
        let sql = format!(
            "INSERT INTO tags(tenant, collection, name, kind, definition, comment, attributes, created, changed, generation, job) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (tenant, collection, name) {on_conflict}"
        );
        let (name, comment) = (&tag.name, &tag.comment);
        let (created, changed, generation) = (&tag.created, &tag.changed, &tag.generation);
        let written =
            session.execute(&sql, &[&tenant, &collection, name, &kind, &definition, comment, &attributes, created, changed, generation, &job])?;
        if written == 0 {
            return Err(StoreError::Wrong(format!("there is a tag `{name}` already")).into());
        }
    }
    Ok(())
}

/// Removes a tag from its collection and from all records.
pub fn delete(tenant_tables: TenantTables<'_>, collection: CollectionId, name: &str, revision: i64) -> DbResult<bool> {
    let TenantTables { session, tables, tenant } = tenant_tables;
    let collection = id_of(tables, collection)?;
    set_tags_revision(session, tenant, revision)?;
    session.execute("DELETE FROM tagged WHERE tenant = $1 AND collection = $2 AND value = $3", &[&tenant, &collection, &name])?;
    Ok(session.execute("DELETE FROM tags WHERE tenant = $1 AND collection = $2 AND name = $3", &[&tenant, &collection, &name])? > 0)
}

/// Gives a tag another name, also in what records carry.
pub fn rename(tenant_tables: TenantTables<'_>, collection: CollectionId, rename: &TagRename, revision: i64) -> DbResult<bool> {
    let TenantTables { session, tables, tenant } = tenant_tables;
    let id = id_of(tables, collection)?;
    session.execute("INSERT INTO tag_stamps(tenant, stamp) VALUES ($1, 0) ON CONFLICT DO NOTHING", &[&tenant])?;
    let current_revision: i64 = session.query_one("SELECT stamp FROM tag_stamps WHERE tenant = $1 FOR UPDATE", &[&tenant])?.at(0)?;
    if current_revision != rename.revision {
        return Err(StoreError::Outdated.into());
    }
    if session.execute("DELETE FROM tags WHERE tenant = $1 AND collection = $2 AND name = $3", &[&tenant, &id, &rename.from])? == 0 {
        return Ok(false);
    }
    put(TenantTables { session, tables, tenant }, collection, std::slice::from_ref(&rename.tag), true, revision)?;
    let sql = "UPDATE tagged SET value = $4 WHERE tenant = $1 AND collection = $2 AND value = $3";
    session.execute(sql, &[&tenant, &id, &rename.from, &rename.tag.name])?;
    Ok(true)
}

/// The query for `columns` of a table, by key.
fn by_key_sql(tables: &StoreTables, table: &str, columns: &str, order: &str) -> String {
    match tables.is_distributed() {
        true => format!("SELECT key, {columns} FROM {table} WHERE tenant = $1 AND collection = $2 AND key = ANY($3) {order}"),
        false => format!(
            "SELECT r.* FROM unnest($3::text[]) AS u(own) CROSS JOIN LATERAL \
             (SELECT key, {columns} FROM {table} WHERE tenant = $1 AND collection = $2 AND key = u.own OFFSET 0) AS r {order}"
        ),
    }
}

fn group_by_key<T>(keys: &[Key], rows: Vec<Row>, read_value: impl Fn(&Row) -> DbResult<T>) -> DbResult<Vec<Vec<T>>> {
    let index_by_key: HashMap<&str, usize> = keys.iter().enumerate().map(|(index, key)| (key.as_str(), index)).collect();
    let mut found: Vec<Vec<T>> = keys.iter().map(|_| Vec::new()).collect();
    for row in &rows {
        if let Some(index) = index_by_key.get(row.at::<&str>(0)?) {
            found[*index].push(read_value(row)?);
        }
    }
    Ok(found)
}

/// Reads the names of the tags that records carry.
pub fn tagged(session: &mut Session, tables: &StoreTables, tenant: i64, collection: CollectionId, keys: &[Key]) -> DbResult<Vec<Vec<String>>> {
    let wanted: Vec<&str> = keys.iter().map(Key::as_str).collect();
    let sql = by_key_sql(tables, "tagged", "value", "ORDER BY 1, 2");
    group_by_key(keys, session.query(&sql, &[&tenant, &id_of(tables, collection)?, &wanted])?, |row| row.at(1))
}

/// Reads the trees of records, each with its source.
pub fn trees(session: &mut Session, tables: &StoreTables, tenant: i64, collection: CollectionId, keys: &[Key]) -> DbResult<Vec<PackedTrees>> {
    let wanted: Vec<&str> = keys.iter().map(Key::as_str).collect();
    let sql = by_key_sql(tables, "trees", "source, tree", "");
    group_by_key(keys, session.query(&sql, &[&tenant, &id_of(tables, collection)?, &wanted])?, |row| Ok((row.at(1)?, row.at(2)?)))
}

/// Writes the trees and tags of a unit. Transactions that change tags wait until this one has ended.
pub fn write(session: &mut Session, tables: &StoreTables, tenant: i64, unit: &mut dyn Unit) -> DbResult<()> {
    let Some(evaluated_revision) = unit.tag_revision() else { return Ok(()) };
    session.execute("INSERT INTO tag_stamps(tenant, stamp) VALUES ($1, 0) ON CONFLICT DO NOTHING", &[&tenant])?;
    let current_revision: i64 = session.query_one("SELECT stamp FROM tag_stamps WHERE tenant = $1 FOR SHARE", &[&tenant])?.at(0)?;
    if current_revision != evaluated_revision {
        let current_tags = tables.catalogue().with_tags().map(|(collection, _)| Ok((collection, tags(session, tables, tenant, collection)?)));
        unit.retag(current_tags.collect::<DbResult<_>>()?);
    }
    let mut changes = TagChanges::default();
    for tagging in unit.tagging() {
        let collection = id_of(tables, tagging.collection)?;
        write_trees(session, tenant, collection, &tagging)?;
        changes += write_tagged(session, tables, tenant, collection, &tagging)?;
    }
    unit.tags_changed(changes);
    Ok(())
}

fn write_trees(session: &mut Session, tenant: i64, collection: i64, tagging: &TagWrites) -> DbResult<()> {
    let (mut keys, mut sources, mut trees) = (Vec::new(), Vec::new(), Vec::new());
    let (mut deleted_keys, mut deleted_sources) = (Vec::new(), Vec::new());
    for TreeWrite { key, source, tree } in &tagging.trees {
        match tree {
            Some(tree) => {
                keys.push(key.as_str());
                sources.push(&**source);
                trees.push(&**tree);
            }
            None => {
                deleted_keys.push(key.as_str());
                deleted_sources.push(&**source);
            }
        }
    }
    if !keys.is_empty() {
        let sql = "INSERT INTO trees(tenant, collection, key, source, tree) \
                   SELECT $1, $2, u.* FROM unnest($3::text[], $4::text[], $5::bytea[]) AS u \
                   ON CONFLICT (tenant, collection, key, source) DO UPDATE SET tree = excluded.tree";
        session.execute(sql, &[&tenant, &collection, &keys, &sources, &trees])?;
    }
    if !deleted_keys.is_empty() {
        let sql = "DELETE FROM trees t USING unnest($3::text[], $4::text[]) AS u(key, source) \
                   WHERE t.tenant = $1 AND t.collection = $2 AND t.key = u.key AND t.source = u.source";
        session.execute(sql, &[&tenant, &collection, &deleted_keys, &deleted_sources])?;
    }
    Ok(())
}

fn write_tagged(session: &mut Session, tables: &StoreTables, tenant: i64, collection: i64, tagging: &TagWrites) -> DbResult<TagChanges> {
    if tagging.tags.is_empty() || tagging.assignments.is_empty() {
        return Ok(TagChanges::default());
    }
    let wanted: Vec<&str> = tagging.assignments.iter().map(|(key, _)| key.as_str()).collect();
    let rows = session.query(&by_key_sql(tables, "tagged", "value", ""), &[&tenant, &collection, &wanted])?;
    let current: Vec<(&str, &str)> = rows.iter().map(|row| Ok((row.at(0)?, row.at(1)?))).collect::<DbResult<_>>()?;
    let (added, removed) = differences(tagging, &current);
    if !removed.is_empty() {
        let (keys, names): (Vec<&str>, Vec<&str>) = removed.iter().map(|(key, tag)| (key.as_str(), *tag)).unzip();
        let sql = "DELETE FROM tagged t USING unnest($3::text[], $4::text[]) AS u(key, value) \
                   WHERE t.tenant = $1 AND t.collection = $2 AND t.key = u.key AND t.value = u.value";
        session.execute(sql, &[&tenant, &collection, &keys, &names])?;
    }
    if !added.is_empty() {
        let (keys, names): (Vec<&str>, Vec<&str>) = added.iter().map(|(key, tag)| (key.as_str(), *tag)).unzip();
        let sql =
            "INSERT INTO tagged(tenant, collection, key, value) SELECT $1, $2, u.* FROM unnest($3::text[], $4::text[]) AS u ON CONFLICT DO NOTHING";
        session.execute(sql, &[&tenant, &collection, &keys, &names])?;
    }
    Ok(TagChanges::from_pairs(&added, &removed))
}
