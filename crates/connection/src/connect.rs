//! Opens a connection, in the way that its TLS mode allows.

use crate::address::ServerAddress;
use crate::advice;
use crate::passwords::{Found, Login};
use crate::tls::{TlsMode, is_local};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Error, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Why a connection was not opened.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// As the client library says it; the same may succeed later.
    #[error(transparent)]
    Failed(#[from] Error),
    /// The reason in words, and what to do; trying again will not help.
    #[error("{0}")]
    Refused(String),
}

/// A connection that was opened.
pub struct Connected {
    /// Sends statements.
    pub client: Client,
    /// Must be polled.
    pub connection: Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>,
    /// Encrypts requests to cancel a statement of it.
    pub tls: MakeRustlsConnect,
}

/// One way to try.
pub struct Attempt {
    /// All settings, with the password.
    pub config: Config,
    /// How it is encrypted, if it is.
    pub tls: MakeRustlsConnect,
}

impl ServerAddress {
    /// Opens a connection with `connect`, such as [`Attempt::connect`] or that of a client that blocks.
    ///
    /// # Errors
    /// When that fails in every way that is allowed.
    pub fn connect<C>(&self, mut connect: impl FnMut(Attempt) -> Result<C, Error>) -> Result<C, ConnectError> {
        let (first, second) = self.attempts()?;
        let result = match (connect(first), second) {
            (Err(error), Some(second)) if is_about_encryption(&error) => connect(second),
            (result, _) => result,
        };
        result.map_err(|error| advice::explain(self, &error).map_or(ConnectError::Failed(error), ConnectError::Refused))
    }

    /// Returns the way to try first, and the one to try if the server refuses that because it is encrypted, or because it is not.
    fn attempts(&self) -> Result<(Attempt, Option<Attempt>), ConnectError> {
        let mut config = self.config.clone();
        if config.get_password().is_none()
            && let Found::Password(password) = self.password()
        {
            config.password(password);
        }
        let with = |mode: TlsMode, ssl: SslMode| {
            let mut config = config.clone();
            config.ssl_mode(ssl);
            Ok::<_, ConnectError>(Attempt { config, tls: self.tls.connector(mode)? })
        };
        let plain = || with(TlsMode::Disable, SslMode::Disable);
        Ok(match self.mode {
            _ if is_local(&self.config) => (plain()?, None),
            TlsMode::Disable => (plain()?, None),
            TlsMode::Allow => (plain()?, Some(with(TlsMode::Allow, SslMode::Require)?)),
            TlsMode::Prefer => (with(TlsMode::Prefer, SslMode::Prefer)?, Some(plain()?)),
            mode => (with(mode, SslMode::Require)?, None),
        })
    }

    /// What the password file has for this address: the password of its first host.
    pub(crate) fn password(&self) -> Found {
        let local = || "localhost".to_owned();
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(host)) => host.clone(),
            // as libpq does for its usual socket
            Some(Host::Unix(path)) if path.starts_with("/var/run/postgresql") || path.starts_with("/tmp") => local(),
            Some(Host::Unix(path)) => path.display().to_string(),
            None => local(),
        };
        let user = self.config.get_user().map(str::to_owned).or_else(|| std::env::var("USER").ok()).unwrap_or_default();
        let port = self.config.get_ports().first().copied().unwrap_or(5_432);
        self.passwords.find(&Login { host: &host, port, database: self.config.get_dbname().unwrap_or(&user), user: &user })
    }
}

impl Attempt {
    /// Opens a connection in this way.
    ///
    /// # Errors
    /// When that fails.
    pub async fn connect(self) -> Result<Connected, Error> {
        let (client, connection) = self.config.connect(self.tls.clone()).await?;
        Ok(Connected { client, connection, tls: self.tls })
    }
}

/// Whether a server may accept a connection that is encrypted if this one was not, or the other way round: TLS failed, or a rule of the server
/// (`hostssl`, `hostnossl`) refused it.
fn is_about_encryption(error: &Error) -> bool {
    advice::tls_error(error).is_some() || error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION)
}
