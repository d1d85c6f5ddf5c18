//! Password files: which password a server, database and user have, as libpq reads them.

use crate::services::MAX_FILE;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A password file that is read for each connection.
#[derive(Debug, Clone)]
pub struct PasswordFile {
    path: Option<PathBuf>,
    /// Whether it was named, and not only looked for.
    named: bool,
}

/// Whom a password is for.
pub struct Login<'l> {
    pub host: &'l str,
    pub port: u16,
    pub database: &'l str,
    pub user: &'l str,
}

/// What a password file has for a login.
pub enum Found {
    Password(Vec<u8>),
    /// Nothing, and why, if there is a reason that the user can remove.
    Nothing(Option<String>),
}

impl PasswordFile {
    /// The file that was named, or `~/.pgpass`.
    pub fn new(named: Option<PathBuf>, home: Option<&Path>) -> Self {
        Self { named: named.is_some(), path: named.or_else(|| Some(home?.join(".pgpass"))) }
    }

    /// Looks the password of a login up.
    pub fn find(&self, login: &Login<'_>) -> Found {
        let Some(path) = &self.path else { return Found::Nothing(None) };
        let because = |reason: &str| Found::Nothing(Some(format!("{} was not used: {reason}", path.display())));
        let about = match std::fs::metadata(path) {
            Ok(about) => about,
            Err(_) if !self.named => return Found::Nothing(None),
            Err(error) => return because(&error.to_string()),
        };
        if !about.is_file() {
            return because("it is no regular file");
        }
        if about.permissions().mode() & 0o077 != 0 {
            return because("others than its owner can read or write it; run `chmod 0600` on it");
        }
        if about.len() > MAX_FILE {
            return because("it is larger than 1 MB");
        }
        match std::fs::read(path) {
            Ok(bytes) => bytes.split(|byte| *byte == b'\n').find_map(|line| password_in(line, login)).map_or_else(
                || Found::Nothing(Some(format!("{} has no line for this host, port, database and user", path.display()))),
                Found::Password,
            ),
            Err(error) => because(&error.to_string()),
        }
    }
}

/// The password of a line, if the line is for this login.
fn password_in(line: &[u8], login: &Login<'_>) -> Option<Vec<u8>> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.starts_with(b"#") {
        return None;
    }
    let mut rest = line;
    for wanted in [login.host, &login.port.to_string(), login.database, login.user] {
        let (field, after) = field(rest)?;
        if field != b"*" && unescaped(field) != wanted.as_bytes() {
            return None;
        }
        rest = after;
    }
    Some(unescaped(field(rest).map_or(rest, |(password, _)| password)))
}

/// A field up to the next colon that has no backslash before it, and what follows.
fn field(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut escaped = false;
    for (position, byte) in text.iter().enumerate() {
        match byte {
            b':' if !escaped => return Some((&text[..position], &text[position + 1..])),
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    None
}

fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.iter();
    while let Some(byte) = rest.next() {
        bytes.push(if *byte == b'\\' { *rest.next().unwrap_or(byte) } else { *byte });
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn password(line: &str) -> Option<String> {
        let login = Login { host: "db", port: 5_432, database: "a:b", user: "me" };
        password_in(line.as_bytes(), &login).map(|password| String::from_utf8(password).expect("UTF-8"))
    }

    #[test]
    fn the_line_of_a_login_gives_the_password() {
        assert_eq!(password(r"db:5432:a\:b:me:secret"), Some("secret".into()));
        assert_eq!(password(r"*:*:*:*:a\:b\\c"), Some(r"a:b\c".into()));
        assert_eq!(password("*:*:*:me:trailing:ignored\r"), Some("trailing".into()));
        for other in ["#db:5432:*:me:x", "db:5433:*:me:x", "db:5432:a:b:me:x", "db:5432", "", r"\*:*:*:*:x"] {
            assert_eq!(password(other), None, "{other}");
        }
    }

    #[test]
    fn a_file_that_others_can_read_is_not_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("passwords");
        std::fs::write(&path, "*:*:*:*:x").expect("a file");
        let login = Login { host: "db", port: 5_432, database: "d", user: "me" };
        let find = |mode: u32| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("permissions");
            PasswordFile::new(Some(path.clone()), None).find(&login)
        };
        assert!(matches!(find(0o640), Found::Nothing(Some(reason)) if reason.contains("chmod 0600")));
        assert!(matches!(find(0o600), Found::Password(password) if password == b"x"));
        assert!(matches!(PasswordFile::new(None, Some(folder.path())).find(&login), Found::Nothing(None)));
    }
}
