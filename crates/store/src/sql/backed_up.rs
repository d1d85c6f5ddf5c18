//! The tables of a backup, and records as rows of them. Their columns are those that both stores have; what follows from others (indexes, reservations
//! of unique values, packed keys) is made again.

use crate::backup::{BackupItem, Cell};
use crate::sql::row::{conflicts_of, pack_state, unpack_state, with_members};
use crate::sql::store_schema::consolidated_again_name;
use crate::sql::{change_feed, former};
use crate::{RecordContent, Result, StoreError, StoredRecord, Version};
use std::collections::HashMap;
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::value::Value;

/// What a column of these tables contains; each may also be null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// A whole number.
    Int,
    /// Whether something is so.
    Bool,
    /// Text.
    Text,
    /// Bytes.
    Bytes,
}

/// Who numbers the rows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbering {
    /// They have no numbers.
    None,
    /// The store, by the highest number there is.
    Highest,
    /// The store, and never gives a number twice.
    Sequence,
}

/// A table that every store has.
#[derive(Debug)]
pub struct FixedTable {
    pub name: &'static str,
    pub columns: &'static [(&'static str, ColumnKind)],
    pub numbering: Numbering,
}

use ColumnKind::{Bool, Bytes, Int, Text};

/// All of them, but for those of records. New columns are added at the end and may be null: a row of a backup that was made before has fewer.
pub const FIXED_TABLES: &[FixedTable] = &[
    FixedTable { name: "tenants", columns: &[("id", Int), ("name", Text), ("given", Int)], numbering: Numbering::Highest },
    FixedTable { name: "generations", columns: &[("id", Int), ("hash", Bytes)], numbering: Numbering::Highest },
    FixedTable {
        name: "jobs",
        columns: &[
            ("id", Int),
            ("tenant", Int),
            ("profile", Text),
            ("source", Text),
            ("as_of", Int),
            ("files", Text),
            ("state", Text),
            ("reason", Text),
            ("created", Int),
            ("finished", Int),
            ("progress", Text),
            ("due", Int),
        ],
        numbering: Numbering::Sequence,
    },
    FixedTable {
        name: "chunks",
        columns: &[
            ("job", Int),
            ("ordinal", Int),
            ("state", Text),
            ("token", Int),
            ("until", Int),
            ("attempts", Int),
            ("reason", Text),
            ("file", Int),
            ("position", Int),
            ("length", Int),
            ("file_documents", Int),
            ("documents_before", Int),
            ("documents", Int),
            ("is_last", Bool),
            ("head", Bytes),
            ("payload", Bytes),
        ],
        numbering: Numbering::None,
    },
    FixedTable {
        name: "chunk_journals",
        columns: &[("job", Int), ("ordinal", Int), ("first", Int), ("counts", Bytes), ("file", Int), ("file_start", Int), ("lines", Bytes)],
        numbering: Numbering::None,
    },
    FixedTable {
        name: "troubles",
        columns: &[
            ("id", Int),
            ("job", Int),
            ("document", Int),
            ("file", Int),
            ("record", Int),
            ("position", Int),
            ("key", Text),
            ("failed", Bool),
            ("reason", Text),
        ],
        numbering: Numbering::Highest,
    },
    FixedTable { name: "failed_documents", columns: &[("job", Int), ("document", Int), ("bytes", Bytes)], numbering: Numbering::None },
    FixedTable {
        name: "corrections",
        columns: &[("job", Int), ("document", Int), ("collection", Text), ("outcome", Int)],
        numbering: Numbering::None,
    },
    FixedTable {
        name: "edges",
        columns: &[("tenant", Int), ("link", Int), ("target", Text), ("grp", Text), ("start", Int), ("child", Text), ("payload", Bytes)],
        numbering: Numbering::None,
    },
    FixedTable {
        name: "marks",
        columns: &[("id", Int), ("tenant", Int), ("stratum", Int), ("rule", Int), ("target", Text), ("part", Text), ("job", Int)],
        numbering: Numbering::Sequence,
    },
    FixedTable {
        name: "record_log",
        columns: &[
            ("id", Int),
            ("tenant", Int),
            ("collection", Text),
            ("key", Text),
            ("at", Int),
            ("transition", Text),
            ("caller", Text),
            ("change", Text),
        ],
        numbering: Numbering::Sequence,
    },
    FixedTable {
        name: "calls",
        columns: &[("tenant", Int), ("id", Bytes), ("request", Bytes), ("answer", Bytes), ("made", Int)],
        numbering: Numbering::None,
    },
    FixedTable {
        name: "api_tokens",
        columns: &[
            ("id", Int),
            ("digest", Bytes),
            ("tenant", Text),
            ("role", Text),
            ("name", Text),
            ("created", Int),
            ("revoked", Int),
            ("expires", Int),
            ("used", Int),
            ("former_digest", Bytes),
            ("former_until", Int),
        ],
        numbering: Numbering::Sequence,
    },
    FixedTable {
        name: "audit",
        columns: &[
            ("id", Int),
            ("at", Int),
            ("tenant", Text),
            ("token", Int),
            ("caller", Text),
            ("address", Text),
            ("operation", Text),
            ("collection", Text),
            ("key", Text),
            ("outcome", Text),
        ],
        numbering: Numbering::Sequence,
    },
    FixedTable {
        name: "erased",
        columns: &[("digest", Bytes), ("tenant", Text), ("collection", Text), ("at", Int), ("reason", Text), ("finished", Bool)],
        numbering: Numbering::None,
    },
    FixedTable { name: "tag_stamps", columns: &[("tenant", Int), ("stamp", Int)], numbering: Numbering::None },
    FixedTable {
        name: "tags",
        columns: &[
            ("tenant", Int),
            ("collection", Int),
            ("name", Text),
            ("kind", Text),
            ("definition", Text),
            ("comment", Text),
            ("attributes", Text),
            ("created", Int),
            ("changed", Int),
            ("generation", Int),
            ("job", Int),
        ],
        numbering: Numbering::None,
    },
    FixedTable { name: "tagged", columns: &[("tenant", Int), ("collection", Int), ("value", Text), ("key", Text)], numbering: Numbering::None },
    FixedTable {
        name: "trees",
        columns: &[("tenant", Int), ("collection", Int), ("key", Text), ("source", Text), ("tree", Bytes)],
        numbering: Numbering::None,
    },
];

