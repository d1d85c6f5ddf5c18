//! The tree of pages: their kinds, their order, and the links between them.

use crate::files::{DEFINITIONS, PAGES, PICTURES};
use crate::markdown::{Heading, Section, render};
use crate::search::Index;
use maud::html;
use std::collections::HashMap;
use std::sync::OnceLock;

/// The kind of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// To follow once, from the beginning.
    Tutorial,
    /// To do one thing.
    HowTo,
    /// To look something up.
    Reference,
    /// To understand why.
    Explanation,
}

impl Kind {
    /// All kinds, in their order.
    pub const ALL: [Self; 4] = [Self::Tutorial, Self::HowTo, Self::Reference, Self::Explanation];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tutorial => "Tutorial",
            Self::HowTo => "How to",
            Self::Reference => "Reference",
            Self::Explanation => "Explanation",
        }
    }

    /// Returns what its pages are for.
    #[must_use]
    pub const fn purpose(self) -> &'static str {
        match self {
            Self::Tutorial => "Follow it once, from the first file to the first edit.",
            Self::HowTo => "Do one thing, with commands that can be copied.",
            Self::Reference => "Look something up.",
            Self::Explanation => "Know why it is so, and how fast it is.",
        }
    }
}

/// The pages of the top folder, in their order; other pages are references after these.
const TOP: [(&str, Kind); 8] = [
    ("tutorial", Kind::Tutorial),
    ("definition", Kind::Reference),
    ("query", Kind::Reference),
    ("api", Kind::Reference),
    ("output", Kind::Reference),
    ("glossary", Kind::Reference),
    ("scaling", Kind::Explanation),
    ("figures", Kind::Explanation),
];

/// Returns the kind of a page, and its position among those of its kind.
fn kind_and_position(path: &str) -> (Kind, usize) {
    let folder = path.split_once('/').map_or(path, |(folder, _)| folder);
    match (TOP.iter().position(|(top_path, _)| *top_path == path), folder) {
        (Some(position), _) => (TOP[position].1, position),
        (None, "howto") => (Kind::HowTo, TOP.len()),
        (None, "decisions" | "measurements") => (Kind::Explanation, TOP.len()),
        (None, "examples") => (Kind::Reference, TOP.len() + 1),
        (None, _) => (Kind::Reference, TOP.len()),
    }
}

/// How pages are addressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address {
    /// `/docs/PATH` of a server.
    Server,
    /// `PATH.html` in a folder, by relative links.
    Folder,
}

impl Address {
    /// Returns the link from one page to another; the path of the first page is `""`.
    #[must_use]
    pub fn page(self, from: &str, to: &str) -> String {
        match self {
            Self::Server if to.is_empty() => "/docs".into(),
            Self::Server => format!("/docs/{to}"),
            Self::Folder if to.is_empty() => format!("{}index.html", path_to_root(from)),
            Self::Folder => format!("{}{to}.html", path_to_root(from)),
        }
    }

    /// Returns the link from a page to another file.
    #[must_use]
    pub fn file(self, from: &str, to: &str) -> String {
        match self {
            Self::Server => format!("/docs/{to}"),
            Self::Folder => format!("{}{to}", path_to_root(from)),
        }
    }
}

/// Returns the relative path from the folder of a page to that of the first page.
fn path_to_root(from: &str) -> String {
    "../".repeat(from.matches('/').count())
}

/// A page.
#[derive(Debug)]
pub struct Page {
    /// Its path, such as `howto/tag-records`; that of a `README.md` is its folder.
    pub path: String,
    /// The file it was made from, such as `docs/howto/tag-records.md`.
    pub file: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Its title.
    pub title: String,
    /// The first sentence of its text.
    pub summary: String,
    /// Its HTML without the title.
    pub html: String,
    /// Its headings, in their order; the title is the first.
    pub headings: Vec<Heading>,
    /// Its sections, for search.
    pub sections: Vec<Section>,
    /// All anchors that links may use.
    pub anchors: Vec<String>,
}

