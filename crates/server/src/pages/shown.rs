//! Formats values for people.

use maud::{Markup, html};
use serde_json::Value as Json;

/// Characters of a text shown before the rest is folded.
const LONG: usize = 160;
/// Structs of a list shown at once; longer lists are folded.
const UNFOLDED_STRUCTS: usize = 3;
/// Max structs of a list that are shown.
const MAX_STRUCTS: usize = 500;
/// Max characters of a text.
const LONGEST: usize = 20_000;

/// Shows a value. Texts are isolated, so that their writing direction does not affect others.
pub fn value(json: &Json) -> Markup {
    match json {
        Json::Null => html! { span.none { "–" } },
        Json::Bool(yes) => html! { (yes) },
        Json::Number(number) => html! { span.number { (number) } },
        Json::String(text) if is_time(text) => html! { time datetime=(text) { (text) } },
        Json::String(text) => self::text(text),
        Json::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
            let shown: Vec<String> = items.iter().map(plain).collect();
            self::text(&shown.join("; "))
        }
        other => {
            let whole = serde_json::to_string_pretty(other).unwrap_or_default();
            let count = match other {
                Json::Array(items) => format!("{} entries", items.len()),
                Json::Object(members) => format!("{} members", members.len()),
                _ => String::new(),
            };
            html! { details { summary { (count) } pre tabindex="0" { (short(&whole, LONGEST)) } } }
        }
    }
}

/// Shows a value of a type, as definitions write types: sizes in units, sets of integers as ranges, structs as rows of a table.
pub fn typed(json: &Json, ty: &str) -> Markup {
    match (ty, json) {
        ("size", Json::Number(number)) if number.as_u64().is_some_and(|bytes| bytes >= 1_000) => {
            let bytes = number.as_u64().unwrap_or_default();
            html! { span.number title={ (count(bytes)) " bytes" } { (in_units(bytes)) } }
        }
        ("ranges", Json::Array(ranges)) => text(&ranges.iter().map(range).collect::<Vec<_>>().join(", ")),
        (_, Json::Array(structs)) if ty.starts_with("[{") && !structs.is_empty() => structs_table(structs, ty),
        _ => value(json),
    }
}

/// A range of integers, as queries write it.
fn range(pair: &Json) -> String {
    let (low, high) = (plain(&pair[0]), plain(&pair[1]));
    if low == high { low } else { format!("{low}-{high}") }
}

/// A number of bytes in the largest unit of which there is at least one.
fn in_units(bytes: u64) -> String {
    let units = [(1_000_000_000_000_000, "PB"), (1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1}\u{a0}{name}", bytes as f64 / *unit as f64),
        None => format!("{bytes}\u{a0}B"),
    }
}

/// The type of a column of a result: of a field, a member of structs, or what a function gives of one. Empty if it is not known.
pub fn type_of<'t>(fields: &'t Json, column: &str) -> &'t str {
    let (function, name) = match column.split_once('(') {
        Some((function, name)) => (function, name.trim_end_matches(')')),
        None => ("", column),
    };
    let ty = match name.rsplit_once('.') {
        Some((list, member)) => member_type(named(fields, list), member),
        None => named(fields, name),
    };
    match function {
        "" => ty,
        "sum" | "min" | "max" | "median" if ty != "ranges" => ty,
        _ => "",
    }
}

/// The type of a member of structs of this type: `[{run: integer, number: ranges}]`.
fn member_type<'t>(ty: &'t str, member: &str) -> &'t str {
    let members = ty.trim_start_matches(['[', '{']).trim_end_matches([']', '}']).split(", ");
    members.filter_map(|own| own.split_once(": ")).find(|(name, _)| *name == member).map_or("", |(_, ty)| ty)
}

/// Structs as rows of a table; of many, those after the first are folded.
fn structs_table(structs: &[Json], ty: &str) -> Markup {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in structs.iter().flat_map(members) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let rows = |structs: &[Json]| {
        html! {
            table {
                thead { tr { @for name in &names { th scope="col" { (name) } } } }
                tbody { @for own in structs { tr { @for name in &names { td { (typed(&own[*name], member_type(ty, name))) } } } } }
            }
        }
    };
    let shown = structs.len().min(MAX_STRUCTS);
    html! {
        @if structs.len() <= UNFOLDED_STRUCTS { (rows(structs)) } @else {
            details {
                summary { (count(structs.len() as u64)) " entries" }
                (rows(&structs[..shown]))
                @if structs.len() > shown { span.quiet { (count((structs.len() - shown) as u64)) " more are not shown" } }
            }
        }
    }
}

/// Whether a text looks like a time.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    (20..=27).contains(&bytes.len())
        && bytes[4] == b'-'
        && bytes[10] == b'T'
        && bytes[bytes.len() - 1] == b'Z'
        && bytes.iter().all(|byte| byte.is_ascii_digit() || b"-T:.Z".contains(byte))
}

/// Returns a value as plain text.
pub fn plain(json: &Json) -> String {
    match json {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Shows a text; the rest of a long one is folded.
pub fn text(text: &str) -> Markup {
    if text.chars().nth(LONG).is_none() {
        return html! { bdi { (text) } };
    }
    html! { details { summary { bdi { (short(text, LONG)) } } bdi.long { (short(text, LONGEST)) } } }
}

/// Shortens a text to `most` characters.
pub fn short(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text.to_owned(),
    }
}

/// A bar as long as a number is of the largest one beside it, which stands there in figures.
pub fn bar(number: u64, largest: u64) -> Markup {
    let share = 100.0 * number as f64 / largest.max(1) as f64;
    html! {
        svg.share viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true" { @if number > 0 { rect width=(format!("{:.2}", share.max(0.5))) height="1" {} } }
    }
}

/// Formats a number with narrow spaces.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// Returns the members of an object; none of anything else.
pub fn members(json: &Json) -> impl Iterator<Item = (&String, &Json)> {
    json.as_object().into_iter().flatten()
}

/// Returns the elements of a list; none of anything else.
pub fn items(json: &Json) -> &[Json] {
    json.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns a text member; empty if there is none.
pub fn named<'j>(json: &'j Json, name: &str) -> &'j str {
    json[name].as_str().unwrap_or_default()
}

/// Shows a time up to seconds.
pub fn moment(json: &Json) -> Markup {
    let whole = json.as_str().unwrap_or_default();
    let shown = whole.split('.').next().unwrap_or_default().replace('T', " ");
    html! { time datetime=(whole) { (shown.trim_end_matches('Z')) } }
}

/// Formats the number of processed documents of a job, and of how many if that differs.
pub fn progress_text(job: &Json) -> String {
    let number = |name: &str| job[name].as_u64().unwrap_or(0);
    let (done, planned) = (count(number("documents")), count(number("planned")));
    match job["cut"] == true {
        true if done == planned || named(job, "state").starts_with("completed") => done,
        true => format!("{done} of {planned}"),
        false => format!("{done} of at least {planned}"),
    }
}

/// Classifies a state as good, bad or in between; most are none of these.
pub fn kind(name: &str) -> &'static str {
    match name {
        "completed" | "complete" | "Complete" | "OK" | "available" | "Ready" | "true" => "good",
        "failed" | "dead" | "Missing" | "KO" | "false" => "bad",
        "completed_with_errors" | "cancelled" | "undone" | "interrupted" | "Partial" | "partial" => "odd",
        _ => "open",
    }
}

/// Shows a state as a coloured word.
pub fn state(name: &str) -> Markup {
    html! { span class={ "state " (kind(name)) } { (name.replace('_', " ")) } }
}
