//! Names of sources, and how they recognise their files.

use super::names::{self, field_name, file_name, free, last_words, words};
use super::{GuessedTable, SourcePlan};
use stook_catalogue::definition::FormatFamily;

/// Names the sources, in the order of the tables.
pub(crate) fn source_names(tables: &[GuessedTable<'_>]) -> Vec<String> {
    let mut taken: Vec<String> = Vec::new();
    for table in tables {
        let name = field_name(last_words(&words(&names::stem(&table.table.files[0]))), 0);
        taken.push(free(&name, |name| taken.iter().any(|known| known == name)));
    }
    taken
}

/// Lets each source recognise its files: by their format if no other source has it, by their names, and where these are the same, by a column.
pub(crate) fn recognise_files(sources: &mut [SourcePlan], tables: &[GuessedTable<'_>]) {
    let family = |source: &SourcePlan| tables[source.table].table.reading.family;
    let families: Vec<FormatFamily> = sources.iter().map(family).collect();
    for (index, source) in sources.iter_mut().enumerate() {
        if families.iter().filter(|other| **other == families[index]).count() > 1 {
            source.files = patterns(tables[source.table].table.files.iter().map(|file| file_name(file)).collect());
        }
    }
    for index in 0..sources.len() {
        let shares = |other: &SourcePlan| other.files.iter().any(|pattern| sources[index].files.contains(pattern));
        let rivals: Vec<usize> = (0..sources.len()).filter(|other| *other != index && shares(&sources[*other])).collect();
        let own = &tables[sources[index].table];
        let is_other = |path: &str| rivals.iter().all(|rival| tables[sources[*rival].table].entries.iter().all(|entry| entry.path != path));
        if !rivals.is_empty() {
            sources[index].has = own.entries.iter().map(|entry| entry.path.clone()).find(|path| is_other(path));
        }
    }
}

/// The names of files as patterns: the names themselves, or what they have in common if there are many.
fn patterns(mut names: Vec<String>) -> Vec<String> {
    names.dedup();
    let literal = |name: &str| name.replace(['[', ']', '*', '?'], "?");
    if names.len() <= 3 {
        return names.iter().map(|name| literal(name)).collect();
    }
    let common = |reversed: bool, taken: usize| {
        let characters: Vec<Vec<char>> =
            names.iter().map(|name| if reversed { name.chars().rev().collect() } else { name.chars().collect() }).collect();
        let shortest = characters.iter().map(Vec::len).min().unwrap_or(0).saturating_sub(taken);
        let length = (0..shortest).take_while(|at| characters.iter().all(|name| name[*at] == characters[0][*at])).count();
        let found: Vec<char> = characters[0][..length].to_vec();
        if reversed { found.into_iter().rev().collect::<String>() } else { found.into_iter().collect() }
    };
    let start = common(false, 0);
    // no character of a name is in both
    let end = common(true, start.chars().count());
    let start = start.trim_end_matches(|character: char| character.is_ascii_digit());
    vec![format!("{}*{}", literal(start), literal(end.trim_start_matches(|character: char| character.is_ascii_digit())))]
}
