//! The address of a server: a URL, completed from a service file and the environment as libpq does.

use crate::passwords::PasswordFile;
use crate::services;
use crate::tls::{TlsMode, TlsSettings};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;
use tokio_postgres::Config;

/// Why an address cannot be used. The message never contains the URL, which may hold a password.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AddressError(pub(crate) String);

/// Where a server is and how to log in.
#[derive(Debug, Clone)]
pub struct ServerAddress {
    /// All but TLS and the password file; its TLS mode is set for each attempt.
    pub(crate) config: Config,
    pub(crate) mode: TlsMode,
    pub(crate) tls: TlsSettings,
    pub(crate) passwords: PasswordFile,
}

/// Settings that the environment may give, with the variables of libpq.
const VARIABLES: &[(&str, &str)] = &[
    ("host", "PGHOST"),
    ("hostaddr", "PGHOSTADDR"),
    ("port", "PGPORT"),
    ("user", "PGUSER"),
    ("password", "PGPASSWORD"),
    ("passfile", "PGPASSFILE"),
    ("dbname", "PGDATABASE"),
    ("options", "PGOPTIONS"),
    ("application_name", "PGAPPNAME"),
    ("connect_timeout", "PGCONNECT_TIMEOUT"),
    ("target_session_attrs", "PGTARGETSESSIONATTRS"),
    ("load_balance_hosts", "PGLOADBALANCEHOSTS"),
    ("channel_binding", "PGCHANNELBINDING"),
    ("sslmode", "PGSSLMODE"),
    ("sslnegotiation", "PGSSLNEGOTIATION"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
];

/// Settings that the client library does not know: they are used here.
const OWN: &[&str] = &["service", "passfile", "sslmode", "sslrootcert", "sslcert", "sslkey"];

/// How long to wait for one address of a host, if nothing says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Looks a variable of the environment up.
pub(crate) type Variables<'v> = &'v dyn Fn(&str) -> Option<String>;

impl ServerAddress {
    /// Reads a URL, completed from this process's environment.
    ///
    /// # Errors
    /// When it is none, or a service is not found.
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        Self::parse_with(url, &|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    /// The same with another environment.
    ///
    /// # Errors
    /// As [`ServerAddress::parse`].
    pub fn parse_with(url: &str, variables: Variables<'_>) -> Result<Self, AddressError> {
        let invalid = |error: &tokio_postgres::Error| AddressError(std::error::Error::source(error).map_or(error.to_string(), ToString::to_string));
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let mut own = BTreeMap::new();
        let mut passed = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            match OWN.contains(&name) {
                true => drop(own.insert(name.to_owned(), decoded(value)?)),
                false => passed.push(part.to_owned()),
            }
        }
        let with = |passed: &[String]| if passed.is_empty() { address.to_owned() } else { format!("{address}?{}", passed.join("&")) };
        let given: Config = with(&passed).parse().map_err(|error| invalid(&error))?;
        let mut complete = |name: &str, value: String| {
            if OWN.contains(&name) {
                own.entry(name.to_owned()).or_insert(value);
            } else if !is_given(&given, &passed, name) {
                passed.push(format!("{name}={}", encoded(&value)));
            }
        };
        let home = variables("HOME").map(PathBuf::from);
        let service = own_value(url, "service")?.or_else(|| variables("PGSERVICE"));
        if let Some(service) = service {
            for (name, value) in services::find(&service, home.as_deref(), variables)? {
                complete(&name, value);
            }
        }
        for (name, variable) in VARIABLES {
            if let Some(value) = variables(variable) {
                complete(name, value);
            }
        }
        let mut config: Config = with(&passed).parse().map_err(|error| invalid(&error))?;
        let mode = own.get("sslmode").map_or(Ok(TlsMode::Prefer), |mode| TlsMode::from_name(mode))?;
        let tls = TlsSettings::new(&own, home.as_deref(), &mut config, mode)?;
        let passwords = PasswordFile::new(own.get("passfile").map(PathBuf::from), home.as_deref());
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        Ok(Self { config, mode, tls, passwords })
    }

    /// Names the program to the server, unless the address already does.
    pub fn name_program(&mut self, name: &str) {
        if self.config.get_application_name().is_none() {
            self.config.application_name(name);
        }
    }

    /// Notices after so long that a server has gone without a word.
    pub fn keep_alive(&mut self, idle: Duration) {
        self.config.keepalives_idle(idle);
    }
}

/// Whether a URL already gives a setting. A URL's host has a port, which is 5432 if it names none.
fn is_given(config: &Config, query: &[String], name: &str) -> bool {
    let in_query = query.iter().any(|part| part.split('=').next() == Some(name));
    in_query
        || match name {
            "host" => !config.get_hosts().is_empty(),
            "hostaddr" => !config.get_hostaddrs().is_empty(),
            "port" => !config.get_ports().is_empty(),
            "user" => config.get_user().is_some(),
            "password" => config.get_password().is_some(),
            "dbname" => config.get_dbname().is_some(),
            _ => false,
        }
}

fn own_value(url: &str, name: &str) -> Result<Option<String>, AddressError> {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let found = query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    found.map(decoded).transpose()
}

/// Percent-encodes a value.
fn encoded(value: &str) -> String {
    value.bytes().fold(String::new(), |mut text, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => text.push(char::from(byte)),
            _ => drop(write!(text, "%{byte:02X}")),
        }
        text
    })
}

