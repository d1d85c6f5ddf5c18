//! Service files: named sets of settings, as libpq reads them.

use crate::address::{AddressError, Variables};
use std::path::{Path, PathBuf};

/// Bytes that a file of services or passwords has at most.
pub const MAX_FILE: u64 = 1 << 20;

/// Returns the settings of a service: from the file that `PGSERVICEFILE` names or `~/.pg_service.conf`, then from `pg_service.conf` in `PGSYSCONFDIR`.
pub fn find(service: &str, home: Option<&Path>, variables: Variables<'_>) -> Result<Vec<(String, String)>, AddressError> {
    let of_user = variables("PGSERVICEFILE").map(PathBuf::from).or_else(|| Some(home?.join(".pg_service.conf")));
    let of_system = Path::new(&variables("PGSYSCONFDIR").unwrap_or_else(|| "/etc/postgresql-common".into())).join("pg_service.conf");
    let mut known = Vec::new();
    let mut read = Vec::new();
    for file in of_user.into_iter().chain([of_system]) {
        let Some(text) = text_of(&file)? else { continue };
        if let Some(settings) = section(&text, service, &mut known).map_err(|reason| AddressError(format!("{}: {reason}", file.display())))? {
            return Ok(settings);
        }
        read.push(file.display().to_string());
    }
    let similar =
        known.iter().filter(|name| strsim::jaro_winkler(name, service) > 0.8).max_by_key(|name| (strsim::jaro_winkler(name, service) * 1e6) as u64);
    Err(AddressError(match (similar, read.as_slice()) {
        (Some(name), _) => format!("there is no service `{service}` in {}; did you mean `{name}`?", read.join(" or ")),
        (None, []) => format!("there is no service `{service}`: neither ~/.pg_service.conf nor a file named by PGSERVICEFILE was found"),
        (None, _) => format!("there is no service `{service}` in {}", read.join(" or ")),
    }))
}

/// The text of a file; `None` if there is none.
fn text_of(file: &Path) -> Result<Option<String>, AddressError> {
    let failed = |error: std::io::Error| AddressError(format!("{}: {error}", file.display()));
    match std::fs::metadata(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
        Ok(about) if about.len() > MAX_FILE => return Err(AddressError(format!("{}: it is larger than 1 MB", file.display()))),
        Ok(_) => {}
    }
    std::fs::read_to_string(file).map(Some).map_err(failed)
}

/// The settings below `[service]`; adds the names of all services to `known`.
fn section(text: &str, service: &str, known: &mut Vec<String>) -> Result<Option<Vec<(String, String)>>, String> {
    let mut found: Option<Vec<(String, String)>> = None;
    let mut inside = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            if found.is_some() {
                break;
            }
            inside = name == service;
            known.push(name.to_owned());
            if inside {
                found = Some(Vec::new());
            }
        } else if let (true, Some(settings)) = (inside, &mut found) {
            let (name, value) = line.split_once('=').ok_or_else(|| format!("line {} is not NAME=VALUE", number + 1))?;
            if name.trim() == "service" {
                return Err(format!("line {}: a service cannot name another one", number + 1));
            }
            settings.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }
    Ok(found)
}
