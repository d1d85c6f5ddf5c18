//! Services asked when a query needs them: what they know is answered, whole or said not to be, whatever happens to them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on stops")]

use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stook_sample::datasets::{Block, Dataset, Datasets, FIRST_RUN, Run, truth};
use stook_sample::random::Random;
use stook_sample::services::{Fault, SampleServices};
use stook_tests::http::{Served, encoded};
use stook_tests::{Place, kill_after};

const CATALOGUE: &str = include_str!("../../examples/datasets/catalogue.yaml");

/// Services of a sample on a port of their own.
fn services(records: u64) -> (Arc<SampleServices>, Datasets, String) {
    let data = Datasets { records, seed: 5 };
    let services = SampleServices::new(data);
    let (sender, receiver) = std::sync::mpsc::channel();
    let own = services.clone();
    std::thread::spawn(move || own.serve("127.0.0.1:0".parse().unwrap(), |address| sender.send(address).unwrap()).unwrap());
    let url = format!("http://{}", receiver.recv().unwrap());
    let mut definition = CATALOGUE.to_owned();
    for name in ["CATALOG", "TRANSFER", "SITES", "RUNS"] {
        definition = definition.replace(&format!("${{{name}_URL}}"), &format!("{url}/{}", name.to_lowercase()));
    }
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
    services.iter().map(|one| (one["source"].as_str().unwrap().to_owned(), one["state"].as_str().unwrap().to_owned())).collect()
}

fn state<'a>(answer: &'a Json, source: &str) -> &'a Json {
    answer["services"].as_array().unwrap().iter().find(|one| one["source"] == source).unwrap()
}

struct Asked<'s>(&'s Served);

impl Asked<'_> {
    fn get(&self, query: &str, more: &str) -> (u16, Json) {
        let reply = self.0.get(&format!("/v1/main/query?q={}&limit=10000{more}", encoded(query)));
        assert!(matches!(reply.status, 200 | 202), "{query}: {}", reply.text());
        (reply.status, reply.json())
    }

    fn whole(&self, query: &str, more: &str) -> Json {
        let (status, answer) = self.get(query, more);
        assert_eq!(status, 200, "{answer}");
        assert!(states(&answer).values().all(|state| state == "complete"), "{}", answer["services"]);
        answer
    }
}

#[test]
fn what_two_services_know_is_one_answer() {
    let (services, data, definition) = services(120);
    for place in Place::both(&definition) {
        let stook = Served::new(&place, &["--workers", "1"]);
        let asked = Asked(&stook);
        let answer = asked.whole("block", "");
        let expected: BTreeMap<String, Json> = all_blocks(&data).iter().map(|block| (block.name.clone(), truth(&data, block))).collect();
        let found = rows(&answer);
        assert_eq!(found.len(), expected.len());
        for (name, row) in &found {
            assert_eq!(compared(row), without_conflict(expected[name].clone()));
        }
        // who disagrees is known, and why a value was chosen
        let conflicts: BTreeSet<String> = rows(&asked.whole("block conflict=size", "")).into_keys().collect();
        let known: BTreeSet<String> = expected.iter().filter(|(_, truth)| truth["conflict"] == true).map(|(name, _)| name.clone()).collect();
        assert!(!known.is_empty());
        assert_eq!(conflicts, known);
        let overview = stook.get("/v1/main?counts=true").with(200);
        let own = overview["collections"].as_array().unwrap().iter().find(|own| own["name"] == "block").unwrap();
        assert_eq!((own["records"].as_u64(), own["conflicts"].as_u64()), (Some(expected.len() as u64), Some(known.len() as u64)));
        assert!(stook.get("/t/main/home").text().contains("Sources disagree on"));
        let explained = place.json(&["get", "block", known.first().unwrap(), "--explain", "--format", "json"]);
        assert_eq!(explained["fields"]["size"]["from"][0], "dbs3_block", "{explained}");
        assert_eq!(explained["fields"]["size"]["lost"][0]["contributor"], "phedex_block", "{explained}");
        // who knows of them
        for (system, is_known) in [("dbs3", (|block| block.catalogued) as fn(&Block) -> bool), ("phedex", |block| block.transferable)] {
            let found = rows(&asked.whole(&format!("block system={system} | grep name"), ""));
            assert_eq!(found.len(), all_blocks(&data).iter().filter(|block| is_known(block)).count());
        }
        // one more question and all are here; what was said of one is not asked again
        services.take_asked();
        let dataset = data.dataset(7);
        let own = asked.whole(&format!("block dataset={}", dataset.name), "");
        assert_eq!(own["rows"].as_array().unwrap().len(), expected.values().filter(|truth| truth["dataset"] == dataset.name.as_str()).count());
        assert_eq!(state(&own, "dbs3_block")["cached"], true);
        asked.whole("block dataset=/Zee* nfiles>20 site=T1_* | sum(size)", "");
        assert_eq!(services.take_asked(), Vec::<String>::new());
        // pages of a service that numbers them, and of one that says what follows
        assert_eq!(asked.whole("dataset", "")["rows"].as_array().unwrap().len(), 120);
        let runs = asked.whole(&format!("run between [{}, {}]", FIRST_RUN + 3, FIRST_RUN + 8), "");
        assert_eq!(runs["rows"].as_array().unwrap().len(), 6);
        assert_eq!(runs["rows"][0]["start_time"], "2010-01-01T04:30:00Z");
        let sites = asked.whole("site tier=1", "");
        let hours = |text: &Json| text.as_str().unwrap()[11..13].parse::<i32>().unwrap();
        let site = state(&sites, "sitedb_site");
        assert_eq!((hours(&site["fresh_until"]) - hours(&site["at"]) + 24) % 24, 3, "the service says how long it is fresh: {site}");
        // only a service that is told enough is asked
        let files = asked.get("file", "").1;
        assert_eq!(state(&files, "dbs3_file")["state"], "unasked");
        assert_eq!(state(&files, "dbs3_file")["reason"], "it requires a condition on name or block or dataset");
        let block = all_blocks(&data).into_iter().find(|block| block.catalogued).unwrap();
        let files = asked.whole(&format!("file block={} | count(key)", block.name), "");
        assert_eq!(files["rows"][0]["count(key)"], block.files);
        assert_eq!(services.take_asked().last().unwrap(), &format!("catalog/files?block={}", block.name));
    }
}

#[test]
fn an_answer_of_several_pages_is_complete() {
    let (services, _, definition) = services(5_000);
    let place = Place::new(&definition);
    let answer = place.run(&["query", "run | count(key), min(run_number), max(run_number)", "--format", "json"]).exits(0);
    assert_eq!(answer.json()[0], json!({ "count(key)": 500, "min(run_number)": FIRST_RUN, "max(run_number)": FIRST_RUN + 499 }));
    assert_eq!(services.take_asked().iter().filter(|asked| asked.starts_with("runs/")).count(), 5);
    let told: Json = serde_json::from_str(answer.err.lines().last().unwrap()).unwrap();
    assert_eq!((&told["state"], &told["documents"]), (&json!("complete"), &json!(500)));
}

