//! HTTPS: the server's certificate and key, which are read again when their files change.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate with its key, and connections that are encrypted with them.
pub struct ServerTls {
    certificate: PathBuf,
    key: PathBuf,
    acceptor: RwLock<TlsAcceptor>,
    /// The files that were last looked at, whether they could be used or not.
    seen: Mutex<FileStates>,
}

/// Sizes and times of both files.
type FileStates = [Option<(u64, Option<SystemTime>)>; 2];

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ServerTls").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

impl ServerTls {
    /// Reads a certificate, followed by those of its authorities, and its key, both in PEM format.
    ///
    /// # Errors
    /// When they cannot be used: the file and the reason.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, String> {
        let seen = states(certificate, key);
        let acceptor = RwLock::new(acceptor(certificate, key)?);
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), acceptor, seen: Mutex::new(seen) })
    }

    /// Encrypts a new connection.
    pub fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the files again if they have changed. Returns whether they are used now.
    ///
    /// # Errors
    /// When they cannot be used, once for each change; then the former certificate stays in use.
    pub fn refresh(&self) -> Result<bool, String> {
        let states = states(&self.certificate, &self.key);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == states {
            return Ok(false);
        }
        // of two files that are replaced one after the other, the second one changes the state again
        *seen = states;
        let acceptor = acceptor(&self.certificate, &self.key).map_err(|reason| format!("{reason}; the former certificate stays in use"))?;
        *self.acceptor.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
        Ok(true)
    }
}

fn states(certificate: &Path, key: &Path) -> FileStates {
    [certificate, key].map(|file| std::fs::metadata(file).ok().map(|about| (about.len(), about.modified().ok())))
}

fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, String> {
    let of_certificate = |reason: String| format!("{}: the certificate (--tls-cert) cannot be used: {reason}", certificate.display());
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| of_certificate(error.to_string()))?;
    if chain.is_empty() {
        return Err(of_certificate("it has no certificate in PEM format".into()));
    }
    let of_key = |reason: String| format!("{}: the key (--tls-key) cannot be used: {reason}", key.display());
    let read_key = PrivateKeyDer::from_pem_file(key).map_err(|error| of_key(format!("it is not an unencrypted key in PEM format: {error}")))?;
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let mut config = builder.with_no_client_auth().with_single_cert(chain, read_key).map_err(|error| of_key(error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config).into())
}
