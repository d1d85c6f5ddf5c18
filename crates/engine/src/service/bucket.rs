//! Buckets of S3 and of services with its protocol: lists of objects, and the signed URLs of each.

use super::collect::{ATTEMPTS, FIRST_PAUSE, MAX_PAGE_BYTES, PAGE_TIME, pause_until};
use super::files::{ListedFile, MAX_FILES};
use super::http::{HttpAttempt, HttpClient, persist};
use rusty_s3::actions::ListObjectsV2;
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use stook_catalogue::definition::FilesOfFolder;
use stook_catalogue::value::{FieldType, from_text};

/// How long the signature of a request is valid; a download that has begun may take longer.
const VALID: Duration = Duration::from_secs(3_600);
/// Names of environment variables begin with this if the definition says nothing.
const PREFIX: &str = "AWS";

/// A bucket, with what signs requests for it.
pub(super) struct S3Bucket {
    bucket: Bucket,
    credentials: Option<Credentials>,
    client: HttpClient,
}

impl S3Bucket {
    /// A bucket, with endpoint, region and keys of the environment variables that begin with `prefix`.
    pub(super) fn of_environment(name: &str, prefix: Option<&str>) -> Result<Self, String> {
        let set = |part: &str| std::env::var(format!("{}_{part}", prefix.unwrap_or(PREFIX))).ok().filter(|value| !value.trim().is_empty());
        let credentials = match (set("ACCESS_KEY_ID"), set("SECRET_ACCESS_KEY"), set("SESSION_TOKEN")) {
            (Some(key), Some(secret), Some(token)) => Some(Credentials::new_with_token(key, secret, token)),
            (Some(key), Some(secret), None) => Some(Credentials::new(key, secret)),
            // a bucket that everybody may read
            (None, None, _) if prefix.is_none() => None,
            _ => {
                let prefix = prefix.unwrap_or(PREFIX);
                return Err(format!("set the environment variables {prefix}_ACCESS_KEY_ID and {prefix}_SECRET_ACCESS_KEY"));
            }
        };
        let region = set("REGION").or_else(|| set("DEFAULT_REGION")).unwrap_or_else(|| "us-east-1".into());
        let (endpoint, style) = match set("ENDPOINT_URL") {
            Some(endpoint) => (endpoint, UrlStyle::Path),
            // certificates are not for names of hosts with further dots
            None if name.contains('.') => (format!("https://s3.{region}.amazonaws.com"), UrlStyle::Path),
            None => (format!("https://s3.{region}.amazonaws.com"), UrlStyle::VirtualHost),
        };
        let url = endpoint.parse().map_err(|error| format!("the endpoint {endpoint} is not a URL: {error}"))?;
        let bucket = Bucket::new(url, style, name.to_owned(), region).map_err(|error| format!("bucket {name} at {endpoint}: {error}"))?;
        let client = HttpClient::for_files(&endpoint, None).map_err(|error| error.to_string())?;
        Ok(Self { bucket, credentials, client })
    }

    /// The client for its objects.
    pub(super) fn client(&self) -> &HttpClient {
        &self.client
    }

    /// A URL of an object for one request.
    pub(super) fn url(&self, key: &str) -> String {
        self.bucket.get_object(self.credentials.as_ref(), key).sign(VALID).to_string()
    }

    /// The objects of a folder. Those whose keys cannot be parts of a URL are in the second list.
    pub(super) fn objects(&self, folder: &str, files: &FilesOfFolder, stop: &AtomicBool) -> Result<(Vec<ListedFile>, Vec<String>), String> {
        let (mut objects, mut unusable) = (Vec::new(), Vec::new());
        let mut token = None;
        loop {
            let page = self.page(folder, files, token.as_deref(), stop)?;
            for object in page.contents {
                let Some(path) = object.key.strip_prefix(folder) else { continue };
                // a key that ends with a slash stands for a folder
                if path.is_empty() || path.ends_with('/') || !files.contain(path) {
                    continue;
                }
                if object.key.split('/').any(|part| matches!(part, "." | "..")) {
                    unusable.push(object.key);
                    continue;
                }
                let time = object.last_modified.as_deref();
                let modified = time.and_then(|time| from_text(time, &FieldType::Timestamp, None).ok()?.as_int());
                let mark = object.etag.unwrap_or_else(|| format!("{} bytes, {}", object.size.unwrap_or(0), time.unwrap_or("no time")));
                objects.push(ListedFile { name: object.key, mark: Some(mark), modified, size: object.size });
                if objects.len() > MAX_FILES {
                    return Err(format!("it has more than {MAX_FILES} files; write a longer path, or several"));
                }
            }
            match page.next_continuation_token {
                None => return Ok((objects, unusable)),
                next if next == token => return Err("its list does not go on: it gives the same token again".into()),
                next => token = next,
            }
        }
    }

    fn page(
        &self,
        folder: &str,
        files: &FilesOfFolder,
        token: Option<&str>,
        stop: &AtomicBool,
    ) -> Result<rusty_s3::actions::ListObjectsV2Response, String> {
        let mut list = self.bucket.list_objects_v2(self.credentials.as_ref());
        let prefix = match files {
            FilesOfFolder::Named(name) => format!("{folder}{name}"),
            FilesOfFolder::All | FilesOfFolder::Matching(_) => folder.to_owned(),
        };
        list.with_prefix(prefix);
        if matches!(files, FilesOfFolder::Matching(_)) {
            list.with_delimiter("/");
        }
        if let Some(token) = token {
            list.with_continuation_token(token);
        }
        let attempt = || {
            self.client.get(list.sign(VALID).as_str(), "application/xml", (PAGE_TIME, MAX_PAGE_BYTES), &mut |_, body| {
                let mut text = String::new();
                body.read_to_string(&mut text)?;
                Ok(HttpAttempt::Answered(text))
            })
        };
        let text = persist(ATTEMPTS, FIRST_PAUSE, &|pause| pause_until(pause, stop), attempt)?;
        ListObjectsV2::parse_response(&text).map_err(|error| format!("its list of objects cannot be read: {error}"))
    }
}
