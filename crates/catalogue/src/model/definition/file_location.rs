//! Where files are collected from: a folder, one file of a web server, or a bucket of S3.

use super::file_pattern::FilePattern;

/// Where files are collected from.
#[derive(Debug, Clone)]
pub enum FileLocation {
    /// One file of a web server.
    Web(String),
    /// Objects of a bucket of S3, or of another service with its protocol.
    Bucket {
        /// The bucket.
        bucket: String,
        /// The folder in it: empty, or ending with a slash.
        folder: String,
        /// Which objects of the folder.
        files: FilesOfFolder,
    },
    /// Files of a folder of this machine, which is relative to the folder of the definition.
    Folder {
        /// The folder.
        folder: String,
        /// Which of its files.
        files: FilesOfFolder,
    },
}

/// Which files of a folder.
#[derive(Debug, Clone)]
pub enum FilesOfFolder {
    /// All, also those of its subfolders.
    All,
    /// Those whose names match, without subfolders.
    Matching(FilePattern),
    /// The one with this name.
    Named(String),
}

impl FileLocation {
    /// Reads a location.
    ///
    /// # Errors
    /// When it is none; the message says why.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once("://") {
            Some(("http" | "https", rest)) if rest.starts_with('/') || rest.is_empty() => Err(format!("{text} has no host")),
            Some(("http" | "https", _)) => Ok(Self::Web(text.to_owned())),
            Some(("s3", rest)) => {
                let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
                if bucket.is_empty() {
                    return Err(format!("{text} names no bucket; write s3://BUCKET/FOLDER/*.csv"));
                }
                let (folder, files) = folder_and_files(path)?;
                Ok(Self::Bucket { bucket: bucket.to_owned(), folder: folder.to_owned(), files })
            }
            Some((scheme, _)) => Err(format!("files are not collected by {scheme}://; locations are https://…, s3://BUCKET/… and folders")),
            None if text.is_empty() => Err("an empty location has no files".into()),
            None => {
                let (folder, files) = folder_and_files(text)?;
                Ok(Self::Folder { folder: folder.to_owned(), files })
            }
        }
    }
}

impl FilesOfFolder {
    /// Whether the file at `path`, a path that begins at the folder, is one of them.
    pub fn contain(&self, path: &str) -> bool {
        match self {
            Self::All => true,
            Self::Matching(pattern) => !path.contains('/') && pattern.fits(path),
            Self::Named(name) => path == name,
        }
    }
}

/// Splits a path into its folder, which is empty or ends with a slash, and what its last part says of files.
fn folder_and_files(path: &str) -> Result<(&str, FilesOfFolder), String> {
    let (folder, name) = path.split_at(path.rfind('/').map_or(0, |slash| slash + 1));
    if folder.contains(['*', '?', '[']) {
        return Err(format!("{path}: only the name of a file may be a pattern, not its folder"));
    }
    let files = match name {
        "" => FilesOfFolder::All,
        name if name.contains(['*', '?', '[']) => FilesOfFolder::Matching(FilePattern::new(name)?),
        name => FilesOfFolder::Named(name.to_owned()),
    };
    Ok((folder, files))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_read() {
        let read = |text: &str| match FileLocation::parse(text) {
            Ok(FileLocation::Web(url)) => format!("web {url}"),
            Ok(FileLocation::Bucket { bucket, folder, files }) => format!("bucket {bucket} {folder:?} {}", shown(&files)),
            Ok(FileLocation::Folder { folder, files }) => format!("folder {folder:?} {}", shown(&files)),
            Err(error) => error,
        };
        for (text, expected) in [
            ("https://example.org/a/list.csv?x=1", "web https://example.org/a/list.csv?x=1"),
            ("s3://b/in/2026/*.csv", "bucket b \"in/2026/\" matching *.csv"),
            ("s3://b", "bucket b \"\" all"),
            ("s3://b/in/", "bucket b \"in/\" all"),
            ("s3://b/in/list.csv.gz", "bucket b \"in/\" named list.csv.gz"),
            ("inbox/", "folder \"inbox/\" all"),
            ("/srv/inbox/list-?.csv", "folder \"/srv/inbox/\" matching list-?.csv"),
            ("list.csv", "folder \"\" named list.csv"),
        ] {
            assert_eq!(read(text), expected);
        }
        for (text, part) in [
            ("ftp://host/x", "not collected by ftp://"),
            ("s3:///x", "names no bucket"),
            ("https:///x", "has no host"),
            ("", "empty"),
            ("in*/x.csv", "not its folder"),
            ("in/[a.csv", "has no `]`"),
        ] {
            assert!(read(text).contains(part), "{text}: {}", read(text));
        }
    }

    fn shown(files: &FilesOfFolder) -> String {
        match files {
            FilesOfFolder::All => "all".into(),
            FilesOfFolder::Matching(pattern) => format!("matching {}", pattern.text()),
            FilesOfFolder::Named(name) => format!("named {name}"),
        }
    }

    #[test]
    fn a_pattern_is_for_the_folder_itself_and_no_pattern_for_everything_below() {
        let contain = |location: &str, path: &str| match FileLocation::parse(location) {
            Ok(FileLocation::Folder { files, .. }) => files.contain(path),
            _ => false,
        };
        assert!(contain("in/*.csv", "a.csv") && contain("in/*.csv", "a.csv.gz") && contain("in/", "sub/a.csv") && contain("in/a.csv", "a.csv"));
        assert!(!contain("in/*.csv", "sub/a.csv") && !contain("in/*.csv", "a.xml") && !contain("in/a.csv", "sub/a.csv"));
    }
}
