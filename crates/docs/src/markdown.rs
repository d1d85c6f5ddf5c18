//! Converts Markdown to HTML: headings and terms get anchors, comments are left out, links are resolved by the caller, and HTML in a file is not
//! passed on.

use pulldown_cmark::{Alignment, CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};
use std::collections::HashMap;

/// A heading of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// 1 for the title of the page.
    pub level: u8,
    /// Its text without markup.
    pub text: String,
    /// Unique within the page.
    pub anchor: String,
}

/// A searchable section: the text between two headings, or the meaning of one term.
#[derive(Debug, Clone)]
pub struct Section {
    /// Its anchor; that of the title is the anchor of the page's first heading.
    pub anchor: String,
    /// Its heading or term.
    pub title: String,
    /// The heading it is under, unless that is the title of the page.
    pub under: Option<String>,
    /// Its text without markup.
    pub text: String,
}

/// A converted page.
#[derive(Debug, Default)]
pub struct Rendered {
    /// The page's HTML, without its title.
    pub html: String,
    /// All headings in their order.
    pub headings: Vec<Heading>,
    /// All sections in their order.
    pub sections: Vec<Section>,
    /// The first sentence of the first paragraph.
    pub summary: String,
    /// All anchors of headings and terms.
    pub anchors: Vec<String>,
}

/// The state of a conversion.
struct Renderer<'a, L> {
    link: L,
    events: Vec<Event<'a>>,
    page: Rendered,
    anchor_counts: HashMap<String, usize>,
    /// The current table: the alignments of its columns, whether its head is being read, and the position of the cell in its row.
    alignments: Vec<Alignment>,
    is_head: bool,
    cell: usize,
}

/// Converts a Markdown text. `link` returns the address for the destination of a link or picture, or `None` if the destination does not exist: the
/// text then stays without a link.
pub fn render(text: &str, link: impl FnMut(&str) -> Option<String>) -> Rendered {
    let mut renderer = Renderer {
        link,
        events: Vec::new(),
        page: Rendered::default(),
        anchor_counts: HashMap::new(),
        alignments: Vec::new(),
        is_head: false,
        cell: 0,
    };
    let mut events = Parser::new_ext(text, Options::ENABLE_TABLES);
    let mut dropped_link = false;
    while let Some(event) = events.next() {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                let inner = events_until(&mut events, |end| matches!(end, TagEnd::Heading(_)));
                renderer.heading(level, inner);
            }
            Event::Start(Tag::Paragraph) => {
                let inner = events_until(&mut events, |end| *end == TagEnd::Paragraph);
                renderer.paragraph(inner);
            }
            Event::Start(Tag::HtmlBlock) => {
                let inner = events_until(&mut events, |end| *end == TagEnd::HtmlBlock);
                let text: String = inner.iter().map(|event| if let Event::Html(text) = event { text.as_ref() } else { "" }).collect();
                if !text.trim_start().starts_with("<!--") {
                    renderer.add_searchable_text(&text);
                    renderer.events.push(Event::Text(text.into()));
                }
            }
            other => renderer.event(other, &mut dropped_link),
        }
    }
    html::push_html(&mut renderer.page.html, renderer.events.into_iter());
    renderer.page
}

/// Returns the events up to an end, which is consumed, too.
fn events_until<'a>(events: &mut Parser<'a>, is_end: impl Fn(&TagEnd) -> bool) -> Vec<Event<'a>> {
    events.take_while(|event| !matches!(event, Event::End(end) if is_end(end))).collect()
}

impl<'a, L: FnMut(&str) -> Option<String>> Renderer<'a, L> {
    fn heading(&mut self, level: HeadingLevel, inner: Vec<Event<'a>>) {
        let text = plain(&inner);
        let anchor = self.anchor(&text);
        let level = level as u8;
        let under = self
            .page
            .headings
            .iter()
            .rev()
            .find(|heading| heading.level < level)
            .filter(|heading| heading.level > 1)
            .map(|heading| heading.text.clone());
        self.page.headings.push(Heading { level, text: text.clone(), anchor: anchor.clone() });
        self.page.sections.push(Section { anchor: anchor.clone(), title: text, under, text: String::new() });
        let has_link = inner.iter().any(|event| matches!(event, Event::Start(Tag::Link { .. })));
        if self.page.headings.len() == 1 {
            // the title is shown separately
            return;
        }
        // anchors contain only letters, digits, - and _, so they need no escaping
        let (open, close) = if level == 1 || has_link { (String::new(), "") } else { (format!("<a href=\"#{anchor}\">"), "</a>") };
        self.html(format!("<h{level} id=\"{anchor}\">{open}"));
        self.inline(inner);
        self.html(format!("{close}</h{level}>\n"));
    }