/// Conditions on what services are told, and on what only the store knows.
#[derive(Debug, Clone, Default)]
struct Wanted {
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
        let Some((_, behind)) = rest.split_once(piece) else { return false };
        rest = behind;
    }
    rest.ends_with(last)
}

impl Wanted {
    fn random(random: &mut Random, data: &Datasets) -> Self {
        let dataset = data.dataset(random.below(data.records));
        let block = data.block(&dataset, random.below(9));
        let parts: Vec<&str> = dataset.name.split('/').collect();
        let some = |random: &mut Random, choices: Vec<String>| random.per_mille(650).then(|| random.one(&choices).clone());
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
            dataset: some(random, datasets),
            name: if random.per_mille(300) { some(random, names) } else { None },
            nfiles: random.per_mille(300).then(|| (random.between(1, 20) as i64, random.between(21, 40) as i64)),
            site: random.per_mille(200).then(|| data.site(random.below(60)).name),
        }
    }

    fn query(&self) -> String {
        let mut query = "block".to_owned();
        query.extend(self.dataset.iter().map(|own| format!(" dataset=\"{own}\"")));
        query.extend(self.name.iter().map(|own| format!(" name=\"{own}\"")));
        query.extend(self.nfiles.iter().map(|(low, high)| format!(" nfiles between [{low}, {high}]")));
        query.extend(self.site.iter().map(|own| format!(" site={own}")));
        query
    }

    /// What services are told holds of a block.
    fn is_told(&self, block: &Block) -> bool {
        self.dataset.as_ref().is_none_or(|own| fits(own, &block.dataset)) && self.name.as_ref().is_none_or(|own| fits(own, &block.name))
    }

    fn holds(&self, row: &Json) -> bool {
        let files = row["nfiles"].as_i64().unwrap();
        let at = |own: &String| row["replica"].as_array().is_some_and(|all| all.iter().any(|replica| replica["site"] == own.as_str()));
        self.nfiles.is_none_or(|(low, high)| (low..=high).contains(&files)) && self.site.as_ref().is_none_or(at)
    }
}

/// The law: whatever was asked before, an answer is what its services know, as of when they were asked about it last.
#[test]
fn an_answer_is_what_was_last_said_of_what_is_asked() {
    for seed in 0..3 {
        let (services, data, definition) = services(40);
        for place in Place::both(&definition) {
            let stook = Served::new(&place, &["--workers", "1"]);
            let asked = Asked(&stook);
            let mut random = Random::new(seed);
            let blocks = all_blocks(&data);
            // what the catalogue has removed, and of which of that it has been asked since
            let (mut removed, mut gone) = (BTreeSet::<String>::new(), BTreeSet::<String>::new());
            let (mut asks, mut spared) = (0, 0);
            for step in 0..120 {
                if random.per_mille(150) {
                    let block = random.one(&blocks);
                    if block.catalogued && removed.insert(block.name.clone()) {
                        services.remove_block(&block.name);
                    }
                    continue;
                }
                let wanted = Wanted::random(&mut random, &data);
                let always = random.per_mille(250);
                services.take_asked();
                let answer = asked.whole(&wanted.query(), if always { "&ask=always" } else { "" });
                let was_asked = services.take_asked().iter().any(|asked| asked.starts_with("catalog/"));
                assert!(was_asked || !always);
                (asks, spared) = (asks + u32::from(was_asked), spared + u32::from(!was_asked));
                if was_asked {
                    gone.extend(blocks.iter().filter(|block| wanted.is_told(block) && removed.contains(&block.name)).map(|block| block.name.clone()));
                }
                let known = blocks.iter().filter(|block| wanted.is_told(block)).filter_map(|block| {
                    let catalogued = block.catalogued && !gone.contains(&block.name);
                    let now = Block { catalogued, ..block.clone() };
                    (now.catalogued || now.transferable).then(|| without_conflict(truth(&data, &now)))
                });
                let mut expected: Vec<Json> = known.filter(|row| wanted.holds(row)).collect();
                let mut found: Vec<Json> = rows(&answer).values().map(compared).collect();
                let by_name = |row: &Json| row["name"].as_str().unwrap().to_owned();
                found.sort_by_key(by_name);
                expected.sort_by_key(by_name);
                assert_eq!(found, expected, "seed {seed}, step {step}: {} {}", wanted.query(), answer["services"]);
            }
            assert!(asks > 10 && spared > 10, "{asks} {spared}");
            // the other store begins with the same services
            services.restore();
        }
    }
}

/// Words of a query, and which numbers or times they ask for.
type Condition<'c> = (String, Box<dyn Fn(u64) -> bool + 'c>);
/// The same of names.
type OfNames<'c> = (String, Box<dyn Fn(&str) -> bool + 'c>);

fn shown(seconds: u64) -> String {
    stook_catalogue::value::show_timestamp(seconds as i64 * 1_000_000)
}

fn day(seconds: u64) -> String {
    shown(seconds)[..10].to_owned()
}

/// A question about runs by numbers and times, and its answer.
fn about_runs(random: &mut Random, data: &Datasets) -> (String, BTreeMap<String, Json>) {
    let runs: Vec<Run> = (0..data.runs()).map(|number| data.run(FIRST_RUN + number)).collect();
    let (low, high) = (FIRST_RUN + random.below(15), FIRST_RUN + random.below(15));
    let (from, to) = (random.one(&runs).start, random.one(&runs).start);
    let (numbers, holds): Condition = match random.below(4) {
        0 => (format!(" run_number={low}"), Box::new(move |number| number == low)),
        1 => (format!(" run_number in [{low}, {high}]"), Box::new(move |number| number == low || number == high)),
        2 => (format!(" run_number between [{low}, {high}]"), Box::new(move |number| (low..=high).contains(&number))),
        _ => (String::new(), Box::new(|_| true)),
    };
    let (times, starts): Condition = match random.below(3) {
        0 => (format!(" start_time between [{}, {}]", day(from), day(to)), Box::new(move |at| (day(from)..=day(to)).contains(&day(at)))),
        1 => (format!(" start_time>={} start_time<{}", shown(from), shown(to)), Box::new(move |at| (from..to).contains(&at))),
        _ => (String::new(), Box::new(|_| true)),
    };
    let row = |run: &Run| {
        let names: BTreeSet<String> = run.datasets.iter().map(|number| data.dataset(*number).name).collect();
        let row = json!({ "start_time": shown(run.start), "end_time": shown(run.stop), "nevents": run.events, "datasets": names });
        (run.number.to_string(), row)
    };
    let found = runs.iter().filter(|run| holds(run.number) && starts(run.start)).map(row);
    (format!("run{numbers}{times}"), found.collect())
}

