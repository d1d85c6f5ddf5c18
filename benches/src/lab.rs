//! The lab beside other load generators: each on one core, a bare server on the other.
//!
//! `wrk` has the highest rate of all; the lab must reach most of it. `oha -q --latency-correction` counts from when a request was to begin, as the
//! lab does: both must say the same of the same load. What a generator adds by its own delay is in both.

use crate::Setting;
use crate::figures::{Figures, Samples};
use crate::process::Result;
use crate::serve::{CLIENT_CORE, Running};
use serde_json::Value as Json;
use std::process::Command;
use stook_report::run::{Durations, RequestSet, Run};

const ROUNDS: usize = 5;
const CLIENTS: &str = "64";
/// Microseconds that a server works for an answer: it sustains about 1 000 requests a second. Half of that is a whole number of the
/// milliseconds that oha's timers know; of faster loads it begins several requests at once, and they wait for each other.
const WORK: &str = "960";
const HALF: f64 = 500.0;
/// Times at half load, which are a virtual machine's and come and go.
const ROUNDS_AT_WORK: usize = 9;
/// Differences below this are below what a virtual machine's timers tell apart, in microseconds.
const ABOUT: f64 = 100.0;

fn output_on_one_core(program: &str, arguments: &[&str]) -> Result<String> {
    let ran = Command::new("taskset").args(["-c", CLIENT_CORE, program]).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    if !ran.status.success() {
        return Err(format!("{program}: {}", String::from_utf8_lossy(&ran.stderr)));
    }
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}

/// The only set of a run.
fn set(text: &str) -> Result<RequestSet> {
    let run: Run = serde_json::from_str(text).map_err(|error| error.to_string())?;
    run.sets.into_iter().next().ok_or_else(|| "the run has no set".into())
}

/// Microseconds that this share did not exceed.
fn quantile(times: &Durations, share: f64) -> f64 {
    times.quantile(share).unwrap_or(0.0) * 1e6
}

/// Requests a second that `wrk` makes of a server.
fn wrk_rate(url: &str) -> Result<f64> {
    let shown = output_on_one_core("wrk", &["-t1", &format!("-c{CLIENTS}"), "-d3s", url])?;
    shown.lines().find_map(|line| line.strip_prefix("Requests/sec:")?.trim().parse::<f64>().ok()).ok_or(shown)
}

pub fn run(setting: &Setting, figures: &mut Figures) -> Result<()> {
    let stook = setting.stook.display().to_string();
    let server = Running::start(&setting.bench_program, &["hello", "120"], None)?;
    let url = format!("http://{}/x", server.address());
    if Command::new("wrk").arg("-v").output().is_err() {
        figures.note("skipped: wrk is not installed (Debian: apt install wrk)");
        return Ok(());
    }
    let (mut stook_samples, mut peer_samples) = <(Samples, Samples)>::default();
    for _ in 0..ROUNDS {
        peer_samples.push(wrk_rate(&url)?);
        let set = set(&output_on_one_core(&stook, &["lab", "sweep", &url, "--clients", CLIENTS, "--for", "3s", "--json", "--no-limits"])?)?;
        stook_samples.push(set.requests as f64 / set.seconds);
    }
    figures.ratio("sustained rate, 64 clients, one core each", &stook_samples, "1/s", "wrk, 1 thread", &peer_samples, 0.7);
    let oha = std::env::var("STOOK_PEER_OHA").unwrap_or_else(|_| "oha".into());
    if Command::new(&oha).arg("--version").output().is_err() {
        figures.note("skipped: oha is not installed (cargo install oha --locked; STOOK_PEER_OHA says where it is)");
        return Ok(());
    }
    // a server that works is what is measured; beside a bare one the generators measure themselves
    let working = Running::start(&setting.bench_program, &["hello", "120", WORK], None)?;
    let at_work = format!("http://{}/x", working.address());
    figures.note(&format!("a server that works {WORK} us sustains {:.0} requests a second of wrk's", wrk_rate(&at_work)?));
    compare_with_oha(figures, (&stook, &oha), &at_work, ("half of what a server at work sustains", HALF, ROUNDS_AT_WORK), true)?;
    measure_at_once(figures, (&stook, &oha), server.address())?;
    compare_with_oha(figures, (&stook, &oha), &url, ("a bare server, 5 000/s", 5_000.0, ROUNDS), false)?;
    compare_with_oha(figures, (&stook, &oha), &url, ("a bare server, half of wrk's rate", (peer_samples.median() / 2.0).floor(), ROUNDS), false)
}