    fn paragraph(&mut self, inner: Vec<Event<'a>>) {
        if self.page.summary.is_empty() {
            self.page.summary = first_sentence(&plain(&inner));
        }
        let lines: Vec<&[Event]> = inner.split(|event| *event == Event::SoftBreak).collect();
        if lines.len() > 1 && lines.iter().all(|line| term(line).is_some()) {
            self.html("<dl class=\"terms\">\n".into());
            for (term, meaning) in lines.into_iter().filter_map(term) {
                let name = plain(term);
                let anchor = self.anchor(&name);
                let under = self.page.headings.last().filter(|heading| heading.level > 1).map(|heading| heading.text.clone());
                self.page.sections.push(Section { anchor: anchor.clone(), title: name, under, text: String::new() });
                self.html(format!("<dt id=\"{anchor}\">"));
                self.add_unsearchable(term);
                self.html("</dt>\n<dd>".into());
                let mut meaning = meaning.to_vec();
                if let Some(Event::Text(text)) = meaning.first_mut() {
                    *text = CowStr::from(text.trim_start_matches(':').trim_start().to_owned());
                }
                self.inline(meaning);
                self.html("</dd>\n".into());
            }
            self.html("</dl>\n".into());
        } else {
            self.events.push(Event::Start(Tag::Paragraph));
            self.inline(inner);
            self.events.push(Event::End(TagEnd::Paragraph));
        }
    }

    /// Adds inline content, which is shown and searchable.
    fn inline(&mut self, events: Vec<Event<'a>>) {
        let mut dropped_link = false;
        events.into_iter().for_each(|event| self.event(event, &mut dropped_link));
        self.add_searchable_text(" ");
    }

    /// Adds inline content that is shown but not searchable.
    fn add_unsearchable(&mut self, events: &[Event<'a>]) {
        self.events.extend_from_slice(events);
    }

    fn event(&mut self, event: Event<'a>, dropped_link: &mut bool) {
        match event {
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => match (self.link)(&dest_url) {
                Some(to) => self.events.push(Event::Start(Tag::Link { link_type, dest_url: to.into(), title, id })),
                None => *dropped_link = true,
            },
            Event::End(TagEnd::Link) if std::mem::take(dropped_link) => {}
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                let to = (self.link)(&dest_url).unwrap_or_default();
                self.events.push(Event::Start(Tag::Image { link_type, dest_url: to.into(), title, id }));
            }
            Event::Start(Tag::Table(alignments)) => {
                self.html("<div class=\"wide\" tabindex=\"0\">".into());
                self.alignments = alignments;
                self.events.push(Event::Start(Tag::Table(Vec::new())));
            }
            Event::Start(Tag::TableHead | Tag::TableRow) => {
                (self.is_head, self.cell) = (event == Event::Start(Tag::TableHead), 0);
                self.events.push(event);
            }
            Event::Start(Tag::TableCell) => {
                // the content security policy of web pages refuses inline styles
                let class = if self.alignments.get(self.cell) == Some(&Alignment::Right) { " class=\"number\"" } else { "" };
                self.html(if self.is_head { format!("<th scope=\"col\"{class}>") } else { format!("<td{class}>") });
            }
            Event::End(TagEnd::TableCell) => {
                self.cell += 1;
                self.add_searchable_text(" ");
                self.html(if self.is_head { "</th>".into() } else { "</td>".into() });
            }
            Event::End(TagEnd::Table) => {
                self.events.push(Event::End(TagEnd::Table));
                self.html("</div>\n".into());
            }
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = if let CodeBlockKind::Fenced(language) = &kind { language_name(language) } else { String::new() };
                self.html(match language.as_str() {
                    "" => "<pre tabindex=\"0\"><code>".into(),
                    language => format!("<pre tabindex=\"0\"><code class=\"language-{language}\">"),
                });
            }
            Event::End(TagEnd::CodeBlock) => self.html("</code></pre>\n".into()),
            Event::Html(text) | Event::InlineHtml(text) => {
                if !text.starts_with("<!--") {
                    self.add_searchable_text(&text);
                    self.events.push(Event::Text(text));
                }
            }
            Event::Text(text) => {
                self.add_searchable_text(&text);
                self.events.push(Event::Text(text));
            }
            Event::Code(text) => {
                self.add_searchable_text(&text);
                self.events.push(Event::Code(text));
            }
            Event::SoftBreak | Event::HardBreak | Event::End(TagEnd::Item) => {
                self.add_searchable_text(" ");
                self.events.push(event);
            }
            other => self.events.push(other),
        }
    }

    /// Adds text to the current section for search.
    fn add_searchable_text(&mut self, text: &str) {
        if let Some(section) = self.page.sections.last_mut() {
            section.text.push_str(text);
        }
    }

    fn html(&mut self, text: String) {
        self.events.push(Event::Html(text.into()));
    }

    /// Makes a new anchor of a text, as GitHub does.
    fn anchor(&mut self, text: &str) -> String {
        let base: String = text.to_lowercase().chars().filter_map(anchor_character).collect();
        let mut anchor = base.clone();
        let count = self.anchor_counts.entry(base.clone()).or_insert(0);
        while self.page.anchors.contains(&anchor) {
            *count += 1;
            anchor = format!("{base}-{count}");
        }
        self.page.anchors.push(anchor.clone());
        anchor
    }
}