/// A question about datasets by names, times and status, and its answer.
fn about_datasets(random: &mut Random, data: &Datasets) -> (String, BTreeMap<String, Json>) {
    let datasets: Vec<_> = (0..data.records).map(|number| data.dataset(number)).collect();
    let some: Vec<String> = (0..random.between(1, 4)).map(|_| random.one(&datasets).name.clone()).collect();
    let (from, to) = (random.one(&datasets).created, random.one(&datasets).created);
    let begin = random.one(&datasets).name[..3].to_owned();
    let (names, holds): OfNames = match random.below(3) {
        0 => (format!(" name in [{}]", some.join(", ")), Box::new(|name| some.iter().any(|own| own == name))),
        1 => (format!(" name={begin}*"), Box::new(|name| name.starts_with(&begin))),
        _ => (String::new(), Box::new(|_| true)),
    };
    let (times, starts): Condition = match random.below(3) {
        0 => (format!(" creation_time between [{}, {}]", day(from), day(to)), Box::new(move |at| (day(from)..=day(to)).contains(&day(at)))),
        1 => (format!(" creation_time>{}", shown(from)), Box::new(move |at| at > from)),
        _ => (String::new(), Box::new(|_| true)),
    };
    let status = random.per_mille(300).then_some("PRODUCTION");
    let fits = |own: &&Dataset| holds(&own.name) && starts(own.created) && status.is_none_or(|status| own.status == status);
    let row = |own: &Dataset| {
        let row = json!({ "creation_time": shown(own.created), "status": own.status, "datatype": own.datatype, "release": own.release });
        (own.name.clone(), row)
    };
    let said = status.map_or(String::new(), |status| format!(" status={status}"));
    (format!("dataset{names}{times}{said}"), datasets.iter().filter(fits).map(row).collect())
}

/// The law for numbers, times and lists: an answer is the truth, whether its services are asked or what is here covers it.
#[test]
fn ranges_lists_and_times_are_answered_from_what_covers_them() {
    for seed in 0..2 {
        let (services, data, definition) = services(150);
        for place in Place::both(&definition) {
            let stook = Served::new(&place, &["--workers", "1"]);
            let asked = Asked(&stook);
            let mut random = Random::new(seed);
            let (mut asks, mut spared, mut told) = (0, 0, BTreeSet::new());
            for step in 0..120 {
                let about = if random.per_mille(500) { about_runs } else { about_datasets };
                let (query, expected) = about(&mut random, &data);
                let more = if random.per_mille(300) { "&ask=always" } else { "" };
                let answer = asked.whole(&query, more);
                let requests = services.take_asked();
                (asks, spared) = (asks + u32::from(!requests.is_empty()), spared + u32::from(requests.is_empty()));
                for request in &requests {
                    told.extend(request.split(['?', '&']).skip(1).filter_map(|pair| Some(pair.split_once('=')?.0.to_owned())));
                }
                let mut found: BTreeMap<String, Json> = BTreeMap::new();
                for row in answer["rows"].as_array().unwrap() {
                    let key = row["name"].as_str().map_or_else(|| row["run_number"].to_string(), str::to_owned);
                    let names = expected.get(&key).and_then(Json::as_object).into_iter().flat_map(|own| own.keys());
                    let mut own: serde_json::Map<String, Json> = names.map(|name| (name.clone(), row[name].clone())).collect();
                    if let Some(Json::Array(items)) = own.get_mut("datasets") {
                        items.sort_by_key(Json::to_string);
                        items.dedup();
                    }
                    found.insert(key, own.into());
                }
                assert_eq!(found, expected, "seed {seed}, step {step}: {query} {}", answer["services"]);
            }
            assert!(asks > 10 && spared > 10, "{asks} {spared}");
            for argument in ["min", "max", "from", "to", "min_cdate", "max_cdate", "dataset", "status"] {
                assert!(told.contains(argument), "no service was told {argument}: {told:?}");
            }
        }
    }
}

/// A copy of a block: site, storage element, size.
type Copy = (String, String, u64);

/// What the transfers were told, of a request as it was noted.
fn told(asked: &str) -> Option<BTreeMap<String, String>> {
    let arguments = asked.strip_prefix("transfer/blockreplicas?")?;
    let pairs = arguments.split('&').filter_map(|pair| pair.split_once('='));
    Some(pairs.map(|(name, value)| (name.to_owned(), value.replace('%', "*"))).collect())
}

/// The law for lists that are told in part: of each copy an answer says what was said last, whatever else was asked before.
#[test]
fn copies_are_what_was_last_said_of_them() {
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
        for place in Place::both(&definition) {
            let stook = Served::new(&place, &["--workers", "1"]);
            let asked = Asked(&stook);
            let mut random = Random::new(seed);
            let mut removed = BTreeSet::<(String, String)>::new();
            // whether a copy was there, when the transfers were last asked for it
            let mut known = BTreeMap::<(String, String), bool>::new();
            let (mut parts, mut wholes, mut spared) = (0, 0, 0);
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
                let scope = dataset.iter().map(|own| format!(" dataset={own}")).collect::<String>();
                let is_meant =
                    |(own_site, own_se, _): &Copy| site.as_ref().is_none_or(|site| fits(site, own_site)) && se.as_ref().is_none_or(|se| se == own_se);
                let on_row =
                    site.iter().map(|own| format!("replica.site={own}")).chain(se.iter().map(|own| format!("replica.se={own}"))).collect::<String>();
                let any = site.iter().chain(&se).map(|own| format!(" site={own}")).collect::<String>();
                let kind = random.below(4);
                let query = match kind {
                    0 => format!("block{scope} | each replica | grep name, replica.site, replica.size, {on_row}"),
                    1 => format!("block{scope}{any} | grep name"),
                    2 => format!("block{scope}{any} | each replica | grep name, replica.site, replica.size"),
                    _ => format!("block{scope}{any} | grep name | count(name), sum(replica.size)"),
                };
                services.take_asked();
                let answer = asked.whole(&query, if random.per_mille(200) { "&ask=always" } else { "" });
                let requests: Vec<_> = services.take_asked().iter().filter_map(|asked| told(asked)).collect();
                spared += u32::from(requests.is_empty());
                for told in &requests {
                    assert!(told.len() < 3, "{told:?}");
                    let narrow = told.contains_key("node") || told.contains_key("se");
                    (parts, wholes) = (parts + u32::from(narrow), wholes + u32::from(!narrow));
                    let fits = |name: &str, own: &str| told.get(name).is_none_or(|wanted| fits(wanted, own));
                    for (block, copies) in copies.iter().filter(|(block, _)| fits("dataset", &block.dataset)) {
                        for (site, ..) in copies.iter().filter(|(site, se, _)| fits("node", site) && fits("se", se)) {
                            let place = (block.name.clone(), site.clone());
                            known.insert(place.clone(), !removed.contains(&place));
                        }
                    }
                }
                let is_there = |block: &Block, copy: &Copy| known.get(&(block.name.clone(), copy.0.clone()));
                let blocks = copies.iter().filter(|(block, _)| dataset.as_ref().is_none_or(|own| *own == block.dataset));
                let there = |block: &Block, copies: &[Copy]| -> Vec<Copy> {
                    copies.iter().filter(|copy| is_there(block, copy) == Some(&true)).cloned().collect()
                };
                let row = |block: &Block, copy: &Copy| json!({ "name": block.name, "replica.site": copy.0, "replica.size": copy.2 });
                let matching = blocks.map(|(block, copies)| (block, there(block, copies))).filter(|(_, there)| there.iter().any(is_meant));
                let matching: Vec<(&Block, Vec<Copy>)> = matching.collect();
                let expected: Vec<Json> = match kind {
                    0 => matching.iter().flat_map(|(block, there)| there.iter().filter(|copy| is_meant(copy)).map(|copy| row(block, copy))).collect(),
                    1 => matching.iter().map(|(block, _)| json!({ "name": block.name })).collect(),
                    2 => matching.iter().flat_map(|(block, there)| there.iter().map(|copy| row(block, copy))).collect(),
                    _ => {
                        let sum = matching.iter().flat_map(|(_, there)| there).map(|copy| copy.2).reduce(|a, b| a + b);
                        vec![json!({ "count(name)": matching.len(), "sum(replica.size)": sum })]
                    }
                };
                let context = || format!("seed {seed}, step {step}: {query} {}", answer["services"]);
                assert_eq!(sorted(answer["rows"].as_array().unwrap().clone()), sorted(expected), "{}", context());
                // nothing that was not asked for is taken to be absent
                for (block, copies) in copies.iter().filter(|(block, _)| dataset.as_ref().is_none_or(|own| *own == block.dataset)) {
                    let wanted = copies.iter().filter(|copy| if kind < 2 { is_meant(copy) } else { true });
                    let unknown = wanted.into_iter().find(|copy| is_there(block, copy).is_none());
                    assert!(unknown.is_none(), "{unknown:?} {}", context());
                }
            }
            assert!(parts > 5 && wholes > 5 && spared > 20, "{parts} {wholes} {spared}");
            services.restore();
        }
    }
}

