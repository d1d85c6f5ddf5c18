//! Services asked when a query needs them: what they know is answered, whole or said not to be, whatever happens to them.

use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stook_sample::datasets::{Block, Dataset, Datasets, FIRST_RUN, Run, truth};
use stook_sample::random::Random;
use stook_sample::services::{Fault, SampleServices};
use stook_tests::datasets::{CATALOGUE, key_of};
use stook_tests::http::{Served, url_encoded};
use stook_tests::{Sandbox, kill_after};

/// Services of a sample on a port of their own.
fn services(records: u64) -> (Arc<SampleServices>, Datasets, String) {
    let data = Datasets { records, seed: 5 };
    let (services, definition) = stook_tests::datasets::services(data);
    (services, data, definition)
}

fn all_blocks(data: &Datasets) -> Vec<Block> {
    let all = (0..data.records).map(|number| data.dataset(number));
    all.flat_map(|dataset| data.blocks(&dataset).collect::<Vec<_>>()).filter(|block| block.catalogued || block.transferable).collect()
}

fn rows(answer: &Json) -> BTreeMap<String, Json> {
    answer["rows"].as_array().unwrap().iter().map(|row| (row["name"].as_str().unwrap().to_owned(), row.clone())).collect()
}

/// A row without what the truth does not say.
fn compared(row: &Json) -> Json {
    json!({
        "name": row["name"], "dataset": row["dataset"], "size": row["size"], "nfiles": row["nfiles"], "nevents": row["nevents"], "is_open": row["is_open"],
        "replica": row["replica"],
    })
}

fn without_conflict(mut truth: Json) -> Json {
    truth.as_object_mut().unwrap().remove("conflict");
    truth
}

fn states(answer: &Json) -> BTreeMap<String, String> {
    let services = answer["services"].as_array().unwrap();
    services.iter().map(|service| (service["source"].as_str().unwrap().to_owned(), service["state"].as_str().unwrap().to_owned())).collect()
}

fn state<'a>(answer: &'a Json, source: &str) -> &'a Json {
    answer["services"].as_array().unwrap().iter().find(|service| service["source"] == source).unwrap()
}

struct QueryClient<'s>(&'s Served);

impl QueryClient<'_> {
    fn get(&self, query: &str, more: &str) -> (u16, Json) {
        let reply = self.0.get(&format!("/v1/main/query?q={}&limit=10000{more}", url_encoded(query)));
        assert!(matches!(reply.status, 200 | 202), "{query}: {}", reply.text());
        (reply.status, reply.json())
    }

    fn complete_answer(&self, query: &str, more: &str) -> Json {
        let (status, answer) = self.get(query, more);
        assert_eq!(status, 200, "{answer}");
        assert!(states(&answer).values().all(|state| state == "complete"), "{}", answer["services"]);
        answer
    }
}

#[test]
fn answers_of_two_services_are_merged() {
    let (services, data, definition) = services(120);
    for sandbox in Sandbox::on_each_store(&definition) {
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let client = QueryClient(&stook);
        let answer = client.complete_answer("block", "");
        let expected: BTreeMap<String, Json> = all_blocks(&data).iter().map(|block| (block.name.clone(), truth(&data, block))).collect();
        let found = rows(&answer);
        assert_eq!(found.len(), expected.len());
        for (name, row) in &found {
            assert_eq!(compared(row), without_conflict(expected[name].clone()));
        }
        // who disagrees is known, and why a value was chosen
        let conflicts: BTreeSet<String> = rows(&client.complete_answer("block conflict=size", "")).into_keys().collect();
        let conflicting: BTreeSet<String> = expected.iter().filter(|(_, truth)| truth["conflict"] == true).map(|(name, _)| name.clone()).collect();
        assert!(!conflicting.is_empty());
        assert_eq!(conflicts, conflicting);
        let overview = stook.get("/v1/main?counts=true").expect_json(200);
        let collection = overview["collections"].as_array().unwrap().iter().find(|collection| collection["name"] == "block").unwrap();
        assert_eq!((collection["records"].as_u64(), collection["conflicts"].as_u64()), (Some(expected.len() as u64), Some(conflicting.len() as u64)));
        assert!(stook.get("/t/main/home").text().contains("Sources disagree on"));
        let explained = sandbox.json(&["get", "block", &key_of(conflicting.first().unwrap()), "--explain", "--format", "json"]);
        assert_eq!(explained["fields"]["size"]["from"][0], "dbs3_block", "{explained}");
        assert_eq!(explained["fields"]["size"]["lost"][0]["contributor"], "phedex_block", "{explained}");
        // who knows of them
        for (system, is_in_service) in [("dbs3", (|block| block.catalogued) as fn(&Block) -> bool), ("phedex", |block| block.transferable)] {
            let found = rows(&client.complete_answer(&format!("block system={system} | grep name"), ""));
            assert_eq!(found.len(), all_blocks(&data).iter().filter(|block| is_in_service(block)).count());
        }
        // one more question and all are here; what was said of one is not asked again
        services.take_requests();
        let dataset = data.dataset(7);
        let answer = client.complete_answer(&format!("block dataset={}", dataset.name), "");
        assert_eq!(answer["rows"].as_array().unwrap().len(), expected.values().filter(|truth| truth["dataset"] == dataset.name.as_str()).count());
        assert_eq!(state(&answer, "dbs3_block")["cached"], true);
        client.complete_answer("block dataset=/Zee* nfiles>20 site=T1_* | sum(size)", "");
        assert_eq!(services.take_requests(), Vec::<String>::new());
        // pages of a service that numbers them, and of one that says what follows
        assert_eq!(client.complete_answer("dataset", "")["rows"].as_array().unwrap().len(), 120);
        let runs = client.complete_answer(&format!("run between [{}, {}]", FIRST_RUN + 3, FIRST_RUN + 8), "");
        assert_eq!(runs["rows"].as_array().unwrap().len(), 6);
        assert_eq!(runs["rows"][0]["start_time"], "2010-01-01T04:30:00Z");
        let sites = client.complete_answer("site tier=1", "");
        let hours = |text: &Json| text.as_str().unwrap()[11..13].parse::<i32>().unwrap();
        let site = state(&sites, "sitedb_site");
        assert_eq!((hours(&site["fresh_until"]) - hours(&site["at"]) + 24) % 24, 3, "the service says how long it is fresh: {site}");
        // only a service that is told enough is asked
        let files = client.get("file", "").1;
        assert_eq!(state(&files, "dbs3_file")["state"], "unasked");
        assert_eq!(state(&files, "dbs3_file")["reason"], "it requires a condition on name or block or dataset");
        let block = all_blocks(&data).into_iter().find(|block| block.catalogued).unwrap();
        let files = client.complete_answer(&format!("file block={} | count(key)", block.name), "");
        assert_eq!(files["rows"][0]["count(key)"], block.files);
        assert_eq!(services.take_requests().last().unwrap(), &format!("catalog/files?block_name={}", block.name));
    }
}

#[test]
fn an_answer_of_several_pages_is_complete() {
    let (services, _, definition) = services(5_000);
    let sandbox = Sandbox::new(&definition);
    let answer = sandbox.run(&["query", "run | count(key), min(run_number), max(run_number)", "--format", "json"]).exits(0);
    assert_eq!(answer.json()[0], json!({ "count(key)": 500, "min(run_number)": FIRST_RUN, "max(run_number)": FIRST_RUN + 499 }));
    assert_eq!(services.take_requests().iter().filter(|request| request.starts_with("runs/")).count(), 5);
    let service_state: Json = serde_json::from_str(answer.err.lines().last().unwrap()).unwrap();
    assert_eq!((&service_state["state"], &service_state["documents"]), (&json!("complete"), &json!(500)));
}

/// Conditions on what services are told, and on what only the store knows.
#[derive(Debug, Clone, Default)]
struct BlockConditions {
    dataset: Option<String>,
    name: Option<String>,
    nfiles: Option<(i64, i64)>,
    site: Option<String>,
}

fn fits(pattern: &str, text: &str) -> bool {
    let pieces: Vec<&str> = pattern.split('*').collect();
    let [first, between @ .., last] = pieces.as_slice() else { return pattern == text };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    for piece in between {
        let Some((_, tail)) = rest.split_once(piece) else { return false };
        rest = tail;
    }
    rest.ends_with(last)
}

impl BlockConditions {
    fn random(random: &mut Random, data: &Datasets) -> Self {
        let dataset = data.dataset(random.below(data.records));
        let block = data.block(&dataset, random.below(9));
        let parts: Vec<&str> = dataset.name.split('/').collect();
        let maybe_one = |random: &mut Random, choices: Vec<String>| random.per_mille(650).then(|| random.one(&choices).clone());
        let datasets = vec![
            dataset.name.clone(),
            format!("/{}*", &parts[1][..2]),
            format!("/*/{}/*", parts[2]),
            format!("*{}", parts[3]),
            "*".into(),
            format!("/{}*", &parts[1][..4]),
        ];
        let names = vec![block.name.clone(), format!("{}#*", dataset.name), format!("*{}*", parts[2]), format!("/{}*", &parts[1][..3])];
        Self {
            dataset: maybe_one(random, datasets),
            name: if random.per_mille(300) { maybe_one(random, names) } else { None },
            nfiles: random.per_mille(300).then(|| (random.between(1, 20) as i64, random.between(21, 40) as i64)),
            site: random.per_mille(200).then(|| data.site(random.below(60)).name),
        }
    }

