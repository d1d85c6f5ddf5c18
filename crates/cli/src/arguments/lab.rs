//! Arguments of `lab`.

use super::named::one_of;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use stook_report::plan::Schedule;

/// Schedules that are described by a rate alone.
const SCHEDULES: [(&str, Schedule); 2] = [("constant", Schedule::Constant), ("poisson", Schedule::Poisson)];

/// Ways to measure.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Send requests at fixed times, whether or not earlier ones have been answered (open loop).
    #[command(
        after_help = "Examples:\n  stook lab load http://127.0.0.1:7070/healthz --rate 200 --for 10s\n  stook lab load 'http://127.0.0.1:7070/businesses?id={id}' --param id=ids.json --every 50ms --requests 500 -o run.json\n  stook lab load plan.yaml --faster 10"
    )]
    Load {
        /// The requests.
        #[command(flatten)]
        load: LoadArgs,
        /// Requests per second. Several rates, separated by commas, are measured one after the other.
        #[arg(long, value_name = "R", value_delimiter = ',', conflicts_with = "every")]
        rate: Vec<f64>,
        /// Time between the starts of requests, for example 50ms, instead of a rate. Several times, separated by commas, are measured
        /// one after the other.
        #[arg(long, value_name = "TIME", value_delimiter = ',')]
        every: Vec<String>,
        /// Number of requests. Several numbers, separated by commas, are measured one after the other.
        #[arg(long, value_name = "N", value_delimiter = ',', conflicts_with = "time")]
        requests: Vec<u64>,
        /// How long each rate is measured, instead of a number of requests.
        #[arg(long = "for", value_name = "TIME")]
        time: Option<String>,
        /// Whether requests are sent at equal intervals, or at random times with the rate as mean [default: the plan's, or constant].
        #[arg(long, value_parser = one_of(&SCHEDULES))]
        schedule: Option<Schedule>,
        /// Where the run is written.
        #[command(flatten)]
        output_args: RunOutputArgs,
    },
    /// Measure increasing numbers of clients, each of which waits for an answer before its next request (closed loop).
    #[command(
        after_help = "Examples:\n  stook lab sweep http://127.0.0.1:7070/healthz --clients 1,10,100 --for 1s\n  stook lab sweep plan.yaml -o run.json"
    )]
    Sweep {
        /// The requests.
        #[command(flatten)]
        load: LoadArgs,
        /// Numbers of clients, separated by commas [default: the plan's, or 1 to 10, 20, 50, 100].
        #[arg(long, value_name = "N", value_delimiter = ',')]
        clients: Vec<usize>,
        /// How long each number of clients is measured [default: the plan's, or 2s].
        #[arg(long = "for", value_name = "TIME")]
        time: Option<String>,
        /// Where the run is written.
        #[command(flatten)]
        output_args: RunOutputArgs,
    },
    /// Measure imports for several tenants while simulated users send requests.
    #[command(
        after_help = "A plan names the tenants, the files to import and their profile; the catalogue must be served. examples/lab has five plans.\n\nExample:\n  stook lab import examples/lab/imports-2.yaml -o run.json"
    )]
    Import {
        /// The file of the plan.
        plan: PathBuf,
        /// Address of the server [default: the plan's].
        #[arg(long, value_name = "URL")]
        target: Option<String>,
        /// PostgreSQL database whose connections and statements are recorded [default: the plan's].
        #[arg(long, value_name = "URL")]
        postgres: Option<String>,
        /// Where the run is written.
        #[command(flatten)]
        output_args: RunOutputArgs,
    },
    /// Show a run as tables, or as a report with pictures.
    #[command(
        after_help = "Examples:\n  stook lab show run.json\n  stook lab show run.json --html -o report.html\n  stook lab show run.json --md -o report.md"
    )]
    Show {
        /// The file of the run.
        run: PathBuf,
        /// The form of the report.
        #[command(flatten)]
        form: ReportArgs,
    },
    /// Print the JSON Schema of the files of runs.
    #[command(after_help = "Example:\n  stook lab schema > run.schema.json")]
    Schema,
    /// Measure the limits of this machine: memory, disk, JSON, HTTP, SQLite and PostgreSQL.
    #[command(after_help = "Example:\n  stook lab limits --postgres 'postgres://stook@localhost/stook'")]
    Limits {
        /// Folder for temporary files, on the disk to be measured.
        #[arg(long, default_value = ".", value_name = "DIR")]
        folder: PathBuf,
        /// PostgreSQL database to measure, with a temporary table.
        #[arg(long, value_name = "URL")]
        postgres: Option<String>,
        /// File to write the run to.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Print the run as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show how long the tasks in logs of Stook or MAAS-CDS took and their rates; for several logs, also the trend.
    #[command(after_help = "Example:\n  stook serve 2> day.log & ...; stook lab kpi day.log")]
    Kpi {
        /// Files of logs.
        #[arg(required = true)]
        logs: Vec<PathBuf>,
        /// The form of the report.
        #[command(flatten)]
        form: ReportArgs,
        /// Print the duration and documents of every task as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Compare runs of one plan, and test whether their differences are statistically significant.
    #[command(
        after_help = "Examples:\n  stook lab compare old.json new.json --fail-on regression=5%\n  stook lab compare old1.json,old2.json,old3.json,old4.json new1.json,new2.json,new3.json,new4.json"
    )]
    Compare {
        /// Files of runs to compare, in order; separate repetitions of one run by commas.
        #[arg(required = true, num_args = 2..)]
        runs: Vec<String>,
        /// Exit with code 1 if a figure is significantly worse, and by more than this share.
        #[arg(long, value_name = "regression=P%")]
        fail_on: Option<String>,
        /// The form of the report.
        #[command(flatten)]
        form: ReportArgs,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Estimate capacity by fitting the Universal Scalability Law to sweeps.
    #[command(after_help = "Example:\n  stook lab plan sweep.json --target 50000")]
    Plan {
        /// Files of runs of `stook lab sweep`, or YAML files with measured points.
        #[arg(required = true)]
        runs: Vec<PathBuf>,
        /// The rate per second that has to be reached.
        #[arg(long, value_name = "N")]
        target: Option<f64>,
        /// The form of the report.
        #[command(flatten)]
        form: ReportArgs,
    },
}

