//! Words of a definition in queries: the examples of DAS, each beside the query that says the same in fields.

use crate::support;

use std::sync::LazyLock;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::diagnostic::render;
use stook_query::{CompiledQuery, compile, parse};
use support::{NOW, definition, main_tenant};

static DATASETS: LazyLock<Catalogue> = LazyLock::new(|| definition(include_str!("../../../../examples/datasets/catalogue.yaml")));

fn compiled_with_aliases(query: &str) -> Result<CompiledQuery, String> {
    let compiled = parse(query).and_then(|mut parsed| {
        parsed.apply_aliases(&DATASETS)?;
        compile(&parsed, &DATASETS, &main_tenant(), NOW)
    });
    compiled.map(in_order).map_err(|problem| render("query", query, &[problem], false))
}

/// The same query: its conditions have no order.
fn in_order(mut compiled: CompiledQuery) -> CompiledQuery {
    compiled.plan.conditions.sort_by_key(|condition| format!("{condition:?}"));
    compiled
}

/// The query in fields only, with the conditions that words have where a query says nothing of them.
fn compiled_without_aliases(query: &str) -> CompiledQuery {
    let (lookup, stages) = query.split_at(query.find('|').unwrap_or(query.len()));
    let defaults = match lookup.split_whitespace().next().unwrap_or_default() {
        _ if lookup.contains("instance=") => "",
        "summary" => " run=all instance=prod/global",
        "block" | "dataset" | "file" | "release" | "primary_dataset" | "parent" | "child" => " instance=prod/global",
        _ => "",
    };
    let query = format!("{}{defaults} {stages}", lookup.trim_end());
    let compiled = parse(&query).and_then(|parsed| compile(&parsed, &DATASETS, &main_tenant(), NOW));
    compiled.map(in_order).unwrap_or_else(|problem| panic!("{query}: {}", problem.message))
}

