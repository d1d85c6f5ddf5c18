//! The satellite catalogue, end to end: what is delivered in any order adds up to what the sample says must come out, and the
//! numbers of the system it replaces come out where that was right.

use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use stook_sample::random::Random;
use stook_sample::sentinel::{self, Sentinel};
use stook_testkit::postgres::TestServer;
use stook_tests::Sandbox;

const SATELLITES: &str = include_str!("../../../examples/sentinel/catalogue.yaml");

/// Those of the example's README and two of single collections.
const QUESTIONS: [&str; 17] = [
    "datatake.completeness_s1 status=Partial | sort percentage",
    "datatake.completeness_s2 group=MSI_L0__DS status=Missing | grep datatake, gaps",
    "datatake.completeness_s1 overlap>1s | sort overlap- | grep datatake, group, overlap, overlaps",
    "orbit_s3.completeness status=Missing | count(group)",
    "interface.status value=KO",
    "hktm_acquisition | grep session, cadip_complete, edrs_complete",
    "downlink complete=0 | grep satellite, start, station",
    "datatake.completeness_s1 status=Missing explained=false",
    "product datatake_id=246811",
    "publication service=PRIP_S1A_Serco published>2024-01-01",
    "publication deleted_by=DEMO-197230 | grep service, name, deletion_date, deletion_cause",
    "product deleted_from=LTA_Acri | grep name, deletion_tickets, deletion_date",
    "deletion name=S1A_IW_RAW__0S* | grep ticket, name, date, cause",
    "deletion_ticket cause='Corrupt files' | sum(products), sum(publications)",
    "databudget version=1 mission=S1 is_produced=true | sum(number), sum(volume)",
    "metric product_type=IW_RAW__0S satellite=S1A | sort time | grep time, interface, metric, measure, counter",
    "station_pass status=NOK | grep satellite, station, start",
];

/// Of plans, of stations, of deliveries, of what explains, of interfaces, and of what is deleted, expected and counted: each source that the sample has
/// files of.
const SOURCES: [&str; 21] = [
    "plan_s1",
    "plan_s2",
    "plan_hktm",
    "plan_downlink",
    "plan_all_s1",
    "plan_all_s2",
    "session",
    "cadip",
    "edrs",
    "prip",
    "lta",
    "dd",
    "cams",
    "cams_correlation",
    "unavailability",
    "probe",
    "deletion_list",
    "deletion_ticket",
    "databudget",
    "metrics",
    "station_report",
];
const PLANS: [&str; 6] = ["plan_s1", "plan_s2", "plan_hktm", "plan_downlink", "plan_all_s1", "plan_all_s2"];

/// Two days of deliveries, made once: the second day's plan takes back what the first one's said of it.
fn days() -> &'static Path {
    static DAY: OnceLock<PathBuf> = OnceLock::new();
    DAY.get_or_init(|| {
        let folder = tempfile::Builder::new().prefix("stook-day").tempdir().expect("a folder").keep();
        sentinel::write(&Sentinel { days: 2, seed: 7, first: 0 }, &folder).expect("a sample");
        folder
    })
}

fn files(folder: &Path) -> Vec<String> {
    let mut files: Vec<String> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path().display().to_string()).collect();
    files.sort();
    files
}

/// The sample's files of these sources.
fn import_days(sandbox: &Sandbox, sources: &[&str]) {
    for source in sources {
        import(sandbox, source, &files(&days().join(source)));
    }
}

fn import(sandbox: &Sandbox, source: &str, files: &[String]) {
    let words: Vec<&str> = ["import", "--source", source].into_iter().chain(files.iter().map(String::as_str)).collect();
    let answer = sandbox.run(&words);
    assert_eq!(answer.code, 0, "{source}: {}", answer.err);
}

/// Rows of a question by key.
fn rows(sandbox: &Sandbox, question: &str) -> BTreeMap<String, Json> {
    let answer = sandbox.run(&["query", question, "--format", "ndjson", "--limit", "1000000"]);
    assert_eq!(answer.code, 0, "{question}: {}", answer.err);
    let rows = answer.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<Json>>();
    rows.into_iter().map(|row| (row["key"].as_str().expect("a key").to_owned(), row)).collect()
}

/// Microseconds of a duration as it is shown.
fn micros(shown: &Json) -> Json {
    let Some(text) = shown.as_str() else { return shown.clone() };
    let Some(mut rest) = text.strip_prefix("PT") else { return shown.clone() };
    let mut micros = 0.0;
    while let Some(end) = rest.find(|c: char| c.is_ascii_alphabetic()) {
        let number: f64 = rest[..end].parse().expect("a number");
        let unit = match &rest[end..=end] {
            "H" => 3_600.0,
            "M" => 60.0,
            _ => 1.0,
        };
        micros += number * unit * 1e6;
        rest = &rest[end + 1..];
    }
    json!(micros.round() as i64)
}

/// What the sample says must follow from all its files.
fn compare_with_truth(sandbox: &Sandbox, order: &[&str]) {
    let truth = std::fs::read_to_string(days().join("truth.json")).expect("the truth");
    let truth: BTreeMap<String, BTreeMap<String, Json>> = serde_json::from_str(&truth).expect("JSON");
    for (coverage, wanted) in truth {
        let found = rows(sandbox, &coverage);
        let keys = |rows: &BTreeMap<String, Json>| rows.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&found), keys(&wanted), "rows of {coverage} after {order:?}");
        for (key, row) in wanted {
            for (name, value) in row.as_object().expect("a row") {
                let found_value = &found[&key][name];
                let is_equal = match (micros(found_value).as_i64(), value.as_i64()) {
                    // sums of fractions are rounded
                    (Some(found_value), Some(value)) => (found_value - value).abs() <= 1,
                    _ => {
                        // the same time, with and without a fraction of zeros
                        let plain = |text: &str| match text.trim_end_matches('Z') {
                            text if text.contains('.') => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                            text => text.to_owned(),
                        };
                        found_value == value || found_value.as_str().is_some() && found_value.as_str().map(plain) == value.as_str().map(plain)
                    }
                };
                assert!(is_equal, "{coverage} {key} {name} after {order:?}: {found_value} instead of {value}");
            }
        }
    }
}

#[test]
fn deliveries_in_any_order_add_up_to_the_truth() {
    let mut random = Random::new(5);
    for turn in 0..3 {
        let mut order = SOURCES.to_vec();
        if turn > 0 {
            // each key is drawn once: a sort asks for it several times
            order.sort_by_cached_key(|_| random.number());
        }
        for sandbox in with_areas().into_iter().take(if turn == 0 { 1 } else { 2 }) {
            for source in &order {
                let mut files = files(&days().join(source));
                if turn == 2 {
                    files.reverse();
                }
                import(&sandbox, source, &files);
            }
            compare_with_truth(&sandbox, &order);
            // the same again says nothing new
            import_days(&sandbox, &PLANS);
            compare_with_truth(&sandbox, &order);
        }
    }
}

