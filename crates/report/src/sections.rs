//! Reports: sections of text, tables and charts, written as text, as Markdown or as HTML.

use serde::Serialize;
use std::fmt::Write as _;

/// A report.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// The title.
    pub title: String,
    /// Its parts.
    pub sections: Vec<Section>,
}

/// A part of a report.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Section {
    /// The title.
    pub title: String,
    /// Paragraphs of text.
    pub words: Vec<String>,
    /// A table.
    pub table: Option<ReportTable>,
    /// A chart, as SVG.
    pub picture: Option<String>,
}

/// A table.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ReportTable {
    /// Headings of columns. The first `names` columns are left-aligned, the others right-aligned.
    pub headings: Vec<String>,
    /// Number of columns with names.
    pub names: usize,
    /// Cells.
    pub rows: Vec<Vec<String>>,
}

impl ReportTable {
    /// Creates a table without rows.
    pub fn new(names: usize, headings: &[&str]) -> Self {
        Self { headings: headings.iter().map(|heading| (*heading).to_owned()).collect(), names, rows: Vec::new() }
    }

    /// Adds columns with figures of another system, and the comparison with them, to rows that have such figures.
    pub(crate) fn add_reported_columns(&mut self, by: &str, reported: Vec<Option<[String; 2]>>) {
        if reported.iter().all(Option::is_none) {
            return;
        }
        self.headings.extend([by.to_owned(), "beside it".into()]);
        for (row, reported) in self.rows.iter_mut().zip(reported) {
            row.extend(reported.unwrap_or_default());
        }
    }
}

/// Formats seconds in a suitable unit.
pub fn time(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 0.001 => format!("{:.0} us", seconds * 1e6),
        seconds if seconds < 0.01 => format!("{:.2} ms", seconds * 1e3),
        seconds if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{seconds:.2} s"),
    }
}

/// Formats a number with about three digits.
pub(crate) fn number(value: f64) -> String {
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$}")
}

impl Report {
    /// Formats it for a terminal: text and tables.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n", self.title);
        for section in &self.sections {
            if !section.words.is_empty() || section.table.is_some() {
                out.push('\n');
                if !section.title.is_empty() {
                    let _ = writeln!(out, "{}", section.title);
                }
            }
            for words in &section.words {
                let _ = writeln!(out, "{words}");
            }
            if let Some(table) = &section.table {
                out.push_str(&table.text());
            }
        }
        out
    }

    /// Formats it as Markdown. Charts are separate files; `picture` returns the name of the file by position.
    pub fn markdown(&self, picture: &dyn Fn(usize) -> Option<String>) -> String {
        let mut out = format!("# {}\n", self.title);
        for (index, section) in self.sections.iter().enumerate() {
            if !section.title.is_empty() {
                let _ = write!(out, "\n## {}\n", section.title);
            }
            for words in &section.words {
                let _ = write!(out, "\n{words}\n");
            }
            if let Some(table) = &section.table {
                let _ = write!(out, "\n{}", table.markdown());
            }
            if let Some(name) = section.picture.as_ref().and_then(|_| picture(index)) {
                let _ = write!(out, "\n![{}]({name})\n", section.title);
            }
        }
        out
    }

    /// Formats it as one HTML page that contains its charts.
    pub fn html(&self) -> String {
        let mut out = format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{0}</title><style>{STYLE}</style><h1>{0}</h1>\n",
            escaped(&self.title)
        );
        for section in &self.sections {
            out.push_str("<section>");
            if !section.title.is_empty() {
                let _ = write!(out, "<h2>{}</h2>", escaped(&section.title));
            }
            for words in &section.words {
                let _ = write!(out, "<p>{}</p>", escaped(words));
            }
            if let Some(table) = &section.table {
                out.push_str(&table.html());
            }
            out.push_str(section.picture.as_deref().unwrap_or_default());
            out.push_str("</section>\n");
        }
        out.push_str("</html>\n");
        out
    }
}

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:64rem;padding:0 1rem;color:#1b1f24;background:#fff}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums;display:block;overflow-x:auto}\
td,th{padding:.2rem .7rem;border-bottom:1px solid #d8dee4;text-align:right}td.n,th.n{text-align:left}svg{max-width:100%;height:auto}\
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}td,th{border-color:#30363d}}";

/// Escapes text for HTML and SVG.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl ReportTable {
    fn text(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row.get(column).map_or(0, |cell| cell.chars().count()));
            cells.chain([self.headings[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.headings.len()).map(width).collect();
        let line = |cells: &[String]| {
            let cells = cells.iter().zip(&widths).enumerate();
            let padded = cells.map(|(index, (cell, width))| if index < self.names { format!("{cell:<width$}") } else { format!("{cell:>width$}") });
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
        };
        let mut out = line(&self.headings);
        let rule: usize = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        out.push_str(&"─".repeat(rule));
        out.push('\n');
        self.rows.iter().for_each(|row| out.push_str(&line(row)));
        out
    }

    /// Formats it as Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>().join(" | "));
        let rules: Vec<String> = (0..self.headings.len()).map(|index| if index < self.names { "---".into() } else { "---:".into() }).collect();
        let mut out = line(&self.headings) + &line(&rules);
        self.rows.iter().for_each(|row| out.push_str(&line(row)));
        out
    }

    fn html(&self) -> String {
        let class = |index: usize| if index < self.names { " class=\"n\"" } else { "" };
        let line = |cells: &[String], tag: &str| {
            let cells = cells.iter().enumerate().map(|(index, cell)| format!("<{tag}{}>{}</{tag}>", class(index), escaped(cell)));
            format!("<tr>{}</tr>", cells.collect::<String>())
        };
        let rows: String = self.rows.iter().map(|row| line(row, "td")).collect();
        format!("<table>{}{rows}</table>", line(&self.headings, "th"))
    }
}
