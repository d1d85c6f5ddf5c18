//! Formats a definition as YAML that can be read and pasted.

use serde_json::Value as Json;

/// Formats a definition.
pub fn text(definition: &Json) -> String {
    let mut out = String::new();
    if let Json::Object(entries) = definition {
        for (name, value) in entries {
            block(name, value, 0, &mut out);
        }
    }
    out
}

/// Formats a member; short values are on one line.
fn block(name: &str, value: &Json, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    let short = flow(value);
    match value {
        Json::Object(entries) if short.len() > 60 => {
            out.push_str(&format!("{indent}{}:\n", scalar(name)));
            for (name, value) in entries {
                block(name, value, depth + 1, out);
            }
        }
        Json::Array(items) if short.len() > 60 => {
            out.push_str(&format!("{indent}{}:\n", scalar(name)));
            for item in items {
                out.push_str(&format!("{indent}  - {}\n", flow(item)));
            }
        }
        _ => out.push_str(&format!("{indent}{}: {short}\n", scalar(name))),
    }
}

fn flow(value: &Json) -> String {
    match value {
        Json::Object(entries) if entries.is_empty() => "{}".into(),
        Json::Object(entries) => {
            let entries: Vec<String> = entries.iter().map(|(name, value)| format!("{}: {}", scalar(name), flow(value))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        Json::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Json::String(text) => scalar(text),
        other => other.to_string(),
    }
}

/// Writes a text without quotes if YAML reads it as this text.
fn scalar(text: &str) -> String {
    let plain = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/'))
        && !["true", "false", "null"].contains(&text);
    // a text quoted as JSON is valid YAML, too
    if plain { text.to_owned() } else { Json::from(text).to_string() }
}