/// The table that a store has if a source of its definition says `undo:`.
static FORMER: FixedTable = FixedTable {
    name: "former",
    columns: &[("tenant", Int), ("collection", Text), ("key", Text), ("contributor", Text), ("identity", Bytes), ("packed", Bytes), ("raw", Bytes)],
    numbering: Numbering::None,
};

/// The table that a store has if a collection of its definition says `changes:`.
static CHANGES: FixedTable = FixedTable {
    name: "changes",
    columns: &[("id", Int), ("tenant", Int), ("collection", Text), ("at", Int), ("entries", Bytes)],
    numbering: Numbering::Sequence,
};

/// The tables that a store of this definition has, but for those of records.
pub fn fixed_tables(catalogue: &Catalogue) -> impl Iterator<Item = &'static FixedTable> {
    FIXED_TABLES.iter().chain(former::has_undo(catalogue).then_some(&FORMER)).chain(change_feed::has_changes(catalogue).then_some(&CHANGES))
}

/// What a store of this definition records about itself that a backup contains under the same names.
pub fn kept_settings(catalogue: &Catalogue) -> Vec<String> {
    let with_undo = catalogue.sources.iter().filter(|source| source.undo.is_some());
    let undo = with_undo.map(|source| former::first_job_name(&source.name));
    let followed = change_feed::followed(catalogue).map(|(collection, _)| change_feed::kept_after_name(&collection.name));
    let epochs = change_feed::has_changes(catalogue).then(|| change_feed::EPOCHS.to_owned());
    let waiting = catalogue.collections.iter().map(|collection| consolidated_again_name(&collection.name));
    undo.chain(followed).chain(epochs).chain(waiting).chain([SETTLED.to_owned()]).collect()
}

