//! What names of files and columns say, and the names that fields, sources and collections get from them.

use std::path::Path;
use stook_catalogue::definition::FormatFamily;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Maximum number of characters of a name in a definition.
const MAX_NAME: usize = 40;
/// Names that mean something else in definitions and queries.
const RESERVED: [&str; 14] = ["meta", "args", "now", "caller", "role", "key", "tag", "true", "false", "null", "in", "conflict", "sources", "exists"];

/// Endings of the names of compressed files.
const COMPRESSED: [&str; 2] = [".gz", ".zst"];

/// The name of a file, without its folder and without the ending of a compressed one.
pub(crate) fn file_name(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    COMPRESSED.iter().find_map(|ending| name.strip_suffix(ending)).map(str::to_owned).unwrap_or(name)
}

/// What the name of a file says of its contents: without its ending, and without numbers and dates, which differ from delivery to delivery.
pub(crate) fn stem(file: &Path) -> String {
    let name = file_name(file);
    let whole = name.split_once('.').map_or(name.as_str(), |(stem, _)| stem);
    let words: Vec<String> = words(whole).into_iter().filter(|word| word.chars().any(|character| !character.is_ascii_digit())).collect();
    if words.is_empty() { "data".to_owned() } else { words.join("_") }
}

/// Small ASCII letters and digits for a character, as far as there are some.
fn plain(text: &str) -> String {
    let text = text.replace('ß', "ss").replace(['ø', 'Ø'], "o").replace(['æ', 'Æ'], "ae").replace(['ł', 'Ł'], "l");
    text.nfkd().filter(|character| !is_combining_mark(*character)).flat_map(char::to_lowercase).collect()
}

