//! The source whose documents a job reads: named, given by a profile, or the only one that reads what was found.

use crate::job::file::strange;
use crate::{EngineError, Result};
use stook_catalogue::definition::{Catalogue, FormatFamily};
use stook_catalogue::ids::SourceId;
use stook_formats::read::OpenedInput;

/// The source that is named, or that a profile is for.
pub(crate) fn named_source(catalogue: &Catalogue, source: Option<&str>, profile: Option<&str>) -> Result<Option<SourceId>> {
    let names = |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let profile = match profile {
        None => None,
        Some(name) => Some(catalogue.profile(name).ok_or_else(|| {
            let known = names(catalogue.profiles.iter().map(|profile| profile.name.as_str()).collect());
            EngineError::Wrong(format!("no profile `{name}`; profiles are {known}"))
        })?),
    };
    match (source, profile) {
        (Some(name), _) => {
            let (index, _) = catalogue.source(name).ok_or_else(|| {
                let known = names(catalogue.sources.iter().map(|source| source.name.as_str()).collect());
                EngineError::Wrong(format!("there is no source `{name}`; the definition has {known}"))
            })?;
            match profile.filter(|profile| profile.source != index) {
                Some(profile) => Err(EngineError::Wrong(format!("profile `{}` is not for source `{name}`", profile.name))),
                None => Ok(Some(index)),
            }
        }
        (None, Some(profile)) => Ok(Some(profile.source)),
        (None, None) => Ok(None),
    }
}

/// The only source that reads what was found.
pub(crate) fn guess_source(catalogue: &Catalogue, opened: &OpenedInput, name: &str) -> Result<SourceId> {
    let syntax = opened.syntax;
    let fits = |family: FormatFamily| syntax.is_none_or(|syntax| syntax.as_family(family).is_some());
    let exact = |family: FormatFamily| syntax.is_some_and(|syntax| syntax.family() == family);
    let candidates: Vec<SourceId> = catalogue.sources.ids().filter(|index| fits(catalogue.sources[*index].family)).collect();
    let best: Vec<SourceId> = candidates.iter().copied().filter(|index| exact(catalogue.sources[*index].family)).collect();
    let found = syntax.map_or("nothing", |syntax| syntax.name());
    match (best.as_slice(), candidates.as_slice()) {
        ([only], _) | ([], [only]) => Ok(*only),
        ([], []) => Err(strange(opened, name, &format!("contains {found}, which no source of this catalogue reads"))),
        _ => {
            let names: Vec<&str> = candidates.iter().map(|index| catalogue.sources[*index].name.as_str()).collect();
            Err(EngineError::Wrong(format!("{name} contains {found}; choose the source: {}", names.join(", "))))
        }
    }
}