/// Converts a character of an anchor.
fn anchor_character(char: char) -> Option<char> {
    match char {
        ' ' => Some('-'),
        '-' | '_' => Some(char),
        _ => char.is_alphanumeric().then_some(char),
    }
}

/// Splits `**term**: meaning`, a line of the glossary.
fn term<'e, 'a>(line: &'e [Event<'a>]) -> Option<(&'e [Event<'a>], &'e [Event<'a>])> {
    let end = line.iter().position(|event| *event == Event::End(TagEnd::Strong))?;
    let (term, meaning) = (line.get(1..end)?, line.get(end + 1..)?);
    let is_term = line.first() == Some(&Event::Start(Tag::Strong)) && matches!(meaning.first(), Some(Event::Text(text)) if text.starts_with(':'));
    is_term.then_some((term, meaning))
}

/// Returns the text without markup.
fn plain(events: &[Event]) -> String {
    let texts = events.iter().map(|event| match event {
        Event::Text(text) | Event::Code(text) => text,
        Event::SoftBreak | Event::HardBreak => " ",
        _ => "",
    });
    texts.collect()
}

/// Returns the language of a code block, without what follows it.
fn language_name(language: &str) -> String {
    language.chars().take_while(char::is_ascii_alphanumeric).collect()
}

fn first_sentence(text: &str) -> String {
    match text.find(". ") {
        Some(end) => text[..=end].to_owned(),
        None => text.trim_end_matches(':').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::render;

    #[test]
    fn html_and_comments_of_a_file_are_not_html_of_a_page() {
        let text = "# A & B\n\n<!-- varies -->\n\n<script>x()</script>\n\na <b onclick=\"y()\">word</b><!-- not run -->\n\n```\n<i>\n```\n";
        let page = render(text, |_| None);
        let html = &page.html;
        assert_eq!((page.headings[0].text.as_str(), page.headings[0].anchor.as_str()), ("A & B", "a--b"));
        assert!(!html.contains("A &amp; B") && html.contains("<code>&lt;i&gt;\n</code>"), "{html}");
        assert!(
            html.contains("&lt;script&gt;") && html.contains("a &lt;b onclick=") && !html.contains("varies") && !html.contains("not run"),
            "{html}"
        );
    }

    #[test]
    fn links_lead_where_the_caller_says_or_are_left_out() {
        let html = render("# T\n\n[a](x.md) [b](y.md) <http://h/?a=1&b>", |to| (to != "y.md").then(|| format!("/{to}"))).html;
        assert!(html.contains("<p><a href=\"/x.md\">a</a> b <a href=\"/http://h/?a=1&amp;b\">http://h/?a=1&amp;b</a></p>"), "{html}");
    }

    #[test]
    fn tables_have_no_styles_of_their_own() {
        let html = render("# T\n\n| a | b |\n|---|---:|\n| 1 | 2 |\n", |_| None).html;
        let expected = "<tr><th scope=\"col\">a</th><th scope=\"col\" class=\"number\">b</th></tr>";
        assert!(html.contains(expected) && html.contains("<td>1</td><td class=\"number\">2</td>") && !html.contains("style"), "{html}");
    }

    #[test]
    fn equal_headings_have_different_anchors() {
        let page = render("# T\n\n## Same `x:`, 1.\n\n## Same `x:`, 1.\n\n## Same x 1-1\n", |_| None);
        assert_eq!(page.anchors, ["t", "same-x-1", "same-x-1-1", "same-x-1-1-1"]);
    }
}
