//! The fields and subfields of a MARC record, with their values.

use super::Columns;
use crate::column::Native;
use stook_formats::marc::MarcRecord;

pub(super) fn add(record: &MarcRecord<'_>, columns: &mut Columns) {
    columns.add("LDR", record.leader(), Native::Text);
    for field in record.fields() {
        let tag = String::from_utf8_lossy(&field.tag).into_owned();
        if field.is_control() {
            columns.add(&tag, field.data, Native::Text);
            continue;
        }
        for (code, value) in field.subfields() {
            columns.add(&format!("{tag}${code}"), value, Native::Text);
        }
    }
}
