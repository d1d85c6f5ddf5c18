//! What clients of the original of `examples/datasets` are told: rows, parsed queries, instances, summaries of runs, plain lines, keys.

use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use stook_sample::datasets::{Block, Datasets, StoredFile, summary_json};
use stook_sample::services::Fault;
use stook_tests::Sandbox;
use stook_tests::datasets::services;
use stook_tests::http::{Served, url_encoded};

const DATA: Datasets = Datasets { records: 60, seed: 5 };

/// A client that comes back with its ticket.
struct DasClient<'s>(&'s Served);

impl DasClient<'_> {
    fn path(query: &str, more: &str) -> String {
        format!("/das/cache?input={}&limit=1000{more}", url_encoded(query))
    }

    fn answer(&self, query: &str, more: &str) -> Json {
        let (until, path) = (Instant::now() + Duration::from_secs(20), Self::path(query, more));
        let mut reply = self.0.get(&path);
        while !reply.text().starts_with('{') {
            assert!(reply.status == 200 && Instant::now() < until, "{query}: {}", reply.text());
            reply = self.0.get(&format!("{path}&pid={}", reply.text()));
        }
        reply.expect_json(200)
    }

    fn rows(&self, query: &str, more: &str) -> Vec<Json> {
        let answer = self.answer(query, more);
        assert_eq!(answer["status"], "ok", "{query}: {answer}");
        answer["data"].as_array().unwrap().clone()
    }
}

/// The catalogued blocks of a dataset with their files.
fn files_of(number: u64) -> Vec<(Block, Vec<StoredFile>)> {
    let dataset = DATA.dataset(number);
    let blocks = DATA.blocks(&dataset).enumerate().filter(|(_, block)| block.catalogued);
    blocks.map(|(place, block)| (block, DATA.files(&dataset, place as u64).collect())).collect()
}

fn names(rows: &[Json], word: &str) -> BTreeSet<String> {
    rows.iter().map(|row| row[word][0]["name"].as_str().unwrap_or_else(|| panic!("{row}")).to_owned()).collect()
}

/// What the original calls the value of a row, and the query beside the rows.
#[test]
fn rows_have_the_names_that_clients_look_for() {
    let (_, definition) = services(DATA);
    for sandbox in Sandbox::on_each_store(&definition) {
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let client = DasClient(&stook);
        let (dataset, files) = (DATA.dataset(7).name, files_of(7));
        let (block, first_files) = &files[0];
        let file = &first_files[0];
        let of_file: Vec<Json> = file.lumis.iter().map(|(run, sections)| json!([run, sections])).collect();
        let rows = client.rows(&format!("lumi file={}", file.name), "");
        assert_eq!(rows.len(), of_file.len());
        for row in &rows {
            assert_eq!(row["das"]["primary_key"], "lumi.number");
            assert!(of_file.contains(&json!([row["run"][0]["run_number"], row["lumi"][0]["number"]])), "{row}");
        }
        let count = client.rows(&format!("lumi file={} | count(lumi.number)", file.name), "");
        let sections: u64 = file.lumis.iter().flat_map(|(_, ranges)| ranges).map(|(low, high)| high - low + 1).sum();
        assert_eq!((&count[0]["key"], &count[0]["result"]["value"]), (&json!("lumi.number"), &json!(sections)));
        let rows = client.rows(&format!("file,run,lumi block={}", block.name), "");
        assert_eq!(rows.len(), first_files.iter().map(|file| file.lumis.len()).sum::<usize>());
        let row = rows.iter().find(|row| row["file"][0]["name"] == file.name.as_str()).unwrap();
        assert!(row["run"][0]["run_number"].is_u64() && row["lumi"][0]["number"].is_array(), "{row}");
        for (query, primary_key) in [
            (format!("dataset={dataset}"), "dataset.name"),
            (format!("block={}", block.name), "block.name"),
            (format!("file block={}", block.name), "file.name"),
            (format!("dataset block={}", block.name), "dataset.name"),
            (format!("block file={}", file.name), "block.name"),
            (format!("run,lumi block={}", block.name), "run.run_number"),
            (format!("summary dataset={dataset}"), "summary"),
            (format!("release dataset={dataset}"), "release.name"),
        ] {
            for row in client.rows(&query, "") {
                assert_eq!(row["das"]["primary_key"], primary_key, "{query}: {row}");
                if let Some((word, member)) = primary_key.split_once('.') {
                    assert!(!row[word][0][member].is_null(), "{query}: {row}");
                }
            }
        }
        for (query, fields, spec) in [
            (format!("run,lumi dataset={dataset}"), json!(["run", "lumi"]), json!({ "dataset.name": dataset })),
            (format!("site dataset={dataset}"), json!(["site"]), json!({ "dataset.name": dataset })),
            (format!("dataset={dataset}"), json!(["dataset"]), json!({ "dataset.name": dataset })),
            ("run=130001".to_owned(), json!(["run"]), json!({ "run.run_number": 130001 })),
            (format!("lumi file={}", file.name), json!(["lumi"]), json!({ "file.name": file.name })),
        ] {
            let parsed = client.answer(&query, "")["mongo_query"].clone();
            assert_eq!((&parsed["fields"], &parsed["spec"]), (&fields, &spec), "{query}");
        }
        let parsed =
            client.answer(&format!("run,lumi dataset={dataset} system=dbs3 | grep lumi.number, run"), "&instance=prod/global")["mongo_query"].clone();
        assert_eq!(
            (&parsed["filters"]["grep"], &parsed["instance"], &parsed["system"]),
            (&json!(["lumi.number", "run.run_number"]), &json!("prod/global"), &json!("dbs3")),
            "{parsed}"
        );
    }
}