    fn query(&self) -> String {
        let mut query = "block".to_owned();
        query.extend(self.dataset.iter().map(|value| format!(" dataset=\"{value}\"")));
        query.extend(self.name.iter().map(|value| format!(" name=\"{value}\"")));
        query.extend(self.nfiles.iter().map(|(low, high)| format!(" nfiles between [{low}, {high}]")));
        query.extend(self.site.iter().map(|value| format!(" site={value}")));
        query
    }

    /// What services are told holds of a block.
    fn fits_request(&self, block: &Block) -> bool {
        self.dataset.as_ref().is_none_or(|pattern| fits(pattern, &block.dataset))
            && self.name.as_ref().is_none_or(|pattern| fits(pattern, &block.name))
    }

    fn is_satisfied_by(&self, row: &Json) -> bool {
        let files = row["nfiles"].as_i64().unwrap();
        let has_replica_at = |site: &String| row["replica"].as_array().is_some_and(|all| all.iter().any(|replica| replica["site"] == site.as_str()));
        self.nfiles.is_none_or(|(low, high)| (low..=high).contains(&files)) && self.site.as_ref().is_none_or(has_replica_at)
    }
}

/// The law: whatever was asked before, an answer is what its services know, as of when they were asked about it last.
#[test]
fn a_result_is_what_services_last_contributed() {
    for seed in 0..3 {
        let (services, data, definition) = services(40);
        for sandbox in Sandbox::on_each_store(&definition) {
            let stook = Served::new(&sandbox, &["--workers", "1"]);
            let client = QueryClient(&stook);
            let mut random = Random::new(seed);
            let blocks = all_blocks(&data);
            // what the catalogue has removed, and of which of that it has been asked since
            let (mut removed, mut known_removed) = (BTreeSet::<String>::new(), BTreeSet::<String>::new());
            let (mut fetched, mut answered_from_store) = (0, 0);
            for step in 0..120 {
                if random.per_mille(150) {
                    let block = random.one(&blocks);
                    if block.catalogued && removed.insert(block.name.clone()) {
                        services.remove_block(&block.name);
                    }
                    continue;
                }
                let conditions = BlockConditions::random(&mut random, &data);
                let is_forced = random.per_mille(250);
                services.take_requests();
                let answer = client.complete_answer(&conditions.query(), if is_forced { "&ask=always" } else { "" });
                let has_fetched = services.take_requests().iter().any(|request| request.starts_with("catalog/"));
                assert!(has_fetched || !is_forced);
                (fetched, answered_from_store) = (fetched + u32::from(has_fetched), answered_from_store + u32::from(!has_fetched));
                if has_fetched {
                    known_removed.extend(
                        blocks.iter().filter(|block| conditions.fits_request(block) && removed.contains(&block.name)).map(|block| block.name.clone()),
                    );
                }
                let expected_blocks = blocks.iter().filter(|block| conditions.fits_request(block)).filter_map(|block| {
                    let catalogued = block.catalogued && !known_removed.contains(&block.name);
                    let current = Block { catalogued, ..block.clone() };
                    (current.catalogued || current.transferable).then(|| without_conflict(truth(&data, &current)))
                });
                let mut expected: Vec<Json> = expected_blocks.filter(|row| conditions.is_satisfied_by(row)).collect();
                let mut found: Vec<Json> = rows(&answer).values().map(compared).collect();
                let by_name = |row: &Json| row["name"].as_str().unwrap().to_owned();
                found.sort_by_key(by_name);
                expected.sort_by_key(by_name);
                assert_eq!(found, expected, "seed {seed}, step {step}: {} {}", conditions.query(), answer["services"]);
            }
            assert!(fetched > 10 && answered_from_store > 10, "{fetched} {answered_from_store}");
            // the other store begins with the same services
            services.restore();
        }
    }
}

/// Words of a query, and which numbers or times they ask for.
type Condition<'c> = (String, Box<dyn Fn(u64) -> bool + 'c>);
/// The same of names.
type OfNames<'c> = (String, Box<dyn Fn(&str) -> bool + 'c>);

fn timestamp_text(seconds: u64) -> String {
    stook_catalogue::value::show_timestamp(seconds as i64 * 1_000_000)
}

fn day(seconds: u64) -> String {
    timestamp_text(seconds)[..10].to_owned()
}

/// A question about runs by numbers and times, and its answer.
fn about_runs(random: &mut Random, data: &Datasets) -> (String, BTreeMap<String, Json>) {
    let runs: Vec<Run> = (0..data.runs()).map(|number| data.run(FIRST_RUN + number)).collect();
    let (low, high) = (FIRST_RUN + random.below(15), FIRST_RUN + random.below(15));
    let (from, to) = (random.one(&runs).start, random.one(&runs).start);
    let (numbers, number_fits): Condition = match random.below(4) {
        0 => (format!(" run_number={low}"), Box::new(move |number| number == low)),
        1 => (format!(" run_number in [{low}, {high}]"), Box::new(move |number| number == low || number == high)),
        2 => (format!(" run_number between [{low}, {high}]"), Box::new(move |number| (low..=high).contains(&number))),
        _ => (String::new(), Box::new(|_| true)),
    };
    let (times, time_fits): Condition = match random.below(3) {
        0 => (format!(" start_time between [{}, {}]", day(from), day(to)), Box::new(move |at| (day(from)..=day(to)).contains(&day(at)))),
        1 => (format!(" start_time>={} start_time<{}", timestamp_text(from), timestamp_text(to)), Box::new(move |at| (from..to).contains(&at))),
        _ => (String::new(), Box::new(|_| true)),
    };
    let row = |run: &Run| {
        let names: BTreeSet<String> = run.datasets.iter().map(|number| data.dataset(*number).name).collect();
        let row = json!({ "start_time": timestamp_text(run.start), "end_time": timestamp_text(run.stop), "nevents": run.events, "datasets": names });
        (run.number.to_string(), row)
    };
    let found = runs.iter().filter(|run| number_fits(run.number) && time_fits(run.start)).map(row);
    (format!("run{numbers}{times}"), found.collect())
}

/// A question about datasets by names, times and status, and its answer.
fn about_datasets(random: &mut Random, data: &Datasets) -> (String, BTreeMap<String, Json>) {
    let datasets: Vec<_> = (0..data.records).map(|number| data.dataset(number)).collect();
    let chosen_names: Vec<String> = (0..random.between(1, 4)).map(|_| random.one(&datasets).name.clone()).collect();
    let (from, to) = (random.one(&datasets).created, random.one(&datasets).created);
    let begin = random.one(&datasets).name[..3].to_owned();
    let (names, name_fits): OfNames = match random.below(3) {
        0 => (format!(" name in [{}]", chosen_names.join(", ")), Box::new(|name| chosen_names.iter().any(|chosen| chosen == name))),
        1 => (format!(" name={begin}*"), Box::new(|name| name.starts_with(&begin))),
        _ => (String::new(), Box::new(|_| true)),
    };
    let (times, time_fits): Condition = match random.below(3) {
        0 => (format!(" creation_time between [{}, {}]", day(from), day(to)), Box::new(move |at| (day(from)..=day(to)).contains(&day(at)))),
        1 => (format!(" creation_time>{}", timestamp_text(from)), Box::new(move |at| at > from)),
        _ => (String::new(), Box::new(|_| true)),
    };
    let status = random.per_mille(300).then_some("PRODUCTION");
    let fits = |dataset: &&Dataset| name_fits(&dataset.name) && time_fits(dataset.created) && status.is_none_or(|status| dataset.status == status);
    let row = |dataset: &Dataset| {
        let row = json!({ "creation_time": timestamp_text(dataset.created), "status": dataset.status, "datatype": dataset.datatype, "release": dataset.release });
        (dataset.name.clone(), row)
    };
    let status_condition = status.map_or(String::new(), |status| format!(" status={status}"));
    (format!("dataset{names}{times}{status_condition}"), datasets.iter().filter(fits).map(row).collect())
}

