//! Writes MARC documents to a stream.

use crate::marc::{MarcError, MarcRecord, ReadOptions, RepairKind, Repairs};
use crate::{Document, DocumentError, ParseContext, Syntax};
use std::io::{self, Write};
use stook_catalogue::definition::DocumentOptions;
use stook_marc::write::{MarcSyntax, RecordWriteError, RecordWriter};

/// The reason why a document could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The output failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The kept document cannot be read.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// The record cannot be expressed in the syntax.
    #[error(transparent)]
    Marc(#[from] MarcError),
    /// There is nothing to write.
    #[error("the record has no kept document; edits over the API have none")]
    NoDocument,
    /// The document is not MARC.
    #[error("the record's document is {0}, not MARC")]
    NotMarc(&'static str),
}

impl From<RecordWriteError> for WriteError {
    fn from(error: RecordWriteError) -> Self {
        match error {
            RecordWriteError::Io(error) => Self::Io(error),
            RecordWriteError::Marc(error) => Self::Marc(error),
        }
    }
}

/// Converts MARC documents, in any of the MARC syntaxes, to one of them.
pub struct MarcWriter<W: Write> {
    records: RecordWriter<W>,
    syntax: Syntax,
}

impl<W: Write> MarcWriter<W> {
    /// Writes to `out`; `syntax` is one of the four MARC syntaxes.
    pub fn new(out: W, syntax: Syntax) -> Self {
        let marc_syntax = match syntax {
            Syntax::MarcXml => MarcSyntax::Xml,
            Syntax::MarcJson => MarcSyntax::Json,
            Syntax::MarcLine => MarcSyntax::Line,
            _ => MarcSyntax::Iso2709,
        };
        Self { records: RecordWriter::new(out, marc_syntax), syntax }
    }

    /// Writes one kept document. ISO 2709 is written to ISO 2709 unchanged.
    ///
    /// # Errors
    /// When it cannot be converted, or the output fails; after the former, writing can continue.
    pub fn write(&mut self, bytes: &[u8], syntax: Syntax) -> Result<(), WriteError> {
        if syntax == Syntax::Marc && self.syntax == Syntax::Marc {
            return Ok(self.records.write_bytes(bytes)?);
        }
        let document = Document::parse(bytes, syntax, &ParseContext::default())?;
        let Some(record) = document.marc() else { return Err(WriteError::NotMarc(syntax.name())) };
        Ok(self.records.write(record)?)
    }

    /// Writes one kept document so that others read in it what its source read. What had to be repaired while reading, and what the syntax cannot
    /// express, is written in the nearest form and reported in `repairs`. ISO 2709 that any reader reads as its source did is written unchanged.
    ///
    /// # Errors
    /// As [`MarcWriter::write`].
    pub fn write_nearest(&mut self, bytes: &[u8], syntax: Syntax, options: &ReadOptions, repairs: &mut Repairs) -> Result<(), WriteError> {
        let document = Document::read(bytes, syntax, &ParseContext::default(), &DocumentOptions::from_marc(*options), repairs)?;
        let Some(record) = document.marc() else { return Err(WriteError::NotMarc(syntax.name())) };
        if syntax == Syntax::Marc && self.syntax == Syntax::Marc {
            if MarcRecord::parse(bytes).is_ok_and(|strict| strict == *record) {
                return Ok(self.records.write_bytes(bytes)?);
            }
            // a record that is too long for the format came in spite of that
            if let Err(reason) = record.to_nearest_iso2709(&mut Repairs::default()) {
                repairs.add(RepairKind::RecordLength, None, None, format!("written as it came, damaged: {reason}"));
                return Ok(self.records.write_bytes(bytes)?);
            }
        }
        Ok(self.records.write_nearest(record, repairs)?)
    }

    /// Writes a record in the form that is nearest to it, and reports in `repairs` what the syntax cannot express.
    ///
    /// # Errors
    /// When a field or the record is too long for the syntax, or the output fails; after the former, writing can continue.
    pub fn write_record(&mut self, record: &MarcRecord<'_>, repairs: &mut Repairs) -> Result<(), WriteError> {
        Ok(self.records.write_nearest(record, repairs)?)
    }

    /// Writes the end of the file; returns the number of records.
    ///
    /// # Errors
    /// When the output fails.
    pub fn finish(self) -> io::Result<u64> {
        self.records.finish()
    }
}
