//! The `stook` command: parses arguments and prints results.
//!
//! Exit codes: 0 success, 1 failure, 2 finished but some documents failed, 64 wrong usage.

#![deny(clippy::print_stdout, reason = "`say!` knows that nobody may read it")]

#[macro_use]
mod output;
mod output_file;

mod arguments;
mod commands;
mod error;
mod mcp;
mod open;
mod process;
mod remote;

use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser};
use commands::{
    audit, backup, collect, definition, doctor, erase, follow, help, import, init, jobs, journal, man_pages, profile, query, queue, record, serve,
    settle, sql, tag, token, undo, work,
};
#[cfg(feature = "lab")]
use commands::{lab, sample};
use std::process::ExitCode;

pub use error::{CommandError, CommandResult};

/// Memory of chunks is allocated by some threads and freed by others, which the system's allocator does slowly: by measurement, mimalloc shortens an
/// import of 50 000 records by a sixth.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 64 } else { 0 });
        }
    };
    // what a server or a worker does is done for others
    let ran = match &arguments.command {
        Command::Serve(_) | Command::Work(_) => run(&arguments),
        _ => audit::scope().during(|| run(&arguments)),
    };
    match ran {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("{}", output::failure(&failure.message));
            ExitCode::from(failure.code)
        }
    }
}

fn run(arguments: &Arguments) -> CommandResult {
    let location = open::CatalogueLocation { folder: arguments.catalogue.clone(), store: arguments.store.clone() };
    match &arguments.command {
        Command::Init(arguments) => init::init(arguments),
        Command::Profile(arguments) => profile::profile(arguments),
        Command::Check { json, deep: false } => definition::check(&location, *json),
        Command::Check { json, deep: true } => settle::check(&location, *json),
        Command::Doctor { json } => doctor::doctor(&location, *json),
        Command::Settle { json } => settle::settle(&location, *json),
        Command::Help { topic, json } => help::help(topic, *json),
        Command::Schema => definition::schema(),
        Command::Prepare { dry_run: false, .. } => definition::prepare(&location),
        Command::Prepare { dry_run: true, json } => definition::what_prepare_changes(&location, *json),
        Command::Backup { file, verify: false, json } => backup::backup(&location, file, *json),
        Command::Backup { file, verify: true, json } => backup::verify(file, *json),
        Command::Restore { file, json } => backup::restore(&location, file, *json),
        Command::Import(arguments) => import::import(&location, arguments),
        Command::Collect(arguments) => collect::run(&location, arguments),
        Command::Work(arguments) => work::work(&location, arguments),
        Command::Serve(arguments) => serve::serve(&location, arguments),
        Command::Mcp(arguments) => mcp::mcp(&location, arguments),
        Command::Tag { command } => tag::tag(&location, command),
        Command::Token { command } => token::token(&location, command),
        Command::Audit(arguments) => audit::audit(&location, arguments),
        Command::Jobs { json, tenant, limit } => jobs::jobs(&location, tenant.as_deref(), *limit, *json),
        Command::Cancel { job, json } => jobs::cancel(&location, *job, *json),
        Command::Undo { job, detach, json } => undo::undo(&location, *job, *detach, *json),
        Command::Journal(arguments) => journal::journal(&location, arguments),
        Command::Queue { command } => queue::run(&location, command),
        Command::Get(get) => record::get(&location, get),
        Command::Query(arguments) => query::query(&location, arguments),
        Command::Sql(arguments) => sql::sql(&location, arguments),
        Command::Suggest { text, tenant, json } => query::suggest(&location, &text.join(" "), tenant, *json),
        Command::Erase(arguments) => erase::erase(&location, arguments),
        Command::Withdraw(withdraw) => record::withdraw(&location, withdraw),
        Command::Export(arguments) => record::export(&location, arguments),
        Command::Changes(arguments) => follow::changes(&location, arguments),
        #[cfg(feature = "lab")]
        Command::Lab { command } => lab::lab(command),
        #[cfg(feature = "lab")]
        Command::Sample(arguments) => sample::sample(arguments),
        #[cfg(not(feature = "lab"))]
        Command::Lab(_) => Err(CommandError::usage("this build has no `stook lab`; build with --features lab")),
        #[cfg(not(feature = "lab"))]
        Command::Sample(_) => Err(CommandError::usage("this build has no `stook sample`; build with --features lab")),
        Command::ManPages { folder } => man_pages::write(folder),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Arguments::command(), "stook", &mut script);
            say!("{}", String::from_utf8_lossy(&script).trim_end());
            Ok(0)
        }
    }
}
