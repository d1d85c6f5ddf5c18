//! MARCXML (<https://www.loc.gov/standards/marcxml/>): one `record` element to and from a [`MarcRecord`].

use crate::builder::MarcBuilder;
use crate::draft::Draft;
use crate::record::{MarcError, MarcRecord, show_tag};
use crate::repair::{ReadOptions, RepairKind, Repairs};
use crate::scan::Repaired;
use crate::xmltext;
use quick_xml::escape::escape;
use roxmltree::Node;
use std::borrow::Cow;

/// The namespace of MARCXML.
pub const NAMESPACE: &str = "http://www.loc.gov/MARC21/slim";
/// What precedes the records of a file.
pub const PROLOGUE: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<collection xmlns=\"http://www.loc.gov/MARC21/slim\">\n";
/// What follows them.
pub const EPILOGUE: &str = "</collection>\n";

/// Whether a node is an element of this name, whatever its namespace.
fn is_element(node: Node<'_, '_>, name: &str) -> bool {
    node.is_element() && node.tag_name().name() == name
}

/// Whether a node is an element that records have.
fn is_part(node: Node<'_, '_>) -> bool {
    ["leader", "controlfield", "datafield"].into_iter().any(|name| is_element(node, name))
}

/// Reads a `record` element. Prefixes do not matter, the namespace may be absent.
///
/// # Errors
/// When it is not a MARCXML record.
pub fn read(record: Node<'_, '_>) -> Result<MarcRecord<'static>, MarcError> {
    let leader = record.children().find(|node| is_element(*node, "leader")).ok_or_else(|| MarcError::Shape("there is no leader".into()))?;
    let mut builder = MarcBuilder::new(&content(leader))?;
    for field in record.children().filter(Node::is_element) {
        let tag = || field.attribute("tag").ok_or_else(|| MarcError::Shape("a field has no tag".into()));
        match field.tag_name().name() {
            "leader" => {}
            "controlfield" => builder.control(tag()?, &content(field))?,
            "datafield" => {
                let indicator = |name: &str| field.attribute(name).filter(|value| !value.is_empty()).unwrap_or(" ");
                builder.data(tag()?, indicator("ind1"), indicator("ind2"))?;
                for subfield in field.children().filter(|node| is_element(*node, "subfield")) {
                    let code = subfield.attribute("code").ok_or_else(|| MarcError::Shape("a subfield has no code".into()))?;
                    builder.subfield(code, &content(subfield))?;
                }
            }
            other => return Err(MarcError::Shape(format!("a record has no element `{other}`"))),
        }
    }
    Ok(builder.finish())
}

/// Reads a `record` element as the options say, and adds what was repaired to `repairs`; bytes are those of the parsed text. Encodings
/// have been dealt with when there is an element, see [`crate::xmltext`].
///
/// # Errors
/// Those of [`read`] if nothing may be repaired; else when there is no leader and no field.
pub fn read_as(record: Node<'_, '_>, options: &ReadOptions, repairs: &mut Repairs) -> Result<MarcRecord<'static>, MarcError> {
    if !options.repairs() {
        return read(record);
    }
    if !record.children().any(is_part) {
        return Err(MarcError::Shape("there is no leader and no field".into()));
    }
    let begin = record.range().start;
    let mut draft = Draft::new(repairs);
    for field in record.children() {
        let byte = Some(field.range().start - begin);
        if !field.is_element() {
            if field.text().is_some_and(|text| field.is_text() && !text.trim().is_empty()) {
                draft.repairs.add(RepairKind::Foreign, None, byte, "text between the fields was left out");
            }
            continue;
        }
        match field.tag_name().name() {
            "leader" => {
                let text = read_text(field, &mut draft);
                draft.leader(&text, byte);
            }
            "controlfield" if field.children().any(|node| is_element(node, "subfield")) => data(field, byte, &mut draft),
            "controlfield" => {
                let text = read_text(field, &mut draft);
                draft.control(field.attribute("tag"), &text, byte);
            }
            "datafield" => data(field, byte, &mut draft),
            other => {
                let done = format!("the element `{}` was left out", other.escape_debug());
                draft.repairs.add(RepairKind::Foreign, None, byte, done);
            }
        }
    }
    Ok(draft.finish())
}

fn data(field: Node<'_, '_>, byte: Option<usize>, draft: &mut Draft<'_>) {
    if !draft.data(field.attribute("tag"), [field.attribute("ind1"), field.attribute("ind2")], byte) {
        return;
    }
    for part in field.children() {
        match part {
            part if is_element(part, "subfield") => {
                let text = read_text(part, draft);
                draft.subfield(part.attribute("code"), &text);
            }
            part if part.is_element() => {
                let text = read_text(part, draft);
                draft.report(RepairKind::Foreign, format!("the element `{}` was taken for text", part.tag_name().name().escape_debug()));
                draft.loose(&text);
            }
            part if part.is_text() => draft.loose(part.text().unwrap_or_default()),
            _ => {}
        }
    }
}

