//! Output of commands: text, numbers and tables for people, and output for programs.

use serde_json::Value as Json;
use std::io::{self, IsTerminal, Write};

/// Whether errors may be coloured.
pub fn colours() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Formats an error; those of definitions and queries have a first line of their own.
pub fn failure(message: &str) -> String {
    if message.contains("error") && message.contains("-->") { message.to_owned() } else { format!("stook: {message}") }
}

/// Prints a line. If the reader has closed the pipe, the command continues as usual.
macro_rules! say {
    ($($words:tt)*) => { $crate::output::say(format_args!($($words)*)) };
}

/// Prints a line for `say!`.
pub fn say(words: std::fmt::Arguments<'_>) {
    match writeln!(io::stdout(), "{words}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("{}", failure(&format!("cannot write output: {error}")));
            std::process::exit(1);
        }
        _ => {}
    }
}

/// Returns standard output for commands that only read and print: if the reader closes the pipe (`| head`), the program exits with success.
pub fn stream() -> impl Write {
    io::BufWriter::new(OutputStream(io::stdout()))
}

struct OutputStream(io::Stdout);

impl OutputStream {
    fn read_on<T>(done: io::Result<T>) -> io::Result<T> {
        if done.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            std::process::exit(0);
        }
        done
    }
}

impl Write for OutputStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::read_on(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Self::read_on(self.0.flush())
    }
}

/// Formats 1234567 as 1 234 567.
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// Formats "1 record", "2 records".
pub fn count(how_many: u64, what: &str) -> String {
    format!("{} {what}{}", number(how_many), if how_many == 1 { "" } else { "s" })
}

/// Formats bytes in a suitable unit.
pub fn bytes(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[unit]) }
}

/// Formats a duration in a suitable unit.
pub fn seconds(duration: std::time::Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 0.001 {
        format!("{:.0} µs", seconds * 1e6)
    } else if seconds < 1.0 {
        format!("{:.1} ms", seconds * 1e3)
    } else if seconds < 120.0 {
        format!("{seconds:.1} s")
    } else {
        format!("{}:{:02} min", duration.as_secs() / 60, duration.as_secs() % 60)
    }
}

/// A text without control characters, which would move the cursor of a terminal.
pub fn clean(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// Formats columns under their headings. Long cells are shortened to the width of the terminal, if the output is one.
pub fn table(headings: &[&str], rows: &[Vec<String>], right_aligned: &[bool]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| clean(cell)).collect()).collect();
    table_of_clean(headings, &rows, right_aligned)
}

/// The same for cells without control characters other than those that style them.
pub fn table_of_clean(headings: &[&str], rows: &[Vec<String>], right_aligned: &[bool]) -> String {
    let width = console::measure_text_width;
    let mut widths: Vec<usize> = headings.iter().map(|heading| width(heading)).collect();
    for row in rows {
        for (cell, widest) in row.iter().zip(&mut widths) {
            *widest = (*widest).max(width(cell));
        }
    }
    if std::io::stdout().is_terminal() {
        let available_width = terminal_width().saturating_sub(2 * widths.len().saturating_sub(1));
        // shorten the widest columns first
        while widths.iter().sum::<usize>() > available_width && widths.iter().any(|widest| *widest > 8) {
            if let Some(widest) = widths.iter_mut().max() {
                *widest -= 1;
            }
        }
    }
    let format_row = |cells: &[String]| {
        let mut out = String::new();
        for (index, cell) in cells.iter().enumerate() {
            let column_width = widths[index];
            let shown = console::truncate_str(cell, column_width, "…");
            let padding = " ".repeat(column_width - width(&shown));
            let is_right_aligned = right_aligned.get(index).copied().unwrap_or(false);
            out.push_str(&if is_right_aligned { format!("{padding}{shown}") } else { format!("{shown}{padding}") });
            out.push_str("  ");
        }
        out.trim_end().to_owned()
    };
    let names: Vec<String> = headings.iter().map(|heading| (*heading).to_owned()).collect();
    let rules: Vec<String> = widths.iter().map(|column_width| "─".repeat(*column_width)).collect();
    let mut lines = vec![format_row(&names), format_row(&rules)];
    lines.extend(rows.iter().map(|row| format_row(row)));
    lines.join("\n")
}

fn terminal_width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.unwrap_or_else(|| console::Term::stdout().size().1.into())
}

/// Formats JSON as YAML, in block style.
pub fn yaml(json: &Json) -> String {
    let mut out = String::new();
    write_yaml(json, 0, &mut out);
    out
}

fn write_yaml(json: &Json, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match json {
        Json::Object(entries) => {
            for (key, value) in entries {
                out.push_str(&format!("{indent}{}:", yaml_text(key)));
                write_nested(value, depth, out);
            }
        }
        Json::Array(items) => {
            for item in items {
                out.push_str(&format!("{indent}-"));
                match item {
                    Json::Object(entries) if !entries.is_empty() => {
                        let mut inner = String::new();
                        write_yaml(item, depth + 1, &mut inner);
                        out.push_str(&format!(" {}", inner.trim_start()));
                    }
                    _ => write_nested(item, depth, out),
                }
            }
        }
        scalar => out.push_str(&format!("{indent}{}\n", yaml_scalar(scalar))),
    }
}

fn write_nested(value: &Json, depth: usize, out: &mut String) {
    let empty = matches!(value, Json::Object(entries) if entries.is_empty()) || matches!(value, Json::Array(items) if items.is_empty());
    if !empty && matches!(value, Json::Object(_) | Json::Array(_)) {
        out.push('\n');
        write_yaml(value, depth + 1, out);
    } else {
        out.push_str(&format!(" {}\n", yaml_scalar(value)));
    }
}

fn yaml_scalar(value: &Json) -> String {
    match value {
        Json::String(text) => yaml_text(text),
        other => other.to_string(),
    }
}

/// Writes a text plainly if every YAML reader takes it for this text, else quoted as JSON.
fn yaml_text(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_alphabetic())
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && text.chars().all(|c| !c.is_control() && !matches!(c, '"' | '\'' | '{' | '}' | '[' | ']' | '&' | '*' | '!' | '|' | '>' | '%' | '@' | '`'))
        && !matches!(text.to_ascii_lowercase().as_str(), "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n");
    if plain { text.to_owned() } else { Json::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_sizes_read_well() {
        assert_eq!(number(1_234_567), "1 234 567");
        assert_eq!(bytes(4_180_282), "4.2 MB");
        assert_eq!(count(1, "record"), "1 record");
    }

    #[test]
    fn yaml_keeps_blanks_and_what_looks_like_other_types() {
        let json = serde_json::json!({"key": "n  5 ", "flag": "no", "list": ["a", {"b": 1}], "empty": []});
        assert_eq!(yaml(&json), "key: \"n  5 \"\nflag: \"no\"\nlist:\n  - a\n  - b: 1\nempty: []\n");
    }
}
