//! Arguments of `sample`.

use clap::ValueEnum;

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
