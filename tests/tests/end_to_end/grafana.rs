//! The Grafana board of the satellites: every query in it is answered over HTTP, with the columns that its panels read.

use serde_json::Value as Json;
use std::collections::BTreeSet;
use stook_sample::sentinel::{self, Sentinel};
use stook_tests::http::{Served, url_encoded};
use stook_tests::{Sandbox, repository};

const SATELLITES: &str = include_str!("../../../examples/sentinel/catalogue.yaml");

/// A query of the board as Grafana sends it: the variables of its time range are dates.
fn as_sent(query: &str) -> String {
    query.replace("${__from:date:YYYY-MM-DD}", "2000-01-01").replace("${__to:date:YYYY-MM-DD}", "2100-01-01")
}

#[test]
fn every_query_of_the_board_is_answered_with_the_columns_of_its_panel() {
    let board = std::fs::read_to_string(repository().join("docs/grafana/sentinel.json")).expect("the board");
    let board: Json = serde_json::from_str(&board).expect("JSON");
    for sandbox in Sandbox::on_each_store(SATELLITES) {
        for (name, text) in sentinel::areas::files() {
            sandbox.write_file(name, text);
        }
        if sandbox.server_url().is_some() {
            sandbox.ok(&["prepare"]);
        }
        let days = sandbox.path("days");
        sentinel::write(&Sentinel { days: 2, seed: 7, first: 0 }, &days).expect("a sample");
        let mut folders: Vec<_> = days.read_dir().unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
        folders.sort();
        let folders: Vec<&str> = folders.iter().map(|path| path.to_str().unwrap()).collect();
        sandbox.ok(&[&["import"], &folders[..]].concat());
        let served = Served::new(&sandbox, &[]);
        let client = served.client(None);
        let mut answered = BTreeSet::new();
        for panel in board["panels"].as_array().expect("panels") {
            let title = panel["title"].as_str().expect("a title");
            for target in panel["targets"].as_array().expect("targets") {
                let parameters = target["url_options"]["params"].as_array().expect("parameters");
                let parameter = |parameter: &Json| {
                    format!("{}={}", parameter["key"].as_str().unwrap(), url_encoded(&as_sent(parameter["value"].as_str().unwrap())))
                };
                let parameters: Vec<String> = parameters.iter().map(parameter).collect();
                let path = target["url"].as_str().expect("a path").replace("${tenant}", "main");
                let answer = client.get(&format!("{path}?{}", parameters.join("&")));
                assert_eq!(answer.status, 200, "{title}: {}", answer.text());
                let text = answer.text();
                let mut lines = text.lines();
                let header = lines.next().expect("a header");
                let columns: BTreeSet<String> = header.split(',').map(|column| column.trim_matches('"').to_owned()).collect();
                for column in target["columns"].as_array().expect("columns") {
                    let selector = column["selector"].as_str().unwrap();
                    // a comma in the name of a column, as in percentile(x, 95), is quoted
                    assert!(columns.contains(selector) || header.contains(&format!("\"{selector}\"")), "{title}: {selector} in {header}");
                }
                assert!(lines.next().is_some(), "{title} has no rows");
                answered.insert(title.to_owned());
            }
        }
        assert_eq!(answered.len(), board["panels"].as_array().unwrap().len());
    }
}