/// Which share of 5 000 evenly planned requests a second reaches a bare server at once after another one.
fn measure_at_once(figures: &mut Figures, (stook, oha): (&str, &str), address: &str) -> Result<()> {
    let url = format!("http://{address}/x");
    let share = || -> Result<f64> {
        let text = output_on_one_core("curl", &["-s", &format!("http://{address}/-/at-once")])?;
        text.trim().parse().map_err(|_| format!("no share: {text}"))
    };
    let (mut stook_samples, mut peer_samples) = <(Samples, Samples)>::default();
    for _ in 0..ROUNDS {
        share()?;
        output_on_one_core(oha, &["-q", "5000", "--latency-correction", "-z", "2s", "-c", CLIENTS, "--no-tui", "--output-format", "json", &url])?;
        peer_samples.push(share()? * 100.0);
        output_on_one_core(stook, &["lab", "load", &url, "--rate", "5000", "--for", "2s", "--connections", CLIENTS])?;
        stook_samples.push(share()? * 100.0);
    }
    figures.without_bar(&format!("5 000/s: requests within 50 us of the one before (oha {:.0} %)", peer_samples.median()), &stook_samples, "%");
    Ok(())
}

/// The same load by both generators, and, where it is the same, how far their times are apart.
fn compare_with_oha(
    figures: &mut Figures,
    (stook, oha): (&str, &str),
    url: &str,
    (title, rate, rounds): (&str, f64, usize),
    is_comparable: bool,
) -> Result<()> {
    let rate = format!("{rate}");
    let mut percentiles: [(Samples, Samples); 3] = Default::default();
    let mut late = Samples::default();
    for round in 0..rounds {
        let arguments = ["-q", &rate, "--latency-correction", "-z", "4s", "-c", CLIENTS, "--no-tui", "--output-format", "json", url];
        let oha_run = || -> Result<Json> { serde_json::from_str(&output_on_one_core(oha, &arguments)?).map_err(|error| error.to_string()) };
        let stook_set = || {
            set(&output_on_one_core(stook, &["lab", "load", url, "--rate", &rate, "--for", "4s", "--connections", CLIENTS, "--json", "--no-limits"])?)
        };
        // now one goes first, now the other
        let (oha_run, set) = if round % 2 == 0 {
            let oha_run = oha_run()?;
            (oha_run, stook_set()?)
        } else {
            let set = stook_set()?;
            (oha_run()?, set)
        };
        late.push(quantile(&set.late, 0.99));
        for ((stook_samples, peer_samples), (name, share)) in percentiles.iter_mut().zip([("p50", 0.5), ("p90", 0.9), ("p99", 0.99)]) {
            stook_samples.push(quantile(&set.latency, share));
            peer_samples.push(oha_run["latencyPercentiles"][name].as_f64().unwrap_or(0.0) * 1e6);
        }
    }
    for ((stook_samples, peer_samples), name) in percentiles.iter().zip(["p50", "p90", "p99"]) {
        if is_comparable {
            figures.distance_from_peer(&format!("{title}, {name}"), stook_samples, "us", ("oha", peer_samples), (0.1, ABOUT));
        } else {
            figures.without_bar(&format!("{title}, {name} (oha {:.0})", peer_samples.median()), stook_samples, "us");
        }
    }
    figures.without_bar(&format!("{title}, the generator's own delay, p99"), &late, "us");
    Ok(())
}