impl FixedTable {
    /// Its columns, for a statement.
    pub fn column_names(&self) -> String {
        self.columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    /// Whether a new store has rows in it, so that they do not make it one that holds something.
    pub fn is_filled_when_new(&self) -> bool {
        matches!(self.name, "tenants" | "generations")
    }

    /// The name of the setting that has the last number that was given.
    pub fn sequence_setting(&self) -> String {
        format!("last number of {}", self.name)
    }
}

/// The setting that has the hash of the definition.
pub const DEFINITION: &str = "definition";
/// The setting that has the time of the last commit.
pub const CLOCK: &str = "clock";
/// The setting that has the rules by which records were settled.
pub const SETTLED: &str = "settled";

/// The name of the table of a collection's records.
fn records_table(collection: &Collection) -> String {
    format!("records of {}", collection.name)
}

/// A record as a row, or a word about one that cannot be read.
pub fn item_of(record: StoredRecord, tenant: i64, collection: &Collection) -> BackupItem {
    if let Some(reason) = record.reason() {
        return BackupItem::LeftOut(format!("record {:?} of `{}` is damaged: {reason}", record.key.as_str(), collection.name));
    }
    let names = record.conflicts.iter().map(|field| Value::text(collection.fields[*field].name.as_str())).collect();
    let set = pack_state(&record.state_set, collection).map_or(Value::Null, Value::text);
    let fixed = [
        Value::Int(tenant),
        Value::text(record.key.as_str()),
        Value::Int(record.version.revision),
        Value::Int(record.version.touches),
        Value::Int(record.created_job as i64),
        Value::Bool(record.exists),
        set,
        Value::List(names),
    ];
    let stored = record.golden.into_iter().take(collection.stored_fields().len());
    let mut cells: Vec<Cell> = fixed.into_iter().map(Cell::Value).collect();
    cells.push(Cell::Bytes(record.contributions));
    cells.push(record.raw.map_or(Cell::Value(Value::Null), Cell::Bytes));
    cells.extend(stored.chain(record.state).map(Cell::Value));
    BackupItem::Row(records_table(collection), cells)
}

/// A record of a backup.
pub struct RestoredRecord {
    pub tenant: i64,
    pub key: Key,
    pub version: Version,
    pub content: RecordContent,
}

/// Reads what [`item_of`] wrote; fails with the reason.
fn record_of(cells: Vec<Cell>, collection: &Collection) -> std::result::Result<RestoredRecord, String> {
    let mut cells = cells.into_iter();
    let mut value = |what: &str| match cells.next() {
        Some(Cell::Value(value)) => Ok(value),
        _ => Err(format!("its {what} is missing")),
    };
    let unfit = |what: &str| format!("its {what} is of another type");
    let int = |value: Value, what: &str| if let Value::Int(number) = value { Ok(number) } else { Err(unfit(what)) };
    let tenant = int(value("tenant")?, "tenant")?;
    let key = Key::new(value("key")?.as_text().ok_or_else(|| unfit("key"))?).map_err(|error| error.to_string())?;
    let version = Version::new(int(value("revision")?, "revision")?, int(value("number of touches")?, "number of touches")?);
    let created_job = int(value("job")?, "job")? as u64;
    let Value::Bool(exists) = value("existence")? else { return Err(unfit("existence")) };
    let state_set = unpack_state(value("state")?.as_text(), collection).map_err(|damage| damage.reason)?;
    let names = value("list of conflicts")?;
    let conflicts = conflicts_of(names.elements().iter().filter_map(Value::as_text), collection).map_err(|damage| damage.reason)?;
    let Some(Cell::Bytes(contributions)) = cells.next() else { return Err("its contributions are missing".into()) };
    let raw = match cells.next() {
        Some(Cell::Bytes(bytes)) => Some(bytes.into()),
        Some(Cell::Value(Value::Null)) => None,
        _ => return Err("its documents are missing".into()),
    };
    let mut rest: Vec<Value> = Vec::with_capacity(cells.len());
    for cell in cells {
        let Cell::Value(value) = cell else { return Err("a value is bytes".into()) };
        rest.push(value);
    }
    let stored = collection.stored_fields().len();
    if rest.len() != stored + collection.states.len() {
        return Err(format!("it has {} values, and the definition has {}", rest.len(), stored + collection.states.len()));
    }
    let state = rest.split_off(stored);
    let golden = with_members(collection, rest).into();
    let content = RecordContent { created_job, exists, golden, state, state_set, conflicts, contributions, raw, indexes_unchanged: false };
    Ok(RestoredRecord { tenant, key, version, content })
}

/// Takes the rows of a backup, in batches of one table.
pub trait FillTables {
    /// Inserts rows of a table that every store has.
    fn insert_fixed(&mut self, table: &'static FixedTable, rows: &[Vec<Cell>]) -> Result<()>;
    /// Inserts records, with all that follows from them.
    fn insert_records(&mut self, collection: CollectionId, records: &[RestoredRecord]) -> Result<()>;
}

/// Bytes of rows after which a batch is written.
const BATCH_BYTES: usize = 4 << 20;
/// Rows after which a batch is written.
const BATCH_ROWS: usize = 5_000;

/// Rows that wait to be written.
enum Batch {
    Nothing,
    Fixed(&'static FixedTable, Vec<Vec<Cell>>),
    Records(CollectionId, Vec<RestoredRecord>),
}

/// Writes all rows of a backup, and returns its settings.
pub fn fill(
    catalogue: &Catalogue,
    items: &mut dyn Iterator<Item = Result<BackupItem>>,
    tables: &mut dyn FillTables,
) -> Result<HashMap<String, String>> {
    let mut settings = HashMap::new();
    let (mut batch, mut rows, mut bytes) = (Batch::Nothing, 0, 0);
    for item in items {
        match item? {
            BackupItem::Setting(name, value) => {
                if name == DEFINITION && value != catalogue.hash {
                    return Err(StoreError::Definition(
                        "the backup is of a store with another catalogue.yaml: restore it with the one that the store had, then change it and run `stook prepare`"
                            .into(),
                    ));
                }
                drop(settings.insert(name, value));
            }
            BackupItem::LeftOut(_) => {}
            BackupItem::Row(table, cells) => {
                if !settings.contains_key(DEFINITION) {
                    return Err(StoreError::Wrong("the backup does not say of which definition it is".into()));
                }
                rows += 1;
                bytes += cells.iter().map(weight).sum::<usize>();
                batch = add(batch, &table, cells, (catalogue, tables))?;
                if rows >= BATCH_ROWS || bytes >= BATCH_BYTES {
                    write(std::mem::replace(&mut batch, Batch::Nothing), tables)?;
                    (rows, bytes) = (0, 0);
                }
            }
        }
    }
    write(batch, tables)?;
    Ok(settings)
}

fn weight(cell: &Cell) -> usize {
    match cell {
        Cell::Bytes(bytes) => bytes.len(),
        Cell::Value(Value::Text(text)) => text.len(),
        Cell::Value(Value::List(items)) => 16 * items.len(),
        Cell::Value(_) => 16,
    }
}

/// Adds a row to the batch; one of another table is written first.
fn add(batch: Batch, table: &str, mut cells: Vec<Cell>, (catalogue, tables): (&Catalogue, &mut dyn FillTables)) -> Result<Batch> {
    if let Some(fixed) = fixed_tables(catalogue).find(|fixed| fixed.name == table) {
        if cells.len() < fixed.columns.len() {
            cells.resize(fixed.columns.len(), Cell::Value(Value::Null));
        }
        if cells.len() != fixed.columns.len() {
            return Err(StoreError::Wrong(format!("a row of `{table}` has {} cells, and {} are expected", cells.len(), fixed.columns.len())));
        }
        return Ok(match batch {
            Batch::Fixed(of, mut rows) if std::ptr::eq(of, fixed) => {
                rows.push(cells);
                Batch::Fixed(of, rows)
            }
            other => {
                write(other, tables)?;
                Batch::Fixed(fixed, vec![cells])
            }
        });
    }
    let unknown = || StoreError::Wrong(format!("the backup has a table that this program does not know: `{table}`"));
    let (id, collection) = catalogue.collections.enumerate().find(|(_, collection)| records_table(collection) == table).ok_or_else(unknown)?;
    let record =
        record_of(cells, collection).map_err(|reason| StoreError::Wrong(format!("a record of `{}` cannot be read: {reason}", collection.name)))?;
    Ok(match batch {
        Batch::Records(of, mut records) if of == id => {
            records.push(record);
            Batch::Records(of, records)
        }
        other => {
            write(other, tables)?;
            Batch::Records(id, vec![record])
        }
    })
}

fn write(batch: Batch, tables: &mut dyn FillTables) -> Result<()> {
    match batch {
        Batch::Nothing => Ok(()),
        Batch::Fixed(table, rows) => tables.insert_fixed(table, &rows),
        Batch::Records(collection, records) => tables.insert_records(collection, &records),
    }
}

/// The error for a store that is not empty.
pub fn not_empty(table: &str) -> StoreError {
    StoreError::Wrong(format!(
        "the store is not empty (it has rows in `{}`): a backup is restored into a new store (--store)",
        table.trim_matches('"')
    ))
}
