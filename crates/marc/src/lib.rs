//! MARC 21 records: read from and written to ISO 2709 (with MARC-8 or UTF-8), MARCXML and MARC-in-JSON; MARCspec finds values in them.
//!
//! A [`MarcRecord`] is a leader and fields, whatever syntax it came from. [`scan::records`] reads a file of ISO 2709 in memory,
//! [`scan::MarcScanner`] a stream of it; [`marcxml::read`] takes one `record` element, [`MarcRecord::from_json`] one object.
//! [`write::RecordWriter`] writes many in any of the three syntaxes. [`MarcBuilder`] makes records.
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
//! # Nothing is repaired
//!
//! A record that is damaged is a [`MarcError`], which says where and why: a length that is wrong, a field outside of the record, bytes
//! that are not the UTF-8 that the leader promises. Only characters of MARC-8 that do not exist become U+FFFD, and are counted
//! ([`MarcRecord::unknown_characters`]). What a syntax cannot hold is refused when it is written, too.
//!
//! # Limits
//!
//! A record in ISO 2709 has at most [`MAX_RECORD`] bytes and each of its fields at most 9 999; in the other syntaxes neither is
//! limited but by the 4 GiB that positions reach. A record of UTF-8, or of MARC-8 that is plain ASCII, is read without a copy.
//! Conditions in a MARCspec are nested at most 4 deep.

mod builder;
mod json;
pub mod marc8;
pub mod marcspec;
pub mod marcxml;
mod record;
pub mod scan;
mod select;
pub mod write;

pub use builder::MarcBuilder;
pub use record::{FIELD_END, MAX_RECORD, MarcError, MarcField, MarcRecord, RECORD_END, SUBFIELD, show_tag};
pub use roxmltree;