impl Page {
    /// Returns the page of its folder, if there is one.
    #[must_use]
    pub fn parent<'a>(&self, docs: &'a Docs) -> Option<&'a Page> {
        self.path.split_once('/').and_then(|(folder, _)| docs.page(folder))
    }
}

/// All pages.
#[derive(Debug)]
pub struct Docs {
    pages: Vec<Page>,
    by_path: HashMap<String, usize>,
    broken: Vec<String>,
    address: Address,
    /// Made by the first search.
    index: OnceLock<Index>,
}

impl Docs {
    /// Makes all pages, with links in the form of `address`.
    #[must_use]
    pub fn new(address: Address) -> Self {
        let mut pages = Vec::new();
        let (mut broken, mut link_targets): (Vec<String>, Vec<(&str, String, String)>) = Default::default();
        for (file, text) in PAGES {
            let path = path_of(file);
            let rendered = render(text, |to| match Target::from_link(file, to) {
                Target::Elsewhere => Some(to.to_owned()),
                Target::Page(page, anchor) => {
                    link_targets.push((file, page.clone(), anchor.clone()));
                    let of_page = if page == path && !anchor.is_empty() { String::new() } else { address.page(&path, &page) };
                    Some(if anchor.is_empty() { of_page } else { format!("{of_page}#{anchor}") })
                }
                Target::Picture(picture) => Some(address.file(&path, picture)),
                Target::Nowhere => {
                    broken.push(format!("{file}: {to} is neither a page nor a picture of the documentation"));
                    None
                }
            });
            let title = rendered.headings.first().map_or_else(|| path.clone(), |heading| heading.text.clone());
            pages.push(Page {
                kind: kind_and_position(&path).0,
                path,
                file,
                title,
                summary: rendered.summary,
                html: rendered.html,
                headings: rendered.headings,
                sections: rendered.sections,
                anchors: rendered.anchors,
            });
        }
        pages.extend(DEFINITIONS.iter().map(|(file, text)| definition(file, text)));
        pages.sort_by_cached_key(|page| (kind_and_position(&page.path), page.path.clone()));
        let by_path: HashMap<String, usize> = pages.iter().enumerate().map(|(index, page)| (page.path.clone(), index)).collect();
        for (file, page, anchor) in link_targets {
            match by_path.get(&page).and_then(|index| pages.get(*index)) {
                None => broken.push(format!("{file}: there is no page {page}")),
                Some(page) if !anchor.is_empty() && !page.anchors.contains(&anchor) => broken.push(format!("{file}: {} has no #{anchor}", page.file)),
                Some(_) => {}
            }
        }
        Self { pages, by_path, broken, address, index: OnceLock::new() }
    }

    pub(crate) fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::new(&self.pages))
    }

    /// Returns all pages, by kind and in reading order.
    #[must_use]
    pub fn pages(&self) -> &[Page] {
        &self.pages
    }

    /// Returns the page of a path.
    #[must_use]
    pub fn page(&self, path: &str) -> Option<&Page> {
        self.by_path.get(path).and_then(|index| self.pages.get(*index))
    }

    /// Iterates over the pages of a folder, without the folder's own page.
    pub fn pages_in<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a Page> {
        self.pages.iter().filter(move |page| page.path.split_once('/').is_some_and(|(parent_folder, _)| parent_folder == folder))
    }

    /// Returns the pages before and after one.
    #[must_use]
    pub fn neighbours(&self, path: &str) -> (Option<&Page>, Option<&Page>) {
        match self.by_path.get(path) {
            Some(index) => (index.checked_sub(1).and_then(|previous| self.pages.get(previous)), self.pages.get(index + 1)),
            None => (None, None),
        }
    }

    /// Returns the page for a path with the name of a file: `query.md`, `query.html`, `howto/` or `decisions/README.md`.
    #[must_use]
    pub fn page_of_file_name(&self, file_path: &str) -> Option<&Page> {
        let file_path = file_path.trim_end_matches('/');
        let plain = file_path.strip_suffix(".md").or_else(|| file_path.strip_suffix(".html")).unwrap_or(file_path);
        let plain = plain.strip_suffix("/README").or_else(|| plain.strip_suffix("/index")).unwrap_or(plain);
        self.page(&plain.to_lowercase())
    }

    /// Returns links whose destination does not exist, each with its file.
    #[must_use]
    pub fn broken_links(&self) -> &[String] {
        &self.broken
    }

    /// Returns how these pages are addressed.
    #[must_use]
    pub const fn address(&self) -> Address {
        self.address
    }
}