/// An instance is part of what a record is: the same name in two of them is two records, and a complete answer of one removes nothing of the other.
#[test]
fn instances_are_kept_apart() {
    let (services, definition) = services(DATA);
    for sandbox in Sandbox::on_each_store(&definition) {
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let client = DasClient(&stook);
        let number = (0..DATA.records).step_by(3).find(|number| DATA.dataset(*number).group != "local").unwrap();
        let (local, global) = (DATA.local_dataset(number).unwrap(), DATA.dataset(number));
        assert_ne!(local.group, global.group);
        let group = |row: &Json| row["dataset"][0]["groups"][0].as_str().unwrap().to_owned();
        services.take_requests();
        // as a condition, as a parameter, and without either
        for (query, more, expected) in [
            (format!("dataset={}", global.name), "", global.group),
            (format!("dataset={} instance=prod/phys03", global.name), "", local.group),
            (format!("dataset={}", global.name), "&instance=prod/phys03", local.group),
            (format!("dataset={} instance=prod/global", global.name), "&instance=prod/phys03", global.group),
        ] {
            let rows = client.rows(&query, more);
            assert_eq!((rows.len(), group(&rows[0])), (1, expected.to_owned()), "{query}{more}");
        }
        let requests = services.take_requests();
        let expected = [format!("catalog/datasets?dataset={}", global.name), format!("catalog/prod/phys03/datasets?dataset={}", global.name)];
        assert_eq!(requests, expected, "each is asked once");
        // what one instance does not have, the other keeps
        let all = client.rows("dataset=/*", "");
        let of_local = client.rows("dataset=/*", "&instance=prod/phys03");
        assert_eq!((all.len(), of_local.len()), (60, 20));
        assert_eq!(client.rows("dataset=/*", "").len(), 60);
        let absent = DATA.dataset(number + 1);
        assert_eq!(client.rows(&format!("dataset={} instance=prod/phys03", absent.name), "").len(), 0);
        assert_eq!(client.rows(&format!("dataset={}", absent.name), "").len(), 1);
        // what is read through links, and what belongs to a dataset, is of the same instance
        let blocks = client.rows(&format!("block dataset={}", local.name), "&instance=prod/phys03");
        assert_eq!(names(&blocks, "block"), files_of(number).into_iter().map(|(block, _)| block.name).collect());
        let files = client.rows(&format!("file dataset={} | grep file.name, file.release", local.name), "&instance=prod/phys03");
        assert_eq!(files.len(), files_of(number).iter().map(|(_, files)| files.len()).sum::<usize>());
        assert!(files.iter().all(|row| row["file"][0]["release"] == local.release.as_str()), "{}", files[0]);
        let asked: Vec<String> = services.take_requests().into_iter().filter(|request| request.starts_with("catalog/files")).collect();
        assert_eq!(asked, Vec::<String>::new(), "only the instance that is meant is asked");
        // an instance that a record cannot have, and what no instance has
        let wrong = client.answer("dataset=/Zee* instance=elsewhere", "");
        assert_eq!((&wrong["status"], &wrong["data"]), (&json!("fail"), &json!([])));
        assert!(wrong["reason"].as_str().unwrap().contains("a value looks like ^(prod|int|dev)/"), "{wrong}");
        assert!(!client.rows("site=T1_*", "&instance=prod/phys03").is_empty(), "sites have no instances");
        let evil = client.answer("dataset=/Zee* instance=\"prod/../../asked\"", "");
        assert_eq!(evil["status"], "fail", "{evil}");
        assert!(services.take_requests().iter().all(|request| !request.contains("..")));
        services.restore();
    }
}

