//! Writing many documents of one syntax to a stream.

use crate::marc::{MarcError, MarcRecord};
use crate::{Document, DocumentError, ParseContext, Syntax, marcxml};
use std::io::{self, Write};

/// Why a document could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The output failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The kept document cannot be read.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// The record cannot be expressed.
    #[error(transparent)]
    Marc(#[from] MarcError),
    /// Only MARC is written as MARC.
    #[error("the record's document is {0}, not MARC")]
    NotMarc(&'static str),
}

/// Writes MARC documents, in any of the MARC syntaxes, to one of them.
pub struct MarcWriter<W: Write> {
    out: W,
    syntax: Syntax,
    written: u64,
}

impl<W: Write> MarcWriter<W> {
    /// Writes to `out`; `syntax` is one of the three of MARC.
    pub fn new(out: W, syntax: Syntax) -> Self {
        Self { out, syntax, written: 0 }
    }

    /// Writes one kept document. Bytes that are in the syntax already are written as they are.
    ///
    /// # Errors
    /// When it cannot be converted, or the output fails; after the former, writing can go on.
    pub fn write(&mut self, bytes: &[u8], syntax: Syntax) -> Result<(), WriteError> {
        if syntax == Syntax::Marc && self.syntax == Syntax::Marc {
            self.out.write_all(bytes)?;
            self.written += 1;
            return Ok(());
        }
        let document = Document::parse(bytes, syntax, &ParseContext::default())?;
        let Document::Marc(record) = document else { return Err(WriteError::NotMarc(syntax.name())) };
        self.record(&record)
    }

    fn record(&mut self, record: &MarcRecord<'_>) -> Result<(), WriteError> {
        let bytes = match self.syntax {
            Syntax::MarcXml => marcxml::write(record)?.into_bytes(),
            Syntax::MarcJson => record.to_json().into_bytes(),
            _ => record.to_iso2709()?,
        };
        match (self.syntax, self.written) {
            (Syntax::MarcXml, 0) => self.out.write_all(marcxml::PROLOGUE.as_bytes())?,
            (Syntax::MarcJson, 0) => self.out.write_all(b"[\n")?,
            (Syntax::MarcJson, _) => self.out.write_all(b",\n")?,
            _ => {}
        }
        self.out.write_all(&bytes)?;
        self.written += 1;
        Ok(())
    }

    /// Writes what closes the file; returns the number of records.
    ///
    /// # Errors
    /// When the output fails.
    pub fn finish(mut self) -> io::Result<u64> {
        match (self.syntax, self.written) {
            (Syntax::MarcXml, 0) => self.out.write_all(format!("{}{}", marcxml::PROLOGUE, marcxml::EPILOGUE).as_bytes())?,
            (Syntax::MarcXml, _) => self.out.write_all(marcxml::EPILOGUE.as_bytes())?,
            (Syntax::MarcJson, 0) => self.out.write_all(b"[]\n")?,
            (Syntax::MarcJson, _) => self.out.write_all(b"\n]\n")?,
            _ => {}
        }
        self.out.flush()?;
        Ok(self.written)
    }
}
