//! Connects to PostgreSQL with the settings, files and TLS modes of libpq, so that whoever knows `psql` knows how Stook is told.
//!
//! * [`address`] reads a URL, and takes what it leaves open from a service file and from the environment; [`services`] reads service files,
//!   [`passwords`] password files.
//! * [`tls`] says what each mode demands, and reads certificates and keys; [`trust`] decides whether a server's certificate is accepted.
//! * [`connect`] opens a connection; [`advice`] says in words why that failed, and what to do.
//!
//! Files are read for each connection, so a certificate, key or password that is replaced is used without a restart.

mod address;
mod advice;
mod connect;
mod passwords;
mod services;
mod tls;
mod trust;

pub use address::{AddressError, ServerAddress};
pub use connect::{Attempt, ConnectError, Connected};
pub use tokio_postgres_rustls::MakeRustlsConnect;