#[test]
fn one_service_s_trouble_is_its_own() {
    let (services, data, definition) = services(60);
    let definition =
        definition.replace("timeout: 60s", "timeout: 2s").replace("deadline: 120s", "deadline: 5s\n    most_bytes: 8MiB\n    ttl_failed: 1ms");
    for place in Place::both(&definition) {
        let stook = Served::new(&place, &["--workers", "1"]);
        let asked = Asked(&stook);
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
            let (_, answer) = asked.get(&query, "");
            assert!(began.elapsed() < Duration::from_secs(12), "{fault:?}");
            let (bad, good) = if service == "catalog" { ("dbs3_block", "phedex_block") } else { ("phedex_block", "dbs3_block") };
            let told = state(&answer, bad);
            assert!(matches!(told["state"].as_str(), Some("failed" | "partial" | "running")), "{fault:?}: {told}");
            assert!(told["reason"].as_str().unwrap().contains(reason), "{fault:?}: {told}");
            assert_eq!(state(&answer, good)["state"], "complete", "{fault:?}");
            let known = |block: &Block| if service == "catalog" { block.transferable } else { block.catalogued };
            let of_good: BTreeSet<String> = data.blocks(&dataset).filter(known).map(|block| block.name).collect();
            let found: BTreeSet<String> = rows(&answer).into_keys().collect();
            assert!(found.is_superset(&of_good), "{fault:?}: what the other service says is here");
            // nothing is retired by an answer that is not whole, and a whole one comes when the service is well
            services.heal();
            std::thread::sleep(Duration::from_millis(5));
            let healed = loop {
                let (status, answer) = asked.get(&query, "");
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
        let answer = asked.whole(&format!("block dataset={}", data.dataset(40).name), "");
        assert!(state(&answer, "dbs3_block")["seconds"].as_f64().unwrap() >= 1.0, "it said when to come back");
        services.heal();
        // the command says the same, with its exit code
        services.fault("transfer", Fault::Wrong, u64::MAX);
        let query = format!("block dataset={}", data.dataset(41).name);
        let answer = place.run(&["query", &query, "--format", "ndjson"]);
        answer.clone().exits(2).complains(&["\"state\":\"failed\"", "it sent text/html instead of xml"]);
        services.heal();
        place.run(&["query", &query, "--ask", "never"]).exits(0);
    }
}

#[test]
fn what_is_tried_again_ends_with_the_deadline() {
    let (services, data, definition) = services(20);
    let place = Place::new(&definition.replace("deadline: 120s", "deadline: 1500ms").replace("attempts: 3", "attempts: 9"));
    let stook = Served::new(&place, &["--workers", "1"]);
    // with growing pauses; none ends after the deadline, one that is asked for neither
    for (number, fault) in [Fault::Failing, Fault::Busy, Fault::Silent].into_iter().enumerate() {
        services.fault("catalog", fault, u64::MAX);
        services.take_asked();
        let began = Instant::now();
        let (_, answer) = Asked(&stook).get(&format!("block dataset={}", data.dataset(number as u64).name), "");
        let told = state(&answer, "dbs3_block");
        assert_eq!(told["state"], "failed", "{fault:?}: {told}");
        assert!(began.elapsed() < Duration::from_secs(4), "{fault:?}: {:?}", began.elapsed());
        let tries = services.take_asked().iter().filter(|asked| asked.starts_with("catalog")).count();
        assert!((1..9).contains(&tries), "{fault:?}: {tries}");
        assert_eq!(state(&answer, "phedex_block")["state"], "complete");
        services.heal();
    }
}

/// The services as a program of their own, and their data as files.
#[test]
fn the_sample_is_services_and_files() {
    let place = Place::new(CATALOGUE);
    let folder = place.path("files");
    place.ok(&["sample", "datasets", "--records", "30", "--seed", "5", "-o", folder.to_str().unwrap()]);
    let data = Datasets { records: 30, seed: 5 };
    let truth = std::fs::read_to_string(folder.join("truth.ndjson")).unwrap();
    assert_eq!(truth.lines().count(), all_blocks(&data).len());
    let mut command = place.command(&["sample", "datasets", "--records", "30", "--seed", "5", "--serve", "127.0.0.1:0"]);
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut urls = BTreeMap::new();
    while urls.len() < 4 {
        let line = lines.next().unwrap().unwrap();
        urls.extend(line.split_whitespace().filter_map(|pair| pair.split_once('=')).map(|(name, url)| (name.to_owned(), url.to_owned())));
    }
    let ask = |query: &str| {
        let mut command = place.command(&["query", query, "--format", "ndjson", "--limit", "10000", "--ask", "always"]);
        command.envs(&urls).output().unwrap()
    };
    let answer = ask("block");
    assert_eq!(answer.status.code(), Some(0), "{}", String::from_utf8_lossy(&answer.stderr));
    assert_eq!(answer.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count(), all_blocks(&data).len());
    // a fault by request, as often as it says
    let fault = urls["CATALOG_URL"].replace("/catalog", "/fault/catalog/wrong?times=1");
    assert_eq!(ureq::put(&fault).send_empty().unwrap().status(), 204);
    let answer = ask("block");
    assert_eq!(answer.status.code(), Some(2), "{}", String::from_utf8_lossy(&answer.stderr));
    assert_eq!(ask("block").status.code(), Some(0));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// All examples of the original's page that mean something here are answered by services, whatever these know.
#[test]
fn all_examples_of_the_original_are_answered() {
    let (services, _, definition) = services(60);
    let place = Place::new(&definition);
    let stook = Served::new(&place, &["--workers", "1"]);
    let page = include_str!("../../examples/datasets/das.md").replace("\\|", "\u{1}");
    let mut answered = 0;
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<String> = line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect();
        let (true, Some(same)) = (cells[1].parse::<u32>().is_ok(), cells[3].strip_prefix("as `").and_then(|rest| rest.split_once('`'))) else {
            continue;
        };
        let mut rows = Vec::new();
        for query in [cells[2].trim_matches('`'), same.0] {
            let (status, answer) = Asked(&stook).get(query, "");
            assert_eq!(status, 200, "{query}: {answer}");
            // services that the sample does not have say so
            let is_absent = |one: &Json| one["reason"].as_str().is_some_and(|reason| reason.ends_with("is not set"));
            let is_well = |one: &Json| matches!(one["state"].as_str(), Some("complete" | "unasked")) || is_absent(one);
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
fn equal_questions_at_once_are_asked_once() {
    let (services, data, definition) = services(200);
    let place = Place::new(&definition);
    let stook = Served::new(&place, &["--workers", "1"]);
    services.fault("transfer", Fault::Slow, 1);
    let query = "block dataset=/Z*";
    let expected = all_blocks(&data).iter().filter(|block| block.dataset.starts_with("/Z")).count();
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                let answer = Asked(&stook).whole(query, "");
                assert_eq!(answer["rows"].as_array().unwrap().len(), expected);
            });
        }
    });
    let asked = services.take_asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    // the same question in another order is the same question
    services.fault("transfer", Fault::Slow, 1);
    let texts = ["block dataset=/V* site=T1_*", "block site=T1_* dataset=/V*", "dataset=/V*  block  site = T1_*"];
    assert!(texts.iter().all(|query| Asked(&stook).get(query, "&wait=0").0 == 202));
    let answers = texts.map(|query| Asked(&stook).whole(query, "")["rows"].clone());
    assert!(answers.iter().all(|rows| *rows == answers[0]));
    let asked = services.take_asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    // who does not want to wait is told so, and asks again until it is here
    services.fault("transfer", Fault::Slow, 1);
    let (status, answer) = Asked(&stook).get("block dataset=/W*", "&wait=1");
    assert_eq!(status, 202, "{answer}");
    assert_eq!(states(&answer)["phedex_block"], "running");
    assert_eq!(states(&answer)["dbs3_block"], "complete");
    Asked(&stook).whole("block dataset=/W*", "");
    assert_eq!(services.take_asked().len(), 2);
}

