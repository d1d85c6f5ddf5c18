//! Authorities and certificates for tests of encrypted connections.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};

/// An authority that signs certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM format.
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

/// When a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// For long.
    Now,
    /// Until some years ago.
    Past,
    /// Not for a long time.
    Future,
}

fn parameters(name: &str, hosts: &[&str], validity: Validity) -> Result<CertificateParams, rcgen::Error> {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut parameters = CertificateParams::new(hosts)?;
    parameters.distinguished_name.push(DnType::CommonName, name);
    let (first, last) = match validity {
        Validity::Now => (2_000, 2_090),
        Validity::Past => (2_000, 2_010),
        Validity::Future => (2_080, 2_090),
    };
    (parameters.not_before, parameters.not_after) = (date_time_ymd(first, 1, 1), date_time_ymd(last, 1, 1));
    Ok(parameters)
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn new(name: &str) -> Result<Self, rcgen::Error> {
        let mut parameters = parameters(name, &[], Validity::Now)?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(Self(CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)?))
    }

    /// Its own certificate.
    pub fn certificate(&self) -> String {
        self.0.pem()
    }

    /// Signs a certificate for these host names and addresses.
    ///
    /// # Errors
    /// When a name is none, or no key can be made.
    pub fn sign(&self, name: &str, hosts: &[&str], validity: Validity) -> Result<Identity, rcgen::Error> {
        let key = KeyPair::generate()?;
        let certificate = parameters(name, hosts, validity)?.signed_by(&key, &self.0)?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

impl Identity {
    /// One that is its own authority.
    ///
    /// # Errors
    /// As [`Authority::sign`].
    pub fn own(name: &str, hosts: &[&str], validity: Validity) -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut parameters = parameters(name, hosts, validity)?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(Self { certificate: parameters.self_signed(&key)?.pem(), key: key.serialize_pem() })
    }
}
