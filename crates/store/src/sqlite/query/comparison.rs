//! Turns conditions into SQL.

use super::super::values::{bind, bind_element};
use super::columns::ColumnInfo;
use crate::plan::Comparison;
use crate::sql::during::{during_bounds, during_sql};
use crate::sql::linked::no_statement;
use crate::sql::pattern::{self, MAX_PATTERN};
use crate::{Result, StoreError};
use rusqlite::types::Value as Sql;
use stook_catalogue::value::{FieldType, Value};

/// Maximum number of values of one `in` that are bound individually.
const MAX_VALUES: usize = 1_000;

/// Whether records without a value satisfy the comparison.
pub fn is_negation(test: &Comparison) -> bool {
    matches!(test, Comparison::NotEqual(_) | Comparison::NotWildcard(_) | Comparison::NotAmong(_) | Comparison::Exists(false))
}

/// Compares `sql`, a list of ranges.
fn ranges_comparison(sql: &str, test: &Comparison, parameters: &mut Vec<Sql>) -> Result<String> {
    let windows = test.windows().ok_or_else(|| StoreError::Wrong("ranges are compared with integers".into()))?;
    let windows: Vec<[i64; 2]> = windows.into_iter().map(|(low, high)| [low, high]).collect();
    parameters.push(Sql::Text(serde_json::json!(windows).to_string()));
    let negation = if matches!(test, Comparison::NotEqual(_)) { "NOT " } else { "" };
    Ok(format!(
        "{negation}EXISTS (SELECT 1 FROM json_each({sql}) AS g, json_each(?) AS w \
         WHERE g.value ->> 0 <= w.value ->> 1 AND g.value ->> 1 >= w.value ->> 0)"
    ))
}

/// Compares `sql`, which is the column in the form that is compared, or an element of its list.
pub fn comparison(sql: &str, test: &Comparison, column: &ColumnInfo, parameters: &mut Vec<Sql>) -> Result<String> {
    if column.ty == FieldType::Ranges {
        return ranges_comparison(sql, test, parameters);
    }
    if let Comparison::Words(search) = test {
        let kept = column.kept_words()?;
        parameters.extend(search.terms().iter().map(|term| Sql::Text(term.needle())));
        return Ok(vec![format!("instr({kept}, ?) > 0"); search.terms().len()].join(" AND "));
    }
    let value = |value: &Value| {
        let folded = column.folded(value);
        if column.ty.is_list() { to_owned_sql(&bind_element(&folded)) } else { to_owned_sql(&bind(&folded)) }
    };
    // the SQL of the bound value, and the text that patterns are matched with
    let (bound, text) = if column.is_key { ("packed(?)", column.sql.as_str()) } else { ("?", sql) };
    Ok(match test {
        Comparison::Wildcard(pieces) | Comparison::NotWildcard(pieces) if pieces.is_empty() => {
            return Err(StoreError::Wrong("a pattern has one piece at least".into()));
        }
        Comparison::Equal(wanted) => {
            parameters.push(value(wanted));
            format!("{sql} = {bound}")
        }
        Comparison::NotEqual(wanted) => {
            parameters.push(value(wanted));
            format!("{sql} IS NOT {bound}")
        }
        // more values than SQLite has parameters are passed as one JSON text; so is an empty list, which would make SQLite ignore a partial index
        Comparison::In(wanted) if wanted.len() > MAX_VALUES || wanted.is_empty() => {
            let has_blobs = wanted.iter().any(|wanted| matches!(value(wanted), Sql::Blob(_)));
            let json = wanted.iter().map(|wanted| match value(wanted) {
                Sql::Integer(number) => number.into(),
                Sql::Real(number) => number.into(),
                Sql::Text(text) => text.into(),
                Sql::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
                Sql::Null => serde_json::Value::Null,
            });
            parameters.push(Sql::Text(serde_json::Value::Array(json.collect()).to_string()));
            let element = if has_blobs { "unhex(value)" } else { "value" };
            format!("{sql} IN (SELECT {} FROM json_each(?))", bound.replace('?', element))
        }
        Comparison::In(wanted) => {
            parameters.extend(wanted.iter().map(value));
            format!("{sql} IN ({})", vec![bound; wanted.len()].join(", "))
        }
        Comparison::Range { low, high } => {
            let mut parts = Vec::new();
            for (bound_value, operator) in [(low, ">"), (high, "<")] {
                if let Some((wanted, included)) = bound_value {
                    parameters.push(value(wanted));
                    parts.push(format!("{sql} {operator}{} {bound}", if *included { "=" } else { "" }));
                }
            }
            if parts.is_empty() { format!("{sql} IS NOT NULL") } else { parts.join(" AND ") }
        }
        Comparison::Among(_) | Comparison::NotAmong(_) => {
            let values = column.among.as_ref().ok_or_else(|| no_statement(&column.name))?;
            parameters.extend(values.parameters.iter().cloned());
            let among = format!("{sql} IN (SELECT {} FROM ({}))", bound.replace('?', "v"), values.sql);
            if is_negation(test) { format!("({sql} IS NULL OR NOT {among})") } else { among }
        }
        Comparison::Prefix(prefix) => prefix_comparison(sql, bound, &column.fold_pattern(&[prefix.clone(), String::new()])[0], parameters),
        Comparison::Wildcard(pieces) => pattern_comparison((sql, bound, text), &column.fold_pattern(pieces), parameters)?,
        Comparison::NotWildcard(pieces) => {
            format!("({sql} IS NULL OR NOT ({}))", pattern_comparison((sql, bound, text), &column.fold_pattern(pieces), parameters)?)
        }
        Comparison::During(days) => {
            parameters.extend(during_bounds(*days).map(Sql::Integer));
            during_sql(sql, ["?"; 3])
        }
        // the relation is decided elsewhere, see [`crate::sql::geometry_filter`]; words are compared above
        Comparison::Exists(_) | Comparison::Related(..) | Comparison::Words(_) => format!("{sql} IS NOT NULL"),
    })
}

