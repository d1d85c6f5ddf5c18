//! Arguments of `sample`.

use clap::{Args, ValueEnum};

/// Samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SampleName {
    Authorities,
    Businesses,
    Datasets,
    Machines,
    Sentinel,
}

impl SampleName {
    /// How many are made without being told.
    pub fn size(self) -> u64 {
        if self == Self::Datasets { 50_000 } else { 1_000 }
    }
}

/// Orders of keys in a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeyOrder {
    Ascending,
    Random,
}

/// Arguments of `sample`.
#[derive(Debug, Args)]
pub struct SampleArgs {
    /// What kind.
    pub name: SampleName,
    /// How many [default: 1000, of datasets 50000].
    #[arg(long, value_name = "N")]
    pub records: Option<u64>,
    /// How many days, of satellites.
    #[arg(long, default_value_t = 1, value_name = "D")]
    pub days: u64,
    /// The same seed gives the same files.
    #[arg(long, default_value_t = 1, value_name = "S")]
    pub seed: u64,
    /// Order of the records' numbers.
    #[arg(long, default_value = "ascending")]
    pub keys: KeyOrder,
    /// Number of the first record.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub first: u64,
    /// The file [default: standard output]; all but authorities are files in a folder.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<std::path::PathBuf>,
    /// Serve the datasets as four HTTP services at this address instead of writing files.
    #[arg(long, value_name = "ADDR", conflicts_with = "output")]
    pub serve: Option<std::net::SocketAddr>,
}
