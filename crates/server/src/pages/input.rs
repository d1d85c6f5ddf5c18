//! Inputs of forms for values of a type, and what is typed into them as JSON.

use super::shown::{items, named, plain};
use maud::{Markup, html};
use serde_json::{Value as Json, json};

/// Characters of a text for which an input of one line is enough.
const ONE_LINE: usize = 80;

/// An input named `value` for a value of the type that `about` says, with a value.
pub fn value_input(about: &Json, value: &Json) -> Markup {
    let ty = named(about, "type");
    let booleans = [json!(true), json!(false)];
    let choices = if ty == "boolean" { booleans.as_slice() } else { items(&about["one_of"]) };
    let is_day = |text: &str| text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let shown = text_of_json(value, ty);
    let input = |kind: &str, step: Option<&str>, example: &str| {
        html! { input #value name="value" type=(kind) step=[step] value=(shown) placeholder=(example) autocomplete="off"; }
    };
    if !choices.is_empty() && !ty.starts_with('[') {
        return html! {
            select #value name="value" {
                option value="" { "–" }
                @for choice in choices { option value=(plain(choice)) selected[choice == value] { (plain(choice)) } }
            }
        };
    }
    match ty {
        "integer" | "size" => input("number", Some("1"), if ty == "size" { "bytes" } else { "" }),
        "float" => input("number", Some("any"), ""),
        "date" if shown.is_empty() || is_day(&shown) => input("date", None, ""),
        "date" => input("text", None, "2026-05-24"),
        "timestamp" => input("text", None, "2026-05-24T10:00:00Z"),
        "duration" => input("text", None, "PT1H30M"),
        "partial_date" => input("text", None, "1998-05"),
        "uuid" => input("text", None, ""),
        "text" if shown.chars().nth(ONE_LINE).is_none() && !shown.contains('\n') => input("text", None, ""),
        "text" => html! { textarea #value name="value" rows="6" { (shown) } },
        "[text]" => {
            html! { textarea #value name="value" rows="6" aria-describedby="value-help" { (shown) } p.quiet #value-help { "one element in each line" } }
        }
        _ => html! { textarea #value name="value" rows="8" aria-describedby="value-help" { (shown) } p.quiet #value-help { (ty) ", as JSON" } },
    }
}

/// Whether texts of a form are JSON texts as they are.
fn is_text(ty: &str) -> bool {
    matches!(ty, "text" | "date" | "timestamp" | "duration" | "partial_date" | "uuid")
}

/// A value as a form shows it.
fn text_of_json(value: &Json, ty: &str) -> String {
    match value {
        Json::Array(elements) if ty == "[text]" => elements.iter().map(plain).collect::<Vec<_>>().join("\n"),
        Json::Array(_) | Json::Object(_) => serde_json::to_string_pretty(value).unwrap_or_default(),
        Json::String(_) if ty == "json" => value.to_string(),
        other => plain(other),
    }
}

/// Reads what was typed as a value of a type; the API checks whether it is one.
///
/// # Errors
/// When it is not JSON where that is expected.
pub fn json_of_text(text: &str, ty: &str) -> Result<Json, String> {
    // browsers send ends of lines as CRLF
    let text = text.replace("\r\n", "\n");
    match ty {
        _ if is_text(ty) => Ok(text.into()),
        "[text]" => Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()),
        // what is no number is refused by the API, with what it expects
        "integer" | "size" | "float" | "boolean" => Ok(serde_json::from_str(text.trim()).unwrap_or_else(|_| text.into())),
        _ => stook_catalogue::json::parse(text.as_bytes()).map_err(|error| format!("it is not JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_form_shows_is_read_as_the_same_value() {
        for (ty, value) in [
            ("text", json!("a \"b\"\nc")),
            ("integer", json!(9_007_199_254_740_993_i64)),
            ("float", json!(0.1)),
            ("boolean", json!(false)),
            ("date", json!("2024-02-29")),
            ("[text]", json!(["a", "b c"])),
            ("[integer]", json!([1, 2])),
            ("json", json!("7")),
            ("json", json!({ "a": [1, null] })),
            ("ranges", json!([[1, 5], [8, 8]])),
            ("[{at: text}]", json!([{ "at": "x" }])),
        ] {
            assert_eq!(json_of_text(&text_of_json(&value, ty).replace('\n', "\r\n"), ty), Ok(value));
        }
        assert_eq!(json_of_text("many", "integer"), Ok(json!("many")));
        assert!(json_of_text("{", "json").is_err_and(|error| error.starts_with("it is not JSON")));
    }
}
