//! Which source reads a file: by its name, its first document or its format, whatever the order of the sources; and which files folders have.

use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use stook_catalogue::parse::parse;
use stook_engine::import::{ImportRequest, sort_files};
use stook_sample::random::Random;
use stook_store::Tenant;

/// A source of a generated definition.
#[derive(Debug, Clone)]
struct Reader {
    name: String,
    format: &'static str,
    /// The prefix of the names of its files.
    files: Option<&'static str>,
    /// The member or column that its first document must have.
    has: Option<&'static str>,
}

/// A file: the prefix of its name, its format, and the member of its first document; `None` if it has no document.
#[derive(Debug, Clone)]
struct Delivery {
    begins: &'static str,
    format: &'static str,
    member: Option<&'static str>,
}

impl Reader {
    fn definition(&self) -> serde_json::Value {
        let mut own = json!({ "format": self.format, "into": "thing", "as_of": "meta.received" });
        if let Some(begins) = self.files {
            own["files"] = json!([format!("{begins}_*"), format!("{begins}-[0-9]?")]);
        }
        if let Some(has) = self.has {
            own["has"] = if self.format == "json" { json!(format!("$.{has}")) } else { json!(has) };
        }
        own
    }

    fn is_named(&self, file: &Delivery) -> bool {
        self.files == Some(file.begins)
    }

    /// Whether the member it looks for exists; `None` if the file has no document.
    fn finds(&self, file: &Delivery) -> Option<bool> {
        file.member.map(|member| self.format == file.format && self.has == Some(member))
    }
}

/// The sources that claim a file by the rules of the documentation: names first, then the content, then the format.
fn claims(readers: &[Reader], file: &Delivery) -> Vec<String> {
    let all = |fits: &dyn Fn(&Reader) -> bool| readers.iter().filter(|own| fits(own)).map(|own| own.name.clone()).collect::<Vec<_>>();
    let proven = all(&|own| own.is_named(file) && own.has.is_some() && own.finds(file) == Some(true));
    let named = all(&|own| own.is_named(file) && own.has.is_none());
    let empty = all(&|own| own.is_named(file) && own.has.is_some() && own.finds(file).is_none());
    let content = all(&|own| own.files.is_none() && own.has.is_some() && own.finds(file) == Some(true));
    let format = all(&|own| own.files.is_none() && own.has.is_none() && (file.member.is_none() || own.format == file.format));
    let format = if file.member.is_none() && format.len() > 1 { Vec::new() } else { format };
    [proven, named, empty, content, format].into_iter().find(|claims| !claims.is_empty()).unwrap_or_default()
}

fn write(folder: &Path, number: usize, file: &Delivery) -> PathBuf {
    let text = match (file.format, file.member) {
        (_, None) => String::new(),
        ("json", Some(member)) => format!("{{\"id\": \"1\", \"{member}\": 1}}\n{{\"id\": \"2\"}}\n"),
        (_, Some(member)) => format!("id,{member}\n1,\n"),
    };
    let separator = if number < 10 { "_" } else { "-" };
    let path = folder.join(format!("{}{separator}{number}", file.begins));
    std::fs::write(&path, text).unwrap();
    path
}

fn request(files: Vec<PathBuf>) -> ImportRequest {
    let tenant = Tenant::new("main").unwrap();
    ImportRequest {
        files,
        profile: None,
        source: None,
        tenant,
        as_of: None,
        part: None,
        arguments: Default::default(),
        retires_all: false,
        unexpected: false,
    }
}