/// The original's protocol: a ticket while services are asked, then the answer.
/// A query that takes long says what is asked, and tells how it goes on until all have answered.
/// Everything that is told without a condition, before anybody asks for it.
#[test]
fn services_are_asked_for_everything_up_front() {
    let (services, data, definition) = services(60);
    for place in Place::both(&definition) {
        place.run(&["collect"]).exits(1).complains(&["no source of this catalogue is collected"]);
        // services whose variables are not set fail, and say which variable
        let told = place.run(&["collect", "--asked", "--json"]).exits(2).lines();
        let state = |source: &str| told.iter().find(|status| status["source"] == source).map(|status| status["state"].clone());
        assert_eq!((state("dbs3_block"), state("phedex_block")), (Some("complete".into()), Some("complete".into())));
        assert_eq!(state("dbs3_file"), Some("unasked".into()), "files are told by dataset: {told:?}");
        let count = |query: &str| place.run(&["query", query, "--ask", "never", "--format", "json"]).exits(0).json()[0]["count(key)"].clone();
        assert_eq!(count("block | count(key)"), all_blocks(&data).len());
        assert_eq!(count("dataset | count(key)"), 60);
        // nobody is asked again for what is fresh
        services.take_asked();
        place.run(&["collect", "--asked"]).exits(2);
        assert_eq!(services.take_asked(), Vec::<String>::new());
    }
}

#[test]
fn long_queries_are_watched() {
    let (services, data, definition) = services(40);
    for place in Place::both(&definition) {
        let stook = Served::new(&place, &["--workers", "1"]);
        let asked = Asked(&stook);
        services.fault("transfer", Fault::Slow, 1);
        let query = format!("block dataset={}", data.dataset(5).name);
        let (status, first) = asked.get(&query, "&wait=0");
        assert_eq!((status, &state(&first, "phedex_block")["state"]), (202, &json!("running")), "{first}");
        assert_eq!(stook.get(&format!("/v1/other/query/asked/{}", first["id"].as_str().unwrap())).status, 404);
        let watched = stook.get(&format!("/v1/main/query/events?q={}", encoded(&query)));
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
        let back = stook.get(&format!("/v1/main/query/asked/{}?wait=5", first["id"].as_str().unwrap())).with(200);
        assert_eq!((&back["rows"], back.get("id")), (&asked.whole(&query, "")["rows"], None));
        let never = stook.get("/v1/main/query/asked/00000000000000000000000000000000");
        assert!(never.status == 404 && never.text().contains("send it again"));
        let blocks = all_blocks(&data).into_iter().filter(|block| block.dataset == data.dataset(5).name).count();
        assert_eq!(asked.whole(&query, "")["rows"].as_array().unwrap().len(), blocks);
        let first = stook.get("/v1/main/query/events?q=nothing");
        assert_eq!(first.status, 400);
    }
}