/// What is wrong is named and mended; what imports change meanwhile is not taken for wrong.
#[test]
fn a_check_names_what_is_wrong_while_imports_run() {
    for sandbox in with_areas() {
        import_days(&sandbox, &["probe", "plan_s1", "plan_s2"]);
        let check = || {
            let checked = sandbox.run(&["check", "--deep", "--json"]);
            (checked.code, serde_json::from_str::<Json>(&checked.text()).expect("JSON"))
        };
        std::thread::scope(|scope| {
            let imports = scope.spawn(|| import_days(&sandbox, &["prip", "lta", "dd", "cams", "cadip"]));
            let mut checks = 0;
            while !imports.is_finished() || checks == 0 {
                let (code, found) = check();
                assert_eq!((code, &found["changed"]), (0, &json!(0)), "beside imports: {found}");
                checks += 1;
            }
        });
        let rest = SOURCES.iter().filter(|source| !["probe", "plan_s1", "plan_s2", "prip", "lta", "dd", "cams", "cadip"].contains(*source));
        import_days(&sandbox, &rest.copied().collect::<Vec<_>>());
        compare_with_truth(&sandbox, &["with checks"]);
        let (code, found) = check();
        assert_eq!((code, &found["sound"], &found["undecided"]), (0, &json!(true), &json!(0)), "{found}");

        let row = rows(&sandbox, "datatake.completeness_s1").into_keys().next().expect("a row");
        sandbox.sql(&format!("UPDATE \"r_datatake.completeness_s1\" SET f_value = f_value + 1 WHERE key = '{row}'"));
        let (code, found) = check();
        assert_eq!((code, &found["sound"]), (1, &json!(false)), "{found}");
        assert_eq!(found["wrong"], json!([{ "tenant": "main", "collection": "datatake.completeness_s1", "key": row }]), "{found}");
        assert_eq!(check().0, 0);
        compare_with_truth(&sandbox, &["after it was mended"]);
    }
}

