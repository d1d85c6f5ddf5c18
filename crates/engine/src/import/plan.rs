//! Chooses source and profile of an import, looks at its files, and writes its job.

use super::request::ImportRequest;
use crate::job::file::inspect;
use crate::job::policy::policy;
use crate::job::source::{guess_source, named_source};
use crate::{EngineError, Result};
use std::path::PathBuf;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::SourceId;
use stook_store::Store;
use stook_store::queue::{JobFile, JobId, NewJob};

/// Chooses source and profile and looks at the files.
pub(super) fn plan(catalogue: &Catalogue, request: &ImportRequest) -> Result<(SourceId, Option<String>, Vec<JobFile>)> {
    let source = match named_source(catalogue, request.source.as_deref(), request.profile.as_deref())? {
        Some(source) => source,
        None => {
            let Some(first) = request.files.first() else { return Err(EngineError::Wrong("no file was given".into())) };
            let name = first.display().to_string();
            let opened = stook_formats::read::open(first).map_err(|error| EngineError::File { path: name.clone(), error })?;
            guess_source(catalogue, &opened, &name)?
        }
    };
    if request.retires_all && catalogue.sources[source].replaces.is_none() {
        let name = &catalogue.sources[source].name;
        return Err(EngineError::Wrong(format!("source `{name}` has no complete deliveries (`replaces`), so nothing can be retired")));
    }
    let (part, retires_all) = (&request.part, request.retires_all);
    let inspect = |path: &PathBuf| Ok(JobFile { part: part.clone(), retires_all, ..inspect(path, &catalogue.sources[source])? });
    let files: Vec<JobFile> = request.files.iter().map(inspect).collect::<Result<_>>()?;
    Ok((source, request.profile.clone(), files))
}

/// Writes a job for the files; [`super::run()`] processes it.
///
/// # Errors
/// When the request does not fit the definition, or a file cannot be read.
pub fn create(catalogue: &Catalogue, store: &dyn Store, request: &ImportRequest) -> Result<JobId> {
    let (source, profile, files) = plan(catalogue, request)?;
    policy(catalogue, profile.as_deref(), 0)?;
    let source = catalogue.sources[source].name.clone();
    Ok(store.create_job(NewJob { tenant: request.tenant.clone(), profile, source, as_of: request.as_of, files })?)
}