/// The law for numbers, times and lists: an answer is the truth, whether its services are asked or what is here covers it.
#[test]
fn ranges_lists_and_times_are_answered_from_what_covers_them() {
    for seed in 0..2 {
        let (services, data, definition) = services(150);
        for sandbox in Sandbox::on_each_store(&definition) {
            let stook = Served::new(&sandbox, &["--workers", "1"]);
            let client = QueryClient(&stook);
            let mut random = Random::new(seed);
            let (mut fetched, mut answered_from_store, mut sent_arguments) = (0, 0, BTreeSet::new());
            for step in 0..120 {
                let random_question = if random.per_mille(500) { about_runs } else { about_datasets };
                let (query, expected) = random_question(&mut random, &data);
                let more = if random.per_mille(300) { "&ask=always" } else { "" };
                let answer = client.complete_answer(&query, more);
                let requests = services.take_requests();
                (fetched, answered_from_store) = (fetched + u32::from(!requests.is_empty()), answered_from_store + u32::from(requests.is_empty()));
                for request in &requests {
                    sent_arguments.extend(request.split(['?', '&']).skip(1).filter_map(|pair| Some(pair.split_once('=')?.0.to_owned())));
                }
                let mut found: BTreeMap<String, Json> = BTreeMap::new();
                for row in answer["rows"].as_array().unwrap() {
                    let key = row["name"].as_str().map_or_else(|| row["run_number"].to_string(), str::to_owned);
                    let names = expected.get(&key).and_then(Json::as_object).into_iter().flat_map(|fields| fields.keys());
                    let mut fields: serde_json::Map<String, Json> = names.map(|name| (name.clone(), row[name].clone())).collect();
                    if let Some(Json::Array(items)) = fields.get_mut("datasets") {
                        items.sort_by_key(Json::to_string);
                        items.dedup();
                    }
                    found.insert(key, fields.into());
                }
                assert_eq!(found, expected, "seed {seed}, step {step}: {query} {}", answer["services"]);
            }
            assert!(fetched > 10 && answered_from_store > 10, "{fetched} {answered_from_store}");
            for argument in ["min", "max", "from", "to", "min_cdate", "max_cdate", "dataset", "dataset_access_type"] {
                assert!(sent_arguments.contains(argument), "no service was told {argument}: {sent_arguments:?}");
            }
        }
    }
}

/// A copy of a block: site, storage element, size.
type Copy = (String, String, u64);

/// What the transfers were told, of a request as it was noted.
fn sent_arguments(request_target: &str) -> Option<BTreeMap<String, String>> {
    let arguments = request_target.strip_prefix("transfer/blockreplicas?")?;
    let pairs = arguments.split('&').filter_map(|pair| pair.split_once('='));
    Some(pairs.map(|(name, value)| (name.to_owned(), value.replace('%', "*"))).collect())
}

/// The law for lists that are told in part: of each copy an answer says what was said last, whatever else was asked before.
#[test]
fn replicas_are_what_was_last_contributed_for_them() {
    for seed in 0..2 {
        let (services, data, definition) = services(30);
        let copies: Vec<(Block, Vec<Copy>)> = all_blocks(&data)
            .into_iter()
            .filter(|block| block.transferable)
            .map(|block| {
                let copies = data.replicas(&block).into_iter().map(|copy| (copy.site, copy.se, copy.size)).collect();
                (block, copies)
            })
            .collect();
        for sandbox in Sandbox::on_each_store(&definition) {
            let stook = Served::new(&sandbox, &["--workers", "1"]);
            let client = QueryClient(&stook);
            let mut random = Random::new(seed);
            let mut removed = BTreeSet::<(String, String)>::new();
            // whether a copy was there, when the transfers were last asked for it
            let mut known_copies = BTreeMap::<(String, String), bool>::new();
            let (mut narrowed_requests, mut full_requests, mut answered_from_store) = (0, 0, 0);
            for step in 0..150 {
                if random.per_mille(200) {
                    let (block, copies) = random.one(&copies);
                    if let Some((site, ..)) = copies.first() {
                        removed.insert((block.name.clone(), site.clone()));
                        services.remove_copy(&block.name, site);
                    }
                    continue;
                }
                let dataset = random.per_mille(400).then(|| data.dataset(random.below(data.records)).name);
                let sites = data.site(random.below(60));
                let (site, se) = match random.below(5) {
                    0 => (Some("T1_*".to_owned()), None),
                    1 => (Some(format!("{}*", &sites.name[..5])), None),
                    2 => (None, Some(sites.se.clone())),
                    _ => (Some(sites.name.clone()), None),
                };
                let scope = dataset.iter().map(|value| format!(" dataset={value}")).collect::<String>();
                let is_asked_for = |(replica_site, replica_se, _): &Copy| {
                    site.as_ref().is_none_or(|site| fits(site, replica_site)) && se.as_ref().is_none_or(|se| se == replica_se)
                };
                let on_row = site
                    .iter()
                    .map(|value| format!("replica.site={value}"))
                    .chain(se.iter().map(|value| format!("replica.se={value}")))
                    .collect::<String>();
                let any_copy = site.iter().chain(&se).map(|value| format!(" site={value}")).collect::<String>();
                let kind = random.below(4);
                let query = match kind {
                    0 => format!("block{scope} | each replica | grep name, replica.site, replica.size, {on_row}"),
                    1 => format!("block{scope}{any_copy} | grep name"),
                    2 => format!("block{scope}{any_copy} | each replica | grep name, replica.site, replica.size"),
                    _ => format!("block{scope}{any_copy} | grep name | count(name), sum(replica.size)"),
                };
                services.take_requests();
                let answer = client.complete_answer(&query, if random.per_mille(200) { "&ask=always" } else { "" });
                let requests: Vec<_> = services.take_requests().iter().filter_map(|request| sent_arguments(request)).collect();
                answered_from_store += u32::from(requests.is_empty());
                for sent_arguments in &requests {
                    assert!(sent_arguments.len() < 3, "{sent_arguments:?}");
                    let is_narrowed = sent_arguments.contains_key("node") || sent_arguments.contains_key("se");
                    (narrowed_requests, full_requests) = (narrowed_requests + u32::from(is_narrowed), full_requests + u32::from(!is_narrowed));
                    let fits = |name: &str, value: &str| sent_arguments.get(name).is_none_or(|pattern| fits(pattern, value));
                    for (block, copies) in copies.iter().filter(|(block, _)| fits("dataset", &block.dataset)) {
                        for (site, ..) in copies.iter().filter(|(site, se, _)| fits("node", site) && fits("se", se)) {
                            let replica_key = (block.name.clone(), site.clone());
                            known_copies.insert(replica_key.clone(), !removed.contains(&replica_key));
                        }
                    }
                }
                let last_known = |block: &Block, copy: &Copy| known_copies.get(&(block.name.clone(), copy.0.clone()));
                let blocks = copies.iter().filter(|(block, _)| dataset.as_ref().is_none_or(|value| *value == block.dataset));
                let present_copies = |block: &Block, copies: &[Copy]| -> Vec<Copy> {
                    copies.iter().filter(|copy| last_known(block, copy) == Some(&true)).cloned().collect()
                };
                let row = |block: &Block, copy: &Copy| json!({ "name": block.name, "replica.site": copy.0, "replica.size": copy.2 });
                let matching = blocks
                    .map(|(block, copies)| (block, present_copies(block, copies)))
                    .filter(|(_, present_copies)| present_copies.iter().any(is_asked_for));
                let matching: Vec<(&Block, Vec<Copy>)> = matching.collect();
                let expected: Vec<Json> = match kind {
                    0 => matching
                        .iter()
                        .flat_map(|(block, present_copies)| present_copies.iter().filter(|copy| is_asked_for(copy)).map(|copy| row(block, copy)))
                        .collect(),
                    1 => matching.iter().map(|(block, _)| json!({ "name": block.name })).collect(),
                    2 => matching.iter().flat_map(|(block, present_copies)| present_copies.iter().map(|copy| row(block, copy))).collect(),
                    _ => {
                        // a sum of copies is one of those that were asked for
                        let summed = matching.iter().flat_map(|(_, present_copies)| present_copies).filter(|copy| is_asked_for(copy));
                        let sum = summed.map(|copy| copy.2).reduce(|a, b| a + b);
                        vec![json!({ "count(name)": matching.len(), "sum(replica.size)": sum })]
                    }
                };
                let context = || format!("seed {seed}, step {step}: {query} {}", answer["services"]);
                assert_eq!(sorted(answer["rows"].as_array().unwrap().clone()), sorted(expected), "{}", context());
                // nothing that was not asked for is taken to be absent
                for (block, copies) in copies.iter().filter(|(block, _)| dataset.as_ref().is_none_or(|value| *value == block.dataset)) {
                    let expected_known = copies.iter().filter(|copy| if kind < 2 { is_asked_for(copy) } else { true });
                    let unknown = expected_known.into_iter().find(|copy| last_known(block, copy).is_none());
                    assert!(unknown.is_none(), "{unknown:?} {}", context());
                }
            }
            assert!(
                narrowed_requests > 5 && full_requests > 5 && answered_from_store > 20,
                "{narrowed_requests} {full_requests} {answered_from_store}"
            );
            services.restore();
        }
    }
}

