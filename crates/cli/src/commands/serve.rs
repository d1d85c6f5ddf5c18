//! `serve`.

use crate::arguments::serve::{RequestLog, ServeArgs};
use crate::open::{CatalogueLocation, tenant};
use crate::output::count;
use crate::process::{stop_signal, threads};
use crate::{CommandError, CommandResult};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stook_catalogue::definition::Catalogue;
use stook_engine::work::{LEASE_SECONDS, WorkerOptions};
use stook_server::access::checked_rights;
use stook_server::admission::ClassLimits;
use stook_server::proxy::{GroupRights, TrustedProxy};
use stook_server::{App, RequestLogLevel, ServerOptions, ServerTls};

/// The proxies that identify people, as the arguments have them.
fn trusted_proxy(arguments: &ServeArgs, catalogue: &Catalogue) -> Result<Option<TrustedProxy>, CommandError> {
    let Some(file) = &arguments.proxy_secret_file else { return Ok(None) };
    let of_secret =
        |reason: String| CommandError::new(format!("{}: the secret of the proxy (--proxy-secret-file) cannot be used: {reason}", file.display()));
    let secret = std::fs::read_to_string(file).map_err(|error| of_secret(error.to_string()))?;
    let rights = arguments.proxy_rights.iter().map(|text| GroupRights::parse(text, |rights| checked_rights(rights, catalogue)));
    let rights = rights.collect::<Result<Vec<_>, _>>().map_err(|wrong| CommandError::usage(format!("--proxy-rights: {wrong}")))?;
    let tenant = match arguments.proxy_tenant.as_str() {
        "*" => None,
        name => Some(tenant(name)?),
    };
    TrustedProxy::new(&secret, arguments.trust_proxy.clone(), rights, tenant).map(Some).map_err(of_secret)
}

/// Max connections that wait to be accepted.
const BACKLOG: u32 = 4_096;

pub fn serve(location: &CatalogueLocation, arguments: &ServeArgs) -> CommandResult {
    let stop = stop_signal()?;
    let catalogue = location.catalogue()?;
    let store = location.served(&catalogue)?;
    let workers = match arguments.workers {
        Some(workers) => workers,
        None if location.is_file()? => threads(None),
        None => 0,
    };
    let proxy = trusted_proxy(arguments, &catalogue)?.map(Arc::new);
    let needs_no_token = arguments.listen.ip().is_loopback() && proxy.is_none();
    let tls = arguments.tls_cert.as_deref().zip(arguments.tls_key.as_deref());
    let tls = tls.map(|(certificate, key)| ServerTls::read(certificate, key).map(Arc::new)).transpose().map_err(CommandError::new)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let options = ServerOptions {
        interactive: ClassLimits { max_requests: arguments.max_requests.max(1), wait: Duration::from_millis(arguments.wait) },
        cache: arguments.cache << 20,
        files: arguments.files.clone(),
        runs: arguments.runs.clone(),
        log: match arguments.log {
            RequestLog::Nothing => RequestLogLevel::None,
            RequestLog::Troubles => RequestLogLevel::Problems,
            RequestLog::All => RequestLogLevel::All,
        },
        loopback: arguments.listen.ip().is_loopback(),
        tls,
        proxy: proxy.clone(),
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
    let described = if cfg!(feature = "pages") { "/docs" } else { "/openapi.json; this build has no web pages, build with --features pages" };
    eprintln!("serving {} on {scheme}://{address} with {}; documentation at {described}", catalogue.name, count(workers as u64, "import worker"));
    if needs_no_token && !store.has_had_tokens()? {
        eprintln!("no tokens exist, so anyone on this machine has full access; create one with `stook token create`");
    } else if proxy.is_none() && store.tokens()?.is_empty() {
        eprintln!("no tokens exist, so all requests are refused; create one: stook token create --role admin");
    }
    let stop_work = Arc::new(AtomicBool::new(false));
    let pool = (workers > 0).then(|| {
        let (app, stop) = (app.clone(), stop_work.clone());
        std::thread::spawn(move || {
            let options = WorkerOptions { workers, lease_seconds: LEASE_SECONDS, drain: false, settles: true, only: None };
            stook_server::work(&app, &options, &stop)
        })
    });
    let stop_requested = stop.clone();
    let served = runtime.block_on(stook_server::serve(app, listener, async move {
        while !stop_requested.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }));
    stop_work.store(true, Ordering::SeqCst);
    if let Some(Ok(worked)) = pool.map(std::thread::JoinHandle::join) {
        worked?;
    }
    runtime.shutdown_timeout(Duration::from_secs(5));
    served?;
    Ok(0)
}
