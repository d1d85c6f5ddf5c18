//! The URL of a store on a server: connection settings and the schema of the store.

use crate::*;
use std::time::Duration;
use stook_connection::ServerAddress;

/// The schema if the URL names none.
const SCHEMA: &str = "stook";

/// Splits `schema=NAME` off a URL.
pub fn parse_url(url: &str) -> Result<(ServerAddress, String)> {
    // the message must not contain the URL, which may hold a password
    let invalid_url = |reason: String| StoreError::Wrong(format!("this is not the URL of a PostgreSQL store: {reason}"));
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    let (schema_parts, other_parts): (Vec<&str>, Vec<&str>) =
        query.split('&').filter(|part| !part.is_empty()).partition(|part| part.starts_with("schema="));
    let schema = schema_parts.last().and_then(|part| part.strip_prefix("schema=")).unwrap_or(SCHEMA).to_owned();
    let plain = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_';
    if schema.is_empty() || schema.len() > 63 || !schema.chars().all(plain) {
        return Err(invalid_url("a schema's name has small letters, digits and _".into()));
    }
    let url_without_schema = if other_parts.is_empty() { address.to_owned() } else { format!("{address}?{}", other_parts.join("&")) };
    let mut server = ServerAddress::parse(&url_without_schema).map_err(|error| invalid_url(error.to_string()))?;
    server.name_program("stook");
    server.keep_alive(Duration::from_secs(30));
    Ok((server, schema))
}
