//! Unique rows as a statement. Rows that differ only in a column of ranges are one, with all their numbers: a set of numbers that several records have
//! parts of is one set.

use super::grouping::GroupDialect;
use stook_catalogue::value::FieldType;

/// The column of ranges by which unique rows are united. Rows with several such columns are not united, since pairs of sets are no set.
pub fn united_column<'t>(types: impl Iterator<Item = &'t FieldType>) -> Option<usize> {
    let mut ranges = types.enumerate().filter(|(_, ty)| **ty == FieldType::Ranges).map(|(position, _)| position);
    ranges.next().filter(|_| ranges.next().is_none())
}

/// The rows of a FROM clause united by their column of ranges. Their columns are called `u0` and so on, and what they are sorted by `s0` and so on.
pub fn united_rows(dialect: &impl GroupDialect, columns: &[String], sorted: &[String], ranges: usize, from: &str) -> String {
    let named = |letter: char, columns: &[String]| -> Vec<(String, String)> {
        columns.iter().enumerate().map(|(position, sql)| (format!("{letter}{position}"), sql.clone())).collect()
    };
    let mut columns = named('u', columns);
    let (name, united) = columns.remove(ranges);
    columns.extend(named('s', sorted));
    // so that there is one, even if the ranges are the only column
    columns.push(("x".to_owned(), "0".to_owned()));
    let key = columns.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    let selected = columns.iter().map(|(name, sql)| format!("{sql} AS {name}")).collect::<Vec<_>>().join(", ");
    let (elements, greatest) = dialect.ranges(&format!("base.{name}"), "m");
    let (join, least) = (elements.join, elements.value);
    let window = format!("PARTITION BY {key} ORDER BY low, high ROWS BETWEEN UNBOUNDED PRECEDING AND");
    // a range that does not meet the one before it begins another one; the order of the cases keeps differences within 64 bits
    format!(
        "WITH base AS (SELECT {selected}, {united} AS {name} FROM {from}), \
         numbers AS (SELECT {key}, {least} AS low, {greatest} AS high FROM base{join}), \
         reached AS (SELECT {key}, low, high, max(high) OVER ({window} 1 PRECEDING) AS reached FROM numbers), \
         begun AS (SELECT {key}, low, high, CASE WHEN reached IS NULL THEN 1 WHEN low <= reached THEN 0 WHEN low - 1 = reached THEN 0 ELSE 1 END AS begins \
         FROM reached), \
         placed AS (SELECT {key}, low, high, sum(begins) OVER ({window} CURRENT ROW) AS place FROM begun), \
         met AS (SELECT {key}, min(low) AS low, max(high) AS high FROM placed GROUP BY {key}, place) \
         SELECT {key}, '[' || string_agg('[' || low || ',' || high || ']', ',' ORDER BY low) || ']' AS {name} FROM met GROUP BY {key}"
    )
}
