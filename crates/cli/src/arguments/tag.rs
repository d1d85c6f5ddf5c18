//! Arguments of `tag`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Commands of `tag`.
#[derive(Debug, Subcommand)]
pub enum TagCommand {
    /// Create a tag, or many from a file. A tag without XPath and query is given to records by hand.
    Create {
        #[command(flatten)]
        definition_args: TagDefinitionArgs,
        #[command(flatten)]
        target: TagCollectionArgs,
        #[command(flatten)]
        wait: TagWaitArgs,
    },
    /// Change the XPath or query, comment or attributes of a tag, or of many from a file.
    Set {
        #[command(flatten)]
        definition_args: TagDefinitionArgs,
        #[command(flatten)]
        target: TagCollectionArgs,
        #[command(flatten)]
        wait: TagWaitArgs,
    },
    /// Give a tag another name: records carry the new name at once, and nothing is evaluated.
    #[command(after_help = "Example: stook tag rename gpu gpu-nvidia")]
    Rename {
        /// The tag's name.
        name: String,
        /// Its new name.
        to: String,
        #[command(flatten)]
        target: TagCollectionArgs,
    },
    /// Delete a tag, and remove it from all records.
    Delete {
        /// The tag's name.
        name: String,
        #[command(flatten)]
        target: TagCollectionArgs,
    },
    /// Evaluate the XPaths of tags again for all records.
    Rebuild {
        /// The tags [default: all].
        names: Vec<String>,
        #[command(flatten)]
        target: TagCollectionArgs,
        #[command(flatten)]
        wait: TagWaitArgs,
    },
    /// List tags, with the number of records that have each.
    Ls {
        #[command(flatten)]
        target: TagCollectionArgs,
    },
    /// Show a tag.
    Show {
        /// The tag's name.
        name: String,
        #[command(flatten)]
        target: TagCollectionArgs,
    },
    /// Give a tag without XPath and query to records.
    Add {
        /// The tag's name.
        name: String,
        /// Keys of the records.
        #[arg(required = true)]
        keys: Vec<String>,
        #[command(flatten)]
        target: TagCollectionArgs,
    },
    /// Remove a tag without XPath and query from records.
    Remove {
        /// The tag's name.
        name: String,
        /// Keys of the records.
        #[arg(required = true)]
        keys: Vec<String>,
        #[command(flatten)]
        target: TagCollectionArgs,
    },
}

/// The definition of a tag.
#[derive(Debug, Args)]
pub struct TagDefinitionArgs {
    /// The tag's name.
    #[arg(required_unless_present = "file")]
    pub name: Option<String>,
    /// XPath 1.0 expression; records whose document it is true for have the tag.
    #[arg(long, value_name = "XPATH", conflicts_with = "query")]
    pub xpath: Option<String>,
    /// Conditions of the query language, without the collection's name; records that satisfy them have the tag.
    #[arg(long, value_name = "CONDITIONS")]
    pub query: Option<String>,
    /// A comment that explains the tag.
    #[arg(long, value_name = "TEXT")]
    pub comment: Option<String>,
    /// Value of an attribute that the definition declares; can be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub attributes: Vec<String>,
    /// File of many tags, one JSON object per line: {"name", "xpath" or "query", "comment", "attributes"}.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "xpath", "query", "comment", "attributes"])]
    pub file: Option<PathBuf>,
}

/// The collection and tenant of tags.
#[derive(Debug, Args)]
pub struct TagCollectionArgs {
    /// The collection; can be left out if only one collection has tags.
    #[arg(long, value_name = "COLLECTION")]
    pub of: Option<String>,
    /// The tenant.
    #[arg(long, default_value = "main")]
    pub tenant: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Whether to wait.
#[derive(Debug, Args)]
pub struct TagWaitArgs {
    /// Do not wait for the evaluation; `stook work` or `stook serve` does it.
    #[arg(long)]
    pub no_wait: bool,
}
