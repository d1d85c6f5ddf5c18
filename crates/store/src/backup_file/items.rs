//! Writes and reads the items of a backup.

use super::BackupContents;
use super::blocks::{BlockReader, BlockWriter};
use crate::backup::{BackupItem, Cell};
use crate::{Result, StoreError};
use std::collections::BTreeMap;
use stook_catalogue::record::{DecodeError, Decoder, put_bytes, put_value, put_varint};

const SETTING: u8 = 1;
const TABLE: u8 = 2;
const ROW: u8 = 3;
const LEFT_OUT: u8 = 4;
const END: u8 = 5;
/// What comes before the bytes of a cell; a value begins with what kind it is.
const BYTES: u8 = 255;

/// Writes items.
pub struct ItemWriter<'o> {
    blocks: BlockWriter<'o>,
    /// The table of the last row.
    table: Option<String>,
}

impl<'o> ItemWriter<'o> {
    pub fn new(blocks: BlockWriter<'o>) -> Self {
        Self { blocks, table: None }
    }

    pub fn write(&mut self, item: &BackupItem) -> Result<()> {
        let content = self.blocks.content();
        match item {
            BackupItem::Setting(name, value) => {
                content.push(SETTING);
                put_bytes(content, name.as_bytes());
                put_bytes(content, value.as_bytes());
            }
            BackupItem::LeftOut(words) => {
                content.push(LEFT_OUT);
                put_bytes(content, words.as_bytes());
            }
            BackupItem::Row(table, cells) => {
                if self.table.as_ref() != Some(table) {
                    content.push(TABLE);
                    put_bytes(content, table.as_bytes());
                    self.table = Some(table.clone());
                }
                content.push(ROW);
                put_varint(content, cells.len() as u64);
                for cell in cells {
                    match cell {
                        Cell::Value(value) => put_value(content, value),
                        Cell::Bytes(bytes) => {
                            content.push(BYTES);
                            put_bytes(content, bytes);
                        }
                    }
                }
            }
        }
        self.blocks.item_ended()
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.blocks.bytes()
    }

    /// Writes the end; returns the size of the file.
    pub fn end(mut self, contents: &BackupContents) -> Result<u64> {
        let content = self.blocks.content();
        content.push(END);
        put_varint(content, contents.rows.len() as u64);
        for (table, rows) in &contents.rows {
            put_bytes(content, table.as_bytes());
            put_varint(content, *rows);
        }
        put_varint(content, contents.left_out);
        self.blocks.end()
    }
}

/// How many rows each table has, how many records were left out, and the size of the file.
pub type End = (BTreeMap<String, u64>, u64, u64);

/// Reads items.
pub struct ItemReader<'i> {
    blocks: BlockReader<'i>,
    content: Vec<u8>,
    /// How much of the content was read.
    position: usize,
    table: Option<String>,
}

impl<'i> ItemReader<'i> {
    pub fn new(blocks: BlockReader<'i>) -> Self {
        Self { blocks, content: Vec::new(), position: 0, table: None }
    }

    /// Returns the next item; `None` if the end follows.
    pub fn read(&mut self) -> Result<Option<BackupItem>> {
        loop {
            if self.position == self.content.len() {
                let Some(content) = self.blocks.next_block()? else {
                    return Err(StoreError::Wrong(format!("the backup is incomplete: it ends at byte {} without its end", self.blocks.bytes())));
                };
                (self.content, self.position) = (content, 0);
                continue;
            }
            let mut decoder = Decoder { bytes: &self.content[self.position..] };
            let item = match decoder.byte() {
                Ok(END) => return Ok(None),
                Ok(TABLE) => decoder.text().map(|table| {
                    self.table = Some(table.to_owned());
                    None
                }),
                Ok(kind) => item(kind, &mut decoder, self.table.as_deref()).map(Some),
                Err(error) => Err(error),
            };
            let left = decoder.bytes.len();
            match item {
                Ok(item) => {
                    self.position = self.content.len() - left;
                    if item.is_some() {
                        return Ok(item);
                    }
                }
                Err(DecodeError(reason)) => return Err(self.unreadable(reason)),
            }
        }
    }

    fn unreadable(&self, reason: &str) -> StoreError {
        StoreError::Wrong(format!("the backup cannot be read before byte {}: {reason}", self.blocks.bytes()))
    }

    /// Reads the end, after which nothing may follow.
    pub fn finish(&mut self) -> Result<End> {
        let mut decoder = Decoder { bytes: &self.content[self.position + 1..] };
        let mut end = || -> std::result::Result<_, DecodeError> {
            let mut rows = BTreeMap::new();
            for _ in 0..decoder.varint()? {
                rows.insert(decoder.text()?.to_owned(), decoder.varint()?);
            }
            Ok((rows, decoder.varint()?))
        };
        let (rows, left_out) = end().map_err(|DecodeError(reason)| self.unreadable(reason))?;
        let more = !decoder.bytes.is_empty();
        let bytes = self.blocks.bytes();
        if more || self.blocks.next_block()?.is_some() {
            return Err(StoreError::Wrong(format!("the backup goes on after its end at byte {bytes}")));
        }
        Ok((rows, left_out, bytes))
    }
}

fn item(kind: u8, decoder: &mut Decoder<'_>, table: Option<&str>) -> std::result::Result<BackupItem, DecodeError> {
    Ok(match kind {
        SETTING => BackupItem::Setting(decoder.text()?.to_owned(), decoder.text()?.to_owned()),
        LEFT_OUT => BackupItem::LeftOut(decoder.text()?.to_owned()),
        ROW => {
            let table = table.ok_or(DecodeError("a row has no table"))?.to_owned();
            let count = decoder.varint()? as usize;
            let mut cells = Vec::with_capacity(count.min(1_024));
            for _ in 0..count {
                let after = decoder.bytes.strip_prefix(&[BYTES]);
                cells.push(match after {
                    Some(rest) => {
                        decoder.bytes = rest;
                        Cell::Bytes(decoder.slice()?.to_vec())
                    }
                    None => Cell::Value(decoder.value(0)?),
                });
            }
            BackupItem::Row(table, cells)
        }
        _ => return Err(DecodeError("unknown kind of item")),
    })
}
