//! What an error of the database means to whoever called the store.

use crate::*;
use rusqlite::ErrorCode;

/// A database error as the contract's.
pub fn failure(error: rusqlite::Error) -> StoreError {
    let code = error.sqlite_error_code();
    match code {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(ErrorCode::OperationInterrupted) => StoreError::Unwanted,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy(0),
        // nothing is wrong with the chunk at hand: the import stops and can be resumed
        Some(ErrorCode::SystemIoFailure) => StoreError::ReadOnly(error.to_string()),
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly(error.to_string()),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => StoreError::ReadOnly(error.to_string()),
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Broken(error.to_string()),
        _ => StoreError::Other(error.to_string()),
    }
}

/// The error with the time that was waited, which the place where it came up does not know.
pub fn after_waiting(error: StoreError, wait: u64) -> StoreError {
    if matches!(error, StoreError::Busy(_)) { StoreError::Busy(wait) } else { error }
}

pub fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