#[test]
fn a_failing_service_does_not_affect_others() {
    let (services, data, definition) = services(60);
    let definition =
        definition.replace("timeout: 60s", "timeout: 2s").replace("deadline: 120s", "deadline: 5s\n    most_bytes: 8MiB\n    ttl_failed: 1ms");
    for sandbox in Sandbox::on_each_store(&definition) {
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let client = QueryClient(&stook);
        let troubles = [
            ("transfer", Fault::Failing, "it responded with 503 Service Unavailable (out of order) (3 attempts)"),
            ("catalog", Fault::Failing, "it responded with 503 Service Unavailable (out of order) (3 attempts)"),
            ("transfer", Fault::Wrong, "it sent text/html instead of xml"),
            ("catalog", Fault::Wrong, "it sent text/html instead of json"),
            ("catalog", Fault::Redirect, "it responded with 302 Found, a redirect to http://127.0.0.1:9/elsewhere"),
            ("catalog", Fault::Endless, "the response exceeds 8388608 bytes"),
            ("transfer", Fault::Endless, "the response exceeds 8388608 bytes"),
            ("catalog", Fault::CompressionBomb, "the response exceeds 8388608 bytes"),
            ("transfer", Fault::EntityBomb, "could not be read"),
            ("catalog", Fault::EntityBomb, "could not be read"),
            ("catalog", Fault::TruncatedBody, "could not be read"),
            ("transfer", Fault::TruncatedBody, "could not be read"),
            ("catalog", Fault::Truncated, ""),
            ("transfer", Fault::Silent, ""),
        ];
        for (number, (service, fault, reason)) in troubles.into_iter().enumerate() {
            services.fault(service, fault, u64::MAX);
            // a dataset of its own each time, of which nothing is here
            let dataset = data.dataset(number as u64);
            let query = format!("block dataset={}", dataset.name);
            let began = Instant::now();
            let (_, answer) = client.get(&query, "");
            assert!(began.elapsed() < Duration::from_secs(12), "{fault:?}");
            let (bad, good) = if service == "catalog" { ("dbs3_block", "phedex_block") } else { ("phedex_block", "dbs3_block") };
            let service_state = state(&answer, bad);
            assert!(matches!(service_state["state"].as_str(), Some("failed" | "partial" | "running")), "{fault:?}: {service_state}");
            assert!(service_state["reason"].as_str().unwrap().contains(reason), "{fault:?}: {service_state}");
            assert_eq!(state(&answer, good)["state"], "complete", "{fault:?}");
            let is_known = |block: &Block| if service == "catalog" { block.transferable } else { block.catalogued };
            let expected_of_good: BTreeSet<String> = data.blocks(&dataset).filter(is_known).map(|block| block.name).collect();
            let found: BTreeSet<String> = rows(&answer).into_keys().collect();
            assert!(found.is_superset(&expected_of_good), "{fault:?}: what the other service says is here");
            // nothing is retired by an answer that is not whole, and a whole one comes when the service is well
            services.heal();
            std::thread::sleep(Duration::from_millis(5));
            let healed = loop {
                let (status, answer) = client.get(&query, "");
                if status == 200 && states(&answer).values().all(|state| state == "complete") {
                    break answer;
                }
                assert!(began.elapsed() < Duration::from_secs(30), "{}", answer["services"]);
                std::thread::sleep(Duration::from_millis(100));
            };
            assert_eq!(rows(&healed).len(), all_blocks(&data).iter().filter(|block| block.dataset == dataset.name).count(), "{fault:?}");
        }
        // a service that is busy for a moment is asked again
        services.fault("catalog", Fault::Busy, 1);
        let answer = client.complete_answer(&format!("block dataset={}", data.dataset(40).name), "");
        assert!(state(&answer, "dbs3_block")["seconds"].as_f64().unwrap() >= 1.0, "it said when to come back");
        services.heal();
        // the command says the same, with its exit code
        services.fault("transfer", Fault::Wrong, u64::MAX);
        let query = format!("block dataset={}", data.dataset(41).name);
        let answer = sandbox.run(&["query", &query, "--format", "ndjson"]);
        answer.clone().exits(2).stderr_contains(&["\"state\":\"failed\"", "it sent text/html instead of xml"]);
        services.heal();
        sandbox.run(&["query", &query, "--ask", "never"]).exits(0);
    }
}

#[test]
fn retries_end_with_the_deadline() {
    let (services, data, definition) = services(20);
    let sandbox = Sandbox::new(&definition.replace("deadline: 120s", "deadline: 1500ms").replace("attempts: 3", "attempts: 9"));
    let stook = Served::new(&sandbox, &["--workers", "1"]);
    // with growing pauses; none ends after the deadline, one that is asked for neither
    for (number, fault) in [Fault::Failing, Fault::Busy, Fault::Silent].into_iter().enumerate() {
        services.fault("catalog", fault, u64::MAX);
        services.take_requests();
        let began = Instant::now();
        let (_, answer) = QueryClient(&stook).get(&format!("block dataset={}", data.dataset(number as u64).name), "");
        let service_state = state(&answer, "dbs3_block");
        assert_eq!(service_state["state"], "failed", "{fault:?}: {service_state}");
        assert!(began.elapsed() < Duration::from_secs(4), "{fault:?}: {:?}", began.elapsed());
        let tries = services.take_requests().iter().filter(|request| request.starts_with("catalog")).count();
        assert!((1..9).contains(&tries), "{fault:?}: {tries}");
        assert_eq!(state(&answer, "phedex_block")["state"], "complete");
        services.heal();
    }
}

/// The services as a program of their own, and their data as files.
#[test]
fn the_sample_is_services_and_files() {
    let sandbox = Sandbox::new(CATALOGUE);
    let folder = sandbox.path("files");
    sandbox.ok(&["sample", "datasets", "--records", "30", "--seed", "5", "-o", folder.to_str().unwrap()]);
    let data = Datasets { records: 30, seed: 5 };
    let truth = std::fs::read_to_string(folder.join("truth.ndjson")).unwrap();
    assert_eq!(truth.lines().count(), all_blocks(&data).len());
    let mut command = sandbox.command(&["sample", "datasets", "--records", "30", "--seed", "5", "--serve", "127.0.0.1:0"]);
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut urls = BTreeMap::new();
    while urls.len() < 4 {
        let line = lines.next().unwrap().unwrap();
        urls.extend(line.split_whitespace().filter_map(|pair| pair.split_once('=')).map(|(name, url)| (name.to_owned(), url.to_owned())));
    }
    let query_output = |query: &str| {
        let mut command = sandbox.command(&["query", query, "--format", "ndjson", "--limit", "10000", "--ask", "always"]);
        command.envs(&urls).output().unwrap()
    };
    let answer = query_output("block");
    assert_eq!(answer.status.code(), Some(0), "{}", String::from_utf8_lossy(&answer.stderr));
    assert_eq!(answer.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count(), all_blocks(&data).len());
    // a fault by request, as often as it says
    let fault = urls["CATALOG_URL"].replace("/catalog", "/fault/catalog/wrong?times=1");
    assert_eq!(ureq::put(&fault).send_empty().unwrap().status(), 204);
    let answer = query_output("block");
    assert_eq!(answer.status.code(), Some(2), "{}", String::from_utf8_lossy(&answer.stderr));
    assert_eq!(query_output("block").status.code(), Some(0));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// All examples of the original's page that mean something here are answered by services, whatever these know.
#[test]
fn all_examples_of_the_original_are_answered() {
    let (services, _, definition) = services(60);
    let sandbox = Sandbox::new(&definition);
    let stook = Served::new(&sandbox, &["--workers", "1"]);
    let page = include_str!("../../../examples/datasets/das.md").replace("\\|", "\u{1}");
    let mut answered = 0;
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<String> = line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect();
        let (true, Some(equivalent)) = (cells[1].parse::<u32>().is_ok(), cells[3].strip_prefix("as `").and_then(|rest| rest.split_once('`'))) else {
            continue;
        };
        let mut rows = Vec::new();
        for query in [cells[2].trim_matches('`'), equivalent.0] {
            let (status, answer) = QueryClient(&stook).get(query, "");
            assert_eq!(status, 200, "{query}: {answer}");
            // services that the sample does not have say so
            let is_absent = |service: &Json| service["reason"].as_str().is_some_and(|reason| reason.ends_with("is not set"));
            let is_well = |service: &Json| matches!(service["state"].as_str(), Some("complete" | "unasked")) || is_absent(service);
            assert!(answer["services"].as_array().unwrap().iter().all(is_well), "{query}: {}", answer["services"]);
            rows.push(answer["rows"].clone());
        }
        assert_eq!(rows[0], rows[1], "{line}");
        answered += 1;
    }
    assert!(answered >= 30, "{answered}");
    drop(services);
}

