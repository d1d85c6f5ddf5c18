//! Every example of the documentation is run: files are written as they are shown, commands are run in order, and what they print is what
//! the page says they print, but for times, rates and secrets.
//!
//! A page is run in a folder of its own. A fenced block is a file if the paragraph before it names one of its format (`books.csv`); one that
//! begins with `catalogue:` is `catalogue.yaml`, and with "Append" in that paragraph it is added to the end of that. A block of the language `console` has commands after `$` with
//! their output. A line `...` of output stands for any number of lines. `<!-- varies -->` before a block: its output is not compared.
//! `<!-- not run -->` before a block, or in the first lines of a page: it is not run.
//!
//! Where a page speaks of a PostgreSQL server, a private one is started.
//!
//! With `STOOK_TEST_UPDATE=1` pages are changed to show what is printed; lines that differ only by what varies stay, and so does output with
//! a line `...`.

use regex::Regex;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use stook_testkit::postgres::TestServer;
use stook_tests::{repository, stook};

/// A fenced block with what stands before it.
struct Block {
    language: String,
    before: String,
    text: String,
    line: usize,
}

fn blocks(page: &str) -> Vec<Block> {
    let (mut found, mut before, mut open): (Vec<Block>, String, Option<Block>) = (Vec::new(), String::new(), None);
    for (number, line) in page.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => {
                open =
                    Some(Block { language: language.trim().to_owned(), before: std::mem::take(&mut before), text: String::new(), line: number + 1 });
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(block), None) => writeln!(block.text, "{line}").unwrap(),
            (None, None) => writeln!(before, "{line}").unwrap(),
        }
    }
    found
}

/// The file that a block shows, and whether it is added to what is there.
fn file_of(block: &Block) -> Option<(String, bool)> {
    let paragraph = block.before.trim_end().rsplit("\n\n").next().unwrap_or_default();
    if block.language == "yaml" && paragraph.contains("ppend ") {
        return Some(("catalogue.yaml".into(), true));
    }
    if block.text.starts_with("catalogue:") {
        return Some(("catalogue.yaml".into(), false));
    }
    let name = Regex::new(&format!(r"`([\w.-]+\.{})`", block.language)).unwrap();
    name.captures_iter(paragraph).last().map(|found| (found[1].to_owned(), false))
}

/// Commands of a block with the output that is shown.
fn commands(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut is_continued = false;
    for line in text.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => found.push((command.to_owned(), String::new())),
            None if is_continued => write!(found.last_mut().unwrap().0, "\n{line}").unwrap(),
            None => writeln!(found.last_mut().expect("a command comes before its output").1, "{line}").unwrap(),
        }
        is_continued = line.ends_with('\\') && found.last().is_some_and(|(_, output)| output.is_empty());
    }
    found
}

