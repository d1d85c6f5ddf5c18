//! What a test says that cannot run here. It passes then, but is counted: where `STOOK_TEST_SKIPPED` names a file, a line for each
//! is added, from which `make test` makes its last line.
//!
//! With `STOOK_TEST_REQUIRE=1`, as continuous integration sets it, a test for which something is [`missing`] that can be installed fails
//! instead: nothing is left out there unseen.

use std::io::Write;

/// A server, a reference implementation, a browser or data that can be had is not here.
///
/// # Panics
/// Where it is required.
#[track_caller]
pub fn missing(reason: &str) {
    assert!(!is_required(), "STOOK_TEST_REQUIRE is set, but {reason}");
    left_out(reason);
}

/// This machine cannot do what a test needs, or the test needs what is no part of the project: it is left out wherever it runs.
pub fn left_out(reason: &str) {
    println!("skipped: {reason}");
    let Some(file) = std::env::var_os("STOOK_TEST_SKIPPED") else { return };
    let program = std::env::current_exe().ok().and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).unwrap_or_default();
    // cargo adds a hash
    let program = program.rsplit_once('-').map_or(program.as_str(), |(name, _)| name).to_owned();
    let thread = std::thread::current();
    let line = report_line(&program, thread.name().unwrap_or("main"), reason);
    // one write for each line: other tests write to the same file
    let written = std::fs::File::options().create(true).append(true).open(&file).and_then(|mut file| file.write_all(line.as_bytes()));
    assert!(written.is_ok(), "{} cannot be written: {written:?}", file.display());
}

/// A test by the program and its own name, and why it was left out.
fn report_line(program: &str, test: &str, reason: &str) -> String {
    format!("{program} {test}\t{}\n", reason.replace(['\n', '\t'], " "))
}

fn is_required() -> bool {
    is_required_by(std::env::var("STOOK_TEST_REQUIRE").ok().as_deref())
}

fn is_required_by(value: Option<&str>) -> bool {
    value.is_some_and(|value| !matches!(value, "" | "0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_required_unless_the_variable_is_set() {
        assert_eq!([None, Some(""), Some("0"), Some("1"), Some("yes")].map(is_required_by), [false, false, false, true, true]);
    }

    #[test]
    fn a_skipped_test_is_reported_in_one_line() {
        assert_eq!(report_line("pages", "signs_in", "no\nbrowser\there"), "pages signs_in\tno browser here\n");
    }
}