#[test]
fn equal_concurrent_queries_are_fetched_once() {
    let (services, data, definition) = services(200);
    let sandbox = Sandbox::new(&definition);
    let stook = Served::new(&sandbox, &["--workers", "1"]);
    services.fault("transfer", Fault::Slow, 1);
    let query = "block dataset=/Z*";
    let expected = all_blocks(&data).iter().filter(|block| block.dataset.starts_with("/Z")).count();
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                let answer = QueryClient(&stook).complete_answer(query, "");
                assert_eq!(answer["rows"].as_array().unwrap().len(), expected);
            });
        }
    });
    let requests = services.take_requests();
    assert_eq!(requests.len(), 2, "{requests:?}");
    // the same question in another order is the same question
    services.fault("transfer", Fault::Slow, 1);
    let texts = ["block dataset=/V* site=T1_*", "block site=T1_* dataset=/V*", "dataset=/V*  block  site = T1_*"];
    assert!(texts.iter().all(|query| QueryClient(&stook).get(query, "&wait=0").0 == 202));
    let answers = texts.map(|query| QueryClient(&stook).complete_answer(query, "")["rows"].clone());
    assert!(answers.iter().all(|rows| *rows == answers[0]));
    let requests = services.take_requests();
    assert_eq!(requests.len(), 2, "{requests:?}");
    // who does not want to wait is told so, and asks again until it is here
    services.fault("transfer", Fault::Slow, 1);
    let (status, answer) = QueryClient(&stook).get("block dataset=/W*", "&wait=1");
    assert_eq!(status, 202, "{answer}");
    assert_eq!(states(&answer)["phedex_block"], "running");
    assert_eq!(states(&answer)["dbs3_block"], "complete");
    QueryClient(&stook).complete_answer("block dataset=/W*", "");
    assert_eq!(services.take_requests().len(), 2);
}

/// The original's protocol: a ticket while services are asked, then the answer.
/// A query that takes long says what is asked, and tells how it goes on until all have answered.
/// Everything that is told without a condition, before anybody asks for it.
#[test]
fn everything_is_fetched_up_front() {
    let (services, data, definition) = services(60);
    for sandbox in Sandbox::on_each_store(&definition) {
        sandbox.run(&["collect"]).exits(1).stderr_contains(&["no source of this catalogue is collected"]);
        // services whose variables are not set fail, and say which variable
        let statuses = sandbox.run(&["collect", "--asked", "--json"]).exits(2).lines();
        let state = |source: &str| statuses.iter().find(|status| status["source"] == source).map(|status| status["state"].clone());
        assert_eq!((state("dbs3_block"), state("phedex_block")), (Some("complete".into()), Some("complete".into())));
        assert_eq!(state("dbs3_file"), Some("unasked".into()), "files are told by dataset: {statuses:?}");
        let count = |query: &str| sandbox.run(&["query", query, "--ask", "never", "--format", "json"]).exits(0).json()[0]["count(key)"].clone();
        assert_eq!(count("block | count(key)"), all_blocks(&data).len());
        assert_eq!(count("dataset | count(key)"), 60);
        // nobody is asked again for what is fresh
        services.take_requests();
        sandbox.run(&["collect", "--asked"]).exits(2);
        assert_eq!(services.take_requests(), Vec::<String>::new());
    }
}

#[test]
fn long_queries_can_be_watched() {
    let (services, data, definition) = services(40);
    for sandbox in Sandbox::on_each_store(&definition) {
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let client = QueryClient(&stook);
        services.fault("transfer", Fault::Slow, 1);
        let query = format!("block dataset={}", data.dataset(5).name);
        let (status, first) = client.get(&query, "&wait=0");
        assert_eq!((status, &state(&first, "phedex_block")["state"]), (202, &json!("running")), "{first}");
        assert_eq!(stook.get(&format!("/v1/other/query/asked/{}", first["id"].as_str().unwrap())).status, 404);
        let watched = stook.get(&format!("/v1/main/query/events?q={}", url_encoded(&query)));
        assert_eq!((watched.status, watched.header("content-type")), (200, Some("text/event-stream")));
        let text = watched.text();
        let events: Vec<(&str, Json)> = text
            .split("\n\n")
            .filter_map(|event| event.strip_prefix("event: ")?.split_once("\ndata: "))
            .map(|(name, data)| (name, serde_json::from_str(data).unwrap()))
            .collect();
        let (name, last) = events.last().unwrap();
        assert_eq!((*name, states(last).into_values().collect::<BTreeSet<_>>()), ("ended", BTreeSet::from(["complete".to_owned()])), "{text}");
        // who comes back with the number is answered what was asked
        let back = stook.get(&format!("/v1/main/query/asked/{}?wait=5", first["id"].as_str().unwrap())).expect_json(200);
        assert_eq!((&back["rows"], back.get("id")), (&client.complete_answer(&query, "")["rows"], None));
        let never = stook.get("/v1/main/query/asked/00000000000000000000000000000000");
        assert!(never.status == 404 && never.text().contains("send it again"));
        let blocks = all_blocks(&data).into_iter().filter(|block| block.dataset == data.dataset(5).name).count();
        assert_eq!(client.complete_answer(&query, "")["rows"].as_array().unwrap().len(), blocks);
        let first = stook.get("/v1/main/query/events?q=nothing");
        assert_eq!(first.status, 400);
    }
}

/// The values that the original's client shows of a row for a name with dots: through members and lists, whatever lies between.
fn walked<'r>(row: &'r Json, name: &str) -> Vec<&'r Json> {
    fn found<'r>(json: &'r Json, name: &str, values: &mut Vec<&'r Json>) {
        match json {
            Json::Object(members) => {
                for (member, value) in members {
                    match value {
                        Json::Array(items) if member == name => values.extend(items),
                        _ if member == name => values.push(value),
                        _ => found(value, name, values),
                    }
                }
            }
            Json::Array(items) => items.iter().for_each(|item| found(item, name, values)),
            _ => {}
        }
    }
    name.split('.').fold(vec![row], |rows, name| {
        let mut values = Vec::new();
        rows.into_iter().for_each(|row| found(row, name, &mut values));
        values
    })
}

