//! `docs/figures.md`, as a whole: a heading, and for each group what is measured (`benches/figures/GROUP.md`), the run, and its lines. A
//! run of a whole group replaces that group's section; nothing in the file is written by hand, and no line of a run is left out.

use crate::process::Result;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Groups in the order of their sections, with their headings.
pub const SECTIONS: [(&str, &str); 9] = [
    ("import", "Imports"),
    ("postgres", "PostgreSQL and the queue"),
    ("sentinel", "Deliveries of satellites"),
    ("serve", "The HTTP API"),
    ("machines", "Machines and tags"),
    ("datasets", "Datasets"),
    ("datasets-large", "Datasets, ten times as many"),
    ("lab", "The lab"),
    ("pages", "Pages"),
];

const HEAD: &str = "# Figures\n\n\
    Written by `stook-bench GROUP --write docs/figures.md`, a section by each whole run of its group, none of its lines chosen. Run them yourself: \
    every line names what was driven and its peer or limit of the same run, with threads and durability. Tables are of runs on different machines: \
    what compares are ratios.\n\n\
    `judged` is the number that must reach the bar, the median of the runs; `spread` is half the distance between its least and its greatest, as a \
    share of it. `SHORT` is below its bar, however noisy. `NOISY` is above its bar, but its spread reaches below it. One run has no spread.\n";

/// A run of a whole group.
pub struct Run {
    started: Instant,
    /// When and where, in words.
    description: String,
}

impl Run {
    /// It begins now.
    pub fn begin(root: &Path) -> Self {
        let date = output(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"]));
        Self { started: Instant::now(), description: format!("{date}, {}, {}", machine(), commit(root)) }
    }

    /// The sentence that says which run it was.
    pub fn description(&self, group: &str) -> String {
        format!("Run of `stook-bench {group}`: {}, {}.", self.description, minutes(self.started.elapsed()))
    }
}

fn minutes(time: Duration) -> String {
    format!("{} min {} s", time.as_secs() / 60, time.as_secs() % 60)
}

/// What a program prints, or nothing.
fn output(command: &mut Command) -> String {
    let printed = command.output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&printed).trim().to_owned()
}

/// The commit that is measured, and whether something beside it was.
fn commit(root: &Path) -> String {
    let git = |words: &[&str]| output(Command::new("git").arg("-C").arg(root).args(words));
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    let changed = if git(&["status", "--porcelain", "--untracked-files=no"]).is_empty() { "" } else { " with changes" };
    if commit.is_empty() { "of no commit".to_owned() } else { format!("commit {commit}{changed}") }
}

/// Processors, memory and system of this machine.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.split_once(':').map(|(_, value)| value.trim().to_owned()));
        line.unwrap_or_default()
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let model = field(&read("/proc/cpuinfo"), "model name");
    let memory: u64 = field(&read("/proc/meminfo"), "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0);
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("{cores} cores ({model}), {:.0} GB, Linux {}", memory as f64 / (1 << 20) as f64, kernel.trim())
}

/// The file with another section of one group; those of others stay.
pub fn with_section(old: &str, group: &str, section: &str) -> String {
    let mut text = HEAD.to_owned();
    for (name, _) in SECTIONS {
        let section_text = if name == group { Some(section.to_owned()) } else { section_of(old, name) };
        if let Some(section_text) = section_text {
            text.push_str(&format!("\n{}\n{}\n{}\n", begin(name), section_text.trim_matches('\n'), end(name)));
        }
    }
    text
}

/// A group's section: its heading, what is measured, which run it was, and its lines.
pub fn section(heading: &str, prose: &str, description: &str, lines: &[String]) -> String {
    format!("## {heading}\n\n{}\n\n{description}\n\n```\n{}\n```", prose.trim(), lines.join("\n"))
}

fn begin(group: &str) -> String {
    format!("<!-- {group}: written by stook-bench -->")
}

fn end(group: &str) -> String {
    format!("<!-- end of {group} -->")
}

fn section_of(text: &str, group: &str) -> Option<String> {
    let (_, rest) = text.split_once(&begin(group))?;
    rest.split_once(&end(group)).map(|(section, _)| section.to_owned())
}

/// Writes the section of a group that has run whole.
///
/// # Errors
/// When the file cannot be read or written, or there is no such group.
pub fn write(file: &Path, root: &Path, group: &str, description: &str, lines: &[String]) -> Result<()> {
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    let (_, heading) =
        SECTIONS.iter().find(|(name, _)| *name == group).ok_or_else(|| format!("`{group}` is part of a group: only whole runs are written"))?;
    let prose = root.join("benches/figures").join(format!("{group}.md"));
    let prose = std::fs::read_to_string(&prose).map_err(|error| format!("{}: {error}", prose.display()))?;
    let old = match std::fs::read_to_string(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read.map_err(failed)?,
    };
    std::fs::write(file, with_section(&old, group, &section(heading, &prose, description, lines))).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_replaces_its_own_section_and_leaves_the_others() {
        let first = with_section("", "serve", &section("The HTTP API", "What.", "Run one.", &["line one".into()]));
        let both = with_section(&first, "import", &section("Imports", "What else.", "Run two.", &["line two".into(), "line three".into()]));
        assert!(both.find("line two") < both.find("line one"), "sections have an order: {both}");
        let again = with_section(&both, "serve", &section("The HTTP API", "What.", "Run three.", &["line four".into()]));
        for unchanged in ["# Figures", "Run two.", "line two\nline three", "Run three.", "line four"] {
            assert_eq!(again.matches(unchanged).count(), 1, "{unchanged} in {again}");
        }
        assert!(!again.contains("Run one.") && !again.contains("line one"), "{again}");
        assert_eq!(with_section(&again, "serve", &section_of(&again, "serve").unwrap()), again, "it is stable");
    }

    #[test]
    fn the_file_of_the_project_is_as_it_would_be_written() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = std::fs::read_to_string(root.join("docs/figures.md")).unwrap();
        for (group, heading) in SECTIONS {
            let section = section_of(&text, group).unwrap_or_else(|| panic!("there is no section of {group}"));
            assert!(section.starts_with(&format!("\n## {heading}\n")), "{section}");
            let prose = std::fs::read_to_string(root.join("benches/figures").join(format!("{group}.md"))).unwrap();
            assert!(section.contains(prose.trim()), "what is measured by {group} is not said as in benches/figures");
            assert_eq!(with_section(&text, group, &section), text, "something beside the sections was changed by hand");
        }
    }

    #[test]
    fn parts_of_groups_are_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("figures.md");
        assert!(write(&file, folder.path(), "overload", "Run.", &[]).unwrap_err().contains("only whole runs"));
        assert!(!file.exists());
    }
}
