//! `token`.

use crate::arguments::serve::TokenCommand;
use crate::open::{self, CatalogueLocation};
use crate::output::table;
use crate::{CommandError, CommandResult};
use serde_json::json;
use stook_catalogue::value::show_timestamp;
use stook_server::access::new_token;
use stook_store::access::Role;

pub fn token(location: &CatalogueLocation, command: &TokenCommand) -> CommandResult {
    match command {
        TokenCommand::Create { role, tenant, name, json } => {
            let tenant = if tenant == "*" { None } else { Some(open::tenant(tenant)?) };
            let role = Role::from_name(role).ok_or_else(|| CommandError::usage("a role is metrics, read, write or admin"))?;
            let (secret, token) = new_token(tenant, role, name.clone()).map_err(|error| CommandError::new(error.to_string()))?;
            if !location.exists()? {
                // the first token may be created before the first document is imported
                location.written()?;
            }
            let id = location.admin_store(false)?.create_token(token)?;
            if *json {
                say!("{}", json!({ "id": id, "token": secret }));
            } else {
                eprintln!("token {id}; it is shown only once; send it as `Authorization: Bearer TOKEN`");
                say!("{secret}");
            }
        }
        TokenCommand::Ls { json } => {
            let tokens = location.admin_store(true)?.tokens()?;
            let tenant = |token: &stook_store::access::Token| token.token.tenant.as_ref().map_or("*".to_owned(), ToString::to_string);
            if *json {
                let shown: Vec<_> = tokens
                    .iter()
                    .map(|token| {
                        let created = show_timestamp(token.created);
                        json!({ "id": token.id, "tenant": tenant(token), "role": token.token.role.name(), "name": token.token.name, "created": created })
                    })
                    .collect();
                say!("{}", json!(shown));
            } else {
                let rows: Vec<Vec<String>> = tokens
                    .iter()
                    .map(|token| {
                        let details = &token.token;
                        vec![token.id.to_string(), tenant(token), details.role.name().to_owned(), details.name.clone(), show_timestamp(token.created)]
                    })
                    .collect();
                say!("{}", table(&["token", "tenant", "role", "name", "created"], &rows, &[true]));
            }
        }
        TokenCommand::Revoke { id } => {
            if !location.admin_store(false)?.revoke_token(*id)? {
                return Err(CommandError::new(format!("there is no token {id}")));
            }
            say!("token {id} is revoked");
        }
    }
    Ok(0)
}
