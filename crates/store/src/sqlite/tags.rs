//! Reads and writes tags and trees.

use super::error::store_error;
use super::sql::execute;
use super::tables::{StoreTables, TenantTables};
use crate::sql::row::read_json;
use crate::sql::tagging::{differences, id_of};
use crate::tag::{CollectionTags, Tag, TagChanges, TagDefinition, TagRename, TagWrites, TreeWrite};
use crate::{PackedTrees, Result, StoreError, Unit};
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::HashMap;
use std::rc::Rc;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;

fn tags_revision(connection: &Connection, tenant: i64) -> Result<i64> {
    let mut statement = connection.prepare_cached("SELECT stamp FROM tag_stamps WHERE tenant = ?").map_err(store_error)?;
    Ok(statement.query_row([tenant], |row| row.get(0)).optional().map_err(store_error)?.unwrap_or(0))
}

pub fn tags(connection: &Connection, tables: &StoreTables, tenant: i64, collection: CollectionId) -> Result<CollectionTags> {
    // the revision first: tags that change after it are read again later, never missed
    let revision = tags_revision(connection, tenant)?;
    let sql = "SELECT name, kind, definition, comment, attributes, created, changed, generation, job FROM tags WHERE tenant = ? AND collection = ? ORDER BY name";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query(params![tenant, id_of(tables.catalogue(), collection)?]).map_err(store_error)?;
    let mut tags = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        let texts = || -> rusqlite::Result<(String, String, String, String)> { Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(4)?)) };
        let (name, kind, definition, attributes) = texts().map_err(store_error)?;
        let definition = TagDefinition::from_parts(&name, &kind, definition)?;
        let attributes = read_json(&attributes, || format!("tag `{name}`"))?;
        let get = || -> rusqlite::Result<Tag> {
            Ok(Tag {
                name,
                definition,
                comment: row.get(3)?,
                attributes,
                created: row.get(5)?,
                changed: row.get(6)?,
                generation: row.get(7)?,
                job: row.get::<_, i64>(8)? as u64,
            })
        };
        tags.push(get().map_err(store_error)?);
    }
    Ok(CollectionTags { revision, tags })
}

/// Writes tags, which must not exist if `new`.
pub fn put(tenant_tables: TenantTables<'_>, collection: CollectionId, tags: &[Tag], new: bool, revision: i64) -> Result<()> {
    let TenantTables { connection, tables, tenant } = tenant_tables;
    let collection = id_of(tables.catalogue(), collection)?;
    execute(connection, "INSERT OR REPLACE INTO tag_stamps(tenant, stamp) VALUES (?, ?)", params![tenant, revision])?;
    for tag in tags {
        let sql = "SELECT EXISTS(SELECT 1 FROM tags WHERE tenant = ? AND collection = ? AND name = ?)";
        let exists: bool = connection.query_row(sql, params![tenant, collection, tag.name], |row| row.get(0)).map_err(store_error)?;
        if exists && new {
            return Err(StoreError::Wrong(format!("there is a tag `{}` already", tag.name)));
        }
        let (kind, definition) = tag.definition.parts();
        let sql = "INSERT OR REPLACE INTO tags(tenant, collection, name, kind, definition, comment, attributes, created, changed, generation, job) \
                   VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let attributes = serde_json::Value::Object(tag.attributes.clone()).to_string();
        let (created, changed, generation, job) = (tag.created, tag.changed, tag.generation, tag.job as i64);
        execute(
            connection,
            sql,
            params![tenant, collection, tag.name, kind, definition, tag.comment, attributes, created, changed, generation, job],
        )?;
    }
    Ok(())
}

/// Removes a tag from its collection and from all records.
pub fn delete(tenant_tables: TenantTables<'_>, collection: CollectionId, name: &str, revision: i64) -> Result<bool> {
    let TenantTables { connection, tables, tenant } = tenant_tables;
    let collection = id_of(tables.catalogue(), collection)?;
    execute(connection, "INSERT OR REPLACE INTO tag_stamps(tenant, stamp) VALUES (?, ?)", params![tenant, revision])?;
    execute(connection, "DELETE FROM tagged WHERE tenant = ? AND collection = ? AND value = ?", params![tenant, collection, name])?;
    let mut statement = connection.prepare_cached("DELETE FROM tags WHERE tenant = ? AND collection = ? AND name = ?").map_err(store_error)?;
    Ok(statement.execute(params![tenant, collection, name]).map_err(store_error)? > 0)
}

/// Gives a tag another name, also in what records carry.
pub fn rename(tenant_tables: TenantTables<'_>, collection: CollectionId, rename: &TagRename, revision: i64) -> Result<bool> {
    let TenantTables { connection, tables, tenant } = tenant_tables;
    if tags_revision(connection, tenant)? != rename.revision {
        return Err(StoreError::Outdated);
    }
    let id = id_of(tables.catalogue(), collection)?;
    let mut statement = connection.prepare_cached("DELETE FROM tags WHERE tenant = ? AND collection = ? AND name = ?").map_err(store_error)?;
    if statement.execute(params![tenant, id, rename.from]).map_err(store_error)? == 0 {
        return Ok(false);
    }
    put(tenant_tables, collection, std::slice::from_ref(&rename.tag), true, revision)?;
    let sql = "UPDATE tagged SET value = ? WHERE tenant = ? AND collection = ? AND value = ?";
    execute(connection, sql, params![rename.tag.name, tenant, id, rename.from])?;
    Ok(true)
}