#[test]
fn clients_of_the_original_are_answered() {
    let (services, data, definition) = services(100);
    for sandbox in Sandbox::on_each_store(&definition) {
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let cache = |query: &str, more: &str| stook.get(&format!("/das/cache?input={}{more}", url_encoded(query)));
        services.fault("transfer", Fault::Slow, 1);
        let dataset = data.dataset(3);
        let query = format!("block dataset={} | sort block.name", dataset.name);
        let ticket = cache(&query, "").text();
        assert!(ticket.len() == 32 && ticket.bytes().all(|byte| byte.is_ascii_hexdigit()), "{ticket}");
        let until = Instant::now() + Duration::from_secs(20);
        let answer = loop {
            let reply = cache(&query, &format!("&idx=0&limit=5&pid={ticket}"));
            assert_eq!(reply.status, 200, "{}", reply.text());
            if reply.text() != ticket {
                break reply.json();
            }
            assert!(Instant::now() < until);
        };
        let blocks: Vec<Block> = all_blocks(&data).into_iter().filter(|block| block.dataset == dataset.name).collect();
        assert_eq!((&answer["status"], &answer["nresults"]), (&json!("ok"), &json!(blocks.len())));
        let parsed = json!({ "fields": ["block"], "spec": { "dataset.name": dataset.name }, "filters": { "sort": ["block.name"] } });
        assert_eq!(answer["mongo_query"], parsed);
        assert_eq!(answer["apilist"], json!(["dbs3_block", "phedex_block"]));
        let rows = answer["data"].as_array().unwrap();
        assert_eq!(rows.len(), blocks.len().min(5));
        for row in rows {
            let block = blocks.iter().find(|block| row["block"][0]["name"] == block.name.as_str()).unwrap();
            assert_eq!(row["das"]["primary_key"], "block.name");
            let systems: Vec<&str> = [(block.catalogued, "dbs3"), (block.transferable, "phedex")]
                .iter()
                .filter(|(is_known, _)| *is_known)
                .map(|(_, name)| *name)
                .collect();
            assert_eq!(row["das"]["system"], json!(systems));
            // each service's own words, in its place
            for (index, system) in systems.iter().enumerate() {
                let size = if *system == "dbs3" { block.size } else { block.transferred };
                assert_eq!(row["block"][index]["size"], size);
            }
        }
        // members are inside of what they are members of, and what is asked for stands for its row: a client walks from name to name
        let sites = cache(&format!("{query} | grep block.replica.site"), "&limit=1").json();
        let shown_sites = walked(&sites["data"][0], "block.replica.site");
        assert!(!shown_sites.is_empty() && shown_sites.iter().all(|site| site.as_str().is_some_and(|site| site.starts_with('T'))), "{sites}");
        let raw = format!("{}/RAW", data.dataset(8).name.rsplit_once('/').map_or("", |(name, _)| name));
        let until = Instant::now() + Duration::from_secs(20);
        for query in [format!("lumi dataset={raw}"), format!("run,lumi dataset={raw}")] {
            let lumis = loop {
                let reply = cache(&query, "");
                if reply.text().starts_with('{') {
                    break reply.json();
                }
                assert!(Instant::now() < until, "{}", reply.text());
            };
            for row in lumis["data"].as_array().unwrap() {
                let key = row["das"]["primary_key"].as_str().unwrap();
                assert!(!walked(row, key).is_empty(), "{query}: {key} in {row}");
            }
        }
        // what is here is answered at once; columns, and numbers about all
        let names = cache(&format!("{query} | grep block.name"), "&limit=1").json();
        assert_eq!(names["data"][0]["block"][0], json!({ "name": rows[0]["block"][0]["name"] }));
        let total = cache(&format!("block dataset={} | sum(block.size), count(block.name)", dataset.name), "").json();
        assert_eq!(total["data"][1], json!({ "function": "count", "key": "block.name", "result": { "value": blocks.len() } }));
        assert_eq!((&total["incache"], &total["nresults"]), (&json!(true), &json!(2)));
        let spoken = "file dataset=/a/b/c size>5 nevents between [1,9] block in [x,y] | grep file.size<7";
        let parts = json!({
            "fields": ["file"],
            "spec": { "dataset.name": "/a/b/c", "size": { "$gt": 5 }, "nevents": { "$gte": 1, "$lte": 9 }, "block.name": { "$in": ["x", "y"] } },
            "filters": { "grep": ["file.size<7"] },
        });
        let parsed = loop {
            let reply = cache(spoken, "");
            if reply.text().starts_with('{') {
                break reply.json()["mongo_query"].clone();
            }
        };
        assert_eq!(parsed, parts);
        // the rest as it is wrong
        let wrong = cache("block dataset=", "").expect_json(200);
        assert_eq!((&wrong["status"], &wrong["data"]), (&json!("fail"), &json!([])), "{wrong}");
        assert!(wrong["reason"].as_str().unwrap().contains("expected a value"), "{wrong}");
        assert_eq!(cache(&query, "&pid=00000000000000000000000000000000").status, 400);
        assert_eq!(cache(&query, "&limit=x").status, 400);
        assert_eq!(cache(&query, "&nosuch=plain").status, 400);
        services.fault("catalog", Fault::Wrong, u64::MAX);
        let query = format!("block dataset={}", data.dataset(4).name);
        let partial = loop {
            let reply = cache(&query, "");
            if reply.text().starts_with('{') {
                break reply.json();
            }
        };
        // one service of two is enough, and what the other lacks is said
        assert_eq!((&partial["status"], &partial["reason"]), (&json!("ok"), &Json::Null), "{partial}");
        assert!(partial["client_message"].as_str().unwrap().contains("dbs3_block is failed: it sent text/html"), "{partial}");
        services.heal();
        let ticket_answer = |query: &str| loop {
            let reply = cache(query, "&limit=100");
            if reply.text().starts_with('{') {
                break reply.json();
            }
        };
        // what no source says stands with what the first says
        let sums = ticket_answer(&format!("dataset={} | grep dataset.name, dataset.nfiles", dataset.name));
        let files: u64 = blocks.iter().map(|block| block.files).sum();
        assert_eq!(sums["data"][0]["dataset"][0], json!({ "name": dataset.name, "nfiles": files }), "{sums}");
        // a name that is a column of other records names its rows
        let sites = ticket_answer(&format!("site dataset={}", dataset.name));
        let expected_sites: BTreeSet<String> =
            blocks.iter().filter(|block| block.transferable).flat_map(|block| data.replicas(block)).map(|copy| copy.site).collect();
        let named: BTreeSet<String> =
            sites["data"].as_array().unwrap().iter().map(|row| row["site"][0]["name"].as_str().unwrap().to_owned()).collect();
        assert_eq!((named, &sites["status"]), (expected_sites, &json!("ok")), "{sites}");
        assert_eq!(sites["data"][0]["das"]["primary_key"], "site.name");
    }
}

#[test]
fn expired_answers_are_fetched_again() {
    let (services, data, definition) = services(20);
    let sandbox = Sandbox::new(&definition.replace("ttl: 15m", "ttl: 1s"));
    let stook = Served::new(&sandbox, &["--workers", "1"]);
    let client = QueryClient(&stook);
    let of = |number: u64| format!("block dataset={}", data.dataset(number).name);
    client.complete_answer(&of(1), "");
    client.complete_answer(&of(1), "");
    assert_eq!(services.take_requests().len(), 2);
    std::thread::sleep(Duration::from_millis(1_100));
    // later: what is here is answered, and asked for again meanwhile
    let answer = client.complete_answer(&of(1), "&ask=later");
    assert_eq!(state(&answer, "dbs3_block")["cached"], true);
    let until = Instant::now() + Duration::from_secs(10);
    while services.take_requests().is_empty() {
        assert!(Instant::now() < until, "nobody asked");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(1_300));
    let answer = client.complete_answer(&of(1), "");
    assert_eq!((&state(&answer, "dbs3_block")["cached"], &state(&answer, "phedex_block")["cached"]), (&json!(false), &json!(true)));
    // what a service does not say any more is gone; a block that the other one still knows stays
    let dataset = data.dataset(1);
    let blocks: Vec<Block> = data.blocks(&dataset).filter(|block| block.catalogued).collect();
    blocks.iter().for_each(|block| services.remove_block(&block.name));
    let answer = client.complete_answer(&of(1), "&ask=always");
    let remaining: BTreeSet<String> = rows(&answer).into_keys().collect();
    assert_eq!(remaining, data.blocks(&dataset).filter(|block| block.transferable).map(|block| block.name).collect());
    assert_eq!(state(&answer, "dbs3_block")["retired"], blocks.len());
    // nothing of the others is touched
    assert_eq!(
        rows(&client.complete_answer(&of(2), "")).len(),
        all_blocks(&data).iter().filter(|block| block.dataset == data.dataset(2).name).count()
    );
}

/// A question that is asked again and again leaves the jobs of its last answer.
#[test]
fn jobs_of_replaced_answers_are_deleted() {
    let (services, data, definition) = services(30);
    for sandbox in Sandbox::on_each_store(&definition) {
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let client = QueryClient(&stook);
        let query = format!("block dataset={}", data.dataset(4).name);
        let jobs = || -> BTreeSet<u64> {
            let jobs = sandbox.json(&["jobs", "--json", "--limit", "1000"]);
            jobs.as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap()).collect()
        };
        client.complete_answer(&query, "");
        let first = jobs();
        for _ in 0..4 {
            client.complete_answer(&query, "&ask=always");
        }
        let last = jobs();
        assert!(last.len() == first.len() && last.is_disjoint(&first), "{first:?} {last:?}");
        // a failure leaves the last whole answer, and what became of the newest attempt
        services.fault("catalog", Fault::TruncatedBody, u64::MAX);
        for _ in 0..3 {
            client.get(&query, "&ask=always");
        }
        services.heal();
        assert!(jobs().len() <= last.len() + 1, "{last:?} {:?}", jobs());
        let answer = client.complete_answer(&query, "&ask=always");
        let named: BTreeSet<u64> = answer["services"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|service| service["jobs"].as_array().unwrap())
            .map(|job| job.as_u64().unwrap())
            .collect();
        assert_eq!(jobs(), named);
    }
}

#[test]
fn frequently_needed_answers_are_refreshed_ahead_of_time() {
    let (services, data, definition) = services(20);
    let sandbox = Sandbox::new(&definition.replace("ttl: 15m", "ttl: 3s\n    ahead: 2s"));
    let stook = Served::new(&sandbox, &["--workers", "1"]);
    let client = QueryClient(&stook);
    let of = |number: u64| format!("block dataset={}", data.dataset(number).name);
    (0..4).for_each(|_| drop(client.complete_answer(&of(1), "")));
    client.complete_answer(&of(2), "");
    services.take_requests();
    std::thread::sleep(Duration::from_millis(4_500));
    let refetched = services.take_requests();
    let catalog = |number: u64| format!("catalog/blocks?dataset={}", data.dataset(number).name);
    assert_eq!(refetched.iter().filter(|request| **request == catalog(1)).count(), 1, "{refetched:?}");
    assert!(!refetched.contains(&catalog(2)), "{refetched:?}");
}

#[test]
fn a_query_killed_while_fetching_fetches_again() {
    let (_, data, definition) = services(4_000);
    let expected = all_blocks(&data).len();
    for sandbox in Sandbox::on_each_store(&definition) {
        for milliseconds in [40, 120, 300, 500] {
            kill_after(sandbox.command(&["query", "block | count(key)"]), Duration::from_millis(milliseconds));
        }
        let answer = sandbox.run(&["query", "block | count(key)", "--format", "json"]).exits(0);
        assert_eq!(answer.json()[0]["count(key)"], expected);
        let jobs = sandbox.json(&["jobs", "--json", "--limit", "1000"]);
        // what the killed had begun is not left behind as if somebody worked on it, once its time is over
        assert!(jobs.as_array().unwrap().iter().filter(|job| job["state"] == "completed").count() >= 2, "{jobs}");
    }
}

