//! Rows as CSV (RFC 4180), for files, terminals and responses alike.

/// What programs such as Excel need at the beginning of a file to read it as UTF-8.
pub const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Expected length of a line, in bytes.
const LINE: usize = 256;

/// How a line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineEnd {
    /// As lines of text files do.
    LineFeed,
    /// As RFC 4180 has it, in responses.
    CarriageReturnLineFeed,
}

/// A line with these cells. Texts are written as they are, whatever a spreadsheet may make of them.
pub fn csv_line(cells: impl Iterator<Item = String>, end: LineEnd) -> String {
    let terminator = match end {
        LineEnd::LineFeed => csv::Terminator::Any(b'\n'),
        LineEnd::CarriageReturnLineFeed => csv::Terminator::CRLF,
    };
    let mut line = csv::WriterBuilder::new().terminator(terminator).buffer_capacity(LINE).from_writer(Vec::with_capacity(LINE));
    // memory takes everything, and texts are UTF-8
    let written = line.write_record(cells).ok().and_then(|()| line.into_inner().ok());
    String::from_utf8(written.unwrap_or_default()).unwrap_or_default()
}
