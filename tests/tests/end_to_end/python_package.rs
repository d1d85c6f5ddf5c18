//! The module `stook` for Python: what it does on both stores and on a server, its types, and the notebook of the documentation.

use std::path::PathBuf;
use std::process::Command;
use stook_tests::http::Served;
use stook_tests::{Sandbox, repository, stook};

const LIBRARY: &str = "
catalogue: library
sources:
  shop: { format: csv, into: book, as_of: meta.received }
  list: { format: json, into: book, as_of: meta.received }
collections:
  book:
    key: id
    changes: 30d
    fields:
      id: text
      title: { type: text, index: words, survivorship: { prefer: [list] } }
      year: { type: integer, index: equal }
      printed: date
      price: float
";

/// A Python that has these modules, and the module of this repository.
fn python(modules: &str) -> Option<Command> {
    let named = std::env::var_os("STOOK_TEST_PYTHON").map(PathBuf::from);
    let of_home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/stook/venv/bin/python"));
    let has = |python: &PathBuf| Command::new(python).args(["-c", &format!("import {modules}")]).output().is_ok_and(|output| output.status.success());
    let Some(found) = named.into_iter().chain(of_home).find(has) else {
        stook_testkit::skip::missing(&format!("there is no Python with {modules} (STOOK_TEST_PYTHON)"));
        return None;
    };
    let mut python = Command::new(found);
    python.env("PYTHONPATH", repository().join("packaging/python/src")).env("STOOK_PROGRAM", stook()).env_remove("STOOK_STORE");
    python.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(repository());
    Some(python)
}

fn succeeds(mut command: Command) -> String {
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    out.into_owned()
}

#[test]
fn a_catalogue_is_used_from_python_on_both_stores_and_on_a_server() {
    if python("pandas, pyarrow").is_none() {
        return;
    }
    for sandbox in Sandbox::on_each_store(LIBRARY) {
        let mut command = python("pandas, pyarrow").unwrap();
        command.args(["tests/reference/use_package.py", sandbox.folder().to_str().unwrap(), &sandbox.address()]);
        succeeds(command);
        let audit = sandbox.ok(&["audit"]);
        assert!(audit.contains("PATCH /v1/main/book/b00003"), "{audit}");
    }
    let sandbox = Sandbox::new(LIBRARY);
    sandbox.ok(&["prepare"]);
    let token = sandbox.ok(&["token", "create", "--role", "write"]);
    let served = Served::new(&sandbox, &["--workers", "1"]);
    let mut command = python("pandas, pyarrow").unwrap();
    command.args(["tests/reference/use_package.py", &format!("http://{}", served.address())]).env("STOOK_TOKEN", token.trim());
    succeeds(command);
}

#[test]
fn its_types_are_checked() {
    let Some(mut command) = python("mypy") else { return };
    let cache = tempfile::tempdir().unwrap();
    command.args(["-m", "mypy", "--strict", "--cache-dir"]).arg(cache.path()).arg("packaging/python/src/stook");
    succeeds(command);
}

#[test]
fn the_notebook_of_the_documentation_runs() {
    let Some(mut command) = python("pandas, pyarrow") else { return };
    command.args(["tests/reference/run_notebook.py", "docs/notebooks/look-at-a-catalogue.ipynb"]);
    let printed = succeeds(command);
    assert!(printed.contains("library.csv completed") && printed.contains("The Sea  1998"), "{printed}");
}
