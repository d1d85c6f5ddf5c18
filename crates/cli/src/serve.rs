//! `serve` and `token`.

use crate::arguments::{RequestLog, ServeArgs, TokenCommand};
use crate::open::{self, CatalogueLocation};
use crate::output::{count, table};
use crate::work::{stop_signal, threads};
use crate::{CommandError, CommandResult};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stook_catalogue::value::show_timestamp;
use stook_engine::work::{LEASE_SECONDS, WorkerOptions as WorkOptions};
use stook_server::access::new_token;
use stook_server::admission::ClassLimits;
use stook_server::{App, RequestLogLevel, ServerOptions};
use stook_store::access::Role;

/// Connections that wait to be accepted.
const BACKLOG: u32 = 4_096;

pub fn serve(place: &CatalogueLocation, arguments: &ServeArgs) -> CommandResult {
    let stop = stop_signal()?;
    let catalogue = place.catalogue()?;
    let store = place.prepared(&catalogue, false)?;
    let workers = match arguments.workers {
        Some(workers) => workers,
        None if place.is_file()? => threads(None),
        None => 0,
    };
    let loopback = arguments.listen.ip().is_loopback();
    let options = ServerOptions {
        interactive: ClassLimits { most: arguments.most.max(1), wait: Duration::from_millis(arguments.wait) },
        cache: arguments.cache << 20,
        files: arguments.files.clone(),
        runs: arguments.runs.clone(),
        log: match arguments.log {
            RequestLog::Nothing => RequestLogLevel::None,
            RequestLog::Troubles => RequestLogLevel::Problems,
            RequestLog::All => RequestLogLevel::All,
        },
        loopback,
        ..ServerOptions::default()
    };
    let app = App::new(catalogue.clone(), store.clone(), options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let listener = runtime.block_on(async {
        let socket = if arguments.listen.is_ipv4() { tokio::net::TcpSocket::new_v4()? } else { tokio::net::TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(arguments.listen)?;
        socket.listen(BACKLOG)
    });
    let listener = listener.map_err(|error| CommandError::new(format!("{}: {error}", arguments.listen)))?;
    let address = listener.local_addr()?;
    eprintln!("serving {} on http://{address} with {}; API documentation at /docs", catalogue.name, count(workers as u64, "import worker"));
    if loopback && !store.has_had_tokens()? {
        eprintln!("no tokens exist, so anyone on this machine has full access; create one with `stook token create`");
    } else if store.tokens()?.is_empty() {
        eprintln!("no tokens exist, so all requests are refused; create one: stook token create --role admin");
    }
    let stop_work = Arc::new(AtomicBool::new(false));
    let crew = (workers > 0).then(|| {
        let (app, stop) = (app.clone(), stop_work.clone());
        std::thread::spawn(move || {
            let options = WorkOptions { workers, lease_seconds: LEASE_SECONDS, drain: false, settles: true };
            stook_server::work(&app, &options, &stop)
        })
    });
    let asked = stop.clone();
    let served = runtime.block_on(stook_server::serve(app, listener, async move {
        while !asked.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }));
    stop_work.store(true, Ordering::SeqCst);
    if let Some(Ok(worked)) = crew.map(std::thread::JoinHandle::join) {
        worked?;
    }
    runtime.shutdown_timeout(Duration::from_secs(5));
    served?;
    Ok(0)
}

pub fn token(place: &CatalogueLocation, command: &TokenCommand) -> CommandResult {
    match command {
        TokenCommand::Create { role, tenant, name, json } => {
            let tenant = if tenant == "*" { None } else { Some(open::tenant(tenant)?) };
            let role = Role::named(role).ok_or_else(|| CommandError::usage("a role is read, write or admin"))?;
            let (secret, token) = new_token(tenant, role, name.clone()).map_err(|error| CommandError::new(error.to_string()))?;
            if !place.exists()? {
                // the first token may come before the first document
                place.written()?;
            }
            let id = place.ledger(false)?.create_token(token)?;
            if *json {
                say!("{}", json!({ "id": id, "token": secret }));
            } else {
                eprintln!("token {id}; it is shown only once; send it as `Authorization: Bearer TOKEN`");
                say!("{secret}");
            }
        }
        TokenCommand::Ls { json } => {
            let tokens = place.ledger(true)?.tokens()?;
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
                        let own = &token.token;
                        vec![token.id.to_string(), tenant(token), own.role.name().to_owned(), own.name.clone(), show_timestamp(token.created)]
                    })
                    .collect();
                say!("{}", table(&["token", "tenant", "role", "name", "created"], &rows, &[true]));
            }
        }
        TokenCommand::Revoke { id } => {
            if !place.ledger(false)?.revoke_token(*id)? {
                return Err(CommandError::new(format!("there is no token {id}")));
            }
            say!("token {id} is revoked");
        }
    }
    Ok(0)
}