#[test]
fn the_source_of_a_file_does_not_depend_on_the_order_of_sources() {
    let mut random = Random::new(11);
    let (mut one, mut several, mut nobody) = (0, 0, 0);
    for _ in 0..300 {
        let mut readers: Vec<Reader> = (0..1 + random.below(5))
            .map(|number| Reader {
                name: format!("s{number}"),
                format: random.one::<&str>(&["json", "csv"]),
                files: *random.one(&[None, Some("a"), Some("b"), Some("b")]),
                has: *random.one(&[None, None, Some("x"), Some("y")]),
            })
            .collect();
        let text = |readers: &[Reader]| {
            let sources: Vec<String> = readers.iter().map(|own| format!("  {}: {}\n", own.name, own.definition())).collect();
            format!("catalogue: c\nsources:\n{}collections: {{ thing: {{ key: id, fields: {{ id: text }} }} }}\n", sources.concat())
        };
        // sources that nothing distinguishes but their names are refused
        if parse(&text(&readers)).is_err() {
            let claimed =
                |own: &Reader| own.files.map(|files| (files, own.has.map(|has| if own.format == "json" { format!("$.{has}") } else { has.into() })));
            let twice = (1..readers.len())
                .any(|at| claimed(&readers[at]).is_some_and(|own| readers[..at].iter().any(|other| claimed(other) == Some(own.clone()))));
            assert!(twice, "{}", text(&readers));
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let files: Vec<Delivery> = (0..13)
            .map(|_| Delivery {
                begins: random.one::<&str>(&["a", "b", "c"]),
                format: random.one::<&str>(&["json", "csv"]),
                member: *random.one(&[None, Some("x"), Some("y"), Some("z")]),
            })
            .collect();
        let mut expected: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        let (mut contested, mut unclaimed) = (Vec::new(), Vec::new());
        for (number, file) in files.iter().enumerate() {
            let path = write(folder.path(), number, file);
            match claims(&readers, file).as_slice() {
                [] => unclaimed.push(path),
                [only] => expected.entry(only.clone()).or_default().push(path),
                _ => contested.push(path),
            }
        }
        for round in 0..3 {
            (1..readers.len()).rev().for_each(|at| readers.swap(at, random.below(at as u64 + 1) as usize));
            let catalogue = parse(&text(&readers)).expect("sound");
            let sorted = sort_files(&catalogue, &request(vec![folder.path().to_owned()]));
            if let (0, Err(error)) = (round, &sorted) {
                let own: Vec<String> = contested.iter().map(|path| path.display().to_string()).collect();
                assert!(own.iter().any(|path| error.to_string().contains(path)), "{error}");
            }
            assert_eq!(sorted.is_err(), !contested.is_empty(), "{}", text(&readers));
            let remaining: Vec<PathBuf> = expected.values().flatten().chain(&unclaimed).cloned().collect();
            let sorted = match sorted {
                Ok(sorted) => sorted,
                Err(_) if remaining.is_empty() => break,
                // the other files are sorted as if this one did not exist
                Err(_) => sort_files(&catalogue, &request(remaining.iter().cloned().chain([remaining[0].clone(), remaining[0].clone()]).collect()))
                    .unwrap_or_else(|error| panic!("{error}: {}", text(&readers))),
            };
            if !sorted.is_many {
                break;
            }
            let order: Vec<usize> =
                sorted.imports.iter().map(|own| readers.iter().position(|reader| Some(&reader.name) == own.source.as_ref()).unwrap()).collect();
            assert!(order.is_sorted(), "{order:?}");
            let found: BTreeMap<String, Vec<PathBuf>> = sorted
                .imports
                .into_iter()
                .map(|own| {
                    let mut files = own.files;
                    files.sort();
                    (own.source.unwrap(), files)
                })
                .collect();
            expected.values_mut().for_each(|files| files.sort());
            assert_eq!(found, expected, "{}", text(&readers));
            let mut found = sorted.unclaimed;
            found.sort();
            unclaimed.sort();
            assert_eq!(found, unclaimed, "{}", text(&readers));
        }
        (one, several, nobody) = (one + expected.len(), several + contested.len(), nobody + unclaimed.len());
    }
    assert!(one > 100 && several > 30 && nobody > 100, "{one} {several} {nobody}");
}

const THINGS: &str = "\
catalogue: things
sources: { list: { format: csv, files: '*.csv', into: thing, as_of: meta.received } }
collections: { thing: { key: id, fields: { id: text } } }
";

#[test]
fn files_of_a_folder_and_its_subfolders_are_read_in_byte_order() {
    let catalogue = parse(THINGS).expect("sound");
    let folder = tempfile::tempdir().unwrap();
    let wanted = ["B.csv", "a.csv", "a/b.csv", "a/c/d.csv.gz", "a0.csv", "ä.csv"];
    let left_alone = [".hidden.csv", "x.csv.part", "y.csv.tmp", ".git/z.csv", "half.part/z.csv"];
    for name in wanted.iter().chain(&left_alone) {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "id\n1\n").unwrap();
    }
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.path().join("a"), folder.path().join("link")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("a.csv"), folder.path().join("link.csv")).unwrap();
    }
    // a file that is given twice is imported once, and a file that is given by name is imported whatever its name is
    let given = vec![folder.path().to_owned(), folder.path().join("a/b.csv"), folder.path().join("a"), folder.path().join("y.csv.tmp")];
    let sorted = sort_files(&catalogue, &request(given)).unwrap();
    let names = |files: &[PathBuf]| files.iter().map(|file| file.strip_prefix(folder.path()).unwrap().display().to_string()).collect::<Vec<_>>();
    assert_eq!(names(&sorted.imports[0].files), wanted);
    assert_eq!(names(&sorted.unclaimed), ["y.csv.tmp"]);

    let named = ImportRequest { source: Some("list".into()), ..request(vec![folder.path().join("y.csv.tmp")]) };
    assert_eq!(sort_files(&catalogue, &named).unwrap().imports[0].files.len(), 1);
    let error = sort_files(&catalogue, &request(vec![folder.path().join("y.csv.tmp")])).unwrap_err().to_string();
    assert!(error.contains("y.csv.tmp is no source's by its name") && error.contains("choose the source: list"), "{error}");
    let error = sort_files(&catalogue, &request(vec![folder.path().join("empty")])).unwrap_err().to_string();
    assert!(error.ends_with("empty has no files"), "{error}");
}
