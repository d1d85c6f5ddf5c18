//! Describes bytes that contain no document: the words in which a file or a service's response is refused.

/// Maximum number of characters shown of such bytes.
const MAX_SHOWN: usize = 200;

/// Markup that may come before the first element of a page.
const MARKUP_BEFORE_ELEMENTS: [(&[u8], &[u8]); 2] = [(b"<!--", b"-->"), (b"<?", b"?>")];

/// Whether bytes begin like a web page.
pub fn is_html(bytes: &[u8]) -> bool {
    let mut rest = bytes.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(bytes).trim_ascii_start();
    while let Some((start, end)) = MARKUP_BEFORE_ELEMENTS.into_iter().find(|(start, _)| rest.starts_with(start)) {
        let Some(found) = memchr::memmem::find(&rest[start.len()..], end) else { return false };
        rest = rest[start.len() + found + end.len()..].trim_ascii_start();
    }
    let begins_with = |words: &[u8]| {
        let (front, tail) = rest.split_at(rest.len().min(words.len()));
        front.eq_ignore_ascii_case(words) && tail.first().is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b':')
    };
    begins_with(b"<!doctype html") || begins_with(b"<html") || begins_with(b"<head") || begins_with(b"<body")
}

/// Returns the first 200 characters so that they can be shown in one line: control characters and white space become one blank.
pub fn beginning(bytes: &[u8]) -> String {
    let bytes = bytes.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(bytes).trim_ascii_start();
    // a character has at most four bytes, and many may be left out
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(64 * MAX_SHOWN)]);
    let mut shown = String::new();
    let mut count = 0;
    for character in text.chars() {
        let is_blank = character.is_control() || character.is_whitespace() || is_hidden(character);
        if is_blank && shown.ends_with(' ') {
            continue;
        }
        if count == MAX_SHOWN {
            return shown + "…";
        }
        shown.push(if is_blank { ' ' } else { character });
        count += 1;
    }
    shown.trim_end().to_owned()
}

/// Whether a character is invisible or changes how those around it are shown.
fn is_hidden(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The message that there is no document; `missing` is what a scanner found missing.
pub fn no_document(bytes: &[u8], missing: &str) -> String {
    let description = if is_html(bytes) { "it looks like HTML" } else { missing };
    match beginning(bytes).as_str() {
        "" => format!("contains no document; {description}"),
        shown => format!("contains no document; {description}; it begins with: {shown}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_pages_are_recognised() {
        for page in [
            "<html>x</html>",
            " \n<HTML lang='en'>",
            "<!DOCTYPE html>",
            "<!doctype HTML PUBLIC \"-//W3C//DTD\">",
            "\u{feff}<?xml version='1.0'?>\n<!-- a -->\n<html xmlns='http://www.w3.org/1999/xhtml'>",
            "<body>503</body>",
        ] {
            assert!(is_html(page.as_bytes()), "{page}");
        }
        for other in ["", "<", "<!-- <html>", "<htmls/>", "<html:p/>", "<?xml version='1.0'?><list/>", "{}", "html", "<header/>"] {
            assert!(!is_html(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_beginning_is_one_line_of_visible_characters() {
        assert_eq!(beginning(b" {\n  \"error\":\t\"b\x1b[31mo\x00om\"\r\n}\n"), "{ \"error\": \"b [31mo om\" }");
        assert_eq!(beginning("\u{feff}ab\u{202e}c\u{fffd}".as_bytes()), "ab c\u{fffd}");
        assert_eq!(beginning(b"\xff\xfe"), "\u{fffd}\u{fffd}");
        let long = beginning("ü".repeat(300).as_bytes());
        assert_eq!((long.chars().count(), long.ends_with('…')), (201, true));
        assert_eq!(beginning("ü".repeat(200).as_bytes()).chars().count(), 200);
        assert_eq!(beginning(&[b' '; 100_000]), "");
    }
}
