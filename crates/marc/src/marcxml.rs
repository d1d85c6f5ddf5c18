//! MARCXML (<https://www.loc.gov/standards/marcxml/>): one `record` element to and from a [`MarcRecord`].

use crate::builder::MarcBuilder;
use crate::record::{MarcError, MarcRecord, show_tag};
use quick_xml::escape::escape;
use roxmltree::Node;

/// The namespace of MARCXML.
pub const NAMESPACE: &str = "http://www.loc.gov/MARC21/slim";
/// What precedes the records of a file.
pub const PROLOGUE: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<collection xmlns=\"http://www.loc.gov/MARC21/slim\">\n";
/// What follows them.
pub const EPILOGUE: &str = "</collection>\n";

/// Reads a `record` element. Prefixes do not matter, the namespace may be absent.
///
/// # Errors
/// When it is not a MARCXML record.
pub fn read(record: Node<'_, '_>) -> Result<MarcRecord<'static>, MarcError> {
    let child = |name: &'static str| move |node: &Node<'_, '_>| node.is_element() && node.tag_name().name() == name;
    let leader = record.children().find(child("leader")).ok_or_else(|| MarcError::Shape("there is no leader".into()))?;
    let mut builder = MarcBuilder::new(&content(leader))?;
    for field in record.children().filter(Node::is_element) {
        let tag = || field.attribute("tag").ok_or_else(|| MarcError::Shape("a field has no tag".into()));
        match field.tag_name().name() {
            "leader" => {}
            "controlfield" => builder.control(tag()?, &content(field))?,
            "datafield" => {
                let indicator = |name: &str| field.attribute(name).filter(|value| !value.is_empty()).unwrap_or(" ");
                builder.data(tag()?, indicator("ind1"), indicator("ind2"))?;
                for subfield in field.children().filter(child("subfield")) {
                    let code = subfield.attribute("code").ok_or_else(|| MarcError::Shape("a subfield has no code".into()))?;
                    builder.subfield(code, &content(subfield))?;
                }
            }
            other => return Err(MarcError::Shape(format!("a record has no element `{other}`"))),
        }
    }
    Ok(builder.finish())
}

/// All text of an element; comments may split it.
fn content(node: Node<'_, '_>) -> String {
    node.children().filter_map(|child| child.text().filter(|_| child.is_text())).collect()
}

/// Writes a `record` element and a line end.
///
/// # Errors
/// When a value contains a character XML 1.0 has no way to write.
pub fn write(record: &MarcRecord<'_>) -> Result<String, MarcError> {
    let mut out = String::with_capacity(2048);
    let writable = |data: &str, tag: &str| match data.contains(illegal) {
        true => Err(MarcError::ControlCharacter(tag.to_owned())),
        false => Ok(()),
    };
    writable(record.leader(), "LDR")?;
    out.push_str("  <record>\n");
    out.push_str(&format!("    <leader>{}</leader>\n", escape(record.leader())));
    for field in record.fields() {
        let tag = show_tag(field.tag);
        if field.is_control() {
            writable(field.data, &tag)?;
            out.push_str(&format!("    <controlfield tag=\"{}\">{}</controlfield>\n", escape(&tag), text(field.data)));
            continue;
        }
        let [first, second] = field.indicators().map(attribute);
        writable(&first, &tag)?;
        writable(&second, &tag)?;
        out.push_str(&format!("    <datafield tag=\"{}\" ind1=\"{first}\" ind2=\"{second}\">\n", escape(&tag)));
        for (code, value) in field.subfields() {
            writable(code, &tag)?;
            writable(value, &tag)?;
            out.push_str(&format!("      <subfield code=\"{}\">{}</subfield>\n", attribute(code), text(value)));
        }
        out.push_str("    </datafield>\n");
    }
    out.push_str("  </record>\n");
    Ok(out)
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