/// The values that the original's client shows of a row for a name with dots: through members and lists, whatever lies between.
fn walked<'r>(row: &'r Json, name: &str) -> Vec<&'r Json> {
    fn found<'r>(json: &'r Json, name: &str, values: &mut Vec<&'r Json>) {
        match json {
            Json::Object(members) => {
                for (own, value) in members {
                    match value {
                        Json::Array(items) if own == name => values.extend(items),
                        _ if own == name => values.push(value),
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
    for place in Place::both(&definition) {
        let stook = Served::new(&place, &["--workers", "1"]);
        let cache = |query: &str, more: &str| stook.get(&format!("/das/cache?input={}{more}", encoded(query)));
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
        let parsed = json!({ "fields": ["block"], "spec": { "dataset": dataset.name }, "filters": { "sort": ["block.name"] } });
        assert_eq!(answer["mongo_query"], parsed);
        assert_eq!(answer["apilist"], json!(["dbs3_block", "phedex_block"]));
        let rows = answer["data"].as_array().unwrap();
        assert_eq!(rows.len(), blocks.len().min(5));
        for row in rows {
            let block = blocks.iter().find(|block| row["block"][0]["name"] == block.name.as_str()).unwrap();
            assert_eq!(row["das"]["primary_key"], "block.name");
            let systems: Vec<&str> =
                [(block.catalogued, "dbs3"), (block.transferable, "phedex")].iter().filter(|(known, _)| *known).map(|(_, name)| *name).collect();
            assert_eq!(row["das"]["system"], json!(systems));
            // each service's own words, in its place
            for (place, system) in systems.iter().enumerate() {
                let size = if *system == "dbs3" { block.size } else { block.transferred };
                assert_eq!(row["block"][place]["size"], size);
            }
        }
        // members are inside of what they are members of, and what is asked for stands for its row: a client walks from name to name
        let sites = cache(&format!("{query} | grep block.replica.site"), "&limit=1").json();
        let own = walked(&sites["data"][0], "block.replica.site");
        assert!(!own.is_empty() && own.iter().all(|site| site.as_str().is_some_and(|site| site.starts_with('T'))), "{sites}");
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
            "spec": { "dataset": "/a/b/c", "size": { "$gt": 5 }, "nevents": { "$gte": 1, "$lte": 9 }, "block": { "$in": ["x", "y"] } },
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
        let wrong = cache("block dataset=", "").with(200);
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
        let whole = |query: &str| loop {
            let reply = cache(query, "&limit=100");
            if reply.text().starts_with('{') {
                break reply.json();
            }
        };
        // what no source says stands with what the first says
        let sums = whole(&format!("dataset={} | grep dataset.name, dataset.nfiles", dataset.name));
        let files: u64 = blocks.iter().map(|block| block.files).sum();
        assert_eq!(sums["data"][0]["dataset"][0], json!({ "name": dataset.name, "nfiles": files }), "{sums}");
        // a name that is a column of other records names its rows
        let sites = whole(&format!("site dataset={}", dataset.name));
        let there: BTreeSet<String> =
            blocks.iter().filter(|block| block.transferable).flat_map(|block| data.replicas(block)).map(|copy| copy.site).collect();
        let named: BTreeSet<String> =
            sites["data"].as_array().unwrap().iter().map(|row| row["site"][0]["name"].as_str().unwrap().to_owned()).collect();
        assert_eq!((named, &sites["status"]), (there, &json!("ok")), "{sites}");
        assert_eq!(sites["data"][0]["das"]["primary_key"], "site.name");
    }
}

#[test]
fn what_is_not_fresh_is_asked_again() {
    let (services, data, definition) = services(20);
    let place = Place::new(&definition.replace("ttl: 15m", "ttl: 1s"));
    let stook = Served::new(&place, &["--workers", "1"]);
    let asked = Asked(&stook);
    let of = |number: u64| format!("block dataset={}", data.dataset(number).name);
    asked.whole(&of(1), "");
    asked.whole(&of(1), "");
    assert_eq!(services.take_asked().len(), 2);
    std::thread::sleep(Duration::from_millis(1_100));
    // later: what is here is answered, and asked for again meanwhile
    let answer = asked.whole(&of(1), "&ask=later");
    assert_eq!(state(&answer, "dbs3_block")["cached"], true);
    let until = Instant::now() + Duration::from_secs(10);
    while services.take_asked().is_empty() {
        assert!(Instant::now() < until, "nobody asked");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(1_300));
    let answer = asked.whole(&of(1), "");
    assert_eq!((&state(&answer, "dbs3_block")["cached"], &state(&answer, "phedex_block")["cached"]), (&json!(false), &json!(true)));
    // what a service does not say any more is gone; a block that the other one still knows stays
    let dataset = data.dataset(1);
    let blocks: Vec<Block> = data.blocks(&dataset).filter(|block| block.catalogued).collect();
    blocks.iter().for_each(|block| services.remove_block(&block.name));
    let answer = asked.whole(&of(1), "&ask=always");
    let left: BTreeSet<String> = rows(&answer).into_keys().collect();
    assert_eq!(left, data.blocks(&dataset).filter(|block| block.transferable).map(|block| block.name).collect());
    assert_eq!(state(&answer, "dbs3_block")["retired"], blocks.len());
    // nothing of the others is touched
    assert_eq!(rows(&asked.whole(&of(2), "")).len(), all_blocks(&data).iter().filter(|block| block.dataset == data.dataset(2).name).count());
}

/// A question that is asked again and again leaves the jobs of its last answer.
#[test]
fn jobs_of_replaced_answers_go() {
    let (services, data, definition) = services(30);
    for place in Place::both(&definition) {
        let stook = Served::new(&place, &["--workers", "1"]);
        let asked = Asked(&stook);
        let query = format!("block dataset={}", data.dataset(4).name);
        let jobs = || -> BTreeSet<u64> {
            let jobs = place.json(&["jobs", "--json", "--limit", "1000"]);
            jobs.as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap()).collect()
        };
        asked.whole(&query, "");
        let first = jobs();
        for _ in 0..4 {
            asked.whole(&query, "&ask=always");
        }
        let last = jobs();
        assert!(last.len() == first.len() && last.is_disjoint(&first), "{first:?} {last:?}");
        // a failure leaves the last whole answer, and what became of the newest attempt
        services.fault("catalog", Fault::TruncatedBody, u64::MAX);
        for _ in 0..3 {
            asked.get(&query, "&ask=always");
        }
        services.heal();
        assert!(jobs().len() <= last.len() + 1, "{last:?} {:?}", jobs());
        let whole = asked.whole(&query, "&ask=always");
        let named: BTreeSet<u64> =
            whole["services"].as_array().unwrap().iter().flat_map(|one| one["jobs"].as_array().unwrap()).map(|job| job.as_u64().unwrap()).collect();
        assert_eq!(jobs(), named);
    }
}

#[test]
fn what_is_needed_again_and_again_is_asked_ahead() {
    let (services, data, definition) = services(20);
    let place = Place::new(&definition.replace("ttl: 15m", "ttl: 3s\n    ahead: 2s"));
    let stook = Served::new(&place, &["--workers", "1"]);
    let asked = Asked(&stook);
    let of = |number: u64| format!("block dataset={}", data.dataset(number).name);
    (0..4).for_each(|_| drop(asked.whole(&of(1), "")));
    asked.whole(&of(2), "");
    services.take_asked();
    std::thread::sleep(Duration::from_millis(4_500));
    let again = services.take_asked();
    let catalog = |number: u64| format!("catalog/blocks?dataset={}", data.dataset(number).name);
    assert_eq!(again.iter().filter(|own| **own == catalog(1)).count(), 1, "{again:?}");
    assert!(!again.contains(&catalog(2)), "{again:?}");
}

#[test]
fn who_is_killed_while_asking_asks_again() {
    let (_, data, definition) = services(4_000);
    let expected = all_blocks(&data).len();
    for place in Place::both(&definition) {
        for milliseconds in [40, 120, 300, 500] {
            kill_after(place.command(&["query", "block | count(key)"]), Duration::from_millis(milliseconds));
        }
        let answer = place.run(&["query", "block | count(key)", "--format", "json"]).exits(0);
        assert_eq!(answer.json()[0]["count(key)"], expected);
        let jobs = place.json(&["jobs", "--json", "--limit", "1000"]);
        // what the killed had begun is not left behind as if somebody worked on it, once its time is over
        assert!(jobs.as_array().unwrap().iter().filter(|job| job["state"] == "completed").count() >= 2, "{jobs}");
    }
}

/// `records`: what any collection has, by collection and key, page by page.
#[test]
fn records_of_all_collections_are_found() {
    let (_, data, definition) = services(30);
    for place in Place::both(&definition) {
        let stook = Served::new(&place, &["--workers", "1"]);
        let asked = Asked(&stook);
        for query in ["dataset", "block", "site", "run"] {
            asked.whole(query, "");
        }
        let site = data.site(3).name;
        let there =
            all_blocks(&data).into_iter().filter(|block| block.transferable && block.replicas.contains(&3)).map(|block| ("block", block.name));
        let there: Vec<(&str, String)> = there.collect();
        let of = there.iter().map(|(_, block)| ("dataset", block.split('#').next().unwrap().to_owned()));
        let mut expected: Vec<(&str, String)> = of.chain(there.iter().cloned()).collect();
        expected.sort();
        expected.dedup();
        expected.push(("site", site.clone()));
        let expected: Vec<Json> = expected.into_iter().map(|(collection, key)| json!({ "collection": collection, "key": key })).collect();
        let path = |query: &str, more: &str| format!("/v1/main/query?q={}{more}", encoded(query));
        let query = format!("records site={site}");
        let all = stook.get(&path(&query, "&limit=10000&total=true")).with(200);
        assert_eq!((&all["rows"], &all["total"]), (&json!(expected), &json!(expected.len())));
        let mut paged = Vec::new();
        for place in 0.. {
            let rows = stook.get(&path(&query, &format!("&limit=3&idx={}", place * 3))).with(200)["rows"].as_array().unwrap().clone();
            if rows.is_empty() {
                break;
            }
            paged.extend(rows);
        }
        assert_eq!(paged, expected);
        // of which a field is there; of everything
        let named = stook.get(&path("records | grep site.name, tier=1", "&limit=10000")).with(200);
        assert!(named["rows"].as_array().unwrap().iter().all(|row| row["collection"] == "site"), "{named}");
        let every = stook.get(&path("records", "&limit=1&total=true")).with(200);
        // each release exists as a configuration
        let releases: BTreeSet<String> = (0..data.records).map(|number| data.dataset(number).release).collect();
        assert_eq!(every["total"], data.records + all_blocks(&data).len() as u64 + 60 + data.runs() + releases.len() as u64);
        for (wrong, reason) in
            [("records nosuch=1", "nosuch"), ("records | sort name", "across collections"), ("records site=T1_* | count(key)", "across collections")]
        {
            let reply = stook.get(&path(wrong, ""));
            assert!(reply.status == 400 && reply.text().contains(reason), "{wrong}: {}", reply.text());
        }
        let lines = place.run(&["query", &query, "--limit", "0", "--format", "csv"]).exits(0).text();
        assert_eq!(lines.lines().count(), expected.len() + 1, "{lines}");
        assert!(lines.starts_with("collection,key\nblock,"), "{lines}");
        // each row of the page leads to its record
        let page = stook.get(&format!("/t/main/search?q={}", encoded(&query))).text();
        assert!(page.contains("collection=site&amp;key=") && page.contains("collection=block&amp;key="), "{page}");
    }
}

/// Each tenant may have an instance of a service for itself.
#[test]
fn a_service_is_told_whose_records_they_are() {
    let (_, data, definition) = services(20);
    let place = Place::new(&definition.replace("/catalog\"", "/{tenant}\"").replace("/catalog\n", "/{tenant}\n"));
    assert!(std::fs::read_to_string(place.path("catalogue.yaml")).unwrap().contains("{tenant}"));
    let own = place.run(&["query", "dataset | count(key)", "--tenant", "catalog", "--format", "csv"]).exits(0).text();
    assert!(own.ends_with(&format!("\n{}\n", data.records)), "{own}");
    place.run(&["query", "dataset"]).exits(1).complains(&["404"]);
}

#[test]
fn mistakes_in_calls_are_found() {
    let place = Place::new("catalogue: x\ncollections: { a: { key: id, fields: { id: text } } }\n");
    let with = |asks: &str, more: &str| {
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
        ("{ service: s, calls: { c: { get: /c, page: { token: t } } } }", "a page has `offset` and `limit`"),
        ("{ service: s, calls: { c: { get: /c, args: { i: some.of } } } }", "give `by`, the member that identifies a struct"),
        ("{ service: s, calls: { c: { get: /c, args: { i: one.by } } } }", "give it `index: equal`"),
        ("{ service: s, calls: { c: { get: /c, args: { i: { field: one.at, takes: list } } } } }", "takes one value or a pattern"),
        ("{ service: s, calls: { c: { get: /c, args: { i: { field: one.at, default: x } } } } }", "nor has a condition on elements of a list"),
        ("{ service: s }", "calls"),
    ] {
        place.define(&with(asks, ""));
        place.run(&["check"]).exits(1).complains(&[message]);
    }
    place.define(&with("{ service: s, calls: { c: { get: /c } } }", "").replace("meta.received", "at"));
    place.run(&["check"]).exits(1).complains(&["add `as_of: meta.received`"]);
    place.define(&with("{ service: s, calls: { c: { get: /c } } }", ""));
    place.ok(&["check"]);
    place.run(&["query", "a"]).exits(1).complains(&["s (j) is failed"]);
}

/// Structs, of XML and of JSON: each row of them, conditions on one and on any, sets of numbers counted.
#[test]
fn replicas_and_lumi_sections_are_asked_for_one_by_one() {
    let (_, data, definition) = services(60);
    let shown = |sections: &[(u64, u64)]| json!(sections);
    for place in Place::both(&definition) {
        let stook = Served::new(&place, &["--workers", "1"]);
        let asked = Asked(&stook);
        let dataset = data.dataset(7);
        let blocks: Vec<(u64, Block)> = data.blocks(&dataset).enumerate().map(|(place, block)| (place as u64, block)).collect();
        // a row for each copy, with conditions on that one
        let answer = asked
            .whole(&format!("block dataset={} | each replica | grep name, replica.site, replica.size, replica.complete=false", dataset.name), "");
        let copies = blocks.iter().filter(|(_, block)| block.transferable).flat_map(|(_, block)| {
            let missing = data.replicas(block).into_iter().filter(|replica| !replica.complete);
            missing.map(|replica| json!({ "name": block.name, "replica.site": replica.site, "replica.size": replica.size })).collect::<Vec<_>>()
        });
        assert_eq!(sorted(answer["rows"].as_array().unwrap().clone()), sorted(copies.collect()));
        // a path through the list: every copy of any block at the site counts
        let site = data.site(3).name;
        let answer = asked.whole(&format!("block site={site} | count(block.name), sum(block.replica.size), max(block.replica.nfiles)"), "");
        let there: Vec<Block> = all_blocks(&data).into_iter().filter(|block| block.transferable && block.replicas.contains(&3)).collect();
        let copies: Vec<_> = there.iter().flat_map(|block| data.replicas(block)).collect();
        assert!(there.len() > 5);
        assert_eq!(
            answer["rows"][0],
            json!({
                "count(name)": there.len(), "sum(replica.size)": copies.iter().map(|copy| copy.size).sum::<u64>(),
                "max(replica.nfiles)": copies.iter().map(|copy| copy.files).max(),
            })
        );
        // one file, of which nothing is here yet
        let (place_of, own) = blocks.iter().find(|(_, block)| block.catalogued).unwrap();
        let file = data.files(&dataset, *place_of).next().unwrap();
        let answer = asked.whole(&format!("lumi file={}", file.name), "");
        let sections = file.lumis.iter().map(|(_, lumi)| json!({ "lumis.lumi": shown(lumi) }));
        assert_eq!(sorted(answer["rows"].as_array().unwrap().clone()), sorted(sections.collect()), "{}", own.name);
        // files, each with a row for each of its runs
        let files: Vec<_> = blocks.iter().filter(|(_, block)| block.catalogued).flat_map(|(place, _)| data.files(&dataset, *place)).collect();
        let answer = asked.whole(&format!("file,run,lumi dataset={}", dataset.name), "");
        let rows = files.iter().flat_map(|file| {
            file.lumis.iter().map(|(run, lumi)| json!({ "name": file.name, "lumis.run": run, "lumis.lumi": shown(lumi) })).collect::<Vec<_>>()
        });
        assert_eq!(sorted(answer["rows"].as_array().unwrap().clone()), sorted(rows.collect()));
        // two runs, what is the same of several files once
        let (one, two) = (files[0].lumis[0].0, files[1].lumis[0].0);
        let answer = asked.whole(&format!("run,lumi dataset={} run in [{one},{two}]", dataset.name), "");
        let own: BTreeSet<(u64, Vec<(u64, u64)>)> =
            files.iter().flat_map(|file| file.lumis.clone()).filter(|(run, _)| [one, two].contains(run)).collect();
        let rows = own.iter().map(|(run, lumi)| json!({ "lumis.run": run, "lumis.lumi": shown(lumi) }));
        assert_eq!(sorted(answer["rows"].as_array().unwrap().clone()), sorted(rows.collect()));
        // numbers are counted, not ranges; a number is in a file where one of its ranges has it
        let count = |file: &stook_sample::datasets::StoredFile| -> u64 {
            file.lumis.iter().flat_map(|(_, sections)| sections).map(|(low, high)| high - low + 1).sum()
        };
        let answer = asked.whole(&format!("file dataset={} | count(lumi)", dataset.name), "");
        assert_eq!(answer["rows"][0]["count(lumis.lumi)"], files.iter().map(count).sum::<u64>());
        let wanted = files[0].lumis[0].1[0].1;
        let answer = asked.whole(&format!("file dataset={} lumi={wanted} | count(key)", dataset.name), "");
        let has =
            |lumis: &[(u64, Vec<(u64, u64)>)]| lumis.iter().flat_map(|(_, sections)| sections).any(|(low, high)| (*low..=*high).contains(&wanted));
        assert_eq!(answer["rows"][0]["count(key)"], files.iter().filter(|file| has(&file.lumis)).count());
        // people read ranges; a record has its structs once
        let table = place.run(&["query", &format!("lumi file={}", files[0].name), "--ask", "never", "--format", "csv"]).exits(0).text();
        let (low, high) = files[0].lumis[0].1[0];
        assert!(table.contains(&if low == high { low.to_string() } else { format!("{low}-{high}") }), "{table}");
        let record = place.json(&["get", "file", &files[0].name, "--format", "json"]);
        let lumis: Vec<Json> = files[0].lumis.iter().map(|(run, lumi)| json!({ "run": run, "lumi": shown(lumi) })).collect();
        assert_eq!(record["lumis"], json!(lumis));
        assert!(record.as_object().unwrap().keys().all(|name| !name.contains('.')), "{record}");
    }
}

fn sorted(mut rows: Vec<Json>) -> Vec<Json> {
    rows.sort_by_key(Json::to_string);
    rows
}

/// Free text: what is meant is among the first four.
#[test]
fn free_text_becomes_queries() {
    let (_, data, definition) = services(400);
    let place = Place::new(&definition);
    for query in ["dataset | count(key)", "block dataset=/Zee* | count(key)", "site | count(key)", "run | count(key)"] {
        place.run(&["query", query]).exits(0);
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
        let found = place.json(&["suggest", "--json", text]);
        let queries: Vec<&str> = found.as_array().unwrap().iter().map(|own| own["query"].as_str().unwrap()).collect();
        assert!(queries.iter().take(4).any(|query| query == &wanted), "{text}: {wanted} is not in {found:#}");
        assert!(found.as_array().unwrap().iter().all(|own| !own["reasons"].as_array().unwrap().is_empty()));
        // each of them is a query
        for query in queries {
            place.run(&["query", query, "--ask", "never", "--limit", "1"]).exits(0);
        }
    }
    let stook = Served::new(&place, &["--workers", "0"]);
    let found = stook.get("/v1/main/suggest?text=zee%20mc").with(200);
    assert_eq!(found["suggestions"][0]["query"], "dataset primary_dataset=*Zee* datatype=mc");
    for odd in ["", "   ", "\"", "'", "=", ">", "* *", "a=b=c", "ä ö ü", "<<<>>>", "site=", "=T1"] {
        assert_eq!(
            stook.get(&format!("/v1/main/suggest?text={}", odd.bytes().map(|b| format!("%{b:02X}")).collect::<String>())).status,
            200,
            "{odd}"
        );
    }
    place.run(&["suggest", "qqqqqqqq"]).exits(1).complains(&["no suggestion for these words"]);
}
