//! Chooses the source and the profile of an import, checks its files, and writes its job.

use super::expect::{FileExpectations, refusal};
use super::files::sort_files;
use super::request::ImportRequest;
use crate::job::file::{inspect, open_file};
use crate::job::policy::policy;
use crate::job::source::named_source;
use crate::{EngineError, Result};
use std::path::PathBuf;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::SourceId;
use stook_store::Store;
use stook_store::queue::{JobFile, JobId, JobState, NewJob};

/// An import that fits the definition, with the present state of its files.
pub(super) struct ImportPlan {
    pub(super) source: SourceId,
    pub(super) profile: Option<String>,
    pub(super) files: Vec<JobFile>,
}

/// Chooses the source and the profile, and checks the files.
pub(super) fn plan(catalogue: &Catalogue, request: &ImportRequest) -> Result<ImportPlan> {
    let source = match named_source(catalogue, request.source.as_deref(), request.profile.as_deref())? {
        Some(source) => source,
        None => {
            let sorted = sort_files(catalogue, request)?;
            let ([only], []) = (sorted.imports.as_slice(), sorted.unclaimed.as_slice()) else {
                return Err(EngineError::Wrong("the files are of several sources, or of none; import those of each source by themselves".into()));
            };
            named_source(catalogue, only.source.as_deref(), None)?.ok_or_else(|| EngineError::Wrong("no source was chosen".into()))?
        }
    };
    if request.retires_all && catalogue.sources[source].complete_files().is_none() {
        let name = &catalogue.sources[source].name;
        return Err(EngineError::Wrong(format!("source `{name}` has no complete deliveries (`replaces`), so nothing can be retired")));
    }
    let (part, arguments, retires_all) = (&request.part, &request.arguments, request.retires_all);
    let inspect =
        |path: &PathBuf| Ok(JobFile { part: part.clone(), arguments: arguments.clone(), retires_all, ..inspect(path, &catalogue.sources[source])? });
    let files: Vec<JobFile> = request.files.iter().map(inspect).collect::<Result<_>>()?;
    Ok(ImportPlan { source, profile: request.profile.clone(), files })
}

/// Writes a job for the files; [`super::run()`] processes it.
///
/// # Errors
/// When the request does not fit the definition, or a file cannot be read.
pub fn create(catalogue: &Catalogue, store: &dyn Store, request: &ImportRequest) -> Result<JobId> {
    written(catalogue, store, request, plan(catalogue, request)?)
}

/// Writes a job for each import; writes none if one of them does not fit the definition or a file cannot be read.
///
/// # Errors
/// As [`create`].
pub fn create_all(catalogue: &Catalogue, store: &dyn Store, imports: &[ImportRequest]) -> Result<Vec<JobId>> {
    let plans: Vec<ImportPlan> = imports.iter().map(|request| plan(catalogue, request)).collect::<Result<_>>()?;
    imports.iter().zip(plans).map(|(request, plan)| written(catalogue, store, request, plan)).collect()
}

fn written(catalogue: &Catalogue, store: &dyn Store, request: &ImportRequest, mut plan: ImportPlan) -> Result<JobId> {
    policy(catalogue, plan.profile.as_deref(), 0)?;
    check_expectations(catalogue, store, request, &mut plan)?;
    let refusal = refusal(&plan.files);
    let source = catalogue.sources[plan.source].name.clone();
    let job = store.create_job(NewJob { tenant: request.tenant.clone(), profile: plan.profile, source, as_of: request.as_of, files: plan.files })?;
    if let Some(reason) = refusal {
        store.end_job(job, JobState::Failed, &reason)?;
    }
    Ok(job)
}

/// Notes in the files of an import whether they are as their source expects.
pub(super) fn check_expectations(catalogue: &Catalogue, store: &dyn Store, request: &ImportRequest, plan: &mut ImportPlan) -> Result<()> {
    let source = &catalogue.sources[plan.source];
    let received = request.as_of.or_else(|| plan.files.first().map(|file| file.modified)).unwrap_or_else(|| store.clock());
    let expectations = FileExpectations { catalogue, store, tenant: &request.tenant, source: plan.source, received, accepts_all: request.unexpected };
    expectations.check_all(&mut plan.files, |file| open_file(file, source))
}
