//! `check`, `prepare`, `schema`.

use crate::open::{CatalogueLocation, notes_of_areas};
use crate::output::count;
use crate::{CommandError, CommandResult};
use serde_json::json;
use stook_catalogue::diagnostic::render;

pub fn check(location: &CatalogueLocation, as_json: bool) -> CommandResult {
    let text = location.text()?;
    let file = location.definition().display().to_string();
    match location.parsed(&text) {
        Ok(catalogue) => {
            let fields: usize = catalogue.collections.iter().map(|collection| collection.fields.len()).sum();
            // the store is only checked if one is named
            let stored = if location.store.is_some() { location.prepared_for()? } else { None };
            let refusals = stored.as_ref().map(|stored| stored.refusals(&catalogue));
            let fits = refusals.as_ref().is_none_or(Vec::is_empty);
            if as_json {
                let mut report = json!({"file": file, "sound": true, "problems": [], "notes": notes_of_areas(&catalogue), "hash": catalogue.hash});
                if location.store.is_some() {
                    report["store"] = json!({"there": refusals.is_some(), "fits": fits, "needs_a_new_store": refusals.unwrap_or_default()});
                }
                say!("{report}");
            } else {
                say!(
                    "{file} is valid: {} with {}, {}, {}",
                    count(catalogue.collections.len() as u64, "collection"),
                    count(fields as u64, "field"),
                    count(catalogue.sources.len() as u64, "source"),
                    count(catalogue.profiles.len() as u64, "profile"),
                );
                notes_of_areas(&catalogue).iter().for_each(|note| say!("note: {note}"));
                match refusals.as_deref() {
                    None if location.store.is_some() => say!("there is no store yet to check against"),
                    None => {}
                    Some([]) => say!("the store is compatible"),
                    Some(reasons) => say_refusals(reasons),
                }
            }
            Ok(u8::from(!fits))
        }
        Err(problems) if as_json => {
            let listed: Vec<_> = problems
                .iter()
                .map(|problem| {
                    let (line, column) = problem.position(&text);
                    json!({"line": line, "column": column, "message": problem.message, "help": problem.help})
                })
                .collect();
            say!("{}", json!({"file": file, "sound": false, "problems": listed}));
            Ok(1)
        }
        Err(problems) => {
            let shown = render(&file, &text, &problems, crate::output::colours());
            Err(CommandError::new(format!("{shown}{}", count(problems.len() as u64, "mistake"))))
        }
    }
}

fn say_refusals(reasons: &[String]) {
    say!("the store is not compatible; a new one is needed:");
    reasons.iter().for_each(|reason| say!("  - {reason}"));
    say!("revert these changes, or export with the old definition and import into a new store (--store)");
}

/// Creates the store, or updates it to match the definition.
pub fn prepare(location: &CatalogueLocation) -> CommandResult {
    let catalogue = location.catalogue()?;
    let store = location.prepared(&catalogue, true)?;
    super::settle::mark_outdated(&catalogue, &*store)?;
    say!("the store is ready");
    Ok(0)
}

/// Says what preparing the store would change in it.
pub fn what_prepare_changes(location: &CatalogueLocation, as_json: bool) -> CommandResult {
    let catalogue = location.catalogue()?;
    let stored = location.prepared_for()?;
    let refusals = stored.as_ref().map(|stored| stored.refusals(&catalogue)).unwrap_or_default();
    let changes = stored.as_ref().filter(|_| refusals.is_empty()).map(|stored| stored.changes(&catalogue)).unwrap_or_default();
    if as_json {
        say!("{}", json!({"there": stored.is_some(), "needs_a_new_store": refusals, "changes": changes}));
    } else {
        match (&stored, refusals.as_slice(), changes.as_slice()) {
            (None, _, _) => say!("there is no store yet; `stook prepare` creates it"),
            (_, [], []) => say!("the store fits this definition; nothing in it would be changed"),
            (_, [], changes) => {
                say!("`stook prepare` would change the store:");
                changes.iter().for_each(|change| say!("  - {change}"));
            }
            (_, reasons, _) => say_refusals(reasons),
        }
    }
    Ok(u8::from(!refusals.is_empty()))
}

pub fn schema() -> CommandResult {
    say!("{}", serde_json::to_string_pretty(&stook_catalogue::schema::schema())?);
    Ok(0)
}
