//! Arguments of `lab`.

use super::named::one_of;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use stook_report::plan::Schedule;

/// Schedules that need nothing but a rate.
const SCHEDULES: [(&str, Schedule); 2] = [("constant", Schedule::Constant), ("poisson", Schedule::Poisson)];

/// Ways to measure.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Open-loop load: send requests on schedule, whether or not earlier ones have been answered.
    #[command(
        after_help = "Examples:\n  stook lab load http://127.0.0.1:7070/healthz --rate 200 --for 10s\n  stook lab load 'http://127.0.0.1:7070/businesses?id={id}' --param id=ids.json --every 50ms --requests 500 -o run.json\n  stook lab load plan.yaml --faster 10"
    )]
    Load {
        /// What is asked.
        #[command(flatten)]
        what: LoadArgs,
        /// Requests per second; several for several sets.
        #[arg(long, value_name = "R", value_delimiter = ',', conflicts_with = "every")]
        rate: Vec<f64>,
        /// Time between the beginnings of requests; several for several sets.
        #[arg(long, value_name = "TIME", value_delimiter = ',')]
        every: Vec<String>,
        /// Requests of a set; several for several sets.
        #[arg(long, value_name = "N", value_delimiter = ',', conflicts_with = "time")]
        requests: Vec<u64>,
        /// How long a set takes.
        #[arg(long = "for", value_name = "TIME")]
        time: Option<String>,
        /// How requests follow each other.
        #[arg(long, value_parser = one_of(&SCHEDULES))]
        schedule: Option<Schedule>,
        /// What becomes of the run.
        #[command(flatten)]
        kept: RunOutputArgs,
    },
    /// Closed-loop load with growing numbers of clients.
    #[command(
        after_help = "Examples:\n  stook lab sweep http://127.0.0.1:7070/healthz --clients 1,10,100 --for 1s\n  stook lab sweep plan.yaml -o run.json"
    )]
    Sweep {
        /// What is asked.
        #[command(flatten)]
        what: LoadArgs,
        /// Numbers of clients [default: 1 to 9, 10, 20, 50, 100].
        #[arg(long, value_name = "N", value_delimiter = ',')]
        clients: Vec<usize>,
        /// How long each number is measured [default: 2s].
        #[arg(long = "for", value_name = "TIME")]
        time: Option<String>,
        /// What becomes of the run.
        #[command(flatten)]
        kept: RunOutputArgs,
    },
    /// Measure imports for several tenants while simulated users work.
    #[command(
        after_help = "A plan names tenants, files and a profile of a served catalogue; examples/lab has five.\n\nExample:\n  stook lab import examples/lab/imports-2.yaml -o run.json"
    )]
    Import {
        /// The plan.
        plan: PathBuf,
        /// The server [default: the plan's].
        #[arg(long, value_name = "URL")]
        target: Option<String>,
        /// A database whose connections and statements are watched [default: the plan's].
        #[arg(long, value_name = "URL")]
        postgres: Option<String>,
        /// What becomes of the run.
        #[command(flatten)]
        kept: RunOutputArgs,
    },
    /// Show a run: tables, and pictures.
    #[command(
        after_help = "Examples:\n  stook lab show run.json\n  stook lab show run.json --html -o report.html\n  stook lab show run.json --md -o report.md"
    )]
    Show {
        /// Its file.
        run: PathBuf,
        /// How it is shown.
        #[command(flatten)]
        form: ReportArgs,
    },
    /// The JSON Schema of a run's file.
    #[command(after_help = "Example:\n  stook lab schema > run.schema.json")]
    Schema,
    /// Measure what this machine can do: memory, disk, JSON, HTTP, SQLite, PostgreSQL.
    #[command(after_help = "Example:\n  stook lab limits --postgres 'postgres://stook@localhost/stook'")]
    Limits {
        /// Where files are written and removed.
        #[arg(long, default_value = ".", value_name = "DIR")]
        folder: PathBuf,
        /// A database in which rows are copied to a temporary table.
        #[arg(long, value_name = "URL")]
        postgres: Option<String>,
        /// Where the run is written.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// The run as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Durations and rates of pipeline stages from logs of Stook or MAAS-CDS; of several logs, the trend.
    #[command(after_help = "Example:\n  stook serve 2> day.log & ...; stook lab kpi day.log")]
    Kpi {
        /// The logs.
        #[arg(required = true)]
        logs: Vec<PathBuf>,
        /// How they are shown.
        #[command(flatten)]
        form: ReportArgs,
        /// Every call, as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Compare runs of one plan and test whether differences are significant.
    #[command(
        after_help = "Examples:\n  stook lab compare old.json new.json --fail-on regression=5%\n  stook lab compare old1.json,old2.json,old3.json,old4.json new1.json,new2.json,new3.json,new4.json"
    )]
    Compare {
        /// Runs; repetitions of one separated by commas.
        #[arg(required = true, num_args = 2..)]
        runs: Vec<String>,
        /// The exit code is 1 where something got worse by more than this, and by more than noise.
        #[arg(long, value_name = "regression=P%")]
        fail_on: Option<String>,
        /// How they are shown.
        #[command(flatten)]
        form: ReportArgs,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Fit the Universal Scalability Law to sweeps and estimate the capacity for a target rate.
    #[command(after_help = "Example:\n  stook lab plan sweep.json --target 50000")]
    Plan {
        /// Runs of sweeps, or points in YAML.
        #[arg(required = true)]
        runs: Vec<PathBuf>,
        /// What is to be done per second.
        #[arg(long, value_name = "N")]
        target: Option<f64>,
        /// How it is shown.
        #[command(flatten)]
        form: ReportArgs,
    },
}

/// How a report is shown.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// As one page with its pictures.
    #[arg(long)]
    pub html: bool,
    /// As Markdown, pictures beside it.
    #[arg(long, conflicts_with = "html")]
    pub md: bool,
    /// Only the N-th picture, as SVG.
    #[arg(long, value_name = "N", conflicts_with_all = ["html", "md"], num_args = 0..=1, default_missing_value = "1")]
    pub svg: Option<usize>,
    /// The file [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// What is asked by the lab.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// A plan, or URLs with parameters in braces.
    #[arg(required = true, value_name = "PLAN|URL")]
    pub what: Vec<String>,
    /// Values of a parameter: NAME=FILE or NAME=FILE#MEMBER (json, ndjson, csv, lines).
    #[arg(long, value_name = "P")]
    pub param: Vec<String>,
    /// A header of every request; ${NAME} is from the environment.
    #[arg(long, value_name = "H")]
    pub header: Vec<String>,
    /// Another target than the plan's.
    #[arg(long, value_name = "URL")]
    pub target: Option<String>,
    /// The same seed draws the same values.
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Most connections at once.
    #[arg(long, value_name = "N")]
    pub connections: Option<usize>,
    /// When a request counts as not answered.
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<String>,
    /// Speed-up factor for the schedule.
    #[arg(long, value_name = "X")]
    pub faster: Option<f64>,
    /// Use a new connection for each request.
    #[arg(long)]
    pub close: bool,
    /// Path of the target's Prometheus counters, read before and after each set.
    #[arg(long, value_name = "PATH")]
    pub metrics: Option<String>,
}

/// What becomes of a run of the lab.
#[derive(Debug, Args)]
pub struct RunOutputArgs {
    /// Where the run is written, with the limits of this machine, measured before it.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The run as JSON, as it is written.
    #[arg(long)]
    pub json: bool,
    /// Do not measure the machine's limits, which takes some seconds.
    #[arg(long)]
    pub no_limits: bool,
}
