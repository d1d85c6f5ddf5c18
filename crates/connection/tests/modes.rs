//! Every TLS mode against a PostgreSQL server that encrypts, with certificates as they should be and as they should not.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on stops")]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use stook_connection::{ConnectError, ServerAddress};
use stook_testkit::certificates::{Authority, Identity, Validity};
use stook_testkit::postgres::TestServer;

/// A server, the authority of its certificates, and files of a client.
struct Setting {
    server: TestServer,
    authority: Authority,
    folder: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
}

const RULES: &[&str] = &[
    "hostssl all certified 127.0.0.1/32 cert",
    "hostssl all secret 127.0.0.1/32 scram-sha-256",
    "hostnossl all plain 127.0.0.1/32 trust",
    "hostssl all encrypted 127.0.0.1/32 trust",
    "host all anyhow 127.0.0.1/32 trust",
];

impl Setting {
    fn new() -> Option<Self> {
        let server = TestServer::for_test(&["fsync=off"])?;
        let users = ["certified", "plain", "encrypted", "anyhow"].map(|user| format!("CREATE ROLE {user} LOGIN;")).concat();
        server.sql(&format!("{users} CREATE ROLE secret LOGIN PASSWORD 'it: is\\secret'")).unwrap();
        server.allow(RULES).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let setting = Self { server, authority: Authority::new("the library's authority").unwrap(), folder: tempfile::tempdir().unwrap(), runtime };
        setting.file("root.crt", &setting.authority.certificate());
        setting.encrypt(&setting.authority.sign("db", &["db.example", "127.0.0.1"], Validity::Now).unwrap());
        Some(setting)
    }

    fn encrypt(&self, identity: &Identity) {
        self.server.encrypt(identity, &self.authority.certificate()).unwrap();
    }

