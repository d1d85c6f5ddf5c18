//! What a TLS mode demands, and the certificates and keys that it needs.

use crate::address::AddressError;
use crate::connect::ConnectError;
use crate::trust::{Check, ServerTrust};
use rustls::ClientConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_postgres::Config;
use tokio_postgres::config::Host;
use tokio_postgres_rustls::MakeRustlsConnect;

/// How a connection is protected (`sslmode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsMode {
    /// Never encrypted.
    Disable,
    /// Encrypted if the server refuses it otherwise.
    Allow,
    /// Encrypted if the server can.
    Prefer,
    /// Encrypted; the server's certificate is checked only if there is a root certificate.
    Require,
    /// Encrypted, and the server's certificate is signed by an authority that is trusted.
    VerifyCa,
    /// The same, and the certificate is for the host of the address.
    VerifyFull,
}

impl TlsMode {
    /// Returns the mode of this name.
    pub fn from_name(name: &str) -> Result<Self, AddressError> {
        Ok(match name {
            "disable" => Self::Disable,
            "allow" => Self::Allow,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            other => return Err(AddressError(format!("sslmode is disable, allow, prefer, require, verify-ca or verify-full, not {other:?}"))),
        })
    }

    fn verifies(self) -> bool {
        matches!(self, Self::VerifyCa | Self::VerifyFull)
    }
}

/// Which authorities are trusted.
#[derive(Debug, Clone)]
pub enum Roots {
    /// Those of this machine (`sslrootcert=system`).
    System,
    /// Those in a file; whether it was named, and not only looked for.
    File(PathBuf, bool),
    /// There is no home folder to look in.
    Nowhere,
}

/// The files of a client.
#[derive(Debug, Clone)]
pub struct TlsSettings {
    pub roots: Roots,
    /// Certificate and key to be presented; whether they were named.
    identity: Option<(PathBuf, PathBuf, bool)>,
}

impl TlsSettings {
    /// Takes the files from settings, or from where libpq looks for them.
    pub fn new(given: &BTreeMap<String, String>, home: Option<&Path>, config: &mut Config, mode: TlsMode) -> Result<Self, AddressError> {
        let beside = |name: &str| home.map(|home| home.join(".postgresql").join(name));
        let roots = match given.get("sslrootcert").map(String::as_str) {
            Some("system") if mode != TlsMode::VerifyFull => {
                return Err(AddressError(
                    "sslrootcert=system trusts every authority that this machine knows, so it needs sslmode=verify-full, which compares the host's name".into(),
                ));
            }
            Some("system") => Roots::System,
            Some(file) => Roots::File(file.into(), true),
            None => beside("root.crt").map_or(Roots::Nowhere, |file| Roots::File(file, false)),
        };
        let identity = match (given.get("sslcert"), given.get("sslkey")) {
            (Some(certificate), Some(key)) => Some((certificate.into(), key.into(), true)),
            (None, None) => beside("postgresql.crt").zip(beside("postgresql.key")).map(|(certificate, key)| (certificate, key, false)),
            _ => return Err(AddressError("a client's certificate needs both sslcert (its file) and sslkey (the file of its key)".into())),
        };
        // an address without a name is compared with the certificate, too
        if config.get_hosts().is_empty() {
            for address in config.get_hostaddrs().to_vec() {
                config.host(address.to_string());
            }
        }
        Ok(Self { roots, identity })
    }

    /// How connections are encrypted in a mode.
    pub fn connector(&self, mode: TlsMode) -> Result<MakeRustlsConnect, ConnectError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let trust = match mode {
            TlsMode::Disable => ServerTrust::new(Check::Nothing, Vec::new(), provider.clone()),
            _ => self.trust(mode, provider.clone())?,
        };
        let failed = |error: rustls::Error| ConnectError::Refused(format!("TLS cannot be used: {error}"));
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(failed)?;
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(trust));
        let mut config = match self.identity(mode)? {
            Some((chain, key)) => builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| ConnectError::Refused(format!("the client's certificate and key (sslcert, sslkey) cannot be used: {error}")))?,
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(MakeRustlsConnect::new(config))
    }

    fn trust(&self, mode: TlsMode, provider: Arc<CryptoProvider>) -> Result<ServerTrust, ConnectError> {
        let check = if mode == TlsMode::VerifyFull { Check::AuthorityAndName } else { Check::Authority };
        let roots = match &self.roots {
            Roots::System => {
                let found = rustls_native_certs::load_native_certs();
                if found.certs.is_empty() {
                    return Err(ConnectError::Refused(
                        "this machine has no list of trusted authorities (Debian's package ca-certificates); name a file with sslrootcert=FILE"
                            .into(),
                    ));
                }
                found.certs
            }
            Roots::File(file, _) if file.exists() => certificates(file, "sslrootcert")?,
            Roots::File(file, true) => {
                return Err(ConnectError::Refused(format!("{}: the file of root certificates (sslrootcert) does not exist", file.display())));
            }
            _ if mode.verifies() => {
                return Err(ConnectError::Refused(
                    "there is no root certificate to check the server's certificate with: name the authority's certificate with sslrootcert=FILE, put it \
                     at ~/.postgresql/root.crt, or trust this machine's authorities with sslrootcert=system"
                        .into(),
                ));
            }
            _ => return Ok(ServerTrust::new(Check::Nothing, Vec::new(), provider)),
        };
        Ok(ServerTrust::new(check, roots, provider))
    }

    fn identity(&self, mode: TlsMode) -> Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>, ConnectError> {
        let Some((certificate, key, named)) = &self.identity else { return Ok(None) };
        if mode == TlsMode::Disable || (!named && !certificate.exists()) {
            return Ok(None);
        }
        let chain = certificates(certificate, "sslcert")?;
        let about =
            std::fs::metadata(key).map_err(|error| ConnectError::Refused(format!("{}: the client's key (sslkey): {error}", key.display())))?;
        // a key that belongs to root may be read by a group, such as that of a service
        let forbidden = if about.uid() == 0 { 0o037 } else { 0o077 };
        if about.permissions().mode() & forbidden != 0 {
            return Err(ConnectError::Refused(format!(
                "{}: others can read or write the client's key (sslkey); run `chmod 0600` on it",
                key.display()
            )));
        }
        let key = PrivateKeyDer::from_pem_file(key).map_err(|error| {
            ConnectError::Refused(format!("{}: the client's key (sslkey) is not an unencrypted key in PEM format: {error}", key.display()))
        })?;
        Ok(Some((chain, key)))
    }
}

/// The certificates of a PEM file.
fn certificates(file: &Path, setting: &str) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let failed = |reason: String| ConnectError::Refused(format!("{}: certificates ({setting}) cannot be read: {reason}", file.display()));
    let read = CertificateDer::pem_file_iter(file).map_err(|error| failed(error.to_string()))?;
    let found: Vec<_> = read.collect::<Result<_, _>>().map_err(|error| failed(error.to_string()))?;
    if found.is_empty() { Err(failed("it has no certificate in PEM format".into())) } else { Ok(found) }
}

/// Whether all hosts of an address are sockets of this machine, which no TLS protects.
pub fn is_local(config: &Config) -> bool {
    !config.get_hosts().is_empty() && config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)))
}
