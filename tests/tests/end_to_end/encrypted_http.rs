//! `stook serve` with a certificate: HTTPS, and certificates that are replaced while it serves.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use stook_testkit::certificates::{Authority, Validity};
use stook_tests::Sandbox;

/// A client that trusts one authority.
fn client(authority: &Authority) -> ureq::Agent {
    let certificate = ureq::tls::Certificate::from_pem(authority.certificate().as_bytes()).unwrap();
    let tls = ureq::tls::TlsConfig::builder().root_certs(ureq::tls::RootCerts::new_with_certs(&[certificate])).build();
    ureq::Agent::config_builder().tls_config(tls).timeout_global(Some(Duration::from_secs(20))).build().new_agent()
}

#[test]
fn a_certificate_that_is_replaced_is_used_without_a_restart() {
    let sandbox = Sandbox::new(
        "catalogue: things\nsources:\n  list: { format: csv, as_of: meta.received, into: thing }\ncollections:\n  thing: { key: id, fields: { id: { type: text, path: id } } }\n",
    );
    sandbox.import(&[&sandbox.write_file("list.csv", "id\nt1\n")]);
    let (first, second) = (Authority::new("first").unwrap(), Authority::new("second").unwrap());
    let put = |authority: &Authority| {
        let identity = authority.sign("stook", &["127.0.0.1"], Validity::Now).unwrap();
        (sandbox.write_file("server.crt", identity.certificate), sandbox.write_file("server.key", identity.key))
    };
    let (certificate, key) = put(&first);
    sandbox.run(&["serve", "--tls-cert", &certificate]).exits(64).stderr_contains(&["--tls-key"]);
    sandbox.run(&["serve", "--tls-cert", &certificate, "--tls-key", &certificate]).exits(1).stderr_contains(&["server.crt", "key", "PEM"]);

    let mut child = sandbox.command(&["serve", "--listen", "127.0.0.1:0", "--tls-cert", &certificate, "--tls-key", &key]).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let address = line.split("https://").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("it serves HTTPS").to_owned();
    let log = Arc::new(Mutex::new(String::new()));
    let writer = log.clone();
    std::thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(|line| writer.lock().unwrap().push_str(&(line + "\n"))));
    let wait_for = |words: &str| {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !log.lock().unwrap().contains(words) {
            assert!(Instant::now() < deadline, "{words:?} is missing in {}", log.lock().unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let get = |authority: &Authority| {
        let answer = client(authority).get(format!("https://{address}/v1/main/thing/t1")).call();
        answer.map(|mut answer| answer.body_mut().read_to_string().unwrap()).map_err(|error| error.to_string())
    };
    assert!(get(&first).unwrap().contains("t1"));
    assert!(get(&second).is_err());

    // a peer without encryption gets nothing, and does not disturb the others
    let mut plain = std::net::TcpStream::connect(&address).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1"), "{answer:?}");

    // what cannot be used is reported once, and the former certificate goes on
    sandbox.write_file("server.crt", "no certificate");
    wait_for("the former certificate stays in use");
    assert!(get(&first).is_ok());
    put(&second);
    wait_for("read again");
    assert!(get(&second).unwrap().contains("t1"));
    assert!(get(&first).is_err());
    child.kill().and_then(|()| child.wait()).unwrap();
}