/// `records`: what any collection has, by collection and key, page by page.
#[test]
fn records_of_all_collections_are_found() {
    let (_, data, definition) = services(30);
    for sandbox in Sandbox::on_each_store(&definition) {
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let client = QueryClient(&stook);
        for query in ["dataset", "block", "site", "run"] {
            client.complete_answer(query, "");
        }
        let site = data.site(3).name;
        let transferred = all_blocks(&data)
            .into_iter()
            .filter(|block| block.transferable && block.replicas.contains(&3))
            .map(|block| ("block", key_of(&block.name)));
        let transferred: Vec<(&str, String)> = transferred.collect();
        let their_datasets = transferred.iter().map(|(_, block)| ("dataset", block.split('#').next().unwrap().to_owned()));
        let mut expected: Vec<(&str, String)> = their_datasets.chain(transferred.iter().cloned()).collect();
        expected.sort();
        expected.dedup();
        expected.push(("site", site.clone()));
        let expected: Vec<Json> = expected.into_iter().map(|(collection, key)| json!({ "collection": collection, "key": key })).collect();
        let path = |query: &str, more: &str| format!("/v1/main/query?q={}{more}", url_encoded(query));
        let query = format!("records site={site}");
        let all = stook.get(&path(&query, "&limit=10000&total=true")).expect_json(200);
        assert_eq!((&all["rows"], &all["total"]), (&json!(expected), &json!(expected.len())));
        let mut paged = Vec::new();
        for page_number in 0.. {
            let rows = stook.get(&path(&query, &format!("&limit=3&idx={}", page_number * 3))).expect_json(200)["rows"].as_array().unwrap().clone();
            if rows.is_empty() {
                break;
            }
            paged.extend(rows);
        }
        assert_eq!(paged, expected);
        // of which a field is there; of everything
        let named = stook.get(&path("records | grep site.name, tier=1", "&limit=10000")).expect_json(200);
        assert!(named["rows"].as_array().unwrap().iter().all(|row| row["collection"] == "site"), "{named}");
        let every = stook.get(&path("records", "&limit=1&total=true")).expect_json(200);
        // each release exists as a configuration
        let releases: BTreeSet<String> = (0..data.records).map(|number| data.dataset(number).release).collect();
        assert_eq!(every["total"], data.records + all_blocks(&data).len() as u64 + 60 + data.runs() + releases.len() as u64);
        for (wrong, reason) in
            [("records nosuch=1", "nosuch"), ("records | sort name", "across collections"), ("records site=T1_* | count(key)", "across collections")]
        {
            let reply = stook.get(&path(wrong, ""));
            assert!(reply.status == 400 && reply.text().contains(reason), "{wrong}: {}", reply.text());
        }
        let lines = sandbox.run(&["query", &query, "--limit", "0", "--format", "csv"]).exits(0).text();
        assert_eq!(lines.lines().count(), expected.len() + 1, "{lines}");
        assert!(lines.starts_with("collection,key\nblock,"), "{lines}");
        // each row of the page leads to its record
        let page = stook.get(&format!("/t/main/search?q={}", url_encoded(&query))).text();
        assert!(page.contains("collection=site&amp;key=") && page.contains("collection=block&amp;key="), "{page}");
    }
}

/// Each tenant may have an instance of a service for itself.
#[test]
fn each_tenant_can_have_its_own_instance_of_a_service() {
    let (_, data, definition) = services(20);
    let sandbox = Sandbox::new(&definition.replace("/catalog\"", "/{tenant}\"").replace("/catalog\n", "/{tenant}\n"));
    assert!(std::fs::read_to_string(sandbox.path("catalogue.yaml")).unwrap().contains("{tenant}"));
    let count = sandbox.run(&["query", "dataset | count(key)", "--tenant", "catalog", "--format", "csv"]).exits(0).text();
    assert!(count.ends_with(&format!("\n{}\n", data.records)), "{count}");
    sandbox.run(&["query", "dataset"]).exits(1).stderr_contains(&["404"]);
}

#[test]
fn mistakes_in_calls_are_found() {
    let sandbox = Sandbox::new("catalogue: x\ncollections: { a: { key: id, fields: { id: text } } }\n");
    let with_calls = |asks: &str, more: &str| {
        format!(
            "catalogue: x\nservices: {{ s: {{ url: 'http://localhost' }} }}\nsources:\n  j:\n    format: json\n    as_of: meta.received\n    into: a\n    asks: {asks}\n{more}\
             collections:\n  a:\n    key: id\n    fields: {{ id: text, at: timestamp, list: [text], long: {{ type: integer, derive: size(id) }}, \
             some: {{ type: [{{ of: text }}], index: {{ of: equal }} }}, one: {{ type: [{{ by: text, at: text }}], by: by, index: {{ at: equal }} }} }}\n"
        )
    };
    for (asks, message) in [
        ("{ service: t, calls: { c: { get: /c } } }", "there is no service `t`"),
        ("{ service: s, calls: { c: { get: c } } }", "a path begins with /"),
        ("{ service: s, calls: { c: { get: /c, args: { i: ids } } } }", "there is no field `ids`"),
        ("{ service: s, calls: { c: { get: /c, args: { i: list } } } }", "an argument is a condition on a field with one value"),
        ("{ service: s, calls: { c: { get: /c, args: { i: long } } } }", "`long` is derived"),
        ("{ service: s, calls: { c: { get: /c, args: { i: { field: at, takes: pattern } } } } }", "patterns are for text"),
        ("{ service: s, calls: { c: { get: /c, args: { i: { field: id, as: epoch } } } } }", "`as: epoch` is for timestamps"),
        ("{ service: s, calls: { c: { get: /c, args: { i: { field: id, takes: many } } } } }", "`many`"),
        ("{ service: s, calls: { c: { get: /c, page: { token: t, limit: l } } } }", "a page has `offset` and `limit`"),
        ("{ service: s, calls: { c: { get: /c, page: { token: t } } } }", "which argument takes the token"),
        ("{ service: s, calls: { c: { get: /c, args: { i: some.of } } } }", "give `by`, the member that identifies a struct"),
        ("{ service: s, calls: { c: { get: /c, args: { i: one.by } } } }", "give it `index: equal`"),
        ("{ service: s, calls: { c: { get: /c, args: { i: { field: one.at, takes: list } } } } }", "takes one value or a pattern"),
        ("{ service: s, calls: { c: { get: /c, args: { i: { field: one.at, default: x } } } } }", "nor has a condition on elements of a list"),
        ("{ service: s }", "calls"),
    ] {
        sandbox.write_definition(&with_calls(asks, ""));
        sandbox.run(&["check"]).exits(1).stderr_contains(&[message]);
    }
    sandbox.write_definition(&with_calls("{ service: s, calls: { c: { get: /c } } }", "").replace("meta.received", "at"));
    sandbox.run(&["check"]).exits(1).stderr_contains(&["add `as_of: meta.received`"]);
    sandbox.write_definition(&with_calls("{ service: s, calls: { c: { get: /c } } }", ""));
    sandbox.ok(&["check"]);
    sandbox.run(&["query", "a"]).exits(1).stderr_contains(&["s (j) is failed"]);
}

