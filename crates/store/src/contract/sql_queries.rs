//! Reads the views of golden records with SQL, see [`crate::sql::views`].

pub use crate::sql::views::view_name;

use super::error::Result;
use serde_json::Value as Json;

/// Receives what a statement returns.
pub trait SqlRows {
    /// The names of the columns, once and before all rows; several may be the same.
    ///
    /// # Errors
    /// To end the statement.
    fn columns(&mut self, names: Vec<String>) -> Result<()>;

    /// A row: a value for each column.
    ///
    /// # Errors
    /// To end the statement.
    fn row(&mut self, values: Vec<Json>) -> Result<()>;
}

/// Executes statements in the SQL of the store's database.
pub trait SqlQueries {
    /// Executes one `SELECT` (or `WITH`, or `VALUES`), and passes each row on as it arrives. Nothing can be written. Values are as JSON shows them: bytes are
    /// text that begins with `\x`, followed by hexadecimal digits.
    ///
    /// # Errors
    /// [`StoreError::Wrong`](super::error::StoreError::Wrong) when the statement is wrong, does not read, or when there is more than one; when the store has
    /// no views yet; when the database fails.
    fn select(&self, statement: &str, rows: &mut dyn SqlRows) -> Result<()>;
}

/// The error of a store that was not prepared since there are views.
pub const NO_VIEWS: &str = "the store has no views for SQL yet, or those of another definition; `stook prepare` makes them";
