//! Packages: what `make packages` makes installs, runs as a service and can be removed in a clean root of Debian.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use stook_testkit::skip::missing;
use stook_tests::{repository, stook};

#[test]
fn packages_install_run_and_can_be_removed_in_a_clean_root() {
    let Some(clean) = std::env::var_os("STOOK_TEST_ROOT").filter(|clean| Path::new(clean).join("etc/debian_version").exists()) else {
        return missing("no clean root of Debian (make clean-root, as root)");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let run = |script: &str, arguments: [&OsStr; 2]| {
        let output = Command::new(repository().join(script)).args(arguments).output().expect("the script runs");
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{script}:\n{text}");
        text
    };
    run("packaging/build.sh", [stook().as_ref(), folder.path().as_ref()]);
    let held = run("tests/packages.sh", [folder.path().as_ref(), &clean]);
    assert!(held.lines().filter(|line| line.starts_with("holds: ")).count() >= 11, "{held}");
}
