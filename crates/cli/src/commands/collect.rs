//! `collect`.

use super::jobs::outcomes;
use super::status::shown_status;
use crate::arguments::import::CollectArgs;
use crate::open::{self, CatalogueLocation, time};
use crate::output::{count, table};
use crate::process::{stop_signal, threads};
use crate::{CommandError, CommandResult};
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::diagnostic::known_instead;
use stook_catalogue::ids::{CollectionId, SourceId};
use stook_catalogue::value::{FieldType, Value, from_text, show_timestamp};
use stook_engine::collect::{self, CollectReport, CollectRequest};
use stook_engine::fetch::{FetchOptions, FetchPolicy, Fetcher};
use stook_store::journal::{OUTCOMES, Outcome as Became};
use stook_store::plan::QueryPlan;
use stook_store::{Store, Tenant};

pub fn run(location: &CatalogueLocation, arguments: &CollectArgs) -> CommandResult {
    let tenant = open::tenant(&arguments.tenant)?;
    if arguments.status {
        return status(location, &tenant, arguments);
    }
    let catalogue = location.catalogue()?;
    let chosen = if arguments.asked { Vec::new() } else { services(&catalogue, arguments)? };
    let store = location.prepared(&catalogue, false)?;
    if arguments.asked {
        return fetch_on_demand(&catalogue, &store, &tenant, arguments.json);
    }
    let stop = stop_signal()?;
    let request = |(source, service): (SourceId, usize)| -> Result<CollectRequest, CommandError> {
        Ok(CollectRequest {
            source,
            service,
            tenant: tenant.clone(),
            since: arguments.since.as_deref().map(|text| time("--since", text)).transpose()?,
            until: arguments.until.as_deref().map(|text| time("--until", text)).transpose()?,
            workers: threads(arguments.workers),
            folder: location.folder.clone(),
        })
    };
    let requests: Vec<CollectRequest> = chosen.into_iter().map(request).collect::<Result<_, _>>()?;
    let every = arguments.every.as_deref().map(parse_interval).transpose()?;
    let mut code = 0;
    loop {
        let began = Instant::now();
        for request in &requests {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            let source = &catalogue.sources[request.source];
            let name = source.collect.as_ref().map_or("", |collect| collect.services[request.service].0.as_str());
            match collect::collect(&catalogue, &*store, request, &stop, &|_| ()) {
                Ok(done) => {
                    report(&source.name, name, &done, arguments.json);
                    code = code.max(if done.counts.of(Became::Failed) > 0 { 2 } else { 0 });
                }
                Err(error) => {
                    // other services are still collected
                    eprintln!("{}", crate::output::failure(&error.to_string()));
                    code = 1;
                }
            }
        }
        match every {
            Some(every) if !wait_until_stopped(every.saturating_sub(began.elapsed()), &stop) => code = 0,
            _ => return Ok(code),
        }
    }
}

/// Shows the watermark of each service.
fn status(location: &CatalogueLocation, tenant: &Tenant, arguments: &CollectArgs) -> CommandResult {
    let (catalogue, store) =
        if location.exists()? { location.read().map(|(catalogue, store)| (catalogue, Some(store)))? } else { (location.catalogue()?, None) };
    let chosen = services(&catalogue, arguments)?;
    let mut rows = Vec::new();
    for (source, service) in chosen {
        let source = &catalogue.sources[source];
        let Some(collect) = &source.collect else { continue };
        let name = &collect.services[service].0;
        let until = match &store {
            Some(store) => collect::journal(&**store, tenant, collect, name)?.map(show_timestamp),
            None => None,
        };
        if arguments.json {
            say!("{}", json!({ "source": source.name, "service": name, "until": until }));
        }
        rows.push(vec![source.name.clone(), name.clone(), until.unwrap_or_else(|| "not yet".into())]);
    }
    if !arguments.json {
        say!("{}", table(&["source", "service", "collected until"], &rows, &[]));
    }
    Ok(0)
}

