//! Many records written to a stream, in one of the syntaxes of MARC, as they are or in the form that is nearest to them.

use crate::record::{MarcError, MarcRecord};
use crate::repair::Repairs;
use crate::{line, marcxml};
use std::io::{self, Write};

/// A syntax in which records are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarcSyntax {
    /// ISO 2709, UTF-8.
    Iso2709,
    /// MARCXML, a `collection`.
    Xml,
    /// MARC-in-JSON, one array.
    Json,
    /// Line mode, UTF-8.
    Line,
}

/// Why a record could not be written.
#[derive(Debug, thiserror::Error)]
pub enum RecordWriteError {
    /// The output failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The record cannot be expressed.
    #[error(transparent)]
    Marc(#[from] MarcError),
}

/// Writes records in one syntax.
pub struct RecordWriter<W: Write> {
    out: W,
    syntax: MarcSyntax,
    written: u64,
}

impl<W: Write> RecordWriter<W> {
    /// Writes to `out`.
    pub fn new(out: W, syntax: MarcSyntax) -> Self {
        Self { out, syntax, written: 0 }
    }

    /// Writes a record.
    ///
    /// # Errors
    /// When it cannot be expressed in the syntax, or the output fails; after the former, writing can go on.
    pub fn write(&mut self, record: &MarcRecord<'_>) -> Result<(), RecordWriteError> {
        let bytes = match self.syntax {
            MarcSyntax::Xml => marcxml::write(record)?.into_bytes(),
            MarcSyntax::Json => record.to_json().into_bytes(),
            MarcSyntax::Iso2709 => record.to_iso2709()?,
            MarcSyntax::Line => {
                let mut repairs = Repairs::default();
                let text = line::write_nearest(record, &mut repairs);
                if let Some(repair) = repairs.list().first() {
                    return Err(MarcError::Shape(format!("it cannot be written in line mode as it is: {repair}")).into());
                }
                text.into_bytes()
            }
        };
        self.write_bytes(&bytes)?;
        Ok(())
    }

    /// Writes a record in the form that is nearest to it: what the syntax cannot hold is replaced or put elsewhere, and added to
    /// `repairs`. No text is lost without being named there.
    ///
    /// # Errors
    /// When a field or the record is too long for ISO 2709, or the output fails; after the former, writing can go on.
    pub fn write_nearest(&mut self, record: &MarcRecord<'_>, repairs: &mut Repairs) -> Result<(), RecordWriteError> {
        let bytes = match self.syntax {
            MarcSyntax::Xml => marcxml::write_nearest(record, repairs).into_bytes(),
            MarcSyntax::Json => record.to_nearest_json(repairs).into_bytes(),
            MarcSyntax::Iso2709 => record.to_nearest_iso2709(repairs)?,
            MarcSyntax::Line => line::write_nearest(record, repairs).into_bytes(),
        };
        self.write_bytes(&bytes)?;
        Ok(())
    }

    /// Writes a record that is in the syntax already, as it is.
    ///
    /// # Errors
    /// When the output fails.
    pub fn write_bytes(&mut self, record: &[u8]) -> io::Result<()> {
        match (self.syntax, self.written) {
            (MarcSyntax::Xml, 0) => self.out.write_all(marcxml::PROLOGUE.as_bytes())?,
            (MarcSyntax::Json, 0) => self.out.write_all(b"[\n")?,
            (MarcSyntax::Json, _) => self.out.write_all(b",\n")?,
            _ => {}
        }
        self.out.write_all(record)?;
        self.written += 1;
        Ok(())
    }

    /// Writes what closes the file; returns the number of records.
    ///
    /// # Errors
    /// When the output fails.
    pub fn finish(mut self) -> io::Result<u64> {
        match (self.syntax, self.written) {
            (MarcSyntax::Xml, 0) => self.out.write_all(format!("{}{}", marcxml::PROLOGUE, marcxml::EPILOGUE).as_bytes())?,
            (MarcSyntax::Xml, _) => self.out.write_all(marcxml::EPILOGUE.as_bytes())?,
            (MarcSyntax::Json, 0) => self.out.write_all(b"[]\n")?,
            (MarcSyntax::Json, _) => self.out.write_all(b"\n]\n")?,
            (MarcSyntax::Iso2709 | MarcSyntax::Line, _) => {}
        }
        self.out.flush()?;
        Ok(self.written)
    }
}