/// All text of an element; comments may split it.
fn content(node: Node<'_, '_>) -> String {
    node.children().filter_map(|child| child.text().filter(|_| child.is_text())).collect()
}

/// All text of an element, that of elements in it, too.
fn read_text<'n>(node: Node<'n, '_>, draft: &mut Draft<'_>) -> Cow<'n, str> {
    if node.children().all(|child| child.is_text()) && node.children().count() < 2 {
        return node.text().map_or(Cow::Borrowed(""), Cow::Borrowed);
    }
    if node.children().any(|child| child.is_element()) {
        draft.report(RepairKind::Foreign, "elements inside of a value were left out, their text was kept");
    }
    node.descendants().filter(|node| node.is_text()).filter_map(|node| node.text()).collect::<String>().into()
}

/// The records of a file in memory, wherever they are in it: elements `record` with a leader or fields.
///
/// # Errors
/// When the file is not XML, or in an encoding that is not known. What is wrong with one record is its own error.
pub fn records(file: &[u8], options: &ReadOptions) -> Result<Vec<Result<Repaired<'static>, MarcError>>, MarcError> {
    let (text, replaced) = xmltext::document(file, if options.repairs() { xmltext::EXPANSION_LIMIT } else { 0 })?;
    if replaced > 0 && !options.repairs() {
        return Err(MarcError::Shape("the XML has bytes that are no characters of its encoding".into()));
    }
    let limits = roxmltree::ParsingOptions { nodes_limit: 4_000_000, ..roxmltree::ParsingOptions::default() };
    let document = roxmltree::Document::parse_with_options(&text, limits).map_err(|error| MarcError::Shape(format!("not XML: {error}")))?;
    let found = document.descendants().filter(|node| is_element(*node, "record") && node.children().any(is_part));
    let read = found.map(|record| {
        let mut repairs = Repairs::new(record.range().start as u64);
        if record.document().input_text()[record.range()].contains('\u{fffd}') && replaced > 0 {
            repairs.add(RepairKind::Character, None, None, "bytes that are no characters of the encoding were replaced by U+FFFD");
        }
        read_as(record, options, &mut repairs).map(|record| Repaired { record, repairs })
    });
    Ok(read.collect())
}

/// Writes a `record` element and a line end. Text that stands in no subfield is written as a subfield `a`.
///
/// # Errors
/// When a value contains a character XML 1.0 has no way to write.
pub fn write(record: &MarcRecord<'_>) -> Result<String, MarcError> {
    let wrong = |text: &str, tag: String| if text.contains(illegal) { Err(MarcError::ControlCharacter(tag)) } else { Ok(()) };
    let tidied = record.tidied(&mut Repairs::default());
    for field in tidied.fields() {
        // delimiters structure the field
        field.data.split('\u{1f}').try_for_each(|part| wrong(part, show_tag(field.tag)))?;
    }
    Ok(write_legal(&tidied, &mut Repairs::default()))
}

/// Writes a `record` element and a line end; what XML cannot hold is brought into another form, which is added to `repairs`.
pub fn write_nearest(record: &MarcRecord<'_>, repairs: &mut Repairs) -> String {
    let tidied = record.tidied(repairs);
    write_legal(&tidied, repairs)
}

fn write_legal(record: &MarcRecord<'_>, repairs: &mut Repairs) -> String {
    let mut out = String::with_capacity(2048);
    let mut legal = |text: &str, tag: &str| -> String {
        if !text.contains(illegal) {
            return text.to_owned();
        }
        repairs.add(RepairKind::ControlCharacter, Some(tag), None, "a character that XML cannot hold was replaced by U+FFFD");
        text.replace(illegal, "\u{fffd}")
    };
    out.push_str("  <record>\n");
    out.push_str(&format!("    <leader>{}</leader>\n", text(record.leader())));
    for field in record.fields() {
        let tag = show_tag(field.tag);
        let shown = escape(tag.as_str());
        if field.is_control() {
            out.push_str(&format!("    <controlfield tag=\"{shown}\">{}</controlfield>\n", text(&legal(field.data, &tag))));
            continue;
        }
        let [first, second] = field.indicators().map(|indicator| attribute(&legal(indicator, &tag)));
        out.push_str(&format!("    <datafield tag=\"{shown}\" ind1=\"{first}\" ind2=\"{second}\">\n"));
        for (code, value) in field.subfields() {
            let (code, value) = (attribute(&legal(code, &tag)), text(&legal(value, &tag)));
            out.push_str(&format!("      <subfield code=\"{code}\">{value}</subfield>\n"));
        }
        out.push_str("    </datafield>\n");
    }
    out.push_str("  </record>\n");
    out
}

/// Characters XML 1.0 has no way to write.
fn illegal(character: char) -> bool {
    (character < ' ' && !matches!(character, '\t' | '\n' | '\r')) || matches!(character, '\u{fffe}' | '\u{ffff}')
}

fn text(value: &str) -> String {
    escape(value).replace('\r', "&#13;")
}

/// Line ends and tabs in attributes would be read back as blanks.
fn attribute(value: &str) -> String {
    text(value).replace('\t', "&#9;").replace('\n', "&#10;")
}
