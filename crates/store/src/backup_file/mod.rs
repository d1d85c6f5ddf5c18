//! The file of a backup: everything that a store holds at one moment, in a form that does not depend on the kind of store.
//!
//! ```text
//! "stook backup\n"            13 bytes
//! version                     u32, now 1; all numbers of fixed size begin with the lowest byte
//! block ..                    until the end of the file
//!   length, expanded length   u32, u32: bytes of the compressed content, and of the content
//!   checksum                  16 bytes of BLAKE3 over the block's number (u64, from 0), both lengths and the compressed content
//!   content                   one frame of Zstandard
//! ```
//! The contents of all blocks form one sequence of items; an item lies within one block:
//!
//! ```text
//! 1 name value                a setting: texts
//! 2 name                      the table of the rows that follow: text
//! 3 n cell*n                  a row: a value as contributions have it (`put_value`), or 255 and bytes
//! 4 words                     a record that is damaged and left out: text
//! 5 n (name rows)*n left_out  the end: how many rows each table has, and how many records were left out
//! ```
//! Texts and bytes follow their length; lengths and counts are varints. The settings, the tables with their columns, and records as rows are in
//! `sql/backed_up.rs`. Whoever changes them in a way that older programs would misread gives the file another version.
//!
//! * [`blocks`] cuts the sequence into blocks and joins it again, and checks them; [`items`] writes and reads items.
//!
//! Both directions keep one block and one batch of rows in memory. Checksums find damage; they do not prove who wrote the file.

mod blocks;
mod items;

use crate::backup::BackupItem;
use crate::{Result, Store, StoreError};
use blocks::{BlockReader, BlockWriter};
use items::{ItemReader, ItemWriter};
use std::collections::BTreeMap;
use std::io::{Read, Write};

/// Maximum number of records that are left out and named.
const MAX_NAMED: usize = 20;

/// What a backup contains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackupContents {
    /// Rows by table.
    pub rows: BTreeMap<String, u64>,
    /// Size of the file.
    pub bytes: u64,
    /// Number of damaged records that are not in it.
    pub left_out: u64,
    /// What is wrong with the first of them, in words.
    pub named: Vec<String>,
}

impl BackupContents {
    /// The number of records.
    pub fn records(&self) -> u64 {
        self.rows.iter().filter(|(table, _)| table.starts_with("records of ")).map(|(_, rows)| rows).sum()
    }

    /// The number of rows of a table.
    pub fn rows_of(&self, table: &str) -> u64 {
        self.rows.get(table).copied().unwrap_or(0)
    }

    fn add(&mut self, item: &BackupItem) {
        match item {
            BackupItem::Setting(..) => {}
            // the name is only copied for the first row
            BackupItem::Row(table, _) => match self.rows.get_mut(table) {
                Some(rows) => *rows += 1,
                None => drop(self.rows.insert(table.clone(), 1)),
            },
            BackupItem::LeftOut(words) => {
                self.left_out += 1;
                if self.named.len() < MAX_NAMED {
                    self.named.push(words.clone());
                }
            }
        }
    }
}

/// Writes a backup of a store that may be in use. Calls `report` with the number of rows and bytes so far.
///
/// # Errors
/// When the store cannot be read, or the file cannot be written.
pub fn write(store: &dyn Store, out: &mut dyn Write, report: &mut dyn FnMut(u64, u64)) -> Result<BackupContents> {
    let mut contents = BackupContents::default();
    let mut items = ItemWriter::new(BlockWriter::new(out)?);
    let mut rows = 0;
    store.dump(&mut |item| {
        contents.add(&item);
        items.write(&item)?;
        rows += 1;
        if rows % 1_000 == 0 {
            report(rows, items.bytes());
        }
        Ok(())
    })?;
    contents.bytes = items.end(&contents)?;
    Ok(contents)
}

/// Reads a backup to its end and checks all of it.
///
/// # Errors
/// When it is damaged or incomplete: where, and how.
pub fn verify(input: &mut dyn Read) -> Result<BackupContents> {
    let mut backup = BackupReader::new(input)?;
    backup.by_ref().try_for_each(|item| item.map(drop))?;
    Ok(backup.contents)
}

/// The items of a backup, in their order; after the last one an error follows if the end of the file is not as it must be.
pub struct BackupReader<'i> {
    items: ItemReader<'i>,
    contents: BackupContents,
    ended: bool,
}

impl<'i> BackupReader<'i> {
    /// Begins to read.
    ///
    /// # Errors
    /// When it is not a backup that this program knows.
    pub fn new(input: &'i mut dyn Read) -> Result<Self> {
        Ok(Self { items: ItemReader::new(BlockReader::new(input)?), contents: BackupContents::default(), ended: false })
    }

    /// Fills an empty store with the backup, completely or not at all. The store must be opened again afterwards.
    ///
    /// # Errors
    /// When the store holds something, the backup is of another definition, damaged or incomplete, or the database fails.
    pub fn restore(mut self, store: &dyn Store) -> Result<BackupContents> {
        store.fill(&mut self)?;
        Ok(self.contents)
    }

    fn read(&mut self) -> Result<Option<BackupItem>> {
        if let Some(item) = self.items.read()? {
            self.contents.add(&item);
            return Ok(Some(item));
        }
        let (rows, left_out, bytes) = self.items.finish()?;
        self.contents.bytes = bytes;
        if rows != self.contents.rows || left_out != self.contents.left_out {
            return Err(StoreError::Wrong("the backup does not have as many rows as its end says".into()));
        }
        Ok(None)
    }
}

impl Iterator for BackupReader<'_> {
    type Item = Result<BackupItem>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let read = self.read();
        self.ended = !matches!(read, Ok(Some(_)));
        read.transpose()
    }
}

#[cfg(test)]
mod tests;