/// Output without what differs from run to run.
fn plain(text: &str, folder: &Path) -> String {
    let mut plain = text.replace(&folder.display().to_string(), "FOLDER");
    for (pattern, instead) in [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", "MOMENT"),
        (r"20(?:2[6-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\dZ?", "MOMENT"),
        (r"\d+(?: \d{3})*(?:\.\d+)? (?:µs|ms|s)\b", "TIME"),
        (r"\([\d ]+/s\)", "(RATE)"),
        // of a backup, which has times in it and is compressed
        (r"tokens, \d+ B\b", "tokens, SIZE"),
        (r"\bstook_[A-Za-z0-9_-]+…?|\b[0-9a-f]{32,}\b", "SECRET"),
        (r#""revision":\d+|"microseconds":[\d.]+|"\d{16}(?:-\d+)?""#, "NUMBER"),
        (r"─+", "─"),
        (r"[ \t]+", " "),
    ] {
        plain = Regex::new(pattern).unwrap().replace_all(&plain, instead).into_owned();
    }
    plain.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Whether output is what is shown, in which a line `...` stands for any lines.
fn fits(shown: &[&str], output: &[&str]) -> bool {
    match (shown, output) {
        ([], []) => true,
        (["...", rest @ ..], _) => (0..=output.len()).any(|skipped| fits(rest, &output[skipped..])),
        ([first, shown @ ..], [output_line, output @ ..]) => first == output_line && fits(shown, output),
        _ => false,
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

const END: &str = "=== end of the command";

/// A command with the output that the page shows, where it is compared.
struct Example {
    line: usize,
    command: String,
    shown: Option<String>,
}

/// The server that pages speak of. Another one, which is the test's own, takes its place.
const SERVER: &str = "postgres://stook@127.0.0.1:5432/postgres";

/// Runs a page; returns what is wrong with it.
fn failed_examples(page: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(page).unwrap();
    if text.lines().take(12).any(|line| line.contains("<!-- not run")) {
        return Vec::new();
    }
    let server = match text.contains(SERVER) {
        true => match TestServer::shared() {
            Some(server) => server.url("postgres"),
            None => return Vec::new(),
        },
        false => SERVER.to_owned(),
    };
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (port, second_port) = (free_port(), free_port());
    let mut script = String::from("set +e\n");
    let mut expected: Vec<Example> = Vec::new();
    for block in blocks(&text) {
        let has_marker = |word: &str| block.before.trim_end().lines().last().is_some_and(|line| line.contains(&format!("<!-- {word}")));
        if has_marker("not run") {
            continue;
        }
        if block.language != "console" {
            if let Some((name, adds)) = file_of(&block) {
                writeln!(script, "cat >{} '{name}' <<'END_OF_FILE'\n{}END_OF_FILE", if adds { ">" } else { "" }, block.text).unwrap();
            }
            continue;
        }
        for (command, output) in commands(&block.text) {
            let replaced = command.replace(":7070", &format!(":{port}")).replace("8000", &format!("{second_port}")).replace(SERVER, &server);
            let served = replaced.replace("stook serve", &format!("stook serve --listen 127.0.0.1:{port}"));
            let replaced = match served.contains('&') || served == replaced {
                true => served,
                false => format!(
                    "{served} > .served 2>&1 &\nfor _ in $(seq 200); do curl -s http://127.0.0.1:{port}/healthz > .ready && break; sleep 0.05; done; cat .served"
                ),
            };
            writeln!(script, "{replaced}\necho '{END}'").unwrap();
            let shown = (!has_marker("varies")).then_some(output);
            expected.push(Example { line: block.line, command, shown });
        }
    }
    let path = format!("{}:{}", stook().parent().unwrap().display(), std::env::var("PATH").unwrap_or_default());
    std::fs::write(root.join(".script"), format!("exec 2>&1\n{script}kill $(jobs -p) 2>/dev/null; wait\n")).unwrap();
    let mut bash = Command::new("timeout");
    bash.args(["-k", "5", "300", "bash", ".script"]).current_dir(&root).env("PATH", path).env("NO_COLOR", "1").env("HOME", &root);
    // scripts use the module of this repository
    bash.env("PYTHONPATH", repository().join("packaging/python/src"));
    for name in ["STOOK_STORE", "STOOK_TOKEN"] {
        bash.env_remove(name);
    }
    let output = bash.stdin(Stdio::null()).output().unwrap();
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let outputs: Vec<&str> = output.split(&format!("{END}\n")).collect();
    let name = page.strip_prefix(repository()).unwrap_or(page).display();
    let mut wrong = Vec::new();
    let (mut updated, updates) = (text.clone(), std::env::var_os("STOOK_TEST_UPDATE").is_some());
    // a command may be there several times: its place is after those before it
    let mut reached = 0;
    for (number, Example { line, command, shown }) in expected.iter().enumerate() {
        let Some(written) = shown else { continue };
        let example = format!("$ {command}\n{written}");
        let begins = updated[reached..].find(&example).map_or(reached, |found| reached + found);
        reached = begins + example.len();
        let shown = &written.replace(":7070", &format!(":{port}"));
        let actual_output = outputs.get(number).copied().unwrap_or("(it was not run)");
        let printed = &actual_output.replace(&server, SERVER);
        let (shown, actual_output) = (plain(shown, &root), plain(&printed.replace(&second_port.to_string(), "8000"), &root));
        if !fits(&shown.lines().collect::<Vec<_>>(), &actual_output.lines().collect::<Vec<_>>()) {
            if updates && !written.lines().any(|line| line == "...") {
                let printed = printed.replace(&format!(":{port}"), ":7070").replace(&second_port.to_string(), "8000");
                let replacement = format!("$ {command}\n{}", merged(written, &printed, &root));
                updated.replace_range(begins..reached, &replacement);
                reached = begins + replacement.len();
            }
            wrong.push(format!("{name}:{line}: $ {command}\nthe page shows\n{shown}\nit prints\n{actual_output}\n"));
        }
    }
    if updated != text {
        std::fs::write(page, updated).unwrap();
    }
    wrong
}

/// What is printed, with lines as they are written where they differ only by what varies.
fn merged(written: &str, printed: &str, folder: &Path) -> String {
    let lines = printed.lines().map(|line| {
        let written_line = written.lines().find(|candidate| plain(candidate, folder) == plain(line, folder));
        written_line.map_or_else(|| line.trim_end().replace(&folder.display().to_string(), "."), str::to_owned)
    });
    lines.map(|line| line + "\n").collect()
}

fn pages(folder: &str) -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = std::fs::read_dir(repository().join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    pages
}

fn assert_examples_hold(pages: &[PathBuf]) {
    assert!(!pages.is_empty());
    let wrong: Vec<String> = pages.iter().flat_map(|page| failed_examples(page)).collect();
    assert!(wrong.is_empty(), "{} examples are not what they show\n\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_tutorial_shows_what_happens() {
    assert_examples_hold(&[repository().join("docs/tutorial.md")]);
}

#[test]
fn the_reference_of_queries_shows_what_happens() {
    assert_examples_hold(&[repository().join("docs/query.md")]);
}

#[test]
fn pages_about_single_tasks_show_what_happens() {
    assert_examples_hold(&pages("docs/howto"));
}

/// Links between pages, and from pages to files, lead somewhere.
#[test]
fn links_between_pages_lead_somewhere() {
    let link = Regex::new(r"\]\(([^)#\s]+)(?:#[^)]*)?\)").unwrap();
    let mut all = [pages("docs"), pages("docs/howto"), pages("docs/decisions")].concat();
    all.extend([repository().join("README.md"), repository().join("ARCHITECTURE.md")]);
    for page in all {
        let text = std::fs::read_to_string(&page).unwrap();
        for found in link.captures_iter(&text).filter(|found| !found[1].contains("://") && !found[1].starts_with('/')) {
            assert!(page.parent().unwrap().join(&found[1]).exists(), "{}: {}", page.display(), &found[1]);
        }
    }
}

/// Files of the repository that pages name, as `crates/store/src/lib.rs`, are there.
#[test]
fn files_that_pages_name_exist() {
    let path = Regex::new(r"`((?:crates|docs|tests|benches|examples)/[\w./-]+)`").unwrap();
    let mut all = [pages("docs"), pages("docs/howto"), pages("docs/decisions")].concat();
    all.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|page| repository().join(page)));
    for example in std::fs::read_dir(repository().join("examples")).unwrap() {
        let example = example.unwrap().path();
        if example.is_dir() {
            all.extend(pages(&example.display().to_string()));
        }
    }
    let mut missing = Vec::new();
    for page in all {
        let text = std::fs::read_to_string(&page).unwrap();
        let named = path.captures_iter(&text).map(|found| found[1].to_owned());
        missing.extend(named.filter(|name| !repository().join(name).exists()).map(|name| format!("{}: {name}", page.display())));
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
