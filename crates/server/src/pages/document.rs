//! Documents in the usual form of their format: MARC by fields, XML as a tree that can be folded, JSON indented.

use super::shown::short;
use maud::{Markup, html};
use serde_json::Value as Json;
use stook_formats::marc::{MarcRecord, show_tag};
use stook_formats::tree::{NodeKind, QualifiedName, XmlTree};
use stook_formats::{Document, ParseContext, detect};

/// Max characters of a text.
const MAX_TEXT_CHARS: usize = 200_000;
/// Max characters of one value.
const MAX_VALUE_CHARS: usize = 4_000;
/// Max elements of XML.
const MAX_NODES: usize = 10_000;
/// Max levels of elements.
const MAX_LEVELS: usize = 128;
/// Elements above this depth are open at first.
const OPEN_LEVELS: usize = 2;

/// Shows a document in its format; one that cannot be parsed is shown as text.
pub fn shown(bytes: &[u8]) -> Markup {
    let parsed = detect(bytes).and_then(|syntax| Document::parse(bytes, syntax, &ParseContext::new(syntax, &[])).ok());
    match parsed {
        Some(Document::Marc(record)) => marc(&record),
        Some(Document::Enveloped(enveloped)) => enveloped.record.as_ref().map_or_else(|| xml(&enveloped.around), marc),
        Some(Document::Xml(tree)) => xml(&tree),
        // JSON that is nested too deeply to be indented is shown as it is
        Some(Document::Json(document)) if !document.is_deep() => json(document.value().clone()),
        Some(Document::Json(_) | Document::Csv(_)) | None => text(bytes),
    }
}

fn text(bytes: &[u8]) -> Markup {
    // separators of MARC are invisible
    let whole = String::from_utf8_lossy(bytes).replace('\u{1e}', "\n").replace('\u{1f}', " ‡").replace('\u{1d}', "\n");
    html! { pre tabindex="0" { (short(&whole, MAX_TEXT_CHARS)) } }
}