/// A summary is what the service says of a dataset or block, of all runs or of one; none stands for another.
#[test]
fn summaries_are_of_all_runs_or_of_one() {
    let (services, definition) = services(DATA);
    for sandbox in Sandbox::on_each_store(&definition) {
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let client = DasClient(&stook);
        let (dataset, files) = (DATA.dataset(9).name, files_of(9));
        let run = files[0].1[0].lumis[0].0;
        let truth = |files: &[(Block, Vec<StoredFile>)], run: Option<u64>| {
            let all = files.iter().flat_map(|(block, files)| files.iter().map(move |file| (block, file.clone())));
            let told = summary_json(all, run);
            json!({
                "nfiles": told["num_file"], "nevents": told["num_event"], "nlumis": told["num_lumi"], "nblocks": told["num_block"],
                "file_size": told["file_size"],
            })
        };
        for (query, expected) in [
            (format!("summary dataset={dataset} run={run}"), truth(&files, Some(run))),
            (format!("summary dataset={dataset}"), truth(&files, None)),
            (format!("summary block={}", files[0].0.name), truth(&files[..1], None)),
            (format!("summary block={} run={run}", files[0].0.name), truth(&files[..1], Some(run))),
            (format!("summary dataset={dataset} run={run}"), truth(&files, Some(run))),
        ] {
            let rows = client.rows(&query, "");
            assert_eq!(rows.len(), 1, "{query}: {rows:?}");
            for (name, value) in expected.as_object().unwrap() {
                assert_eq!(&rows[0]["summary"][0][name], value, "{query}: {name}");
            }
        }
        let requests = services.take_requests();
        assert_eq!(requests.len(), 4, "the same is not asked again: {requests:?}");
        assert_eq!(requests[0], format!("catalog/filesummaries?dataset={dataset}&run_num={run}"));
        assert_eq!(requests[1], format!("catalog/filesummaries?dataset={dataset}"));
        let none = client.answer(&format!("summary dataset={dataset} run in [{run},1]"), "");
        assert!(none["reason"].as_str().unwrap().contains("it requires"), "{none}");
    }
}

/// People's links: lines of text, the page of a query, and what can be asked for.
#[test]
fn views_and_keys_are_as_links_expect_them() {
    let (services, definition) = services(DATA);
    for sandbox in Sandbox::on_each_store(&definition) {
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let (dataset, files) = (DATA.dataset(3), files_of(3));
        let plain = |query: &str, more: &str| {
            let until = Instant::now() + Duration::from_secs(20);
            loop {
                let reply = stook.get(&format!("/das/request?view=plain&limit=1&input={}{more}", url_encoded(query)));
                assert!(reply.status == 200 && Instant::now() < until, "{}", reply.text());
                if reply.text().len() != 32 {
                    assert!(reply.header("content-type").unwrap().starts_with("text/plain"));
                    return reply.text();
                }
            }
        };
        let expected: BTreeSet<&str> = files.iter().flat_map(|(_, files)| files).map(|file| file.name.as_str()).collect();
        let text = plain(&format!("file dataset={}", dataset.name), "");
        assert_eq!(text.lines().collect::<BTreeSet<_>>(), expected, "all rows, whatever the limit");
        let first = &files[0].1[0];
        assert_eq!(plain(&format!("file={} | grep file.name, file.size", first.name), ""), format!("{} {}\n", first.name, first.size));
        let total: u64 = files.iter().flat_map(|(_, files)| files).map(|file| file.size).sum();
        assert_eq!(plain(&format!("file dataset={} | sum(file.size)", dataset.name), ""), format!("sum(file.size)={total}\n"));
        assert!(plain("file dataset=", "").starts_with("ERROR: expected a value"));
        services.fault("transfer", Fault::Wrong, u64::MAX);
        let partial = plain(&format!("block dataset={}", DATA.dataset(4).name), "");
        assert!(partial.lines().last().unwrap().starts_with("# incomplete: phedex_block is failed"), "{partial}");
        services.heal();
        let page = stook.get(&format!("/das/request?input={}&instance=prod/phys03", url_encoded("dataset=/Zee* | sort dataset.name")));
        assert_eq!(page.status, 303);
        let location = page.header("location").unwrap();
        assert!(location.starts_with("/t/main/search?q=dataset%3D%2FZee") && location.contains("phys03%22"), "{location}");
        assert_eq!(stook.get(location).status, 200);
        assert_eq!(stook.get("/das/cache?input=dataset&view=xml").status, 400);
        let keys = stook.get("/das/keys?view=json").expect_json(200);
        let client = DasClient(&stook);
        for (key, attributes) in keys.as_object().unwrap() {
            for (attribute, examples) in attributes.as_object().unwrap() {
                assert!(attribute.starts_with(&format!("{key}.")) && !examples.as_array().unwrap().is_empty(), "{attribute}");
                for example in examples.as_array().unwrap() {
                    let answer = client.answer(example.as_str().unwrap(), "");
                    assert_eq!(answer["status"], "ok", "{example}: {answer}");
                }
            }
        }
        // what services answer within half a second needs no ticket
        assert!(stook.get(&DasClient::path(&format!("block dataset={}", DATA.dataset(20).name), "")).text().starts_with('{'));
    }
}