/// Text at or after `prefix`, and before the next text that does not begin with it.
fn prefix_comparison(sql: &str, bound: &str, prefix: &str, parameters: &mut Vec<Sql>) -> String {
    parameters.push(Sql::Text(prefix.to_owned()));
    match pattern::after_prefix(prefix) {
        Some(end) => {
            parameters.push(Sql::Text(end));
            format!("{sql} >= {bound} AND {sql} < {bound}")
        }
        None => format!("{sql} >= {bound}"),
    }
}

/// Text with the pieces in their order, the first at the beginning and the last at the end.
fn pattern_comparison((sql, bound, text): (&str, &str, &str), pieces: &[String], parameters: &mut Vec<Sql>) -> Result<String> {
    let mut parts = Vec::new();
    if let Some(beginning) = pieces.first().filter(|beginning| !beginning.is_empty()) {
        parts.push(prefix_comparison(sql, bound, beginning, parameters));
    }
    let pattern = glob(pieces);
    if pattern.len() > MAX_PATTERN {
        return Err(StoreError::Wrong(format!("a pattern has at most {MAX_PATTERN} bytes, this one has {}", pattern.len())));
    }
    parameters.push(Sql::Text(pattern));
    parts.push(format!("{text} GLOB ?"));
    // GLOB does not distinguish these three characters
    for piece in pieces.iter().filter(|piece| piece.contains(['\u{fffd}', '\u{fffe}', '\u{ffff}'])) {
        parameters.push(Sql::Text(piece.clone()));
        parts.push(format!("instr({text}, ?) > 0"));
    }
    Ok(parts.join(" AND "))
}

fn glob(pieces: &[String]) -> String {
    let escape = |piece: &String| {
        piece.chars().fold(String::new(), |mut pattern, character| {
            match character {
                '*' | '?' | '[' => pattern.extend(['[', character, ']']),
                character => pattern.push(character),
            }
            pattern
        })
    };
    pieces.iter().map(escape).collect::<Vec<_>>().join("*")
}

fn to_owned_sql(value: &rusqlite::types::ToSqlOutput<'_>) -> Sql {
    match value {
        rusqlite::types::ToSqlOutput::Owned(value) => value.clone(),
        rusqlite::types::ToSqlOutput::Borrowed(value) => Sql::try_from(*value).unwrap_or(Sql::Null),
        _ => Sql::Null,
    }
}