#[test]
fn queries_of_das_mean_the_same_as_queries_without_aliases() {
    for (query, equivalent) in [
        ("dataset=/A/B/RAW", "dataset name=/A/B/RAW"),
        ("dataset dataset=/A/B/RAW", "dataset name=/A/B/RAW"),
        ("dataset=/A*/*/*", "dataset name=/A*/*/*"),
        ("file dataset=/A/B/RAW", "file dataset=/A/B/RAW"),
        ("block dataset=/A/B/RAW", "block dataset=/A/B/RAW"),
        ("block=/A/B/RAW#1", "block name=/A/B/RAW#1"),
        ("block site=T3_US_Cornell*", "block replica.site=T3_US_Cornell*"),
        ("block site=srm-cms.cern.ch", "block replica.se=srm-cms.cern.ch"),
        ("site=T1_CH_CERN", "site name=T1_CH_CERN"),
        ("site=srm-cms.cern.ch", "site se=srm-cms.cern.ch"),
        ("site site=T1_CH_CERN", "site name=T1_CH_CERN"),
        ("site=T1_CH_CERN site", "site name=T1_CH_CERN"),
        ("dataset release=CMSSW_2_0_8", "dataset release=CMSSW_2_0_8"),
        ("dataset release=CMSSW_2_0_8 | grep dataset.name, dataset.status", "dataset release=CMSSW_2_0_8 | grep name, status"),
        ("dataset date=20101101", "dataset creation_time=20101101"),
        ("date=20101101 dataset", "dataset creation_time=20101101"),
        ("date=20101101, dataset, datatype=mc", "dataset creation_time=20101101 datatype=mc"),
        ("dataset date between [20101201, 20101202]", "dataset creation_time between [20101201, 20101202]"),
        ("dataset=/ZMM*/*/* | grep dataset.name, dataset.name=*14TeV*", "dataset name=/ZMM*/*/* | grep name, name=*14TeV*"),
        ("dataset dataset=/ZMM*/*/* | unique | grep dataset.name", "dataset name=/ZMM*/*/* | unique | grep name"),
        ("file dataset=/a/b/c | grep file.name, file.size>1500000000", "file dataset=/a/b/c | grep name, size>1500000000"),
        ("file dataset=/a/b/c | grep file.size>1, file.size<100", "file dataset=/a/b/c size>1 size<100"),
        ("file dataset=/a/b/c | sort file.nevents-", "file dataset=/a/b/c | sort nevents-"),
        ("file dataset=/a/b/c | sum(file.size), count(file.name)", "file dataset=/a/b/c | sum(size), count(name)"),
        ("file dataset=/a/b/c | grep file.name, run=7", "file dataset=/a/b/c lumis.run=7 | grep name"),
        ("file run=148126 dataset=/a/b/c", "file lumis.run=148126 dataset=/a/b/c"),
        ("block=/a/b/c#1 file", "file block=/a/b/c#1"),
        ("file=/store/x.root file dataset dataset=/a/b/c", "file name=/store/x.root dataset=/a/b/c | grep name, dataset"),
        ("run between [20853,20859]", "run run_number between [20853, 20859]"),
        ("run in [148124,148126]", "run run_number in [148124, 148126]"),
        ("run date last 60m", "run start_time last 60m"),
        ("run dataset=/A/B/RAW", "run datasets=/A/B/RAW"),
        ("run between [160910,160920] | sum(run.nevents)", "run run_number between [160910, 160920] | sum(nevents)"),
        ("file,run,lumi dataset=/a/b/c", "file dataset=/a/b/c | each lumis | grep name, lumis.run, lumis.number"),
        ("file run lumi dataset=/a/b/c", "file dataset=/a/b/c | each lumis | grep name, lumis.run, lumis.number"),
        (
            "run,lumi dataset=/a/b/c run in [177718,177053]",
            "file dataset=/a/b/c lumis.run in [177718, 177053] | each lumis | grep lumis.run, lumis.number, lumis.run in [177718, 177053] | unique",
        ),
        ("lumi file=/store/x.root", "file name=/store/x.root | each lumis | grep lumis.number, lumis.run | unique"),
        (
            "lumi file=/store/x.root | count(lumi)",
            "file name=/store/x.root | each lumis | grep lumis.run, lumis.number | unique | count(lumis.number)",
        ),
        (
            "lumi dataset=/a/b/c | count(lumi.number)",
            "file dataset=/a/b/c | each lumis | grep lumis.run, lumis.number | unique | count(lumis.number)",
        ),
        (
            "file,run,lumi dataset=/a/b/c | count(lumi)",
            "file dataset=/a/b/c | each lumis | grep lumis.run, lumis.number | unique | count(lumis.number)",
        ),
        ("file,lumi dataset=/a/b/c | count(lumi)", "file dataset=/a/b/c | each lumis | grep lumis.run, lumis.number | unique | count(lumis.number)"),
        ("file,lumi dataset=/a/b/c", "file dataset=/a/b/c | each lumis | grep name, lumis.number, lumis.run"),
        ("release dataset=/A/*/*", "dataset name=/A/*/* | grep release | unique"),
        ("dataset, release status=VALID", "dataset status=VALID | grep name, release"),
        ("dataset=/a/b/c file block", "file dataset=/a/b/c | grep name, block"),
        (
            "block site=srm-cms.cern.ch | count(block.name), sum(block.replica.size), avg(block.replica.size), median(block.replica.size)",
            "block replica.se=srm-cms.cern.ch | count(name), sum(replica.size), avg(replica.size), median(replica.size)",
        ),
        ("site=T1_CH_CERN system=sitedb", "site name=T1_CH_CERN system=sitedb"),
        ("block dataset=/A/B/RAW system in [dbs3, phedex]", "block dataset=/A/B/RAW system in [dbs3, phedex]"),
        ("site tier=1", "site tier=1"),
        // a name whose own collection does not have the fields is a column of the first collection that has
        ("site dataset=/A/B/RAW", "block dataset=/A/B/RAW | each replica | grep replica.site | unique"),
        ("dataset block=/A/B/RAW#1", "block name=/A/B/RAW#1 | grep dataset | unique"),
        ("dataset file=/store/x.root", "file name=/store/x.root | grep dataset | unique"),
        ("block file=/store/x.root", "file name=/store/x.root | grep block | unique"),
        ("block dataset=/A/B/RAW run=7", "file dataset=/A/B/RAW lumis.run=7 | grep block | unique"),
        ("run block=/A/B/RAW#1 | sort run-", "file block=/A/B/RAW#1 | each lumis | grep lumis.run | unique | sort lumis.run-"),
        ("release file=/store/x.root", "file name=/store/x.root | grep release | unique"),
        ("block file=/store/x.root | grep block.name", "file name=/store/x.root | grep block | unique"),
        ("block file=/store/x.root | grep name | sort name", "file name=/store/x.root | grep block | unique | sort block"),
        ("site", "site"),
        ("dataset site=T1_CH_CERN", "dataset sites=T1_CH_CERN"),
        ("file,run,lumi dataset=/a/b/c | grep file.name, run.run_number", "file dataset=/a/b/c | each lumis | grep name, lumis.run"),
        ("dataset", "dataset"),
    ] {
        let found = compiled_with_aliases(query).unwrap_or_else(|problem| panic!("{problem}"));
        assert_eq!(found, compiled_without_aliases(equivalent), "{query}");
    }
}