/// Decodes a percent-encoded value.
fn decoded(value: &str) -> Result<String, AddressError> {
    let wrong = || AddressError("a value in it is not percent-encoded UTF-8".into());
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        let digit = |digit: Option<u8>| digit.and_then(|digit| char::from(digit).to_digit(16)).ok_or_else(wrong);
        bytes.push(if byte == b'%' { (digit(rest.next())? << 4 | digit(rest.next())?) as u8 } else { byte });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_postgres::config::{ChannelBinding, Host};

    fn parsed(url: &str, variables: &[(&str, &str)]) -> ServerAddress {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        ServerAddress::parse_with(url, &find).expect("an address")
    }

    fn refused(url: &str, variables: &[(&str, &str)]) -> String {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        ServerAddress::parse_with(url, &find).expect_err("it is refused").to_string()
    }

    #[test]
    fn a_url_comes_before_a_service_and_a_service_before_the_environment() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("services");
        let text = "# a comment\n[other]\nhost=elsewhere\n\n[library]\nhost = db.example\nport=6000\nuser=reader\npassword=a&b %c\nsslmode=verify-ca\nsslrootcert=/roots\n";
        std::fs::write(&file, text).expect("a file");
        let file = file.to_str().expect("UTF-8");
        let environment = [("PGSERVICEFILE", file), ("PGUSER", "somebody"), ("PGDATABASE", "books"), ("PGSSLMODE", "disable")];
        let address = parsed("postgres:///?service=library&user=writer", &environment);
        assert_eq!(address.config.get_hosts(), [Host::Tcp("db.example".into())]);
        assert_eq!(address.config.get_ports(), [6_000]);
        assert_eq!((address.config.get_user(), address.config.get_dbname()), (Some("writer"), Some("books")));
        assert_eq!(address.config.get_password(), Some(b"a&b %c".as_slice()));
        assert_eq!(address.mode, TlsMode::VerifyCa);
        let named = parsed("postgres://me@there/x", &[&environment[..], &[("PGSERVICE", "library")]].concat());
        assert_eq!((named.config.get_hosts(), named.config.get_ports()), (&[Host::Tcp("there".into())][..], &[5_432][..]));
        assert!(refused("postgres://h/d?service=librar", &environment).contains("did you mean `library`"));
    }

    #[test]
    fn what_is_wrong_with_an_address_is_said() {
        assert!(refused("postgres://h/d?sslmode=verify", &[]).contains("disable, allow, prefer, require, verify-ca or verify-full"));
        assert!(refused("postgres://h/d?sslcrl=x", &[]).contains("sslcrl"));
        assert!(refused("postgres://h/d?sslrootcert=%zz", &[]).contains("percent-encoded"));
        assert!(refused("postgres://h/d?sslmode=require&sslrootcert=system", &[]).contains("verify-full"));
        assert!(refused("postgres://h/d?sslcert=a", &[]).contains("sslkey"));
        assert!(refused("postgres://h/d?service=x", &[]).contains("pg_service.conf"));
    }

    #[test]
    fn the_environment_completes_a_url() {
        let address = parsed("postgres://h/d", &[("PGPASSWORD", "p w"), ("PGCHANNELBINDING", "require"), ("PGUSER", "u"), ("PGHOST", "other")]);
        assert_eq!(address.config.get_password(), Some(b"p w".as_slice()));
        assert_eq!(address.config.get_channel_binding(), ChannelBinding::Require);
        assert_eq!((address.config.get_user(), address.config.get_hosts()), (Some("u"), &[Host::Tcp("h".into())][..]));
        assert_eq!(address.mode, TlsMode::Prefer);
    }
}
