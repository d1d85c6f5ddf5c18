//! Decides whether the certificate of a server is accepted.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// What of a server's certificate is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Nothing: the connection is encrypted, to whomever.
    Nothing,
    /// That an authority that is trusted has signed it, and that it is valid now.
    Authority,
    /// The same, and that it is for the host.
    AuthorityAndName,
}

/// The certificates that are trusted, and what for.
#[derive(Debug)]
pub struct ServerTrust {
    check: Check,
    roots: RootCertStore,
    /// The same as they are written: a server may present one of them as its own.
    listed: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerTrust {
    /// Trusts these certificates.
    pub fn new(check: Check, listed: Vec<CertificateDer<'static>>, provider: Arc<CryptoProvider>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(listed.iter().cloned());
        Self { check, roots, listed, provider }
    }
}

/// Checks the time of a certificate that needs no signature, because it is itself trusted.
fn check_time(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let parsed = Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let validity = parsed.tbs_certificate.validity;
    let (begins, ends, at) =
        (validity.not_before.to_unix_duration(), validity.not_after.to_unix_duration(), UNIX_EPOCH + Duration::from_secs(now.as_secs()));
    match at {
        at if at > UNIX_EPOCH + ends => Err(CertificateError::ExpiredContext { time: now, not_after: UnixTime::since_unix_epoch(ends) }.into()),
        at if at < UNIX_EPOCH + begins => {
            Err(CertificateError::NotValidYetContext { time: now, not_before: UnixTime::since_unix_epoch(begins) }.into())
        }
        _ => Ok(()),
    }
}

impl ServerCertVerifier for ServerTrust {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.check == Check::Nothing {
            return Ok(ServerCertVerified::assertion());
        }
        let parsed = ParsedCertificate::try_from(certificate)?;
        // a certificate that signs itself is its own authority, as PostgreSQL's documentation makes one
        if self.listed.iter().any(|listed| listed.as_ref() == certificate.as_ref()) {
            check_time(certificate, now)?;
        } else {
            let algorithms = self.provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, intermediates, now, algorithms)?;
        }
        if self.check == Check::AuthorityAndName {
            verify_server_name(&parsed, host)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // whoever is accepted with any certificate could also sign with a key of their own
        match self.check {
            Check::Nothing => Ok(HandshakeSignatureValid::assertion()),
            _ => verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.check {
            Check::Nothing => Ok(HandshakeSignatureValid::assertion()),
            _ => verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