#[test]
fn what_a_word_cannot_mean_is_an_error() {
    for (query, message, help) in [
        ("block file=/store/x.root | grep name, size", "`size` of `block` is not known here: each is a column of `file`", "block key=KEY"),
        ("block file=/store/x.root | grep block, size>5", "`size` of `block` is not known here", ""),
        ("block file=/store/x.root | sum(block.size)", "`size` of `block` is not known here", ""),
        ("era=Run2011A datatype=mc", "`era` does not select a collection", "name a collection: block, dataset"),
        ("latitude=42 longitude=-72", "there is no collection `latitude`", "collections are"),
        ("block datatype=mc", "`datatype` has no meaning for `block`", "it is a condition on dataset"),
        ("site=T9", "`site` cannot have this value for `site`", "a value looks like ^T[0-3]_ or"),
        ("block site in [T1_CH_CERN, srm.cern.ch]", "`site` cannot have this value for `block`", ""),
        (
            "file=abcdeasdf file dataset dataset=abcdes date = 20080201",
            "`date` has no meaning for `file`",
            "it is a condition on dataset, block, run",
        ),
        ("run last dataset", "", ""),
        ("dataset in 2010", "", ""),
        ("dataset=/a/b/c file tier", "expected a comparison after `tier`", ""),
        ("file, tier dataset=/a/b/c", "expected a comparison after `tier`", ""),
        ("lumi tier=2", "`lumi` does not select a collection", ""),
        ("block | each replicas", "`replicas` is no list of structs of `block`", "it has replica"),
        ("block replica=T1_X", "`replica` is of type", "its members can: replica.site"),
        ("file lumis.number=a", "is not an integer", "for example: 42"),
        ("file | sum(lumis.number)", "not a number", "count("),
        ("file | each lumis | count(lumis)", "a row is one element of `lumis` here", "count(key)"),
        ("file | sort lumis.number", "which has no order", ""),
        ("file | sum(file.size), count(lumi)", "count(lumi) counts pairs", "count(lumis.number) counts the values of each record"),
        ("file dataset=/a/b/c | grep file.nosuch", "`file` has no field `nosuch`", ""),
    ] {
        let problem = compiled_with_aliases(query).expect_err(query);
        assert!(problem.contains(message) && problem.contains(help), "{query}: {problem}");
    }
}

/// The text between the first two ticks after a word.
fn quoted<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    text.split_once(word)?.1.trim_start().strip_prefix('`')?.split_once('`').map(|(quoted, _)| quoted)
}

/// What the page about the original's examples claims is true.
#[test]
fn the_page_about_das_describes_every_example_as_it_is() {
    let page = include_str!("../../../../examples/datasets/das.md").replace("\\|", "\u{1}");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let (mut examples, mut pairs) = (Vec::new(), Vec::new());
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<String> = line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect();
        let (Ok(number), query, outcome) = (cells[1].parse::<u32>(), cells[2].trim_matches('`'), cells[3].as_str()) else { continue };
        let is_example = pairs.is_empty() && examples.last().is_none_or(|last| last + 1 == number);
        if is_example {
            examples.push(number)
        } else {
            pairs.push(number)
        }
        if let Some(equivalent) = outcome.strip_prefix("as ") {
            let equivalent = quoted(equivalent, "").unwrap_or_default();
            assert_eq!(
                compiled_with_aliases(query).unwrap_or_else(|problem| panic!("{number}: {problem}")),
                compiled_without_aliases(equivalent),
                "{number}: {query}"
            );
        } else if outcome.starts_with("refused: ") {
            let (message, problem) = (quoted(outcome, "refused:").unwrap_or_default(), compiled_with_aliases(query).expect_err(query));
            assert!(problem.contains(message), "{number}: {problem}");
            if let Some(alternative) = quoted(outcome, "instead") {
                compiled_with_aliases(alternative).unwrap_or_else(|problem| panic!("{number}: {problem}"));
            }
        } else if outcome.starts_with("test ") {
            let (name, path) = (quoted(outcome, "test").unwrap_or_default(), quoted(outcome, " in ").unwrap_or_default());
            let source = std::fs::read_to_string(format!("{root}{path}")).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert!(source.contains(&format!("fn {name}()")), "{number}: there is no test {name} in {path}");
        } else {
            assert!(outcome.starts_with("not here: "), "{number}: {outcome}");
        }
    }
    assert_eq!(examples, (1..=50).collect::<Vec<_>>());
    assert_eq!(pairs, (1..=34).collect::<Vec<_>>());
}

/// From a record, people go on with what belongs to it, also in another instance.
#[test]
fn words_make_queries_of_what_belongs_to_a_record() {
    let (dataset, _) = DATASETS.collection("dataset").expect("there are datasets");
    let found = |instance: &'static str| {
        let value_of = |field: &str| match field {
            "name" => Some("/A/B/RAW".to_owned()),
            "instance" => Some(instance.to_owned()),
            _ => None,
        };
        stook_query::questions(&DATASETS, dataset, &value_of)
    };
    let usual = found("prod/global");
    for query in ["block", "file", "run", "site", "parent", "child", "summary"] {
        assert!(usual.contains(&format!("{query} dataset=/A/B/RAW")), "{query}: {usual:?}");
    }
    assert!(!usual.iter().any(|query| query.starts_with("mcm ") || query.starts_with("dataset ")), "{usual:?}");
    let other = found("prod/phys03");
    assert!(other.contains(&"file dataset=/A/B/RAW instance=prod/phys03".to_owned()), "{other:?}");
    assert!(other.contains(&"run dataset=/A/B/RAW".to_owned()), "runs have no instances: {other:?}");
}
