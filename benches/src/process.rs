//! Programs run to their end, with their time and memory.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Results of benches; errors are for people.
pub type Result<T> = std::result::Result<T, String>;

/// A program that has run to its end.
pub struct Ran {
    /// From start to exit.
    pub seconds: f64,
    /// Standard output.
    pub output: String,
    /// Largest resident memory in MB.
    pub memory: f64,
}

/// Runs a program to its end.
pub fn execute(program: &Path, arguments: &[&str]) -> Result<Ran> {
    let failed = |reason: String| format!("{} {}: {reason}", program.display(), arguments.join(" "));
    let started = Instant::now();
    let child =
        Command::new(program).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|error| failed(error.to_string()))?;
    // the kernel keeps the largest resident size while the process lives: look at it until it ends
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut memory: f64 = 0.0;
    // what it prints is taken meanwhile: a full pipe would stop it
    let ended = std::thread::spawn(move || child.wait_with_output());
    while !ended.is_finished() {
        if let Ok(text) = std::fs::read_to_string(&status) {
            let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
            memory = memory.max(peak.unwrap_or(0.0) / 1024.0);
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let seconds = started.elapsed().as_secs_f64();
    let output = ended.join().map_err(|_| failed("it cannot be waited for".into()))?.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(Ran { seconds, output: String::from_utf8_lossy(&output.stdout).into_owned(), memory })
}

/// Runs `stook` on a catalogue and its store.
pub fn stook(program: &Path, catalogue: &str, store: &str, words: &[&str]) -> Result<Ran> {
    let command_line: Vec<&str> = ["-C", catalogue, "--store", store].into_iter().chain(words.iter().copied()).collect();
    execute(program, &command_line)
}

/// Removes a store on a file, if there is one.
pub fn remove_store(file: &Path) {
    for end in ["", "-wal", "-shm"] {
        let mut name = file.as_os_str().to_owned();
        name.push(end);
        let _ = std::fs::remove_file(name);
    }
}

/// Records per second, as a program's line of JSON reports it.
pub fn reported_rate(output: &str) -> Result<f64> {
    let line = output.lines().last().unwrap_or_default();
    let json: serde_json::Value = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
    let number = |name: &str| json[name].as_f64().ok_or_else(|| format!("{line} has no {name}"));
    Ok(number("records")? / number("seconds")?)
}

/// Processor seconds of all programs that have run to their end so far.
pub fn children_cpu() -> f64 {
    // fields of a process after its name: state, parent, .. user, system, children's user, children's system, in hundredths
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, after_name)| after_name);
    let field = |index: usize| after_name.split_whitespace().nth(index).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    (field(13) + field(14)) / 100.0
}