fn read_by_key<T>(
    connection: &Connection,
    sql: &str,
    arguments: (i64, u32),
    keys: &[Key],
    read_value: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<Vec<T>>> {
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let wanted: Rc<Vec<Sql>> = Rc::new(keys.iter().map(|key| Sql::Text(key.as_str().to_owned())).collect());
    let mut rows = statement.query(params![wanted, arguments.0, arguments.1]).map_err(store_error)?;
    let index_by_key: HashMap<&str, usize> = keys.iter().enumerate().map(|(index, key)| (key.as_str(), index)).collect();
    let mut found: Vec<Vec<T>> = keys.iter().map(|_| Vec::new()).collect();
    while let Some(row) = rows.next().map_err(store_error)? {
        let key = row.get_ref(0).map_err(store_error)?.as_str().map_err(|error| StoreError::Other(error.to_string()))?;
        if let Some(index) = index_by_key.get(key) {
            found[*index].push(read_value(row).map_err(store_error)?);
        }
    }
    drop(rows);
    super::sql::assert_no_full_scan(&statement);
    Ok(found)
}

/// Reads the names of the tags that records carry.
pub fn tagged(connection: &Connection, tables: &StoreTables, tenant: i64, collection: CollectionId, keys: &[Key]) -> Result<Vec<Vec<String>>> {
    read_tagged(connection, (tenant, id_of(tables.catalogue(), collection)?), keys)
}

fn read_tagged(connection: &Connection, tenant_and_collection: (i64, u32), keys: &[Key]) -> Result<Vec<Vec<String>>> {
    let sql = "SELECT t.key, t.value FROM rarray(?1) AS wanted CROSS JOIN tagged AS t \
               ON t.tenant = ?2 AND t.collection = ?3 AND t.key = wanted.value ORDER BY t.key, t.value";
    read_by_key(connection, sql, tenant_and_collection, keys, |row| row.get(1))
}

/// Reads the trees of records, each with its source.
pub fn trees(connection: &Connection, tables: &StoreTables, tenant: i64, collection: CollectionId, keys: &[Key]) -> Result<Vec<PackedTrees>> {
    let sql = "SELECT t.key, t.source, t.tree FROM rarray(?1) AS wanted CROSS JOIN trees AS t ON t.tenant = ?2 AND t.collection = ?3 AND t.key = wanted.value";
    read_by_key(connection, sql, (tenant, id_of(tables.catalogue(), collection)?), keys, |row| Ok((row.get(1)?, row.get(2)?)))
}

/// Writes the trees and tags of a unit.
pub fn write(connection: &Connection, tables: &StoreTables, tenant: i64, unit: &mut dyn Unit) -> Result<()> {
    let Some(evaluated_revision) = unit.tag_revision() else { return Ok(()) };
    if tags_revision(connection, tenant)? != evaluated_revision {
        let current_tags = tables.catalogue().with_tags().map(|(collection, _)| Ok((collection, tags(connection, tables, tenant, collection)?)));
        unit.retag(current_tags.collect::<Result<_>>()?);
    }
    let mut changes = TagChanges::default();
    for tagging in unit.tagging() {
        let collection = id_of(tables.catalogue(), tagging.collection)?;
        for TreeWrite { key, source, tree } in &tagging.trees {
            match tree {
                Some(tree) => {
                    let sql = "INSERT INTO trees(tenant, collection, key, source, tree) VALUES (?, ?, ?, ?, ?) \
                               ON CONFLICT(tenant, collection, key, source) DO UPDATE SET tree = excluded.tree";
                    execute(connection, sql, params![tenant, collection, key.as_str(), &**source, &**tree])?;
                }
                None => {
                    let sql = "DELETE FROM trees WHERE tenant = ? AND collection = ? AND key = ? AND source = ?";
                    execute(connection, sql, params![tenant, collection, key.as_str(), &**source])?;
                }
            }
        }
        changes += write_tagged(connection, tenant, collection, &tagging)?;
    }
    unit.tags_changed(changes);
    Ok(())
}

fn write_tagged(connection: &Connection, tenant: i64, collection: u32, tagging: &TagWrites) -> Result<TagChanges> {
    if tagging.tags.is_empty() {
        return Ok(TagChanges::default());
    }
    let keys: Vec<Key> = tagging.assignments.iter().map(|(key, _)| key.clone()).collect();
    let current = read_tagged(connection, (tenant, collection), &keys)?;
    let current: Vec<(&str, &str)> = keys.iter().zip(&current).flat_map(|(key, tags)| tags.iter().map(|tag| (key.as_str(), tag.as_str()))).collect();
    let (added, removed) = differences(tagging, &current);
    for (key, tag) in &removed {
        let sql = "DELETE FROM tagged WHERE tenant = ? AND collection = ? AND value = ? AND key = ?";
        execute(connection, sql, params![tenant, collection, tag, key.as_str()])?;
    }
    for (key, tag) in &added {
        let sql = "INSERT OR IGNORE INTO tagged(tenant, collection, value, key) VALUES (?, ?, ?, ?)";
        execute(connection, sql, params![tenant, collection, tag, key.as_str()])?;
    }
    Ok(TagChanges::from_pairs(&added, &removed))
}
