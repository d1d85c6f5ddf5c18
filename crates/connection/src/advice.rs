//! Says in words why a connection could not be opened, and what to do.

use crate::address::ServerAddress;
use crate::passwords::Found;
use crate::tls::{Roots, TlsMode};
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError};
use std::error::Error as _;
use tokio_postgres::Error;
use tokio_postgres::config::Host;
use tokio_postgres::error::SqlState;

/// What TLS says about a failure.
pub enum TlsError<'e> {
    Known(&'e rustls::Error),
    Other(String),
}

/// The failure of TLS behind an error, if it is one.
pub fn tls_error(error: &Error) -> Option<TlsError<'_>> {
    let source = error.source()?;
    let inside = source.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref()).and_then(|error| error.downcast_ref::<rustls::Error>());
    match inside {
        Some(known) => Some(TlsError::Known(known)),
        None if error.to_string().contains("TLS handshake") => Some(TlsError::Other(source.to_string())),
        None => None,
    }
}

/// The reason of a failure that trying again will not remove; `None` for others, such as a server that does not answer.
pub fn explain(address: &ServerAddress, error: &Error) -> Option<String> {
    let to = hosts(address);
    if let Some(failure) = tls_error(error) {
        return Some(match failure {
            TlsError::Known(known) => format!("no connection to {to}: {}", of_tls(address, &to, known)),
            TlsError::Other(reason) if reason.contains("does not support TLS") => format!(
                "no connection to {to}: the server has no TLS, and sslmode={} demands it; set `ssl = on` in its postgresql.conf, or allow \
                 connections without with sslmode=prefer",
                name(address.mode)
            ),
            TlsError::Other(reason) => format!("no connection to {to}: TLS failed: {reason}"),
        });
    }
    let said = error.as_db_error().map(|error| error.message().to_owned());
    match (error.code(), said) {
        (Some(code), Some(said)) if *code == SqlState::INVALID_PASSWORD => Some(format!("no connection to {to}: {said}{}", password_advice(address))),
        (Some(code), Some(said)) if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            let advice = match said.as_str() {
                said if said.contains("valid client certificate") => "; name yours with sslcert=FILE and sslkey=FILE",
                said if said.contains("certificate authentication failed") => "; its common name must be the user's name (sslcert, sslkey)",
                said if said.contains("no encryption") && matches!(address.mode, TlsMode::Disable) => {
                    "; the server may accept encrypted connections: sslmode=require"
                }
                said if said.contains("pg_hba.conf") => "; a line of its pg_hba.conf must allow it",
                _ => "",
            };
            Some(format!("no connection to {to}: {said}{advice}"))
        }
        (None, None) => {
            let reason = error.source().map(ToString::to_string).unwrap_or_default();
            if reason.contains("password missing") {
                Some(format!("no connection to {to}: the server asks for a password{}", password_advice(address)))
            } else if reason.contains("channel binding") {
                let advice =
                    "it needs TLS (sslmode), SCRAM passwords, and a certificate that is not of the type Ed25519; or set channel_binding=prefer";
                Some(format!("no connection to {to}: {reason}; {advice}"))
            } else {
                None
            }
        }
        _ => None,
    }
}

fn password_advice(address: &ServerAddress) -> String {
    match (address.config.get_password(), address.password()) {
        (Some(_), _) => "; the password is that of the URL, of PGPASSWORD or of the service".into(),
        (None, Found::Password(_)) => "; the password is that of the password file".into(),
        (None, Found::Nothing(reason)) => {
            let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
            format!("; give it in PGPASSWORD, or in ~/.pgpass or the file of PGPASSFILE{reason}")
        }
    }
}

fn of_tls(address: &ServerAddress, to: &str, error: &rustls::Error) -> String {
    let from = || match &address.tls.roots {
        Roots::System => "this machine".to_owned(),
        Roots::File(file, _) => file.display().to_string(),
        Roots::Nowhere => "no file".to_owned(),
    };
    match error {
        rustls::Error::InvalidCertificate(reason) => match reason {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
                "the server's certificate is not signed by an authority of {} (sslrootcert); add the certificate of the authority that signed it, if you trust it",
                from()
            ),
            CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => format!(
                "the server's certificate has no alternative name (subjectAltName), and a common name alone is not compared; have it made for {to}, or \
                 use sslmode=verify-ca where only your own servers have certificates of this authority"
            ),
            CertificateError::NotValidForNameContext { presented, .. } => format!(
                "the server's certificate is for {}, and not for {to}; use one of these names in the address (with hostaddr=IP if it cannot be found), or \
                 sslmode=verify-ca where only your own servers have certificates of this authority",
                presented.join(", ")
            ),
            CertificateError::ExpiredContext { not_after, .. } => {
                format!("the server's certificate, or that of its authority, has expired ({} ago); renew it and reload the server", since(*not_after))
            }
            CertificateError::NotValidYetContext { not_before, .. } => {
                format!("the server's certificate is not valid yet (it will be in {}); compare the clocks of both machines", until(*not_before))
            }
            CertificateError::Revoked => "the server's certificate was revoked".into(),
            other => match format!("{other:?}") {
                reason if reason.contains("CaUsedAsEndEntity") => format!(
                    "the server's certificate is that of an authority itself, and not in {} (sslrootcert); add it there, if you trust it",
                    from()
                ),
                reason if reason.contains("UnsupportedCertVersion") => {
                    "the server's certificate is of an old version of X.509; have one of version 3 made, with a subjectAltName".to_owned()
                }
                reason => format!("the server's certificate cannot be used: {reason}"),
            },
        },
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError => {
                "the server does not trust the client's certificate (sslcert): an authority of its ssl_ca_file must have signed it".into()
            }
            AlertDescription::CertificateExpired => "the client's certificate (sslcert) has expired".into(),
            AlertDescription::CertificateRequired => "the server demands a certificate; name yours with sslcert=FILE and sslkey=FILE".into(),
            other => format!("the server ended the TLS handshake: {other:?}"),
        },
        other => format!("TLS failed: {other}"),
    }
}

fn hosts(address: &ServerAddress) -> String {
    let names = address.config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    names.collect::<Vec<_>>().join(", ")
}

fn name(mode: TlsMode) -> &'static str {
    match mode {
        TlsMode::Disable => "disable",
        TlsMode::Allow => "allow",
        TlsMode::Prefer => "prefer",
        TlsMode::Require => "require",
        TlsMode::VerifyCa => "verify-ca",
        TlsMode::VerifyFull => "verify-full",
    }
}

fn since(then: UnixTime) -> String {
    rounded(UnixTime::now().as_secs().saturating_sub(then.as_secs()))
}

fn until(then: UnixTime) -> String {
    rounded(then.as_secs().saturating_sub(UnixTime::now().as_secs()))
}

fn rounded(seconds: u64) -> String {
    match seconds {
        0..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}