/// What reads tables as a whole gets slower with every record that somebody adds.
#[test]
fn every_statement_is_answered_by_an_index_over_one_range_of_keys() {
    let settings = ["session_preload_libraries=auto_explain", "auto_explain.log_min_duration=0", "auto_explain.log_nested_statements=on"];
    let Some(server) = TestServer::for_test(&settings) else { return };
    let sandbox = Sandbox::on_server(SATELLITES, format!("{}?schema=satellites", server.url("postgres")));
    let mut begun = 0;
    for source in ["prip"].iter().chain(&SOURCES).chain(&PLANS) {
        import(&sandbox, source, &files(&days().join(source)).into_iter().take(12).collect::<Vec<_>>());
        // of tables with a few rows any index is as good as another
        begun = if begun == 0 { server.logged().len() } else { begun };
    }
    for question in QUESTIONS {
        sandbox.run(&["query", question]).exits(0);
    }
    let log = server.logged()[begun..].to_owned();
    let lines: Vec<&str> = log.lines().map(str::trim).collect();
    let (mut plans, mut wrong): (u32, Vec<String>) = (0, Vec::new());
    for (line_number, line) in lines.iter().enumerate() {
        // what grows with the number of records; jobs, tenants and what waits to be settled are few
        let is_growing_table = |line: &str| [" on edges", " on r_publication", " on r_product"].iter().any(|table| line.contains(table));
        if line.contains("Seq Scan on") && is_growing_table(line) {
            wrong.push((*line).to_owned());
        }
        let is_index = line.contains("Index Scan using") || line.contains("Index Only Scan using") || line.contains("Bitmap Index Scan on");
        if is_index && (is_growing_table(line) || line.contains("Bitmap")) {
            plans += 1;
            let condition = lines[line_number + 1..].iter().take(3).find(|line| line.starts_with("Index Cond:"));
            // the first records in the order of keys, whatever they are, end with their number
            let filters = lines[line_number + 1..].iter().take(2).any(|line| line.starts_with("Filter:"));
            if lines[..line_number].last().is_some_and(|line| line.starts_with("->  Limit")) && !filters {
                continue;
            }
            // the tenant, and something beside it
            if condition.is_none_or(|condition: &&str| !condition.contains("tenant =") || !condition.contains(" AND ")) {
                wrong.push(format!("{line} {condition:?}"));
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    assert!(plans > 200, "the server has told {plans} plans");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The same on a file: how each statement that was run is answered, as the database plans it.
#[test]
fn every_statement_on_a_file_is_answered_by_an_index_over_one_range_of_keys() {
    let sandbox = Sandbox::new(SATELLITES);
    let noted = sandbox.path("statements");
    let run = |words: &[&str]| {
        let done = sandbox.command(words).env("STOOK_STATEMENTS", &noted).output().expect("it runs");
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    for source in ["prip"].iter().chain(&SOURCES).chain(&PLANS) {
        let files: Vec<String> = files(&days().join(source)).into_iter().take(12).collect();
        let words: Vec<&str> = ["import", "--source", source].into_iter().chain(files.iter().map(String::as_str)).collect();
        run(&words);
    }
    for question in QUESTIONS {
        run(&["query", question]);
    }
    let store = rusqlite::Connection::open(sandbox.store()).expect("a store");
    rusqlite::vtab::array::load_module(&store).expect("lists as parameters");
    stook_store::sqlite::register_functions(&store).expect("functions");
    // what grows with the number of records
    let grows = |sql: &str| ["r_publication", "r_product", "edges"].iter().any(|table| sql.contains(table));
    let (mut plans, mut wrong) = (0, Vec::new());
    let text = std::fs::read_to_string(&noted).expect("statements are noted");
    // another definition is the only reason to look at everything
    let is_redefined = |sql: &str| {
        let is_digest = ["f_of_product", "f_of_container"].iter().any(|field| sql.ends_with(&format!(" = digest(\"{field}\");")));
        let is_of_elements = sql.starts_with("INSERT OR IGNORE INTO \"i_") && sql.contains("json_each(r.");
        let is_filled = is_digest || is_of_elements || sql.starts_with("SELECT id, \"f_footprint\" FROM");
        sql.starts_with("DELETE FROM edges WHERE link NOT IN") || is_filled
    };
    let is_query = |sql: &&str| {
        let words = ["SELECT", "UPDATE", "DELETE", "INSERT", "WITH"];
        grows(sql) && words.iter().any(|word| sql.starts_with(word)) && !is_redefined(sql)
    };
    for sql in text.lines().filter(is_query) {
        let mut explained = store.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let lines: Vec<String> = explained.raw_query().mapped(|row| row.get(3)).collect::<Result<_, _>>().expect("a plan");
        for line in lines {
            plans += 1;
            let is_list = line.contains("VIRTUAL TABLE") || line.contains("CONSTANT ROW") || line.contains("(subquery");
            // the tenant, and something beside it; or a row by its number
            let is_one_range = line.contains(" AND ") || line.contains("INTEGER PRIMARY KEY");
            if (line.starts_with("SCAN") && !is_list) || (line.starts_with("SEARCH") && !is_list && !is_one_range) {
                wrong.push(format!("{line}: {sql}"));
            }
        }
    }
    assert!(plans > 30, "{plans} plans");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What is read while others write is settled again by whoever comes second.
#[test]
fn deliveries_at_the_same_time_add_up_to_the_truth() {
    for sandbox in with_areas() {
        const LAST: [&str; 7] = ["dd", "session", "cams", "unavailability", "deletion_list", "databudget", "station_report"];
        // whoever comes first makes the store
        import_days(&sandbox, &["probe"]);
        std::thread::scope(|scope| {
            for sources in [&["prip", "cams_correlation"][..], &PLANS, &["lta", "cadip", "edrs", "deletion_ticket", "metrics"], &LAST] {
                let sandbox = &sandbox;
                scope.spawn(move || import_days(sandbox, sources));
            }
        });
        compare_with_truth(&sandbox, &["all at once"]);
        let checked = sandbox.run(&["check", "--deep", "--json"]);
        let found: Json = serde_json::from_str(&checked.text()).expect("JSON");
        assert_eq!((checked.code, &found["changed"]), (0, &json!(0)), "{found}");
    }
}

#[test]
fn another_tolerance_settles_everything_again() {
    for sandbox in Sandbox::on_each_store(SATELLITES) {
        let rows_of = || rows(&sandbox, "datatake.completeness_s1");
        plan_radar(&sandbox, &[(318318, "IW", "", "2024-01-01T00:00:00Z", 20_000)]);
        assert_eq!(row(&rows_of(), "S1A-318318#IW_RAW__0S").1, 19_488_000);
        sandbox.write_definition(&SATELLITES.replace("'IW_.*0.': -512ms", "'IW_.*0.': -1s"));
        assert_eq!(sandbox.run(&["prepare"]).code, 0);
        let settled = sandbox.run(&["settle"]);
        assert_eq!(settled.code, 0, "{}", settled.err);
        assert_eq!(row(&rows_of(), "S1A-318318#IW_RAW__0S").1, 19_000_000);
        assert_eq!(sandbox.run(&["check", "--deep"]).code, 0);
    }
}

const BOXES: &str = "
catalogue: boxes
sources: { items: { format: json, as_of: meta.received, into: item } }
collections:
  item:
    key: id
    raw: keep
    fields:
      id: { path: $.id, type: text }
      of: { path: $.of, type: text }
      other: { path: $.other, type: text }
      kind: { path: $.kind, type: text, index: equal }
      size: { path: $.size, type: integer }
      share: { type: float, derive: \"box.total == null ? 0.0 : double(size) / double(box.total)\" }
    links: { box: { to: box, key: of, create: true, group: kind } }
  box:
    key: id
    fields:
      id: text
      total: { type: integer, rollup: { over: item.box, where: \"size > 1\", sum: size } }
      label: { type: text, derive: \"id + '!'\", index: equal }
    coverage:
      kinds:
        over: item.box
        groups: \"['a', 'b']\"
        measure: count
        expected: \"2\"
";

/// Every kind of rule over links, changed after records: what follows from them is then what it would be had the rule always been so.
#[test]
fn a_changed_rule_settles_what_depends_on_it() {
    let items: String = (0..300)
        .map(|number| {
            let (box_id, other_box_id, kind) = (format!("b{}", number % 7), format!("c{}", number % 5), ["a", "b", "c"][number % 3]);
            json!({ "id": format!("i{number:03}"), "of": box_id, "other": other_box_id, "kind": kind, "size": number % 4 }).to_string() + "\n"
        })
        .collect();
    let everything = |sandbox: &Sandbox| -> Vec<Json> {
        let records_of = |collection: &str| rows(sandbox, collection).into_values().collect::<Vec<_>>();
        ["item", "box", "box.kinds"].into_iter().flat_map(records_of).collect()
    };
    for (was, is) in [
        ("double(size) / double(box.total)", "double(box.total) - double(size)"),
        ("where: \"size > 1\", sum: size", "where: \"size > 2\", sum: size"),
        ("sum: size", "max: size"),
        ("groups: \"['a', 'b']\"", "groups: \"['a', 'c']\""),
        ("expected: \"2\"", "expected: \"total == null ? 1 : total\""),
        ("measure: count", "measure: { distinct: [size] }"),
        ("group: kind", "group: other"),
    ] {
        for (sandbox, fresh) in Sandbox::on_each_store(BOXES).into_iter().zip(Sandbox::on_each_store(BOXES)) {
            let file = sandbox.write_file("items.ndjson", &items);
            sandbox.import(&[&file]);
            let before = everything(&sandbox);
            let changed = BOXES.replace(was, is);
            assert_ne!(changed, BOXES);
            sandbox.write_definition(&changed);
            fresh.write_definition(&changed);
            sandbox.run(&["prepare"]).exits(0);
            fresh.run(&["prepare"]).exits(0);
            sandbox.run(&["settle"]).exits(0);
            fresh.import(&[&file]);
            let (now, wanted) = (everything(&sandbox), everything(&fresh));
            assert_eq!(now, wanted, "{was} -> {is}");
            assert_ne!(now, before, "{was} -> {is}");
            sandbox.run(&["check", "--deep"]).exits(0);
        }
    }
}

/// A delivery of one interface.
/// The example on both stores, with its areas beside it.
fn with_areas() -> Vec<Sandbox> {
    let sandboxes = Sandbox::on_each_store(SATELLITES);
    for sandbox in &sandboxes {
        for (name, areas) in stook_sample::sentinel::areas::files() {
            sandbox.write_file(name, areas);
        }
        if sandbox.server_url().is_some() {
            sandbox.ok(&["prepare"]);
        }
    }
    sandboxes
}

fn delivery(sandbox: &Sandbox, source: &str, interface: &str, documents: &[Json]) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("{interface}_20240101T000000_20240101T001000_1000_P{:06}.json", NUMBER.fetch_add(1, Ordering::SeqCst));
    let path = sandbox.write_file(&name, json!({ "value": documents }).to_string());
    import(sandbox, source, &[path]);
}

fn product(name: &str) -> Json {
    json!({ "Id": name, "Name": name, "PublicationDate": "2024-01-01T00:00:00Z" })
}

fn spanning(name: &str, start: &str, stop: &str) -> Json {
    let mut product = product(name);
    product["ContentDate"] = json!({ "Start": start, "End": stop });
    product
}

#[test]
fn names_say_what_products_are() {
    let sandbox = Sandbox::new(SATELLITES);
    let cases = [
        (
            "S1B_EW_RAW__0NDH_20211206T121955_20211206T122150_029904_0391E7_D00D.SAFE.zip",
            json!({ "mission": "S1", "satellite": "S1B", "own_mode": "EW", "product_type": "EW_RAW__0N", "product_level": "L0_", "product_class": "N",
                    "polarization": "DH", "absolute_orbit": "29904", "datatake_id": "233959", "sensing_start": "2021-12-06T12:19:55Z" }),
        ),
        (
            "S1A_IW_OCN__2SDH_20220207T093448_20220207T093513_041805_04F9D1_820F",
            json!({ "datatake_id": "326097", "absolute_orbit": "41805", "id": "5e394d48c5b3eb8dacfa93bbf1ef6dc5" }),
        ),
        ("S1A_OPER_REP__MACP__20220101T000000.EOF", json!({ "product_type": "REP__MACP_" })),
        ("S1__AUX_WND_V20220404T220000_G20220403T060907.SAFE.zip", json!({ "product_type": "AUX_WND", "product_level": "AUX" })),
        (
            "S2B_OPER_MSI_L0__GR_MPS__20170728T232806_S20170728T183039_D03_N02.05.tar",
            json!({ "product_type": "MSI_L0__GR", "product_level": "L0_", "site": "MPS_", "detector": "03", "baseline": "0205",
                    "sensing_start": "2017-07-28T18:30:39Z" }),
        ),
        (
            "S2B_OPER_MSI_L1C_TC_VGS1_20211206T062120_A024812_T47RMP_N03.01.jp2",
            json!({ "product_type": "MSI_L1C_TC", "tile": "47RMP", "absolute_orbit": "24812", "discriminator": "20211206T062120" }),
        ),
        (
            "S2B_OPER_AUX_PREORB_OPOD_20200511T204859_V20200511T222603_20200512T014727.EOF",
            json!({ "id": "775f0604c418c9a48f229e7b07b66281", "product_type": "AUX_PREORB", "sensing_start": "2020-05-11T22:26:03Z",
                    "sensing_stop": "2020-05-12T01:47:27Z", "sensing_duration": "PT3H21M24S" }),
        ),
        (
            "S3A_TM_0_NAT____20211214T151253_20211214T165228_20211214T165453_5974_079_339______LN3_O_AL_002.SEN3.zip",
            json!({ "product_type": "TM_0_NAT___", "product_level": "L0_", "timeliness": "AL", "datatake_id": "S3A-079-339", "baseline": "002" }),
        ),
        (
            "S3B_OL_2_LFR____20220801T090240_20220801T090540_20220801T231518_0179_069_007_3420_PS2_O_NT_002.SEN3.zip",
            json!({ "id": "19a0270ee034fa34a17d4a8022c0b1a0", "datatake_id": "S3B-069-007", "timeliness": "NT" }),
        ),
        (
            "S5P_NRTI_L2__AER_LH_20220401T203521_20220401T204021_23146_02_020301_20220401T213615.nc",
            json!({ "product_type": "NRTI_L2__AER_LH", "product_level": "L2_", "timeliness": "NRTI", "datatake_id": "S5P-23146", "absolute_orbit": "23146" }),
        ),
        (
            "S5P_OPER_L0__SAT_A__20211102T085051_20211102T091050_21012_05.RAW",
            json!({ "product_type": "OPER_L0__SAT_A_", "datatake_id": "S5P-21012" }),
        ),
        (
            "S5P_NRTI_AUX_MET_2D_20220525T030000_20220526T120000_20220524T120000.nc",
            json!({ "product_type": "NRTI_AUX_MET_2D", "product_level": "AUX" }),
        ),
        ("S2A_OPER_PRD_20220101_report.tar", json!({ "product_type": "OLQC_REPORT" })),
    ];
    let documents: Vec<Json> = cases.iter().map(|(name, _)| product(name)).collect();
    delivery(&sandbox, "lta", "LTA_Acri", &documents);
    let products = rows(&sandbox, "product");
    assert_eq!(products.len(), cases.len());
    for (name, wanted) in cases {
        let found = products.values().find(|row| name.starts_with(row["name"].as_str().expect("a name"))).expect("the product");
        for (field, value) in wanted.as_object().expect("fields") {
            assert_eq!(&found[field], value, "{field} of {name}");
        }
    }
    // a container is a publication, not a product
    delivery(&sandbox, "dd", "DD_DHUS", &[product("S2A_MSIL1C_20211206T182741_N0301_R127_T11SQS_20211206T201831.SAFE")]);
    assert_eq!(rows(&sandbox, "product").len(), products.len());
    let container = &rows(&sandbox, "container")["S2A_MSIL1C_20211206T182741_N0301_R127_T11SQS_20211206T201831"];
    assert_eq!((&container["tile"], &container["discriminator"]), (&json!("11SQS"), &json!("20211206T201831")));
    // names of nobody, such as those of tests, are left out, and the journal says why
    delivery(&sandbox, "lta", "LTA_Acri", &[product("S10_NO_SUCH_MISSION")]);
    assert_eq!(rows(&sandbox, "product").len(), products.len());
    let journal: Json = serde_json::from_str(&sandbox.ok(&["journal", "3", "--json"])).expect("one line");
    assert_eq!((&journal["outcome"], &journal["reasons"]), (&json!("skipped"), &json!(["not the name of a product"])), "{journal}");
}

/// A planned acquisition of Sentinel-1: number, mode, swath, start, milliseconds.
type Radar = (u32, &'static str, &'static str, &'static str, u32);

fn plan_radar(sandbox: &Sandbox, rows: &[Radar]) {
    let header = "SatelliteID,DatatakeId,ObservationTimeStart,ObservationDuration [msec],L0SensingTimeStart,L0SensingDuration [msec] ,AbsoluteOrbit,\
                  RelativeOrbit,Polarization,InstrumentMode,InstrumentSwath,Timeliness";
    let row = |(number, mode, swath, start, length): &Radar| format!("S1A,{number},{start},{length},{start},{length},1,1,DV,{mode},{swath},NTC\n");
    let text = format!("{header}\n{}", rows.iter().map(row).collect::<String>());
    import(sandbox, "plan_s1", &[sandbox.write_file("S1A_MP_ACQ__L0__20231201T000000_20240201T000000.csv", text)]);
}

/// A planned acquisition of Sentinel-2: orbit, mode, start, stop, milliseconds, scenes, timeliness.
type Optical = (u32, &'static str, &'static str, &'static str, u32, u32, &'static str);

fn plan_optical(sandbox: &Sandbox, rows: &[Optical]) {
    let header = "\"SatelliteID\",\"ID\",\"AbsoluteOrbit\",\"RelativeOrbit\",\"InstrumentMode\",\"Timeliness\",\"NumberOfScenes\",\"ObservationTimeStart\",\
                  \"ObservationTimeStop\",\"ObservationDuration[msec]\"";
    let row = |(orbit, mode, start, stop, length, scenes, timeliness): &Optical| {
        format!("\"S2A\",\"{orbit}-1\",\"{orbit}\",\"1\",\"{mode}\",\"{timeliness}\",\"{scenes}\",\"{start}\",\"{stop}\",\"{length}\"\n")
    };
    let text = format!("{header}\n{}", rows.iter().map(row).collect::<String>());
    import(sandbox, "plan_s2", &[sandbox.write_file("S2A_MP_ACQ__MTL_20231201T000000_20240201T000000.csv", text)]);
}

/// Deliveries that the original's own tests knew, with the numbers they expected.
#[test]
fn known_deliveries_have_the_numbers_of_the_original() {
    for sandbox in Sandbox::on_each_store(SATELLITES) {
        plan_radar(&sandbox, &[(326097, "IW", "", "2022-02-07T09:34:00Z", 120_000)]);
        let delivered = |source: &str, interface: &str, name: &str, times: [&str; 4]| {
            let [start, stop, origin, published] = times;
            let document = json!({ "Id": "1", "Name": name, "PublicationDate": published, "OriginDate": origin, "ContentDate": { "Start": start, "End": stop } });
            delivery(&sandbox, source, interface, &[document]);
        };
        let orbits = "S2B_OPER_AUX_PREORB_OPOD_20200511T204859_V20200511T222603_20200512T014727";
        let times = ["2020-05-11T22:26:03Z", "2020-05-12T01:47:27Z", "2020-05-11T00:00:00Z", "2022-01-12T07:11:53.994Z"];
        delivered("lta", "LTA_Werum", &format!("{orbits}.EOF.zip"), times);
        let ocean = "S1A_IW_OCN__2SDH_20220207T093448_20220207T093513_041805_04F9D1_820F";
        let times = ["2022-02-07T09:34:48Z", "2022-02-07T09:35:13Z", "2022-02-07T09:40:00Z", "2022-02-07T13:33:02.437Z"];
        delivered("dd", "DD_DAS", ocean, times);
        let calibration = "S1A_IW_ETA__AXDV_20230831T201111_20230831T201141_050124_06083C_81A7";
        let times = ["2023-08-31T20:11:11Z", "2023-08-31T20:11:40.912Z", "2023-09-01T02:46:13.269Z", "2023-09-21T15:16:37.662Z"];
        delivered("prip", "PRIP_S1A_Serco", &format!("{calibration}.SAFE.zip"), times);
        let (publications, products) = (rows(&sandbox, "publication"), rows(&sandbox, "product"));
        let of =
            |rows: &BTreeMap<String, Json>, name: &str| rows.values().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}")).clone();
        for (name, id, level, datatake, orbit, timeliness, (sensing, transfer)) in [
            (orbits, Some("775f0604c418c9a48f229e7b07b66281"), "AUX", None, None, "_", (52_723_466_994_000_i64, 52_816_313_994_000_i64)),
            (ocean, Some("5e394d48c5b3eb8dacfa93bbf1ef6dc5"), "L2_", Some("326097"), Some("41805"), "NTC", (14_269_437_000, 13_982_437_000)),
            (calibration, None, "A", Some("395324"), Some("50124"), "_", (1_796_696_750_000, 1_773_024_393_000)),
        ] {
            let (product, publication) = (of(&products, name), of(&publications, name));
            assert!(id.is_none_or(|id| product["id"] == id), "{product}");
            for row in [&product, &publication] {
                let text_of = |field: &str| row[field].as_str();
                assert_eq!((text_of("product_level"), text_of("datatake_id"), text_of("absolute_orbit")), (Some(level), datatake, orbit), "{row}");
                assert_eq!(text_of("timeliness"), Some(timeliness), "{row}");
            }
            assert_eq!((micros(&publication["from_sensing"]), micros(&publication["transfer"])), (json!(sensing), json!(transfer)), "{name}");
        }
        let archived = of(&products, orbits);
        assert_eq!((&archived["lta_served"], &archived["lta_expected"]), (&json!(1), &json!(4)));
        // what stands after a name is not part of it
        for (number, ending) in [".ZIP", ".jp2", ".TGZ", ".EOF", ".SAFE.zip", ".tar", ".SEN3.zip", ".EOF.zip", ""].iter().enumerate() {
            let name = format!("S1A_OPER_REP__MACP__202201{:02}T000000", number + 1);
            delivery(&sandbox, "lta", "LTA_Acri", &[product(&format!("{name}{ending}"))]);
            assert_eq!(of(&rows(&sandbox, "product"), &name)["product_type"], "REP__MACP_", "{name}{ending}");
        }
    }
}

/// What is expected and found of a group: value, expected, status.
fn row(rows: &BTreeMap<String, Json>, key: &str) -> (i64, i64, String) {
    let row = rows.get(key).unwrap_or_else(|| panic!("there is no {key} among {:?}", rows.keys().collect::<Vec<_>>()));
    (
        micros(&row["value"]).as_i64().unwrap_or(0),
        micros(&row["expected"]).as_i64().unwrap_or(0),
        row["status"].as_str().unwrap_or_default().to_owned(),
    )
}

#[test]
fn an_import_need_not_wait_until_everything_is_settled() {
    for sandbox in Sandbox::on_each_store(SATELLITES) {
        import_days(&sandbox, &["plan_s1"]);
        let files: Vec<String> = files(&days().join("prip")).into_iter().take(4).collect();
        let words: Vec<&str> = ["import", "--source", "prip", "--wait", "completed"].into_iter().chain(files.iter().map(String::as_str)).collect();
        sandbox.run(&words).exits(0);
        let covered = "datatake.completeness_s1 | grep value | count(value)";
        let explain = |key: &str| sandbox.json(&["get", "datatake.completeness_s1", key, "--explain", "--format", "json"]);
        let key = rows(&sandbox, "datatake.completeness_s1").into_keys().next().expect("a row");
        assert_eq!(explain(&key)["fields"]["expected"]["stale"], true, "{}", explain(&key));
        let before = sandbox.ok(&["query", covered]);
        sandbox.ok(&["settle"]);
        assert_ne!(before, sandbox.ok(&["query", covered]));
        assert_eq!(explain(&key)["fields"]["expected"]["stale"], Json::Null);
    }
}

/// An expression that fails leaves its value out, and says why where somebody asks.
#[test]
fn a_failed_expression_is_explained() {
    let definition = "catalogue: small\nsources: { s: { format: json, as_of: meta.received, into: item } }\ncollections:\n  item:\n    key: id\n    \
                      fields:\n      id: { path: $.id, type: text }\n      size: { path: $.size, type: text }\n      \
                      twice: { type: integer, derive: \"int(size) * 2\" }\n";
    let sandbox = Sandbox::new(definition);
    let file = sandbox.write_file("items.json", r#"[{"id": "a", "size": "4"}, {"id": "b", "size": "large"}]"#);
    sandbox.run(&["import", &file]).exits(0);
    assert_eq!(sandbox.json(&["get", "item", "a", "--format", "json"])["twice"], 8);
    let explained = sandbox.json(&["get", "item", "b", "--explain", "--format", "json"]);
    assert!(explained["fields"]["twice"]["failed"].as_str().is_some_and(|reason| reason.contains("large") || reason.contains("int")), "{explained}");
}

/// A session by way of a relay satellite is named without the satellite, unless whoever collected it has put that in front.
#[test]
fn a_session_is_named_without_its_relay_satellite() {
    let sandbox = Sandbox::new(SATELLITES);
    for (channel, name) in
        [(1, "S2A_20220802202126037148"), (1, "S1A_L20220802202126153001008"), (1, "L20220802202126153001009"), (2, "L20220802202126153001009")]
    {
        let text = format!(
            "<DCSU_Session_Information_Block><session_id>{name}</session_id><time_start>2022-08-02T20:21:26Z</time_start>\
             <time_stop>2022-08-02T20:32:00Z</time_stop><time_created>2022-08-02T20:21:26Z</time_created><time_finished>2022-08-02T20:32:15Z\
             </time_finished><data_size>7</data_size><dsdb_list><dsdb_name>1.raw</dsdb_name><dsdb_name>2.raw</dsdb_name></dsdb_list>\
             </DCSU_Session_Information_Block>"
        );
        import(&sandbox, "session", &[sandbox.write_file(&format!("DCS_02_{name}_ch{channel}_DSIB.xml"), text)]);
    }
    let found = rows(&sandbox, "session");
    let mut sessions: Vec<_> =
        found.values().map(|row| (row["session_id"].as_str().expect("a name"), row["mission"].as_str(), row["satellite"].as_str())).collect();
    sessions.sort_unstable();
    let by_relay = ("L20220802202126153001009", None, None);
    let named = [("L20220802202126153001008", Some("S1"), Some("S1A")), by_relay, by_relay, ("S2A_20220802202126037148", Some("S2"), Some("S2A"))];
    assert_eq!(sessions, named, "each channel is a record");
    for row in found.values() {
        assert_eq!((micros(&row["transfer"]), &row["blocks"]), (json!(649_000_000), &json!(2)));
    }
}

#[test]
fn a_planned_acquisition_without_products_is_missing() {
    for sandbox in Sandbox::on_each_store(SATELLITES) {
        plan_optical(
            &sandbox,
            &[
                (38107, "NOBS", "2024-01-02T00:00:00Z", "2024-01-02T00:00:18.040Z", 18_040, 5, "NOMINAL"),
                (38108, "DARK-O", "2024-01-02T02:00:00Z", "2024-01-02T02:00:46.904Z", 46_904, 13, "NOMINAL"),
                (38109, "NOBS", "2024-01-02T04:00:00Z", "2024-01-02T04:00:03Z", 3_000, 1, "NOMINAL"),
                (38110, "NOBS", "2024-01-02T06:00:00Z", "2024-01-02T06:00:03Z", 3_000, 1, "NOT_RECORDING"),
            ],
        );
        let coverage = rows(&sandbox, "datatake.completeness_s2");
        let missing = |micros: i64| (0, micros, "Missing".to_owned());
        assert_eq!(row(&coverage, "S2A-38107-1#MSI_L0__DS"), missing(18_040_000));
        assert_eq!(row(&coverage, "S2A-38107-1#MSI_L0__GR"), missing(60));
        assert_eq!(row(&coverage, "S2A-38107-1#MSI_L1B_DS"), missing(10_824_000));
        assert_eq!(row(&coverage, "S2A-38107-1#MSI_L1B_GR"), missing(36));
        assert_eq!(row(&coverage, "S2A-38108-1#MSI_L0__GR"), missing(156));
        assert_eq!(row(&coverage, "S2A-38108-1#MSI_L1A_GR"), missing(132));
        assert_eq!(row(&coverage, "S2A-38108-1#MSI_L1A_DS"), missing(39_688_000));
        assert_eq!(row(&coverage, "S2A-38109-1#MSI_L0__GR"), missing(12));
        assert_eq!(coverage.keys().filter(|key| key.starts_with("S2A-38109-1")).count(), 2, "of one scene there is raw data only");
        let parts = rows(&sandbox, "datatake.part_s2");
        assert_eq!((row(&parts, "S2A-38107-1#DS"), row(&parts, "S2A-38107-1#GR")), (missing(50_512_000), missing(96)));
        let levels = rows(&sandbox, "datatake.level_s2");
        assert_eq!(row(&levels, "S2A-38107-1#L0_"), missing(36_080_000));
        assert_eq!(row(&levels, "S2A-38107-1#L1B"), missing(21_648_000));
        assert_eq!(row(&levels, "S2A-38107-1#L1C"), missing(10_824_000));
        assert_eq!(row(&rows(&sandbox, "datatake.final_s2"), "S2A-38107-1#all"), missing(79_376_000));
        // all of it is a gap
        let gaps = &coverage["S2A-38107-1#MSI_L0__DS"]["gaps"];
        assert_eq!(gaps, &json!([{ "start": "2024-01-02T00:00:00Z", "stop": "2024-01-02T00:00:18.04Z", "duration": "PT18.04S" }]));
        assert_eq!(rows(&sandbox, "datatake").len(), 3, "what is not recorded is not planned");
    }
}

#[test]
fn radar_values_are_those_of_the_original() {
    let sandbox = Sandbox::new(SATELLITES);
    plan_radar(
        &sandbox,
        &[
            (318318, "IW", "", "2024-01-01T00:00:00Z", 20_000),
            (333628, "SM", "1", "2024-01-01T02:00:00Z", 31_600),
            (333629, "RFC", "", "2024-01-01T04:00:00Z", 2_800),
            (333630, "XX", "", "2024-01-01T04:00:00Z", 2_800),
        ],
    );
    assert_eq!(rows(&sandbox, "datatake")["S1A-318318"]["hex"], "4DB6E");
    let coverage = rows(&sandbox, "datatake.completeness_s1");
    assert_eq!(row(&coverage, "S1A-333628#S1_SLC__1A").1, 29_200_000, "what is tolerated is added: -2.4 s");
    assert_eq!(row(&coverage, "S1A-333629#RF_RAW__0S"), (0, 2_800_000, "Missing".into()));
    assert_eq!(coverage.keys().filter(|key| key.starts_with("S1A-333630")).count(), 0, "an unknown mode produces nothing");
    // half of what a radio frequency calibration should be
    delivery(
        &sandbox,
        "prip",
        "PRIP_S1A_Serco",
        &[spanning(
            "S1A_RF_RAW__0SDV_20240101T040000_20240101T040001_000001_05173D_0001.SAFE.zip",
            "2024-01-01T04:00:00Z",
            "2024-01-01T04:00:01.400Z",
        )],
    );
    let coverage = rows(&sandbox, "datatake.completeness_s1");
    assert_eq!(row(&coverage, "S1A-333629#RF_RAW__0S"), (1_400_000, 2_800_000, "Partial".into()));
    assert_eq!(coverage["S1A-333629#RF_RAW__0S"]["percentage"], 50.0);
}

/// Nothing delivered is a gap of the whole acquisition; the first product moves what is to be covered, also if it is early; what is complete has no gap.
#[test]
fn gaps_are_those_of_the_original() {
    for sandbox in Sandbox::on_each_store(SATELLITES) {
        plan_radar(
            &sandbox,
            &[
                (500_001, "IW", "", "2024-01-01T10:00:00Z", 100_000),
                (500_002, "IW", "", "2024-01-01T12:00:00Z", 100_000),
                (500_003, "IW", "", "2024-01-01T14:00:00Z", 100_000),
            ],
        );
        let raw = |datatake: u32, start: &str, stop: &str| {
            let named = |time: &str| time[..8].replace(':', "");
            let name = format!("S1A_IW_RAW__0SDV_20240101T{}_20240101T{}_000001_{datatake:06X}_0001.SAFE.zip", named(start), named(stop));
            spanning(&name, &format!("2024-01-01T{start}Z"), &format!("2024-01-01T{stop}Z"))
        };
        let documents = [raw(500_002, "11:59:58.700", "12:00:40"), raw(500_002, "12:00:50", "12:01:20"), raw(500_003, "14:00:30", "14:02:10")];
        delivery(&sandbox, "prip", "PRIP_S1A_Serco", &documents);
        let coverage = rows(&sandbox, "datatake.completeness_s1");
        let gaps = |datatake: u32| -> Vec<(String, String)> {
            let gaps = coverage[&format!("S1A-{datatake}#IW_RAW__0S")]["gaps"].as_array().cloned().unwrap_or_default();
            gaps.iter()
                .map(|gap| (gap["start"].as_str().expect("a time")[11..].to_owned(), gap["stop"].as_str().expect("a time")[11..].to_owned()))
                .collect()
        };
        let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        assert_eq!(gaps(500_001), [pair("10:00:00Z", "10:01:40Z")]);
        assert_eq!(gaps(500_002), [pair("12:00:40Z", "12:00:50Z"), pair("12:01:20Z", "12:01:38.188Z")]);
        assert_eq!((row(&coverage, "S1A-500003#IW_RAW__0S").2.as_str(), gaps(500_003)), ("Complete", Vec::new()));
    }
}

/// What slices share with the next one is no duplicate; what was made twice is, also where it is not a neighbour in the order of starts.
#[test]
fn products_that_were_made_twice_overlap() {
    for sandbox in Sandbox::on_each_store(SATELLITES) {
        plan_radar(&sandbox, &[(500_004, "IW", "", "2024-01-01T10:00:00Z", 100_000)]);
        let sliced = |kind: &str, uid: &str, start: &str, stop: &str| {
            let named = |time: &str| time.replace(':', "");
            let name = format!("S1A_IW_{kind}DV_20240101T{}_20240101T{}_000001_{:06X}_{uid}.SAFE.zip", named(start), named(stop), 500_004);
            spanning(&name, &format!("2024-01-01T{start}Z"), &format!("2024-01-01T{stop}Z"))
        };
        let documents = [
            sliced("RAW__0S", "0001", "10:00:00", "10:00:32"),
            sliced("RAW__0S", "0002", "10:00:25", "10:00:57"),
            sliced("RAW__0S", "0003", "10:00:50", "10:01:40"),
            sliced("SLC__1S", "0004", "10:00:00", "10:01:40"),
            sliced("SLC__1S", "0005", "10:00:02", "10:00:04"),
            sliced("SLC__1S", "0006", "10:00:30", "10:01:00"),
        ];
        delivery(&sandbox, "prip", "PRIP_S1A_Serco", &documents);
        let coverage = rows(&sandbox, "datatake.completeness_s1");
        let overlap = |kind: &str| coverage[&format!("S1A-500004#IW_{kind}")].clone();
        assert_eq!((&overlap("RAW__0S")["overlap"], &overlap("RAW__0S")["overlaps"]), (&json!("PT0S"), &Json::Null));
        let part = json!({ "start": "2024-01-01T10:00:30Z", "stop": "2024-01-01T10:01:00Z", "duration": "PT30S" });
        assert_eq!((&overlap("SLC__1S")["overlap"], &overlap("SLC__1S")["overlaps"]), (&json!("PT30S"), &json!([part])));
        let found = rows(&sandbox, "datatake.completeness_s1 overlap>1s | sort overlap- | grep datatake, group, key");
        assert_eq!(found.keys().collect::<Vec<_>>(), ["S1A-500004#IW_SLC__1S"]);
        let most = sandbox.ok(&["query", "datatake.completeness_s1 | max(overlap)", "--format", "ndjson"]);
        assert!(most.contains("PT30S"), "{most}");
        sandbox.ok(&["check", "--deep"]);
    }
}

#[test]
fn an_orbit_of_which_something_is_delivered_misses_the_rest() {
    for sandbox in Sandbox::on_each_store(SATELLITES) {
        let name = |start: &str, stop: &str| format!("S3B_OL_2_LFR____{start}_{stop}_20220801T231518_0179_069_007_3420_PS2_O_NT_002.SEN3.zip");
        delivery(
            &sandbox,
            "prip",
            "PRIP_S3B_Legacy",
            &[
                spanning(&name("20220801T082653", "20220801T085000"), "2022-08-01T08:26:53.661Z", "2022-08-01T08:50:00Z"),
                spanning(&name("20220801T085000", "20220801T091111"), "2022-08-01T08:50:00Z", "2022-08-01T09:11:11.332Z"),
            ],
        );
        let coverage = rows(&sandbox, "orbit_s3.completeness");
        assert_eq!(coverage.len(), 42, "every type of the orbit has a row");
        assert_eq!(row(&coverage, "S3B-069-007#OL_2_LFR___#NT"), (2_657_671_000, 2_640_000_000, "Complete".into()));
        assert_eq!(row(&coverage, "S3B-069-007#MW_1_MWR___#ST"), (0, 101 * 60_000_000 - 180_000_000, "Missing".into()));
        let orbit = &rows(&sandbox, "orbit_s3")["S3B-069-007"];
        assert_eq!(
            (&orbit["observation_start"], &orbit["observation_stop"]),
            (&json!("2022-08-01T08:26:53.661Z"), &json!("2022-08-01T09:11:11.332Z"))
        );
        // when its products go, it goes
        let withdrawn = sandbox.run(&["withdraw", "prip"]);
        assert_eq!(withdrawn.code, 0, "{}", withdrawn.err);
        let settled = sandbox.run(&["settle"]);
        assert_eq!(settled.code, 0, "{}", settled.err);
        assert_eq!((rows(&sandbox, "orbit_s3").len(), rows(&sandbox, "orbit_s3.completeness").len()), (0, 0));
    }
}

#[test]
fn products_and_their_container_find_each_other_in_either_order() {
    for sandbox in Sandbox::on_each_store(SATELLITES) {
        let tile = |kind: &str| product(&format!("S2A_OPER_MSI_L1C_{kind}_2APS_20211206T201831_A038107_T11SQS_N03.01.tar"));
        let container = product("S2A_MSIL1C_20211206T182741_N0301_R127_T11SQS_20211206T201831.SAFE");
        delivery(&sandbox, "prip", "PRIP_S2A_ATOS", &[tile("TL")]);
        delivery(&sandbox, "dd", "DD_DHUS", &[container]);
        delivery(&sandbox, "prip", "PRIP_S2A_ATOS", &[tile("TC")]);
        let name = "S2A_MSIL1C_20211206T182741_N0301_R127_T11SQS_20211206T201831";
        for product in rows(&sandbox, "product").values() {
            assert_eq!(product["container_id"], name, "{}", product["name"]);
            assert_eq!(product["container_dates"], json!({ "DD_DHUS": "2024-01-01T00:00:00Z" }));
        }
        assert_eq!(rows(&sandbox, "container")[name]["products"], 2);
    }
}

/// An interface that has answered since a Friday in July: what the original's own test expects of two more probes.
#[test]
fn an_interface_is_up_as_long_as_the_original_says() {
    for sandbox in Sandbox::on_each_store(SATELLITES) {
        let probe = |start: &str, stop: &str| json!({ "interface_name": "Jira_CAMS", "probe_time_start": start, "probe_time_stop": stop, "status": "OK", "status_code": 200 });
        let start = 1_659_102_756_098_i64;
        let shown = |millis: i64| stook_catalogue::value::show_timestamp(millis * 1_000);
        // one every ten minutes, until somebody asks on the first of September
        let mut probes: Vec<Json> = (0..)
            .map(|number| start + number * 600_000)
            .take_while(|at| *at < 1_662_017_203_892)
            .map(|at| probe(&shown(at), &shown(at + 1_000)))
            .collect();
        assert_eq!(probes[0]["probe_time_start"], "2022-07-29T13:52:36.098Z");
        probes.push(probe("2022-09-01T07:26:43.892Z", "2022-09-01T07:26:44.882Z"));
        let lines = |probes: &[Json]| probes.iter().map(|probe| probe.to_string() + "\n").collect::<String>();
        import(&sandbox, "probe", &[sandbox.write_file("first.ndjson", lines(&probes))]);
        let up = |stop: &str, micros: i64| {
            let all = rows(&sandbox, "interface.status");
            assert_eq!(all.len(), 1, "{all:?}");
            let row = all.values().next().expect("a row");
            assert_eq!((&row["value"], &row["start"], &row["stop"]), (&json!("OK"), &json!("2022-07-29T13:52:36.098Z"), &json!(stop)), "{row}");
            assert_eq!(self::micros(&row["duration"]), json!(micros), "{row}");
        };
        up("2022-09-01T07:26:44.882Z", 2_914_448_784_000);
        // the next one makes it longer, and no second row
        import(&sandbox, "probe", &[sandbox.write_file("next.ndjson", lines(&[probe("2022-09-01T07:28:43.892Z", "2022-09-01T07:28:44.882Z")]))]);
        up("2022-09-01T07:28:44.882Z", 2_914_568_784_000);
    }
}

/// What a mode produces, with the prefix of its swath, and how much of it is expected.
#[test]
fn modes_and_swaths_name_what_is_expected() {
    let sandbox = with_areas().swap_remove(0);
    plan_radar(
        &sandbox,
        &[
            (400001, "WV", "", "2024-01-01T00:00:00Z", 20_000),
            (400002, "SM", "5", "2024-01-01T02:00:00Z", 31_600),
            (400003, "RFC", "", "2024-01-01T04:00:00Z", 2_800),
            (400004, "YOLO", "", "2024-01-01T06:00:00Z", 2_800),
            (400005, "EW", "", "2024-01-01T08:00:00Z", 20_000),
        ],
    );
    let all = rows(&sandbox, "datatake.completeness_s1");
    let of =
        |datatake: &str| -> Vec<String> { all.keys().filter_map(|key| key.strip_prefix(&format!("S1A-{datatake}#"))).map(str::to_owned).collect() };
    assert_eq!(of("400001"), ["WV_OCN__2A", "WV_OCN__2S", "WV_RAW__0A", "WV_RAW__0C", "WV_RAW__0N", "WV_RAW__0S", "WV_SLC__1A", "WV_SLC__1S"]);
    assert!(of("400002").contains(&"S5_RAW__0S".to_owned()) && of("400002").len() == 8, "{:?}", of("400002"));
    assert_eq!(of("400003"), ["RF_RAW__0S"]);
    assert_eq!(of("400004"), [""; 0]);
    // 20 s of each of eight types; what is tolerated is less: 4 x 0.759, 2 x 13.5 and 2 x 12.843 s
    let sum = &rows(&sandbox, "datatake.sensing_s1")["S1A-400001#sensing"];
    assert_eq!(micros(&sum["expected"]), json!(160_000_000 - 4 * 759_000 - 2 * 13_500_000 - 2 * 12_843_000), "{sum}");
    // an area product is expected where there is area: nothing yet
    let area = |kind: &str| row(&all, &format!("S1A-400005#{kind}"));
    assert!(!of("400005").iter().any(|kind| kind.contains("OCN") || kind.contains("EW_SLC")), "{:?}", of("400005"));
    // the first of the tolerances that fits, else none
    assert_eq!((area("EW_RAW__0S").1, area("EW_GRDM_1S").1), (20_000_000 - 135_000, 20_000_000 + 230_000));
    // slices with ocean in them make it expected: of two slices of 10 s, less what each may lack, and 2.4 s as what is tolerated
    // the first is ocean for 80 of 100, the second not at all
    let slice = |start: &str, stop: &str, uid: &str, west: f64| {
        let mut document = spanning(
            &format!("S1A_EW_RAW__0SDV_20240101T{}_20240101T{}_000001_061A85_{uid}.SAFE.zip", start.replace(':', ""), stop.replace(':', "")),
            &format!("2024-01-01T{start}Z"),
            &format!("2024-01-01T{stop}Z"),
        );
        let (east, ring) = (west + 1.0, |x: f64, y: f64| json!([x, y]));
        document["GeoFootprint"] =
            json!({ "type": "Polygon", "coordinates": [[ring(west, 1.0), ring(east, 1.0), ring(east, 2.0), ring(west, 2.0), ring(west, 1.0)]] });
        document
    };
    delivery(&sandbox, "prip", "PRIP_S1A_Serco", &[slice("08:00:00", "08:00:10", "0001", -0.8), slice("08:00:10", "08:00:20", "0002", 0.5)]);
    let all = rows(&sandbox, "datatake.completeness_s1");
    assert_eq!(row(&all, "S1A-400005#EW_OCN__2S").1, 10_000_000 - 8_200_000, "{all:?}");
    assert_eq!(row(&all, "S1A-400005#EW_RAW__0S").0, 20_000_000);
}

/// Sensing of a datastrip, granules of a detector, and what is missing at the beginning.
#[test]
fn datastrips_and_granules_are_measured_as_by_the_original() {
    for sandbox in Sandbox::on_each_store(SATELLITES) {
        plan_optical(
            &sandbox,
            &[
                (39000, "NOBS", "2024-01-02T14:37:00Z", "2024-01-02T14:58:00Z", 1_260_000, 350, "NOMINAL"),
                (39001, "NOBS", "2024-01-03T10:00:00Z", "2024-01-03T10:01:04.944Z", 64_944, 18, "NOMINAL"),
            ],
        );
        let strip = |kind: &str, created: &str, start: &str, stop: &str| {
            spanning(&format!("S2A_OPER_{kind}_VGS1_{created}_S{created}_N05.10.tar"), start, stop)
        };
        let granule = |detector: &str, start: &str, uid: usize| {
            spanning(
                &format!("S2A_OPER_MSI_L0__GR_VGS1_2024010{}T1{uid:05}_S20240103T1000{uid:02}_D{detector}_N05.10.tar", 3, uid = uid),
                start,
                start,
            )
        };
        delivery(
            &sandbox,
            "prip",
            "PRIP_S2A_ATOS",
            &[
                strip("MSI_L0__DS", "20240102T150000", "2024-01-02T14:37:22.007Z", "2024-01-02T14:57:47.471Z"),
                // what is missing at the beginning is a gap if it is longer than ten seconds
                strip("MSI_L0__DS", "20240103T110000", "2024-01-03T10:00:20Z", "2024-01-03T10:01:15Z"),
                granule("07", "2024-01-03T10:00:00.000Z", 1),
                granule("07", "2024-01-03T10:00:01.000Z", 2),
                granule("07", "2024-01-03T10:00:00.999Z", 3),
            ],
        );
        let all = rows(&sandbox, "datatake.completeness_s2");
        assert_eq!(row(&all, "S2A-39000-1#MSI_L0__DS").0, 1_225_464_000 + 4_608_000);
        assert_eq!(row(&all, "S2A-39001-1#MSI_L2A_DS").1, 57_728_000);
        assert_eq!(row(&all, "S2A-39001-1#MSI_L0__GR").0, 2, "a millisecond apart is the same granule");
        let gaps = &all["S2A-39001-1#MSI_L0__DS"]["gaps"];
        assert_eq!(
            (gaps.as_array().map(Vec::len), &gaps[0]["start"], &gaps[0]["stop"]),
            (Some(1), &json!("2024-01-03T10:00:00Z"), &json!("2024-01-03T10:00:20Z")),
            "{gaps}"
        );
    }
}

#[test]
fn every_pair_in_pairs_md_names_a_test_that_exists_or_says_why_not() {
    let (page, this_file) = (include_str!("../../../examples/sentinel/pairs.md"), include_str!("sentinel.rs"));
    let mut numbers = Vec::new();
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let Ok(number) = cells[1].parse::<u32>() else { continue };
        numbers.push(number);
        let mut named = 0;
        for (at, _) in cells[3].match_indices("test `") {
            let (name, rest) = cells[3][at + 6..].split_once('`').expect("a name");
            let path = rest.strip_prefix(" in `").and_then(|rest| rest.split('`').next());
            let read = |path: &str| std::fs::read_to_string(stook_tests::repository().join(path)).expect("a source");
            assert!(path.map_or_else(|| this_file.to_owned(), read).contains(&format!("fn {name}()")), "{number}: there is no test {name}");
            named += 1;
        }
        assert!(named > 0 || cells[3].starts_with("not here: "), "{line}");
    }
    assert_eq!(numbers, (1..=27).collect::<Vec<_>>());
}