/// The form of a report.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Write an HTML page that contains the pictures.
    #[arg(long)]
    pub html: bool,
    /// Write Markdown, with the pictures in files next to it.
    #[arg(long, conflicts_with = "html")]
    pub md: bool,
    /// Write only the N-th picture, as SVG.
    #[arg(long, value_name = "N", conflicts_with_all = ["html", "md"], num_args = 0..=1, default_missing_value = "1")]
    pub svg: Option<usize>,
    /// File to write [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// The requests of a measurement.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// The file of a plan, or URLs of one server with parameters in braces.
    #[arg(required = true, value_name = "PLAN|URL")]
    pub plan_or_urls: Vec<String>,
    /// Values of a parameter, as NAME=FILE or NAME=FILE#MEMBER (JSON, NDJSON, CSV or lines); can be repeated.
    #[arg(long, value_name = "P")]
    pub param: Vec<String>,
    /// Header of every request, as NAME: VALUE, where ${VARIABLE} is taken from the environment; can be repeated.
    #[arg(long, value_name = "H")]
    pub header: Vec<String>,
    /// Address to send the requests to, instead of the plan's.
    #[arg(long, value_name = "URL")]
    pub target: Option<String>,
    /// Seed of the random numbers; the same seed gives the same requests [default: the plan's, or 1].
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Maximum number of concurrent connections [default: the plan's, or 1024].
    #[arg(long, value_name = "N")]
    pub connections: Option<usize>,
    /// Time after which a request counts as not answered [default: the plan's, or 30s].
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<String>,
    /// Send requests X times as fast as the plan says.
    #[arg(long, value_name = "X")]
    pub faster: Option<f64>,
    /// Use a new connection for each request.
    #[arg(long)]
    pub close: bool,
    /// Path of the server's Prometheus metrics, which are read before and after each set of requests.
    #[arg(long, value_name = "PATH")]
    pub metrics: Option<String>,
}

/// Where a run is written.
#[derive(Debug, Args)]
pub struct RunOutputArgs {
    /// File to write the run to, with the limits of this machine, which are measured before the run.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the run as JSON, as in the file.
    #[arg(long)]
    pub json: bool,
    /// Do not measure the limits of this machine, which takes some seconds.
    #[arg(long)]
    pub no_limits: bool,
}
