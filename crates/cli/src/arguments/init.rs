//! Arguments of `init` and `profile`.

use clap::Args;
use std::path::PathBuf;

/// Arguments of `init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// The folder of the catalogue, which is created [default: this folder; required without --from].
    #[arg(required_unless_present = "from")]
    pub dir: Option<PathBuf>,
    /// Files of any format to define a catalogue for; several about the same things become sources of one collection. Also URLs of files and
    /// of lists of web services, which `stook collect` then fetches again.
    #[arg(long, num_args = 1.., value_name = "FILE|URL")]
    pub from: Vec<PathBuf>,
    /// Where to write the definition, or - for standard output [default: catalogue.yaml in the folder].
    #[arg(long, short, value_name = "FILE", requires = "from")]
    pub output: Option<PathBuf>,
    /// Replace a definition that exists.
    #[arg(long)]
    pub force: bool,
    /// Read only the first N documents of each file; types and keys may then turn out to be wrong further on.
    #[arg(long, value_name = "N", requires = "from", value_parser = clap::value_parser!(u64).range(1..))]
    pub rows: Option<u64>,
    /// Print what was found as JSON.
    #[arg(long, requires = "from")]
    pub json: bool,
}

/// Arguments of `profile`.
#[derive(Debug, Args)]
pub struct ProfileArgs {
    /// The files, of any format; also https:// and s3:// URLs.
    #[arg(required = true, value_name = "FILE|URL")]
    pub files: Vec<PathBuf>,
    /// Read only the first N documents of each file.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub rows: Option<u64>,
    /// Print one JSON object for each group of files that are read in the same way.
    #[arg(long)]
    pub json: bool,
}
