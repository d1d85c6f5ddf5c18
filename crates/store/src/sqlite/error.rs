//! Converts errors of the database.

use crate::*;
use rusqlite::ErrorCode;

/// Converts a database error into one of the contract.
pub fn store_error(error: rusqlite::Error) -> StoreError {
    let code = error.sqlite_error_code();
    match code {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(ErrorCode::OperationInterrupted) => StoreError::Cancelled,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy(0),
        // the chunk is not the cause: the import stops and can be resumed
        Some(ErrorCode::SystemIoFailure) => StoreError::ReadOnly(error.to_string()),
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly(error.to_string()),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => StoreError::ReadOnly(error.to_string()),
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Broken(error.to_string()),
        _ => StoreError::Other(error.to_string()),
    }
}

/// Adds the time that was waited, which the code that raised the error does not know.
pub fn after_waiting(error: StoreError, wait: u64) -> StoreError {
    if matches!(error, StoreError::Busy(_)) { StoreError::Busy(wait) } else { error }
}

pub fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
