//! Writes responses of OAI-PMH.

use stook_catalogue::value::show_timestamp;
use stook_formats::xml::escaped;

/// A response: when it was made, what was asked, and the elements that answer.
pub(super) fn response(base: &str, date: i64, request: &[(String, String)], content: &str) -> String {
    let arguments: String = request.iter().map(|(name, value)| format!(" {name}=\"{}\"", escaped(value))).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<OAI-PMH xmlns=\"http://www.openarchives.org/OAI/2.0/\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
         xsi:schemaLocation=\"http://www.openarchives.org/OAI/2.0/ http://www.openarchives.org/OAI/2.0/OAI-PMH.xsd\">\
         <responseDate>{}</responseDate><request{arguments}>{}</request>{content}</OAI-PMH>\n",
        seconds(date),
        escaped(base)
    )
}

/// An element with a text.
pub(super) fn element(name: &str, text: &str) -> String {
    format!("<{name}>{}</{name}>", escaped(text))
}

/// A time in seconds, rounded down.
pub(super) fn seconds(micros: i64) -> String {
    show_timestamp(micros).chars().take(19).chain(['Z']).collect()
}
