//! The program starts and shows its version. Because of this test, `cargo test --workspace` also builds the program.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use std::process::Command;

#[test]
fn the_program_says_its_version() {
    let output = Command::new(env!("CARGO_BIN_EXE_stook")).arg("--version").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.first(), Some(&concat!("stook ", env!("CARGO_PKG_VERSION"))));
    assert!(lines.len() == 3 && lines[1].starts_with("commit: ") && lines[2].starts_with("features: "), "{text}");
    assert!(output.status.success());
}
