//! Warnings about the header of a table: columns that the definition reads and the table lacks, and names that several columns have.

use std::collections::HashMap;
use stook_catalogue::definition::{Catalogue, Source};

/// The maximum number of columns that a warning lists.
const MAX_LISTED: usize = 40;

/// What is wrong with the columns of a table that `source` reads.
pub(super) fn header_warnings(catalogue: &Catalogue, source: &Source, columns: &[String]) -> Vec<String> {
    let mut warnings = Vec::new();
    // a field without a rule of its own may come from another source
    let feeders = |collection| catalogue.sources.iter().filter(|source| source.feeds.iter().any(|feed| feed.collection == collection)).count();
    let missing: Vec<String> =
        source.missing_columns(columns, |collection| feeders(collection) == 1).iter().map(|names| listed(names, " or ")).collect();
    if !missing.is_empty() {
        let names: Vec<&str> = columns.iter().map(String::as_str).take(MAX_LISTED).collect();
        let more = if columns.len() > MAX_LISTED { format!(" and {} more", columns.len() - MAX_LISTED) } else { String::new() };
        warnings.push(format!("the header has no column {}; it has {}{more}", missing.join(", "), listed(&names, ", ")));
    }
    let mut positions: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, name) in columns.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
        positions.entry(name).or_default().push(index + 1);
    }
    let mut repeated: Vec<(&str, Vec<usize>)> = positions.into_iter().filter(|(_, numbers)| numbers.len() > 1).collect();
    repeated.sort_by_key(|(_, numbers)| numbers[0]);
    warnings.extend(repeated.into_iter().map(|(name, numbers)| {
        let shown: Vec<String> = numbers.iter().map(usize::to_string).collect();
        format!("columns {} of the header are all called `{name}`; column {} is read", shown.join(", "), numbers[0])
    }));
    warnings
}

fn listed(names: &[&str], between: &str) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(between)
}
