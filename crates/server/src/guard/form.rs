//! Bodies of declared routes: JSON, or the fields of a form, `application/x-www-form-urlencoded` or `multipart/form-data`.

use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::{QueryParams, RequestContext};
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use base64::Engine;
use bytes::Bytes;
use serde_json::Value as Json;

/// The media type of a form as browsers send it.
const FORM: &str = "application/x-www-form-urlencoded";
/// The media type of a form whose fields are parts of a message.
const MULTIPART: &str = "multipart/form-data";
/// Max fields of a form.
const MAX_FIELDS: usize = 10_000;

/// What the body of a request says.
pub enum SentBody {
    /// Nothing: it is empty.
    Nothing,
    /// JSON.
    Json(Json),
    /// The fields of a form, in their order; a name may be repeated.
    Form(Vec<(String, String)>),
}

impl RequestContext {
    /// Reads the body as a form, or as JSON of any media type that is JSON by its name, such as `application/vnd.example+json` (RFC 6839).
    ///
    /// # Errors
    /// 400, 413 or 415.
    pub async fn json_or_form(&self, body: Body) -> HandlerResult<SentBody> {
        let bytes = self.bytes(body).await?;
        if bytes.is_empty() {
            return Ok(SentBody::Nothing);
        }
        let sent = self.header(header::CONTENT_TYPE)?.unwrap_or("application/json");
        let essence = sent.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match essence.as_str() {
            FORM => {
                let text = std::str::from_utf8(&bytes).map_err(|_| Problem::bad_request("the form is not UTF-8"))?;
                Ok(SentBody::Form(limited(QueryParams::parse(text)?.into_pairs())?))
            }
            MULTIPART => Ok(SentBody::Form(parts(sent, bytes).await?)),
            "application/json" => super::request::parse_json(&bytes).map(SentBody::Json),
            other if other.starts_with("application/") && other.ends_with("+json") => super::request::parse_json(&bytes).map(SentBody::Json),
            _ => {
                let detail = format!("send application/json, a type that ends in +json, or a form ({FORM}, {MULTIPART}); this is {sent:?}");
                Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
            }
        }
    }
}

fn limited(fields: Vec<(String, String)>) -> HandlerResult<Vec<(String, String)>> {
    if fields.len() > MAX_FIELDS { Err(Problem::bad_request(format!("a form has at most {MAX_FIELDS} fields"))) } else { Ok(fields) }
}

/// The parts of a message as fields.
async fn parts(content_type: &str, bytes: Bytes) -> HandlerResult<Vec<(String, String)>> {
    let wrong = |reason: String| Problem::bad_request(format!("the form cannot be read: {reason}"));
    let boundary = multer::parse_boundary(content_type).map_err(|error| wrong(error.to_string()))?;
    if is_without_parts(&boundary, &bytes) {
        return Ok(Vec::new());
    }
    let stream = futures_util::stream::once(async move { Ok::<Bytes, std::io::Error>(bytes) });
    let mut message = multer::Multipart::new(stream, boundary);
    let mut fields = Vec::new();
    while let Some(part) = message.next_field().await.map_err(|error| wrong(error.to_string()))? {
        let name = part.name().map(str::to_owned).ok_or_else(|| wrong("a part has no name".into()))?;
        let is_base64 = transfer_encoding(part.headers()).eq_ignore_ascii_case("base64");
        let bytes = part.bytes().await.map_err(|error| wrong(error.to_string()))?;
        let content = if is_base64 { decoded(&bytes).ok_or_else(|| wrong(format!("the part {name:?} is not Base64")))? } else { bytes.to_vec() };
        let text = String::from_utf8(content).ok().filter(|text| !text.contains('\0'));
        fields.push((name.clone(), text.ok_or_else(|| wrong(format!("the part {name:?} is not UTF-8 text, or contains a NUL character")))?));
        if fields.len() > MAX_FIELDS {
            break;
        }
    }
    limited(fields)
}

/// Whether a message has nothing between its first and its last boundary, as some clients send a form without fields.
fn is_without_parts(boundary: &str, bytes: &[u8]) -> bool {
    let rest = bytes.trim_ascii();
    let rest = rest.strip_prefix(format!("--{boundary}").as_bytes()).unwrap_or(rest);
    rest.trim_ascii() == b"--" || rest.trim_ascii() == format!("--{boundary}--").as_bytes()
}

fn transfer_encoding(headers: &HeaderMap) -> &str {
    headers.get("content-transfer-encoding").and_then(|value| value.to_str().ok()).map_or("", str::trim)
}

/// Decodes Base64, which is broken into lines.
fn decoded(bytes: &[u8]) -> Option<Vec<u8>> {
    let text: Vec<u8> = bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content_type: &str, body: &str) -> Result<Vec<(String, String)>, String> {
        let body = Bytes::from(body.replace('\n', "\r\n"));
        futures_util::FutureExt::now_or_never(parts(content_type, body)).expect("it waits for nothing").map_err(|problem| problem.detail)
    }

    #[test]
    fn the_parts_of_a_message_are_fields() {
        let content_type = "multipart/form-data; boundary=\"===12==\"";
        let plain = "--===12==\nContent-Disposition: form-data; name=\"name\"\n\nrack 7\n";
        let encoded = "--===12==\nContent-Type: text/plain; charset=\"utf-8\"\nMIME-Version: 1.0\nContent-Transfer-Encoding: base64\n\
                       Content-Disposition: form-data; name=\"comment\"\n\nYnkgdGhlIGRv\nb3I=\n";
        let sent = read(content_type, &format!("{plain}{encoded}{plain}--===12==--"));
        let field = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        assert_eq!(sent, Ok(vec![field("name", "rack 7"), field("comment", "by the door"), field("name", "rack 7")]));
        assert_eq!(read(content_type, "--===12==\n\n--===12==--"), Ok(Vec::new()), "a form without fields");
        assert_eq!(read(content_type, "--===12==--\n"), Ok(Vec::new()));
        for (body, reason) in [
            (plain.to_owned(), "the form cannot be read"),
            (format!("{}--===12==--", plain.replace("; name=\"name\"", "")), "a part has no name"),
            (format!("{}--===12==--", encoded.replace("YnkgdGhlIGRv", "%%")), "the part \"comment\" is not Base64"),
            (format!("{}--===12==--", plain.replace("rack", "\0")), "is not UTF-8 text"),
        ] {
            assert!(read(content_type, &body).expect_err("it is refused").contains(reason), "{body}");
        }
        assert!(read("multipart/form-data", plain).is_err(), "no boundary");
    }
}