/// Structs, of XML and of JSON: each row of them, conditions on one and on any, sets of numbers counted.
#[test]
fn replicas_and_lumi_sections_can_be_queried_one_by_one() {
    let (_, data, definition) = services(60);
    let shown = |sections: &[(u64, u64)]| json!(sections);
    for sandbox in Sandbox::on_each_store(&definition) {
        let stook = Served::new(&sandbox, &["--workers", "1"]);
        let client = QueryClient(&stook);
        let dataset = data.dataset(7);
        let blocks: Vec<(u64, Block)> = data.blocks(&dataset).enumerate().map(|(block_number, block)| (block_number as u64, block)).collect();
        // a row for each copy, with conditions on that one
        let answer = client.complete_answer(
            &format!("block dataset={} | each replica | grep name, replica.site, replica.size, replica.complete=false", dataset.name),
            "",
        );
        let copies = blocks.iter().filter(|(_, block)| block.transferable).flat_map(|(_, block)| {
            let missing = data.replicas(block).into_iter().filter(|replica| !replica.complete);
            missing.map(|replica| json!({ "name": block.name, "replica.site": replica.site, "replica.size": replica.size })).collect::<Vec<_>>()
        });
        assert_eq!(sorted(answer["rows"].as_array().unwrap().clone()), sorted(copies.collect()));
        // a path through the list: the copies at the site count, not others of the same blocks
        let site = data.site(3).name;
        let answer =
            client.complete_answer(&format!("block site={site} | count(block.name), sum(block.replica.size), max(block.replica.nfiles)"), "");
        let blocks_at_site: Vec<Block> = all_blocks(&data).into_iter().filter(|block| block.transferable && block.replicas.contains(&3)).collect();
        let copies: Vec<_> = blocks_at_site.iter().flat_map(|block| data.replicas(block)).filter(|copy| copy.site == site).collect();
        assert!(blocks_at_site.len() > 5 && copies.len() == blocks_at_site.len());
        assert_eq!(
            answer["rows"][0],
            json!({
                "count(name)": blocks_at_site.len(), "sum(replica.size)": copies.iter().map(|copy| copy.size).sum::<u64>(),
                "max(replica.nfiles)": copies.iter().map(|copy| copy.files).max(),
            })
        );
        // one file, of which nothing is here yet
        let (block_number, block) = blocks.iter().find(|(_, block)| block.catalogued).unwrap();
        let file = data.files(&dataset, *block_number).next().unwrap();
        let answer = client.complete_answer(&format!("lumi file={}", file.name), "");
        let sections = file.lumis.iter().map(|(run, lumi)| json!({ "lumis.number": shown(lumi), "lumis.run": run }));
        assert_eq!(sorted(answer["rows"].as_array().unwrap().clone()), sorted(sections.collect()), "{}", block.name);
        // files, each with a row for each of its runs
        let files: Vec<_> =
            blocks.iter().filter(|(_, block)| block.catalogued).flat_map(|(block_number, _)| data.files(&dataset, *block_number)).collect();
        let answer = client.complete_answer(&format!("file,run,lumi dataset={}", dataset.name), "");
        let rows = files.iter().flat_map(|file| {
            file.lumis.iter().map(|(run, lumi)| json!({ "name": file.name, "lumis.run": run, "lumis.number": shown(lumi) })).collect::<Vec<_>>()
        });
        assert_eq!(sorted(answer["rows"].as_array().unwrap().clone()), sorted(rows.collect()));
        // two runs, each with the sections of all files
        let (first_run, second_run) = (files[0].lumis[0].0, files[1].lumis[0].0);
        let answer = client.complete_answer(&format!("run,lumi dataset={} run in [{first_run},{second_run}]", dataset.name), "");
        let all_lumis: Vec<(u64, Vec<(u64, u64)>)> = files.iter().flat_map(|file| file.lumis.clone()).collect();
        let numbers_of = |wanted: u64| -> BTreeSet<u64> {
            let of_run = all_lumis.iter().filter(|(run, _)| *run == wanted).flat_map(|(_, lumi)| lumi);
            of_run.flat_map(|(low, high)| *low..=*high).collect()
        };
        let runs = BTreeSet::from([first_run, second_run]);
        let rows: Vec<(u64, BTreeSet<u64>)> = runs.iter().map(|run| (*run, numbers_of(*run))).collect();
        let found = answer["rows"].as_array().unwrap().iter().map(|row| (row["lumis.run"].as_u64().unwrap(), numbers_in(&row["lumis.number"])));
        assert_eq!(found.collect::<Vec<_>>(), rows);
        // pairs of run and section, each once, however they are asked for
        let all_runs: BTreeSet<u64> = all_lumis.iter().map(|(run, _)| *run).collect();
        let pairs: usize = all_runs.iter().map(|run| numbers_of(*run).len()).sum();
        for names in ["lumi", "run,lumi", "file,lumi", "file,run,lumi", "file"] {
            let answer = client.complete_answer(&format!("{names} dataset={} | count(lumi)", dataset.name), "");
            assert_eq!(answer["rows"][0]["count(lumis.number)"], pairs, "{names}");
        }
        let answer = client.complete_answer(&format!("lumi dataset={} run={first_run} | count(lumi.number)", dataset.name), "");
        assert_eq!(answer["rows"][0]["count(lumis.number)"], numbers_of(first_run).len());
        // numbers are counted, not ranges; a number is in a file where one of its ranges has it
        let count = |file: &stook_sample::datasets::StoredFile| -> u64 {
            file.lumis.iter().flat_map(|(_, sections)| sections).map(|(low, high)| high - low + 1).sum()
        };
        let answer = client.complete_answer(&format!("file dataset={} | count(lumis.number), sum(nlumis)", dataset.name), "");
        let total = files.iter().map(count).sum::<u64>();
        assert_eq!(answer["rows"][0], json!({ "count(lumis.number)": total, "sum(nlumis)": total }));
        let wanted = files[0].lumis[0].1[0].1;
        let answer = client.complete_answer(&format!("file dataset={} lumi={wanted} | count(key)", dataset.name), "");
        let has =
            |lumis: &[(u64, Vec<(u64, u64)>)]| lumis.iter().flat_map(|(_, sections)| sections).any(|(low, high)| (*low..=*high).contains(&wanted));
        assert_eq!(answer["rows"][0]["count(key)"], files.iter().filter(|file| has(&file.lumis)).count());
        // people read ranges; a record has its structs once
        let table = sandbox.run(&["query", &format!("lumi file={}", files[0].name), "--ask", "never", "--format", "csv"]).exits(0).text();
        let (low, high) = files[0].lumis[0].1[0];
        assert!(table.contains(&if low == high { low.to_string() } else { format!("{low}-{high}") }), "{table}");
        let record = sandbox.json(&["get", "file", &key_of(&files[0].name), "--format", "json"]);
        let lumis: Vec<Json> = files[0].lumis.iter().map(|(run, lumi)| json!({ "run": run, "number": shown(lumi) })).collect();
        assert_eq!(record["lumis"], json!(lumis));
        assert!(record.as_object().unwrap().keys().all(|name| !name.contains('.')), "{record}");
    }
}

/// The numbers in shown ranges.
fn numbers_in(ranges: &Json) -> BTreeSet<u64> {
    let pair = |pair: &Json| pair[0].as_u64().unwrap()..=pair[1].as_u64().unwrap();
    ranges.as_array().unwrap().iter().flat_map(pair).collect()
}

fn sorted(mut rows: Vec<Json>) -> Vec<Json> {
    rows.sort_by_key(Json::to_string);
    rows
}

/// Free text: what is meant is among the first four.
#[test]
fn free_text_becomes_queries() {
    let (_, data, definition) = services(400);
    let sandbox = Sandbox::new(&definition);
    for query in ["dataset | count(key)", "block dataset=/Zee* | count(key)", "site | count(key)", "run | count(key)"] {
        sandbox.run(&["query", query]).exits(0);
    }
    let site = data.site(3).name;
    let dataset = data.dataset(5).name;
    for (text, wanted) in [
        ("Zee mc", "dataset primary_dataset=*Zee* datatype=mc"),
        ("zee MC", "dataset primary_dataset=*Zee* datatype=mc"),
        ("find all datasets of Zee with CMSSW_4_*", "dataset primary_dataset=*Zee* release=CMSSW_4_*"),
        ("4_1 Zee", "dataset release=CMSSW_4_1* primary_dataset=*Zee*"),
        ("gen-sim-reco", "dataset tier=GEN-SIM-RECO"),
        (&format!("blocks at {site}"), &format!("block replica.site={site}")),
        (&format!("blocks {dataset}"), &format!("block dataset={dataset}")),
        (&dataset, &format!("dataset name={dataset}")),
        ("run 130004", "run run_number=130004"),
        ("magnetic field of run=130004", "run run_number=130004 | grep bfield"),
        ("runs with nevents more than 16000000", "run nevents>16000000"),
        ("runs nevents > 16000000", "run nevents>16000000"),
        ("datsets Cosmis", "dataset primary_dataset=*Cosmics*"),
        ("sites in DE", "site country=DE"),
        ("status of RelValTTbar", "dataset primary_dataset=*RelValTTbar* | grep status"),
        ("datasets of 2012-05-01", "dataset creation_time=2012-05-01"),
        ("datasets created on 20120501", "dataset creation_time=2012-05-01"),
        ("datasets since 2012/05/01", "dataset creation_time>=2012-05-01"),
        ("datasets created before 2012-05-01", "dataset creation_time<2012-05-01"),
        ("runs after 2012-05-01", "run start_time>=2012-05-01"),
        ("Zee mc 2012-05-01", "dataset primary_dataset=*Zee* datatype=mc creation_time=2012-05-01"),
    ] {
        let found = sandbox.json(&["suggest", "--json", text]);
        let queries: Vec<&str> = found.as_array().unwrap().iter().map(|suggestion| suggestion["query"].as_str().unwrap()).collect();
        assert!(queries.iter().take(4).any(|query| query == &wanted), "{text}: {wanted} is not in {found:#}");
        assert!(found.as_array().unwrap().iter().all(|suggestion| !suggestion["reasons"].as_array().unwrap().is_empty()));
        // each of them is a query
        for query in queries {
            sandbox.run(&["query", query, "--ask", "never", "--limit", "1"]).exits(0);
        }
    }
    let stook = Served::new(&sandbox, &["--workers", "0"]);
    let found = stook.get("/v1/main/suggest?text=zee%20mc").expect_json(200);
    assert_eq!(found["suggestions"][0]["query"], "dataset primary_dataset=*Zee* datatype=mc");
    for odd in ["", "   ", "\"", "'", "=", ">", "* *", "a=b=c", "ä ö ü", "<<<>>>", "site=", "=T1"] {
        assert_eq!(
            stook.get(&format!("/v1/main/suggest?text={}", odd.bytes().map(|b| format!("%{b:02X}")).collect::<String>())).status,
            200,
            "{odd}"
        );
    }
    sandbox.run(&["suggest", "qqqqqqqq"]).exits(1).stderr_contains(&["no suggestion for these words"]);
}