/// Fetches everything that services of queries return without a condition.
fn fetch_on_demand(catalogue: &Arc<Catalogue>, store: &Arc<dyn Store>, tenant: &Tenant, as_json: bool) -> CommandResult {
    let fetcher = Fetcher::new(catalogue);
    let collections: Vec<CollectionId> = catalogue.collections.ids().filter(|collection| catalogue.is_fetched(*collection)).collect();
    if collections.is_empty() {
        return Err(CommandError::new("no source of this catalogue fetches on demand (`asks:`)"));
    }
    let mut code = 0;
    for collection in collections {
        let options = FetchOptions { when: FetchPolicy::Needed, time: None };
        for status in fetcher.fetch(store, &QueryPlan::all(tenant.clone(), collection), &[], options)? {
            if as_json {
                say!("{}", status.to_json());
            } else {
                say!("{}", shown_status(&status));
            }
            // some return nothing without a condition
            code = code.max(if matches!(status.state(), "complete" | "unasked") { 0 } else { 2 });
        }
    }
    fetcher.stop();
    Ok(code)
}

/// Returns source and service of each selected service.
fn services(catalogue: &Catalogue, arguments: &CollectArgs) -> Result<Vec<(SourceId, usize)>, CommandError> {
    let mut available = Vec::new();
    for (index, source) in catalogue.sources.enumerate() {
        let names = source.collect.iter().flat_map(|collect| &collect.services).enumerate();
        available.extend(names.map(|(service, (name, _))| (index, service, source.name.as_str(), name.as_str())));
    }
    if available.is_empty() {
        return Err(CommandError::new("no source of this catalogue is collected; `collect:` of a source says which services are asked"));
    }
    for requested in &arguments.sources {
        if !available.iter().any(|(_, _, source, _)| source == requested) {
            let names: Vec<&str> = available.iter().map(|(_, _, source, _)| *source).collect();
            return Err(CommandError::usage(format!("no source `{requested}` is collected; {}", known_instead(requested, names))));
        }
    }
    let is_selected_source = |source: &str| arguments.sources.is_empty() || arguments.sources.iter().any(|requested| requested == source);
    let is_selected_service = |service: &str| arguments.service.as_deref().is_none_or(|requested| requested == service);
    let chosen: Vec<(SourceId, usize)> = available
        .iter()
        .filter(|(_, _, source, service)| is_selected_source(source) && is_selected_service(service))
        .map(|(index, service, ..)| (*index, *service))
        .collect();
    if chosen.is_empty() {
        let names: Vec<&str> = available.iter().map(|(.., service)| *service).collect();
        let requested = arguments.service.as_deref().unwrap_or_default();
        return Err(CommandError::usage(format!("there is no service `{requested}`; {}", known_instead(requested, names))));
    }
    Ok(chosen)
}

fn parse_interval(text: &str) -> Result<Duration, CommandError> {
    match from_text(text, &FieldType::Duration, None) {
        Ok(Value::Int(micros)) if micros > 0 => Ok(Duration::from_micros(micros.unsigned_abs())),
        _ => Err(CommandError::usage(format!("--every: {text} is not a duration, such as 10m"))),
    }
}

/// Waits until `time` has passed or the process is asked to stop. Returns whether to stop.
fn wait_until_stopped(time: Duration, stop: &AtomicBool) -> bool {
    let until = Instant::now() + time;
    while Instant::now() < until && !stop.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(100).min(time));
    }
    stop.load(Ordering::SeqCst)
}

fn report(source: &str, service: &str, done: &CollectReport, as_json: bool) {
    if as_json {
        let count = |(outcome, name): &(Became, &str)| ((*name).to_owned(), done.counts.of(*outcome).max(0).into());
        let counts: Map<String, Json> = OUTCOMES.iter().map(count).collect();
        let until = show_timestamp(done.until);
        say!(
            "{}",
            json!({
                "source": source, "service": service, "pages": done.pages, "unchanged_files": done.unchanged_files,
                "documents": done.counts.documents, "counts": counts, "until": until,
            })
        );
        return;
    }
    let outcomes = outcomes(&done.counts);
    let outcomes = if outcomes.is_empty() { outcomes } else { format!(": {outcomes}") };
    let documents = count(done.counts.documents.max(0) as u64, "document");
    let until = show_timestamp(done.until);
    match done.unchanged_files {
        None => say!("{source} {service}: {documents} in {}, until {until}{outcomes}", count(done.pages, "page")),
        Some(0) => say!("{source} {service}: {documents} in {}, until {until}{outcomes}", count(done.pages, "file")),
        Some(unchanged) => {
            let files = count(done.pages, "file");
            say!("{source} {service}: {documents} in {files}, {} not changed, until {until}{outcomes}", count(unchanged, "file"));
        }
    }
}
