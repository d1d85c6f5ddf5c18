//! Where documents are collected from: a file of another machine, or a list of a service that may go on.

use serde_json::Value as Json;
use std::path::Path;

/// The largest page in which the address of the next one is looked for, in bytes.
const MAX_PAGE_BYTES: u64 = 64 << 20;
/// How deep in a page that address is looked for.
const MAX_DEPTH: usize = 3;

/// Members that are null on the last page of a list.
const LAST_PAGES: [&str; 3] = ["next", "next_url", "next_page"];

/// Where the documents of a source are collected from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectPlan {
    /// The name of the service or file.
    pub name: String,
    /// Its URL.
    pub location: String,
    /// Where the next page of a list is; `None` for a file.
    pub next: Option<NextPage>,
}

/// Where a list says what its next page is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextPage {
    /// In the header `Link`.
    Link,
    /// In this member.
    Member(String),
}

/// Finds where a page of JSON leads to the next one: a member called like `next` with a URL of the same server, or null where this is the last page.
pub fn next_page(file: &Path, url: &str) -> Option<NextPage> {
    if file.metadata().ok()?.len() > MAX_PAGE_BYTES {
        return None;
    }
    let page: Json = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
    let root = url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
    member_with_next(&page, &root, MAX_DEPTH).map(NextPage::Member)
}

fn member_with_next(page: &Json, root: &str, depth: usize) -> Option<String> {
    let members = page.as_object()?;
    let is_url =
        |text: &str| text.strip_prefix(root).is_some_and(|rest| rest.starts_with(['/', '?'])) || text.starts_with('/') && !text.starts_with("//");
    // the last page of a list has the member, too, without a value
    let is_last = |name: &str, value: &Json| value.is_null() && LAST_PAGES.contains(&name);
    let leads_on = |name: &str, value: &Json| name.to_ascii_lowercase().contains("next") && value.as_str().is_some_and(is_url);
    let own = members.iter().find(|(name, value)| leads_on(name, value) || is_last(name, value));
    if let Some((name, _)) = own {
        return Some(name.clone());
    }
    members.iter().filter(|_| depth > 1).find_map(|(name, value)| {
        // `_links: { next: { href: ... } }`
        let href = value.get("href").and_then(Json::as_str).is_some_and(is_url) && name.eq_ignore_ascii_case("next");
        let place = if href { Some("href".to_owned()) } else { member_with_next(value, root, depth - 1) };
        place.map(|place| format!("{name}.{place}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_found_where_services_put_it() {
        let found = |text: &str| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), text).unwrap();
            next_page(file.path(), "https://host/api/works?size=10").map(|next| match next {
                NextPage::Member(place) => place,
                NextPage::Link => "Link".to_owned(),
            })
        };
        for (page, place) in [
            (r#"{"items":[{"next":"https://host/x"}],"next":"https://host/api/works?page=2"}"#, "next"),
            (r#"{"links":{"self":"https://host/1","next":"https://host/2"},"hits":{"hits":[]}}"#, "links.next"),
            (r#"{"_links":{"next":{"href":"/2"}}}"#, "_links.next.href"),
            (r#"{"@odata.nextLink":"https://host/2","value":[]}"#, "@odata.nextLink"),
            (r#"{"meta":{"paging":{"next_url":"/2"}}}"#, "meta.paging.next_url"),
        ] {
            assert_eq!(found(page).as_deref(), Some(place), "{page}");
        }
        for (page, place) in [(r#"{"next":null,"items":[]}"#, "next"), (r#"{"meta":{"next_page":null}}"#, "meta.next_page")] {
            assert_eq!(found(page).as_deref(), Some(place), "{page}");
        }
        for none in [
            r#"{"next_of_kin":null}"#,
            r#"[{"next":null}]"#,
            r#"{"next":"https://other/2"}"#,
            r#"{"next":"https://hostile/2"}"#,
            r#"{"next":"//other/2"}"#,
            "[]",
            "{",
        ] {
            assert_eq!(found(none), None, "{none}");
        }
    }
}
