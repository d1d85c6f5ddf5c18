//! MARC 21 records: read from and written to ISO 2709 (with MARC-8 or UTF-8), MARCXML, MARC-in-JSON and line mode; MARCspec finds values
//! in them.
//!
//! A [`MarcRecord`] is a leader and fields, whatever syntax it came from. [`scan::records`] reads a file of ISO 2709 in memory,
//! [`scan::MarcScanner`] a stream of it; [`marcxml::read`] takes one `record` element, [`MarcRecord::from_json`] one object, [`line::read`]
//! one record of lines. [`compose::compose`] makes one record of several. [`write::RecordWriter`] writes many in any of the four syntaxes. [`MarcBuilder`] makes records.
//!
//! ```
//! use stook_marc::marcspec::MarcSpec;
//! use stook_marc::{MarcBuilder, scan, show_tag};
//!
//! let mut builder = MarcBuilder::new("00000nam a2200000 a 4500")?;
//! builder.control("001", "n1")?;
//! builder.data("100", "1", " ")?;
//! builder.subfield("a", "Dvořák, Antonín,")?;
//! builder.subfield("d", "1841-1904")?;
//! let file = builder.finish().to_iso2709()?;
//!
//! for record in scan::records(&file) {
//!     let record = record?;
//!     assert_eq!(record.fields().map(|field| show_tag(field.tag)).collect::<Vec<_>>(), ["001", "100"]);
//!     assert_eq!(MarcSpec::parse("1..$a")?.values(&record), ["Dvořák, Antonín,"]);
//!     assert!(record.to_json().contains(r#"{"100":{"ind1":"1","ind2":" ","subfields":[{"a":"Dvořák, Antonín,"}"#));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! MARCXML is read from an element of [roxmltree](https://docs.rs/roxmltree), whose version is that of [`roxmltree`] here:
//!
//! ```
//! use stook_marc::{marcxml, roxmltree::Document};
//!
//! let text = "<record><leader>00000nam a2200000 a 4500</leader><controlfield tag='001'>n1</controlfield></record>";
//! let record = marcxml::read(Document::parse(text)?.root_element())?;
//! assert_eq!(record.fields().next().map(|field| field.data), Some("n1"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Damage
//!
//! Whoever reads says by [`ReadOptions`] what becomes of a record that is damaged. A strict reader gives a [`MarcError`], which says where
//! and why: a length that is wrong, a field outside of the record, bytes that are not the UTF-8 that the leader promises. Only characters
//! of MARC-8 that do not exist become U+FFFD, and are counted ([`MarcRecord::unknown_characters`]). A reader that repairs reads what there
//! is: wrong lengths and directories, missing terminators, tags, indicators and codes, characters that were cut, a leader that is wrong
//! about the encoding, padding and what is left of other records. Each [`Repair`] is told, in words and by kind:
//!
//! ```
//! use stook_marc::{MarcBuilder, ReadOptions, scan};
//!
//! let mut builder = MarcBuilder::new("00000nam a2200000 a 4500")?;
//! builder.control("001", "n1")?;
//! let mut file = builder.finish().to_iso2709()?;
//! file[..5].copy_from_slice(b"99999");
//!
//! assert!(scan::records(&file).all(|record| record.is_err()));
//! for found in scan::read(&file, ReadOptions::REPAIR) {
//!     let found = found?;
//!     assert_eq!(found.record.fields().count(), 1);
//!     let told: Vec<String> = found.repairs.into_iter().map(|repair| repair.to_string()).collect();
//!     assert_eq!(told, ["the record length `99999` in the leader was ignored; the record was read up to its terminator, 41 bytes"]);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What a syntax cannot hold is refused when it is written, or with [`write::RecordWriter::write_nearest`] written in the form that is
//! nearest to it, and told in the same way. [`xmltext`] makes the text that an XML parser reads of files in other encodings, and of such
//! with a document type.
//!
//! # Limits
//!
//! A record in ISO 2709 has at most [`MAX_RECORD`] bytes and each of its fields at most 9 999; in the other syntaxes neither is
//! limited but by the 4 GiB that positions reach. A record of UTF-8, or of MARC-8 that is plain ASCII, is read without a copy.
//! Conditions in a MARCspec are nested at most 4 deep. A reader that repairs takes records and fields of any length; it keeps at most
//! [`MAX_REPAIRS`] repairs of one record and counts the others.

mod builder;
mod charset;
pub mod compose;
mod draft;
mod json;
mod layout;
pub mod line;
pub mod marc8;
pub mod marcspec;
pub mod marcxml;
mod mend;
mod record;
mod repair;
pub mod scan;
mod select;
mod tidy;
pub mod write;
pub mod xmltext;

pub use builder::MarcBuilder;
pub use record::{FIELD_END, MAX_RECORD, MarcError, MarcField, MarcRecord, RECORD_END, SUBFIELD, show_tag};
pub use repair::{Encoding, MAX_REPAIRS, ReadOptions, Repair, RepairKind, Repairs, Tolerance};
pub use roxmltree;
