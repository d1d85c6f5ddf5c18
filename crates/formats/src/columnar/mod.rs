//! Tables in files that store columns: Parquet and Arrow IPC. They are read as rows, each of which is a JSON document, and written with types.
//!
//! * [`rows`] reads batches of rows as JSON, one line for each;
//! * [`messages`] checks how much memory an Arrow IPC file claims to need, before it is read;
//! * [`TableWriter`] writes values of Stook.
//!
//! Without the feature `arrow`, such files are recognised and refused.

#[cfg(feature = "arrow")]
mod messages;
#[cfg(feature = "arrow")]
mod rows;
#[cfg(feature = "arrow")]
mod write;

#[cfg(feature = "arrow")]
pub use write::TableWriter;

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

/// A file format of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableFormat {
    /// Apache Parquet.
    Parquet,
    /// Apache Arrow IPC, as a file: the stream between a magic number and a footer.
    ArrowFile,
    /// Apache Arrow IPC, as a stream.
    ArrowStream,
}

/// How many bytes [`TableFormat::recognise`] looks at.
pub(crate) const FRONT: usize = 8;

/// Maximum size of a table that is unpacked, or that arrives without being a file, because it cannot be read from the front.
const MAX_SPOOLED: u64 = 16 << 30;

impl TableFormat {
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            TableFormat::Parquet => "Parquet",
            TableFormat::ArrowFile | TableFormat::ArrowStream => "Arrow IPC",
        }
    }

    /// The format of a file that begins with these bytes.
    pub(crate) fn recognise(front: &[u8]) -> Option<Self> {
        match front {
            // the first page or the footer follows; in a text it would be a letter or a comma
            [b'P', b'A', b'R', b'1', next, ..] if next.is_ascii_control() && !next.is_ascii_whitespace() => Some(TableFormat::Parquet),
            [b'A', b'R', b'R', b'O', b'W', b'1', 0, 0] => Some(TableFormat::ArrowFile),
            [0xff, 0xff, 0xff, 0xff, ..] => Some(TableFormat::ArrowStream),
            _ => None,
        }
    }

    /// The format that the name of a file promises.
    pub(crate) fn of_name(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "parquet" => Some(TableFormat::Parquet),
            "arrow" | "feather" => Some(TableFormat::ArrowFile),
            _ => None,
        }
    }
}

/// Reads the rows of a table as lines of JSON.
///
/// # Errors
/// When the file is damaged where its schema is, or this program was built without the feature `arrow`.
#[cfg(feature = "arrow")]
pub(crate) fn lines(file: File, format: TableFormat) -> io::Result<Box<dyn Read + Send>> {
    rows::lines(file, format)
}

/// Reads the rows of a table as lines of JSON.
#[cfg(not(feature = "arrow"))]
pub(crate) fn lines(_: File, format: TableFormat) -> io::Result<Box<dyn Read + Send>> {
    Err(left_out(format))
}

#[cfg(not(feature = "arrow"))]
fn left_out(format: TableFormat) -> io::Error {
    let reason = format!("a file of {}, which this program was built without (feature `arrow`); use CSV or JSON", format.name());
    io::Error::new(io::ErrorKind::Unsupported, reason)
}

/// Writes rows; without the feature `arrow`, there is no such writer.
#[cfg(not(feature = "arrow"))]
pub enum TableWriter {}

#[cfg(not(feature = "arrow"))]
impl TableWriter {
    /// Refuses to write.
    ///
    /// # Errors
    /// Always.
    pub fn new(format: TableFormat, _: Vec<crate::TableColumn>) -> io::Result<Self> {
        Err(left_out(format))
    }

    /// There is no writer.
    ///
    /// # Errors
    /// Never.
    pub fn row(&mut self, _: Vec<stook_catalogue::value::Value>, _: &mut dyn Write) -> io::Result<()> {
        match *self {}
    }

    /// There is no writer.
    ///
    /// # Errors
    /// Never.
    pub fn finish(self, _: &mut dyn Write) -> io::Result<()> {
        match self {}
    }
}

/// Copies a stream to a temporary file, which has no name.
pub(crate) fn spooled(mut input: impl Read) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    let copied = io::copy(&mut input.by_ref().take(MAX_SPOOLED + 1), &mut file)?;
    if copied > MAX_SPOOLED {
        let reason = format!("a compressed table of more than {} GiB; unpack it, and import the file itself", MAX_SPOOLED >> 30);
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    file.flush()?;
    file.rewind()?;
    Ok(file)
}
