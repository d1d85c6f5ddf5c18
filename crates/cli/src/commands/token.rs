//! `token`.

use crate::arguments::serve::TokenCommand;
use crate::open::{self, CatalogueLocation};
use crate::output::table;
use crate::{CommandError, CommandResult};
use serde_json::json;
use stook_catalogue::value::show_timestamp;
use stook_server::access::{TOKEN_NAME, checked_rights, is_token_name};
use stook_server::secret::{Secret, expiry, now, overlap};
use stook_store::access::{NewSecret, NewToken, Rights, Role, Token, TokenChange};

pub fn token(location: &CatalogueLocation, command: &TokenCommand) -> CommandResult {
    match command {
        TokenCommand::Create { role, may, tenant, name, expires, json } => {
            let tenant = if tenant == "*" { None } else { Some(open::tenant(tenant)?) };
            let expires = expires.as_deref().map(|when| expiry(when, now())).transpose().map_err(CommandError::usage)?;
            let secret = random_secret()?;
            let rights = rights(location, role.as_deref(), may.as_deref())?.ok_or_else(|| CommandError::usage("give --role or --may"))?;
            let token = NewToken { digest: secret.digest(), tenant, rights, name: checked_name(name)?, expires };
            if !location.exists()? {
                // the first token may be created before the first document is imported
                location.written()?;
            }
            let id = location.admin_store(false)?.create_token(token)?;
            show_secret(id, &secret, *json);
        }
        TokenCommand::Rotate { id, overlap: time, expires, json } => {
            let secret = random_secret()?;
            let former_until = overlap(time, now()).map_err(CommandError::usage)?;
            let new_secret = NewSecret { digest: secret.digest(), former_until };
            change(location, *id, TokenChange { expires: changed_expiry(expires.as_deref())?, secret: Some(new_secret), ..TokenChange::default() })?;
            show_secret(*id, &secret, *json);
        }
        TokenCommand::Change { id, role, may, name, expires } => {
            let rights = rights(location, role.as_deref(), may.as_deref())?;
            if rights.is_none() && name.is_none() && expires.is_none() {
                return Err(CommandError::usage("say what to change: --role, --may, --name or --expires"));
            }
            let name = name.as_deref().map(checked_name).transpose()?;
            change(location, *id, TokenChange { rights, name, expires: changed_expiry(expires.as_deref())?, secret: None })?;
            say!("token {id} is changed");
        }
        TokenCommand::Ls { json } => {
            let tokens = location.admin_store(true)?.tokens()?;
            if *json {
                say!("{}", json!(tokens.iter().map(as_json).collect::<Vec<_>>()));
            } else {
                let rows: Vec<Vec<String>> = tokens.iter().map(row).collect();
                say!("{}", table(&["token", "tenant", "may", "name", "created", "used", "expires"], &rows, &[true]));
            }
        }
        TokenCommand::Revoke { id } => {
            if !location.admin_store(false)?.revoke_token(*id)? {
                return Err(no_token(*id));
            }
            say!("token {id} is revoked");
        }
    }
    Ok(0)
}

fn random_secret() -> Result<Secret, CommandError> {
    Secret::random().map_err(|error| CommandError::new(format!("the system's random number generator failed: {error}")))
}

/// The rights of `--role`, or of `--may`, whose collections the definition must have.
fn rights(location: &CatalogueLocation, role: Option<&str>, may: Option<&str>) -> Result<Option<Rights>, CommandError> {
    match (role, may) {
        (_, Some(may)) => {
            let catalogue = location.catalogue()?;
            checked_rights(may, &catalogue).map(Some).map_err(|reason| CommandError::usage(format!("--may: {reason}")))
        }
        (Some(role), None) => {
            let role = Role::from_name(role).ok_or_else(|| CommandError::usage("a role is metrics, read, write or admin"))?;
            Ok(Some(role.into()))
        }
        (None, None) => Ok(None),
    }
}

fn checked_name(name: &str) -> Result<String, CommandError> {
    if is_token_name(name) { Ok(name.to_owned()) } else { Err(CommandError::usage(TOKEN_NAME)) }
}

fn changed_expiry(when: Option<&str>) -> Result<Option<Option<i64>>, CommandError> {
    match when {
        None => Ok(None),
        Some("never") => Ok(Some(None)),
        Some(when) => expiry(when, now()).map(|at| Some(Some(at))).map_err(CommandError::usage),
    }
}

fn no_token(id: u64) -> CommandError {
    CommandError::new(format!("there is no token {id}; `stook token ls` lists them"))
}

fn change(location: &CatalogueLocation, id: u64, change: TokenChange) -> Result<(), CommandError> {
    if location.admin_store(false)?.change_token(id, change)? { Ok(()) } else { Err(no_token(id)) }
}

fn show_secret(id: u64, secret: &Secret, json: bool) {
    if json {
        say!("{}", json!({ "id": id, "token": secret.text() }));
    } else {
        eprintln!("token {id}; it is shown only once; send it as `Authorization: Bearer TOKEN`");
        say!("{}", secret.text());
    }
}

fn tenant(token: &Token) -> String {
    token.token.tenant.as_ref().map_or("*".to_owned(), ToString::to_string)
}

fn as_json(token: &Token) -> serde_json::Value {
    let details = &token.token;
    json!({
        "id": token.id,
        "tenant": tenant(token),
        "role": details.rights.role().name(),
        "may": details.rights.texts(),
        "name": details.name,
        "created": show_timestamp(token.created),
        "used": token.used.map(show_timestamp),
        "expires": details.expires.map(show_timestamp),
        "replaced_secret_until": token.former.as_ref().map(|former| former.until).filter(|until| *until > now()).map(show_timestamp),
    })
}

/// The cells of a token. Times have no fractions: uses are known only to some minutes.
fn row(token: &Token) -> Vec<String> {
    let details = &token.token;
    let time = |micros: i64| show_timestamp(micros - micros.rem_euclid(1_000_000));
    let expires = match details.expires {
        Some(at) if at <= now() => format!("{} (expired)", time(at)),
        Some(at) => time(at),
        None => "never".into(),
    };
    let used = token.used.map_or("never".into(), time);
    vec![token.id.to_string(), tenant(token), details.rights.to_string(), details.name.clone(), time(token.created), used, expires]
}