/// Returns the picture at a path such as `measurements/tags-100k-0.svg`, as SVG.
#[must_use]
pub fn picture(path: &str) -> Option<&'static str> {
    pictures().find(|(known, _)| *known == path).map(|(_, text)| text)
}

/// Iterates over all pictures: path and SVG.
pub fn pictures() -> impl Iterator<Item = (&'static str, &'static str)> {
    PICTURES.iter().map(|(file, text)| (file.strip_prefix("docs/").unwrap_or(file), *text))
}

/// Returns the path of a page: `docs/howto/x.md` is the page `howto/x`, `docs/decisions/README.md` is `decisions`, `examples/x/catalogue.yaml` is
/// `examples/x`.
fn path_of(file: &str) -> String {
    let path = file.strip_prefix("docs/").unwrap_or(file);
    let path = path.strip_suffix("/README.md").or_else(|| path.strip_suffix(".md")).or_else(|| path.strip_suffix("/catalogue.yaml"));
    path.unwrap_or(file).to_owned()
}

/// Makes a page of an example's definition.
fn definition(file: &'static str, text: &str) -> Page {
    let path = path_of(file);
    let title = format!("Example: {}", path.rsplit('/').next().unwrap_or_default());
    let shown = html! {
        p { code { (file) } }
        pre tabindex="0" { code.language-yaml { (text) } }
    };
    let comment: Vec<&str> = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim).collect();
    Page {
        path,
        file,
        kind: Kind::Reference,
        summary: comment.join(" "),
        html: shown.into_string(),
        headings: vec![Heading { level: 1, text: title.clone(), anchor: "definition".into() }],
        sections: vec![Section { anchor: "definition".into(), title: title.clone(), under: None, text: text.to_owned() }],
        anchors: vec!["definition".into()],
        title,
    }
}

/// The destination of a link.
enum Target {
    /// A page, by its path, and an anchor or none.
    Page(String, String),
    /// A picture, by its path.
    Picture(&'static str),
    /// An absolute address outside of the documentation.
    Elsewhere,
    Nowhere,
}

impl Target {
    fn from_link(file: &str, to: &str) -> Self {
        if to.contains("://") || to.starts_with("mailto:") {
            return Self::Elsewhere;
        }
        let (path, anchor) = to.split_once('#').unwrap_or((to, ""));
        let mut parts: Vec<&str> = file.split('/').collect();
        if !path.is_empty() {
            parts.pop();
        }
        for part in path.split('/') {
            match part {
                ".." => _ = parts.pop(),
                "" | "." => {}
                part => parts.push(part),
            }
        }
        let file = parts.join("/");
        let readme = format!("{file}/README.md");
        let is_page = |file: &str| PAGES.iter().chain(DEFINITIONS).any(|(known, _)| *known == file);
        match PICTURES.iter().find(|(known, _)| *known == file) {
            Some((picture, _)) => Self::Picture(picture.strip_prefix("docs/").unwrap_or(picture)),
            None if is_page(&file) => Self::Page(path_of(&file), anchor.to_owned()),
            None if is_page(&readme) => Self::Page(path_of(&readme), anchor.to_owned()),
            None => Self::Nowhere,
        }
    }
}
