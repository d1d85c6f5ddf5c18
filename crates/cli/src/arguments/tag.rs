//! Arguments of `tag`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Commands of `tag`.
#[derive(Debug, Subcommand)]
pub enum TagCommand {
    /// Make a tag, or many. Without XPath or query it is manual.
    Create {
        #[command(flatten)]
        said: TagDefinitionArgs,
        #[command(flatten)]
        of: TagCollectionArgs,
        #[command(flatten)]
        wait: TagWaitArgs,
    },
    /// Change a tag, or many: its XPath or query, comment, attributes.
    Set {
        #[command(flatten)]
        said: TagDefinitionArgs,
        #[command(flatten)]
        of: TagCollectionArgs,
        #[command(flatten)]
        wait: TagWaitArgs,
    },
    /// Delete a tag: no record carries it any more.
    Delete {
        /// The tag.
        name: String,
        #[command(flatten)]
        of: TagCollectionArgs,
    },
    /// Evaluate XPaths again for all records: of the tags named, or of all.
    Rebuild {
        /// The tags.
        names: Vec<String>,
        #[command(flatten)]
        of: TagCollectionArgs,
        #[command(flatten)]
        wait: TagWaitArgs,
    },
    /// List tags with the number of records that carry each.
    Ls {
        #[command(flatten)]
        of: TagCollectionArgs,
    },
    /// Show a tag.
    Show {
        /// The tag.
        name: String,
        #[command(flatten)]
        of: TagCollectionArgs,
    },
    /// Give a manual tag to records.
    Add {
        /// The tag.
        name: String,
        /// Keys of records.
        #[arg(required = true)]
        keys: Vec<String>,
        #[command(flatten)]
        of: TagCollectionArgs,
    },
    /// Take a manual tag from records.
    Remove {
        /// The tag.
        name: String,
        /// Keys of records.
        #[arg(required = true)]
        keys: Vec<String>,
        #[command(flatten)]
        of: TagCollectionArgs,
    },
}

/// What is said of a tag.
#[derive(Debug, Args)]
pub struct TagDefinitionArgs {
    /// The tag.
    #[arg(required_unless_present = "file")]
    pub name: Option<String>,
    /// XPath 1.0 over a record's document; records for which it holds carry the tag.
    #[arg(long, value_name = "XPATH", conflicts_with = "query")]
    pub xpath: Option<String>,
    /// Conditions of the query language, without the collection's name.
    #[arg(long, value_name = "CONDITIONS")]
    pub query: Option<String>,
    /// What it is for.
    #[arg(long, value_name = "TEXT")]
    pub comment: Option<String>,
    /// An attribute that the definition knows.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub attributes: Vec<String>,
    /// Many tags, one JSON object a line: {"name", "xpath" or "query", "comment", "attributes"}.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "xpath", "query", "comment", "attributes"])]
    pub file: Option<PathBuf>,
}

/// Whose tags.
#[derive(Debug, Args)]
pub struct TagCollectionArgs {
    /// The collection, where several carry tags.
    #[arg(long, value_name = "COLLECTION")]
    pub of: Option<String>,
    /// Whose records.
    #[arg(long, default_value = "main")]
    pub tenant: String,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// Whether to wait.
#[derive(Debug, Args)]
pub struct TagWaitArgs {
    /// Leave evaluating to `stook work` or `stook serve`.
    #[arg(long)]
    pub no_wait: bool,
}
