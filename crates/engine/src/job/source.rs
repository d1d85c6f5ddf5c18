//! The source whose documents a job reads: named by the request, given by its profile, or the only one that claims the file by its name, its first
//! document or its format.

use crate::job::file::{UPLOADED, is_declared_empty, unexpected_content};
use crate::{EngineError, Result};
use stook_catalogue::definition::{Catalogue, FormatFamily, Source};
use stook_catalogue::diagnostic::known_instead;
use stook_catalogue::ids::SourceId;
use stook_catalogue::path::Path;
use stook_formats::read::{FirstDocument, OpenedInput};

/// The source with this name.
///
/// # Errors
/// When there is none.
pub fn find_source(catalogue: &Catalogue, name: &str) -> Result<SourceId> {
    let found = catalogue.source(name).map(|(index, _)| index);
    found.ok_or_else(|| {
        let known = catalogue.sources.iter().map(|source| source.name.as_str());
        EngineError::Wrong(format!("there is no source `{name}`; {}", known_instead(name, known)))
    })
}

/// The source that is named, or that a profile belongs to.
pub(crate) fn named_source(catalogue: &Catalogue, source: Option<&str>, profile: Option<&str>) -> Result<Option<SourceId>> {
    let profile = match profile {
        None => None,
        Some(name) => Some(catalogue.profile(name).ok_or_else(|| {
            let known = catalogue.profiles.iter().map(|profile| profile.name.as_str());
            EngineError::Wrong(format!("there is no profile `{name}`; {}", known_instead(name, known)))
        })?),
    };
    match (source, profile) {
        (Some(name), _) => {
            let index = find_source(catalogue, name)?;
            match profile.filter(|profile| profile.source != index) {
                Some(profile) => Err(EngineError::Wrong(format!("profile `{}` is not for source `{name}`", profile.name))),
                None => Ok(Some(index)),
            }
        }
        (None, Some(profile)) => Ok(Some(profile.source)),
        (None, None) => Ok(None),
    }
}

/// Which source claims a file, if the request does not name one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Claim {
    /// This source claims it.
    Source(SourceId),
    /// Several sources claim it.
    Several(Vec<SourceId>),
    /// No source claims it.
    Nobody,
}

/// Which source claims a file. The first of these groups that is not empty decides: sources whose `files` match its name and whose `has` finds
/// something in its first document; those whose `files` match and that have no `has`; those whose `files` match a file without documents; those with
/// only a `has` that finds something; those with neither that read its format.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn claim(catalogue: &Catalogue, opened: &mut OpenedInput, name: &str) -> Result<Claim> {
    let name = name.strip_prefix(UPLOADED).unwrap_or(name);
    let failed = |error| EngineError::File { path: name.to_owned(), error };
    let mut named = (Vec::new(), Vec::new(), Vec::new());
    let mut by_content = Vec::new();
    for (index, source) in catalogue.sources.enumerate() {
        let is_named = !source.files.is_empty();
        if is_named && !source.files.iter().any(|pattern| pattern.fits(name)) {
            continue;
        }
        let found = source.has.as_ref().map(|path| first_document(opened, source, path)).transpose().map_err(failed)?;
        match (is_named, found) {
            (true, Some(FirstDocument::Has)) => named.0.push(index),
            (true, None) => named.1.push(index),
            // a file without documents is matched by its name alone
            (true, Some(FirstDocument::None)) => named.2.push(index),
            (false, Some(FirstDocument::Has)) => by_content.push(index),
            (_, Some(FirstDocument::Lacks)) | (false, Some(FirstDocument::None) | None) => {}
        }
    }
    let claims = [named.0, named.1, named.2, by_content, by_format(catalogue, opened)];
    Ok(match claims.into_iter().find(|claims| !claims.is_empty()).as_deref() {
        Some([only]) => Claim::Source(*only),
        Some(several) => Claim::Several(several.to_vec()),
        None => Claim::Nobody,
    })
}

fn first_document(opened: &mut OpenedInput, source: &Source, path: &Path) -> std::io::Result<FirstDocument> {
    match opened.syntax.and_then(|found| found.as_family(source.family)) {
        Some(syntax) => opened.first_document(syntax, source, path),
        None if opened.syntax.is_none() || is_declared_empty(source, &opened.beginning) => Ok(FirstDocument::None),
        None => Ok(FirstDocument::Lacks),
    }
}

/// The sources with neither `files` nor `has` that read the format of a file: those whose own format it is, or else those that can read it,
/// too.
fn by_format(catalogue: &Catalogue, opened: &OpenedInput) -> Vec<SourceId> {
    let syntax = opened.syntax;
    let fits = |family: FormatFamily| syntax.is_none_or(|syntax| syntax.as_family(family).is_some());
    let exact = |family: FormatFamily| syntax.is_some_and(|syntax| syntax.family() == family);
    let all = catalogue.sources.enumerate().filter(|(_, source)| source.files.is_empty() && source.has.is_none() && fits(source.family));
    let (best, others): (Vec<_>, Vec<_>) = all.partition(|(_, source)| exact(source.family));
    let chosen = if best.len() == 1 || others.is_empty() { best } else { best.into_iter().chain(others).collect() };
    let mut chosen: Vec<SourceId> = chosen.into_iter().map(|(index, _)| index).collect();
    chosen.sort_unstable();
    // every source reads an empty file, so none of several claims it
    if syntax.is_none() && chosen.len() > 1 { Vec::new() } else { chosen }
}

/// The only source that claims a file.
///
/// # Errors
/// When there is none, or more than one.
pub(crate) fn guess_source(catalogue: &Catalogue, opened: &mut OpenedInput, name: &str) -> Result<SourceId> {
    let claim = claim(catalogue, opened, name)?;
    match claim {
        Claim::Source(only) => Ok(only),
        Claim::Several(several) => Err(EngineError::Wrong(claimed_by(catalogue, opened, name, &several))),
        Claim::Nobody => Err(unclaimed(catalogue, opened, name)),
    }
}

/// The message that several sources claim a file.
pub(crate) fn claimed_by(catalogue: &Catalogue, opened: &OpenedInput, name: &str, several: &[SourceId]) -> String {
    let found = opened.syntax.map_or("nothing", |syntax| syntax.name());
    let names = several.iter().map(|index| catalogue.sources[*index].name.as_str());
    format!("{name} contains {found}; choose the source: {}", names.collect::<Vec<_>>().join(", "))
}

/// Why no source claims a file.
fn unclaimed(catalogue: &Catalogue, opened: &OpenedInput, name: &str) -> EngineError {
    let found = opened.syntax.map_or("nothing", |syntax| syntax.name());
    let readers = catalogue.sources.iter().filter(|source| opened.syntax.is_none_or(|syntax| syntax.as_family(source.family).is_some()));
    let readers: Vec<&str> = readers.map(|source| source.name.as_str()).collect();
    match (readers.as_slice(), opened.syntax) {
        ([], _) => unexpected_content(opened, name, &format!("contains {found}, which no source of this catalogue reads")),
        (_, None) => EngineError::Wrong(format!("{name} contains {found}; choose the source: {}", readers.join(", "))),
        (_, Some(_)) => {
            let reason = format!("{name} is no source's by its name or its first document (`files` and `has` in the definition)");
            EngineError::Wrong(format!("{reason}; it contains {found}; choose the source: {}", readers.join(", ")))
        }
    }
}