    /// Writes a file that only its owner may read; returns its path.
    fn file(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Connects as a user with settings, and variables of the environment; returns whether the connection is encrypted, or why there is none.
    fn connects_with(&self, user: &str, settings: &str, variables: &[(&str, &str)]) -> Result<bool, String> {
        let host = if settings.contains("hostaddr") { "db.example" } else { "127.0.0.1" };
        let settings = settings.replace("ROOT", self.folder.path().join("root.crt").to_str().unwrap());
        let url = format!("postgres://{user}@{host}:{}/postgres?{settings}", self.server.port());
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let address = ServerAddress::parse_with(&url, &find).map_err(|error| error.to_string())?;
        let connected = address.connect(|attempt| self.runtime.block_on(attempt.connect())).map_err(|error| match error {
            ConnectError::Refused(reason) => reason,
            ConnectError::Failed(error) => format!("without advice: {error:?}"),
        })?;
        self.runtime.block_on(async {
            let task = tokio::spawn(connected.connection);
            let row = connected.client.query_one("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", &[]).await;
            drop(connected.client);
            task.abort();
            row.map(|row| row.get(0)).map_err(|error| error.to_string())
        })
    }

    #[track_caller]
    fn connects(&self, user: &str, settings: &str, encrypted: bool) {
        assert_eq!(self.connects_with(user, settings, &[]), Ok(encrypted), "{user} with {settings}");
    }

    #[track_caller]
    fn refuses(&self, user: &str, settings: &str, words: &[&str]) {
        let reason = self.connects_with(user, settings, &[]).expect_err(settings);
        for word in words {
            assert!(reason.contains(word), "{word:?} is missing for {user} with {settings}:\n{reason}");
        }
    }
}

#[test]
fn each_mode_encrypts_as_libpq_does() {
    let Some(setting) = Setting::new() else { return };
    for (mode, anyhow) in [("disable", false), ("allow", false), ("prefer", true), ("require", true)] {
        setting.connects("anyhow", &format!("sslmode={mode}"), anyhow);
    }
    setting.connects("anyhow", "", true);
    // rules of the server decide where the client leaves it open
    for mode in ["allow", "prefer"] {
        setting.connects("encrypted", &format!("sslmode={mode}"), true);
        setting.connects("plain", &format!("sslmode={mode}"), false);
    }
    setting.refuses("encrypted", "sslmode=disable", &["no encryption", "sslmode=require"]);
    setting.refuses("plain", "sslmode=require", &["SSL encryption", "pg_hba.conf"]);
    setting.server.sql("ALTER SYSTEM SET ssl = off").unwrap();
    setting.server.sql("SELECT pg_reload_conf()").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    setting.connects("anyhow", "sslmode=prefer", false);
    setting.refuses("anyhow", "sslmode=require", &["has no TLS", "ssl = on", "sslmode=prefer"]);
}

#[test]
fn certificates_of_a_server_are_checked() {
    let Some(setting) = Setting::new() else { return };
    let by_name = "hostaddr=127.0.0.1&sslrootcert=ROOT";
    setting.connects("anyhow", "sslmode=verify-full&sslrootcert=ROOT", true);
    setting.connects("anyhow", &format!("sslmode=verify-full&{by_name}"), true);
    setting.refuses("anyhow", "sslmode=verify-ca", &["no root certificate", "sslrootcert=FILE"]);
    setting.refuses("anyhow", "sslmode=verify-ca&sslrootcert=/nowhere", &["/nowhere", "does not exist"]);

    // another name: only verify-full compares it
    setting.encrypt(&setting.authority.sign("other", &["other.example"], Validity::Now).unwrap());
    setting.refuses("anyhow", &format!("sslmode=verify-full&{by_name}"), &["other.example", "not for db.example", "sslmode=verify-ca"]);
    setting.refuses("anyhow", "sslmode=verify-full&sslrootcert=ROOT", &["not for 127.0.0.1"]);
    setting.connects("anyhow", "sslmode=verify-ca&sslrootcert=ROOT", true);
    setting.encrypt(&setting.authority.sign("db.example", &[], Validity::Now).unwrap());
    setting.refuses("anyhow", &format!("sslmode=verify-full&{by_name}"), &["no alternative name", "subjectAltName"]);

    // a time that is over, or to come
    setting.encrypt(&setting.authority.sign("db", &["127.0.0.1"], Validity::Past).unwrap());
    setting.refuses("anyhow", "sslmode=verify-ca&sslrootcert=ROOT", &["has expired", "days ago", "renew"]);
    setting.connects("anyhow", "sslmode=require", true);
    setting.encrypt(&setting.authority.sign("db", &["127.0.0.1"], Validity::Future).unwrap());
    setting.refuses("anyhow", "sslmode=verify-full&sslrootcert=ROOT", &["not valid yet", "clocks"]);

    // another authority: `require` checks only where there is a root, `prefer` goes on without encryption
    let stranger = Authority::new("a stranger").unwrap();
    setting.encrypt(&stranger.sign("db", &["127.0.0.1"], Validity::Now).unwrap());
    for mode in ["require", "verify-ca", "verify-full"] {
        setting.refuses("anyhow", &format!("sslmode={mode}&sslrootcert=ROOT"), &["not signed by an authority of", "root.crt"]);
    }
    setting.connects("anyhow", "sslmode=require", true);
    setting.connects("anyhow", "sslmode=prefer&sslrootcert=ROOT", false);
    setting.refuses("anyhow", "sslmode=verify-full&sslrootcert=system", &["not signed by an authority of this machine"]);

    // one that is its own authority
    let own = Identity::own("db", &["127.0.0.1"], Validity::Now).unwrap();
    setting.encrypt(&own);
    let listed = setting.file("own.crt", &own.certificate);
    setting.connects("anyhow", &format!("sslmode=verify-full&sslrootcert={listed}"), true);
    setting.refuses("anyhow", "sslmode=verify-full&sslrootcert=ROOT", &["that of an authority itself", "root.crt"]);
    let expired = Identity::own("db", &["127.0.0.1"], Validity::Past).unwrap();
    setting.encrypt(&expired);
    let listed = setting.file("own.crt", &expired.certificate);
    setting.refuses("anyhow", &format!("sslmode=verify-ca&sslrootcert={listed}"), &["has expired"]);
}

#[test]
fn a_server_that_demands_a_certificate_gets_one() {
    let Some(setting) = Setting::new() else { return };
    let present = |identity: &Identity| {
        let (certificate, key) = (setting.file("client.crt", &identity.certificate), setting.file("client.key", &identity.key));
        format!("sslmode=verify-full&sslrootcert=ROOT&sslcert={certificate}&sslkey={key}")
    };
    let own = present(&setting.authority.sign("certified", &[], Validity::Now).unwrap());
    setting.connects("certified", &own, true);
    setting.refuses("certified", "sslmode=require", &["requires a valid client certificate", "sslcert=FILE"]);
    let key = setting.folder.path().join("client.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    setting.refuses("certified", &own, &["client.key", "chmod 0600"]);
    let of_another = present(&setting.authority.sign("somebody", &[], Validity::Now).unwrap());
    setting.refuses("certified", &of_another, &["certificate authentication failed", "common name"]);
    let of_a_stranger = present(&Authority::new("a stranger").unwrap().sign("certified", &[], Validity::Now).unwrap());
    setting.refuses("certified", &of_a_stranger, &["does not trust the client's certificate"]);
    let expired = present(&setting.authority.sign("certified", &[], Validity::Past).unwrap());
    setting.refuses("certified", &expired, &["the client's certificate (sslcert) has expired"]);
}

#[test]
fn passwords_come_from_the_environment_or_a_file() {
    let Some(setting) = Setting::new() else { return };
    let connects = |settings: &str, variables: &[(&str, &str)]| setting.connects_with("secret", settings, variables);
    assert_eq!(connects("channel_binding=require", &[("PGPASSWORD", "it: is\\secret")]), Ok(true));
    let wrong = connects("", &[("PGPASSWORD", "wrong")]).unwrap_err();
    assert!(wrong.contains("password authentication failed") && wrong.contains("PGPASSWORD"), "{wrong}");
    let missing = connects("", &[]).unwrap_err();
    assert!(missing.contains("asks for a password") && missing.contains("~/.pgpass"), "{missing}");
    let line = format!("127.0.0.1:{}:postgres:secret:it\\: is\\\\secret\n", setting.server.port());
    let file = setting.file("passwords", &format!("# of the library\nelsewhere:*:*:*:x\n{line}*:*:*:*:y\n"));
    assert_eq!(connects("", &[("PGPASSFILE", &file)]), Ok(true));
    assert_eq!(connects(&format!("passfile={file}"), &[]), Ok(true));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let readable = connects("", &[("PGPASSFILE", &file)]).unwrap_err();
    assert!(readable.contains("chmod 0600"), "{readable}");
    let unbound = connects("sslmode=allow&channel_binding=require", &[("PGPASSWORD", "it: is\\secret")]);
    assert_eq!(unbound, Ok(true), "the server refuses what is not encrypted, so the second attempt is");
}