/// The words of a name in small letters: `IATA code`, `iataCode` and `iata_code` have the same.
pub(crate) fn words(name: &str) -> Vec<String> {
    let mut spaced = String::new();
    let characters: Vec<char> = name.chars().collect();
    for (index, character) in characters.iter().enumerate() {
        let (before, after) = (index.checked_sub(1).map(|at| characters[at]), characters.get(index + 1));
        let begins_word = character.is_uppercase()
            && before.is_some_and(|before| {
                before.is_lowercase() || before.is_ascii_digit() || before.is_uppercase() && after.is_some_and(|after| after.is_lowercase())
            });
        if begins_word {
            spaced.push(' ');
        }
        spaced.push(*character);
    }
    let plain = plain(&spaced);
    plain.split(|character: char| !character.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The last step of a path as a name: of `$.a['b c']` it is `b c`, of `x:a/@b` it is `b`.
pub(crate) fn last_step(path: &str) -> &str {
    let step = path.rsplit(['/', '.']).next().unwrap_or(path);
    let step = step.rsplit_once("['").map_or(step, |(_, name)| name.trim_end_matches("']"));
    let step = step.trim_start_matches('@');
    step.rsplit_once(':').map_or(step, |(_, local)| local)
}

/// The words of what a path finds: of the whole name of a column, and of the last step of other paths.
pub(crate) fn words_of_path(path: &str, family: FormatFamily) -> Vec<String> {
    match family {
        FormatFamily::Csv | FormatFamily::Marc => words(path),
        FormatFamily::Json | FormatFamily::Xml => words(last_step(path)),
    }
}

/// A name for a field, from the words of a column's name.
pub(crate) fn field_name(words: &[String], position: usize) -> String {
    let mut name = words.join("_");
    if name.is_empty() {
        name = format!("column_{}", position + 1);
    }
    if !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        name.insert_str(0, "n_");
    }
    if name.len() > MAX_NAME {
        // a name ends with a whole word, if its first one is not too long itself
        name.truncate(name[..=MAX_NAME].rfind('_').filter(|end| end * 2 >= MAX_NAME).unwrap_or(MAX_NAME));
    }
    if RESERVED.contains(&name.as_str()) { format!("{name}_value") } else { name }
}

/// A name that is not taken yet.
pub(crate) fn free(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(|name| !is_taken(name)).unwrap_or_default()
}

/// The singular of an English word, as far as its ending shows it.
pub(crate) fn singular(word: &str) -> String {
    let ends = |ending: &str| word.len() > ending.len() + 1 && word.ends_with(ending);
    match () {
        () if ["series", "species", "news", "data", "status", "gas", "bus", "lens"].contains(&word) => word.to_owned(),
        () if word == "people" => "person".to_owned(),
        // a movie and a tie, but a city
        () if ["movies", "cookies", "calories", "prairies", "zombies", "selfies", "brownies"].contains(&word) || ends("ies") && word.len() <= 4 => {
            word[..word.len() - 1].to_owned()
        }
        () if ends("ies") => format!("{}y", &word[..word.len() - 3]),
        () if ["sses", "xes", "ches", "shes"].iter().any(|ending| ends(ending)) => word[..word.len() - 2].to_owned(),
        () if ends("s") && !ends("ss") && !ends("us") && !ends("is") => word[..word.len() - 1].to_owned(),
        () => word.to_owned(),
    }
}

/// As many of the last words as a name can have: the first words of the long name of a file say where it comes from, the last ones what it lists.
pub(crate) fn last_words(words: &[String]) -> &[String] {
    let fits = |first: &usize| words[*first..].iter().map(|word| word.len() + 1).sum::<usize>() <= MAX_NAME + 1;
    let first = (0..words.len()).find(fits).unwrap_or(words.len().saturating_sub(1));
    &words[first..]
}

/// The name of a collection of what a file lists.
pub(crate) fn collection_name(stem: &str) -> String {
    const EMPTY: [&str; 14] =
        ["data", "export", "list", "table", "dump", "file", "all", "full", "sample", "latest", "extract", "master", "raw", "report"];
    let all = words(stem);
    let kept: Vec<String> = all.iter().filter(|word| !EMPTY.contains(&word.as_str())).cloned().collect();
    let mut kept = if kept.is_empty() { vec!["record".to_owned()] } else { kept };
    if let Some(last) = kept.last_mut() {
        *last = singular(last);
    }
    field_name(last_words(&kept), 0)
}

/// Whether a name speaks of several things, so that its values may be lists.
pub(crate) fn is_plural(words: &[String]) -> bool {
    const LISTS: [&str; 12] =
        ["tags", "keywords", "genres", "categories", "authors", "languages", "skills", "topics", "subjects", "countries", "aliases", "synonyms"];
    words.last().is_some_and(|last| LISTS.contains(&last.as_str()) || singular(last) != *last && last.len() > 4)
}

/// Whether one of the words is among others.
pub(crate) fn has_word(words: &[String], others: &[&str]) -> bool {
    words.iter().any(|word| others.contains(&word.as_str()))
}

/// Words that say that a column identifies something.
pub(crate) const IDENTIFYING: [&str; 24] = [
    "id",
    "ids",
    "code",
    "nr",
    "no",
    "num",
    "number",
    "nummer",
    "numero",
    "ref",
    "reference",
    "key",
    "uuid",
    "guid",
    "uri",
    "slug",
    "identifier",
    "handle",
    "login",
    "username",
    "serial",
    "accession",
    "kennung",
    "ident",
];

/// Identifiers that are unique in the world.
pub(crate) const WORLDWIDE: [&str; 22] = [
    "isbn", "issn", "doi", "iata", "icao", "ean", "gtin", "upc", "sku", "lccn", "orcid", "ror", "vin", "iban", "lei", "isin", "barcode", "hostname",
    "fqdn", "mac", "ppn", "oclc",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_any_style_have_the_same_words() {
        for name in ["IATA code", "iataCode", "iata_code", "IATA-Code"] {
            assert_eq!(words(name), ["iata", "code"], "{name}");
        }
        assert_eq!(words("Größe (m²)"), ["grosse", "m2"]);
        assert_eq!(field_name(&words("名前"), 2), "column_3");
        assert_eq!(field_name(&words("2019"), 0), "n_2019");
        assert_eq!(field_name(&words("Key"), 0), "key_value");
        assert_eq!(field_name(&words("How satisfied are you with the number of trains?"), 0), "how_satisfied_are_you_with_the_number_of");
    }

    #[test]
    fn singulars_of_english_words_are_words() {
        let words = [("movies", "movie"), ("ties", "tie"), ("cities", "city"), ("boxes", "box"), ("species", "species"), ("people", "person")];
        for (plural, expected) in words {
            assert_eq!(singular(plural), expected, "{plural}");
        }
    }

    #[test]
    fn files_of_several_deliveries_have_one_stem() {
        assert_eq!(stem(Path::new("in/orders_2024-01.csv.gz")), "orders");
        assert_eq!(stem(Path::new("orders_2024-02.csv")), "orders");
        assert_eq!(collection_name("library_books"), "library_book");
        assert_eq!(collection_name("export"), "record");
        assert_eq!(collection_name("countries"), "country");
        assert_eq!(collection_name("annual_publications_of_the_department_of_fisheries_landings"), "of_the_department_of_fisheries_landing");
    }

    #[test]
    fn the_last_step_of_a_path_names_it() {
        assert_eq!(last_step("$.a['b c']"), "b c");
        assert_eq!(last_step("x:a/@xml:lang"), "lang");
        assert_eq!(last_step("$.a.b"), "b");
    }
}
