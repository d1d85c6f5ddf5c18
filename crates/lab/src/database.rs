//! Connects to the database that is watched or measured.

use postgres::{Client, Config};
use stook_connection::ServerAddress;

/// Connects; fails with the reason in words.
pub fn connect(url: &str) -> Result<Client, String> {
    let address = ServerAddress::parse(url).map_err(|error| error.to_string())?;
    address.connect(|attempt| Config::from(attempt.config).connect(attempt.tls)).map_err(|error| match std::error::Error::source(&error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    })
}
