//! `queue`.

use crate::arguments::queue::QueueCommand;
use crate::open::CatalogueLocation;
use crate::output::{bytes, count, number, table};
use crate::output_file::Output;
use crate::{CommandError, CommandResult};
use std::io::{BufRead, BufReader, Write};
use stook_engine::requeue;
use stook_store::queue::{ChunkId, ChunkInfo, ChunkState, JobId};

pub fn run(location: &CatalogueLocation, command: &QueueCommand) -> CommandResult {
    match command {
        QueueCommand::Ls { job, json } => {
            let chunks = location.admin_store(true)?.chunks(*job)?;
            if *json {
                say!("{}", serde_json::to_string(&chunks)?);
            } else if chunks.is_empty() {
                say!("nothing waits");
            } else {
                say!("{}", table(&["chunk", "state", "attempts", "documents", "size", "reason"], &rows(&chunks), &[false, false, true, true, true]));
            }
        }
        QueueCommand::Retry { chunk } => {
            let (job, ordinal) = parse_chunk_id(chunk)?;
            let retried = location.admin_store(false)?.retry(job, ordinal)?;
            say!("{} will be retried; run stook work or stook import --resume {job}", count(retried, "chunk"));
        }
        QueueCommand::Rechunk { chunk, documents } => {
            let (job, Some(ordinal)) = parse_chunk_id(chunk)? else {
                return Err(CommandError::usage("give the chunk as JOB.CHUNK; see `stook queue ls`"));
            };
            let (catalogue, store) = location.written_existing()?;
            let parts = requeue::rechunk(&catalogue, &*store, ChunkId { job, ordinal }, *documents)?;
            say!("chunk {chunk} was split into {}; run stook work or stook import --resume {job}", count(parts as u64, "chunk"));
        }
        QueueCommand::Dump { chunk, output } => {
            let (job, ordinal) = parse_chunk_id(chunk)?;
            let mut out = Output::new(output.as_deref())?;
            let store = location.admin_store(true)?;
            let mut dumped = 0;
            for info in store.chunks(Some(job))?.iter().filter(|info| ordinal.is_none_or(|ordinal| ordinal == info.ordinal)) {
                let dump = requeue::dump(&store, ChunkId { job, ordinal: info.ordinal })?;
                writeln!(out, "{}", serde_json::to_string(&dump)?)?;
                dumped += 1;
            }
            out.finish()?;
            eprintln!("dumped {}", count(dumped, "chunk"));
        }
        QueueCommand::Load { file } => {
            let input = std::fs::File::open(file).map_err(|error| CommandError::new(format!("{}: {error}", file.display())))?;
            let store = location.admin_store(false)?;
            let mut loaded = 0;
            for line in BufReader::new(input).lines() {
                let line = line?;
                if line.trim().is_empty() {
                    continue;
                }
                requeue::load(&store, &serde_json::from_str(&line)?)?;
                loaded += 1;
            }
            say!("loaded {}", count(loaded, "chunk"));
        }
    }
    Ok(0)
}

fn rows(chunks: &[ChunkInfo]) -> Vec<Vec<String>> {
    let row = |chunk: &ChunkInfo| {
        let state = match chunk.state {
            ChunkState::Waiting => "waiting",
            ChunkState::Leased => "leased",
            ChunkState::Dead => "dead",
        };
        vec![
            format!("{}.{}", chunk.job, chunk.ordinal),
            state.to_owned(),
            chunk.attempts.to_string(),
            number(u64::from(chunk.documents)),
            bytes(chunk.length),
            chunk.reason.clone().unwrap_or_default(),
        ]
    };
    chunks.iter().map(row).collect()
}

/// Parses JOB or JOB.CHUNK.
fn parse_chunk_id(text: &str) -> Result<(JobId, Option<u32>), CommandError> {
    let (job, ordinal) = text.split_once('.').map_or((text, None), |(job, ordinal)| (job, Some(ordinal)));
    let wrong = || CommandError::usage(format!("`{text}` is not JOB or JOB.CHUNK, as `stook queue ls` shows them"));
    let ordinal = ordinal.map(str::parse).transpose().map_err(|_| wrong())?;
    Ok((job.parse().map_err(|_| wrong())?, ordinal))
}