/// Fields with tag, indicators and subfields, as cataloguers know them.
fn marc(record: &MarcRecord<'_>) -> Markup {
    html! {
        div.wide tabindex="0" {
            table.marc {
                tbody {
                    tr { th scope="row" { "LDR" } td {} td { code { (record.leader()) } } }
                    @for field in record.fields().take(MAX_NODES) {
                        tr {
                            th scope="row" { (show_tag(field.tag)) }
                            @if field.is_control() {
                                td {} td { code { (short(field.data, MAX_VALUE_CHARS)) } }
                            } @else {
                                // a blank indicator is shown as #
                                td { code { @for indicator in field.indicators() { (if indicator == " " { "#" } else { indicator }) } } }
                                td { @for (code, value) in field.subfields() { span.subfield { "‡" (code) } " " bdi { (short(value, MAX_VALUE_CHARS)) } " " } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn xml(tree: &XmlTree<'_>) -> Markup {
    let mut remaining_nodes = MAX_NODES;
    html! { div.xml { (element(tree, tree.element(), 0, &mut remaining_nodes)) @if remaining_nodes == 0 { p.quiet { "…" } } } }
}

/// An element: on one line if it contains only text, else folded.
fn element(tree: &XmlTree<'_>, node: usize, depth: usize, remaining_nodes: &mut usize) -> Markup {
    if *remaining_nodes == 0 {
        return html! {};
    }
    if depth == MAX_LEVELS {
        return html! { div.quiet { "…" } };
    }
    *remaining_nodes -= 1;
    let children: Vec<usize> = tree.children(node).filter(|child| matches!(tree.nodes[*child].kind, NodeKind::Element | NodeKind::Text)).collect();
    let name = |node: usize| match tree.name(node) {
        QualifiedName { prefix: "", local, .. } => local.to_owned(),
        QualifiedName { prefix, local, .. } => format!("{prefix}:{local}"),
    };
    let attributes = node + 1..node + 1 + usize::from(tree.nodes[node].attributes);
    let head = html! {
        span.element { (name(node)) }
        @for attribute in attributes { " " span.attribute { (name(attribute)) } "=" bdi { (short(tree.own_text(attribute), MAX_VALUE_CHARS)) } }
    };
    let texts = |node: &usize| tree.nodes[*node].kind == NodeKind::Text;
    if children.iter().all(texts) {
        let text: String = children.iter().map(|child| tree.own_text(*child)).collect();
        return html! { div { (head) @if !text.trim().is_empty() { ": " bdi.content { (short(text.trim(), MAX_VALUE_CHARS)) } } } };
    }
    html! {
        details open[depth < OPEN_LEVELS] {
            summary { (head) }
            @for child in children {
                @if texts(&child) {
                    @let text = tree.own_text(child).trim();
                    @if !text.is_empty() { div { bdi.content { (short(text, MAX_VALUE_CHARS)) } } }
                } @else { (element(tree, child, depth + 1, remaining_nodes)) }
            }
        }
    }
}

/// JSON; texts that are XML documents are shown below it as such.
fn json(mut whole: Json) -> Markup {
    let mut xml_documents = Vec::new();
    take_documents(&mut whole, &mut String::new(), &mut xml_documents);
    html! {
        pre tabindex="0" { (short(&serde_json::to_string_pretty(&whole).unwrap_or_default(), MAX_TEXT_CHARS)) }
        @for (path, tree) in &xml_documents { h3 { (path) } (xml(tree)) }
    }
}

/// Replaces texts that are XML in a value, and collects them with their paths.
fn take_documents(value: &mut Json, path: &mut String, found: &mut Vec<(String, XmlTree<'static>)>) {
    match value {
        Json::String(text) if text.trim_start().starts_with('<') => {
            if let Ok(tree) = XmlTree::parse(text.as_bytes()) {
                found.push((path.clone(), tree));
                *text = format!("({} bytes of XML, below)", text.len());
            }
        }
        Json::Object(members) => {
            for (name, value) in members {
                let length = path.len();
                path.push_str(if length > 0 { "." } else { "" });
                path.push_str(name);
                take_documents(value, path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stook_formats::marc::MarcBuilder;

    #[test]
    fn documents_are_shown_in_the_usual_form_of_their_format() {
        let mut builder = MarcBuilder::new("00000nz  a2200000n  4500").expect("a leader");
        builder.data("100", "1", " ").and_then(|()| builder.subfield("a", "Smith")).expect("a field");
        builder.subfield("d", "<1900>").expect("a subfield");
        let marc = builder.finish().to_iso2709().expect("it is short");
        for (bytes, parts) in [
            (&marc[..], &["<th scope=\"row\">100</th>", "1#", "‡a", "&lt;1900&gt;"][..]),
            (
                b"<a x='1'><b>t</b><c><d/></c></a>",
                &["<summary><span class=\"element\">a</span>", "<span class=\"element\">b</span>: <bdi class=\"content\">t"],
            ),
            (br#"{"k": "v", "in": {"doc": "<x><y>1</y></x>"}}"#, &["bytes of XML, below", "<h3>in.doc</h3>", "<span class=\"element\">y"]),
            (b"\xff\xfe<script>", &["&lt;script&gt;"]),
            (b"", &["<pre"]),
        ] {
            let page = shown(bytes).into_string();
            for part in parts {
                assert!(page.contains(part), "{part} is not in {page}");
            }
        }
    }

    #[test]
    fn deep_and_long_documents_are_cut_off() {
        let deep = format!("{}{}", "<a>".repeat(4_000), "</a>".repeat(4_000));
        let json = format!("{}{}", "[".repeat(4_000), "]".repeat(4_000));
        let long = format!("<a>{}</a>", "<b/>".repeat(MAX_NODES * 2));
        for text in [deep, json, long] {
            assert!(shown(text.as_bytes()).into_string().len() < 2_000_000);
        }
    }
}
