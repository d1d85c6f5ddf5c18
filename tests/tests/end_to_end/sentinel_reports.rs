//! What the satellite catalogue knows besides plans and deliveries: which products were deleted and why, how much is expected each day, counters of
//! archives, and how stations received passes. Values are those of the original's own tests, where it has any.

use rust_xlsxwriter::{ExcelDateTime, Format, Workbook, Worksheet};
use serde_json::{Value as Json, json};
use stook_tests::Sandbox;

const SATELLITES: &str = include_str!("../../../examples/sentinel/catalogue.yaml");

const GRANULE: &str = "S2B_OPER_MSI_L0__GR_2BPS_20220830T122617_S20220830T003217_D11_N04.00";
const DATASTRIP: &str = "S2B_OPER_MSI_L0__DS_2BPS_20220830T122617_S20220830T003155_N04.00";
const CONTAINER: &str = "S2A_MSIL1C_20211206T182741_N0301_R127_T11SQS_20211206T201831";

/// Rows of a question, in the order of keys.
fn found(sandbox: &Sandbox, question: &str) -> Vec<Json> {
    let mut rows = sandbox.run(&["query", question, "--format", "ndjson", "--limit", "100000"]).exits(0).lines();
    rows.sort_by_key(|row| row["key"].as_str().map(str::to_owned));
    rows
}

/// The only row of a question.
fn one(sandbox: &Sandbox, question: &str) -> Json {
    let mut rows = found(sandbox, question);
    assert_eq!(rows.len(), 1, "{question}: {rows:?}");
    rows.swap_remove(0)
}

/// Compares the fields that are wanted.
#[track_caller]
fn has(row: &Json, wanted: &Json) {
    for (field, value) in wanted.as_object().expect("fields") {
        assert_eq!(&row[field], value, "{field} of {row}");
    }
}

/// Names of files with what is in them.
type Files = Vec<(&'static str, Vec<u8>)>;

fn import(sandbox: &Sandbox, files: &[(&str, Vec<u8>)]) {
    for (name, bytes) in files {
        let path = sandbox.write_file(name, bytes);
        assert_eq!(sandbox.import(&[&path])["counts"]["failed"], 0, "{name}");
    }
}

/// A page of an interface.
fn page(interface: &str, names: &[&str]) -> Vec<u8> {
    let document = |name: &&str| json!({ "Id": format!("{interface} {name}"), "Name": name, "PublicationDate": "2022-01-01T00:00:00Z" });
    json!({ "value": names.iter().map(document).collect::<Vec<_>>() }).to_string().into_bytes()
}

fn tickets(issues: &[(&str, Json)]) -> Vec<u8> {
    let issue = |(key, more): &(&str, Json)| {
        let mut fields = json!({ "summary": "Deletion of products", "status": { "name": "Closed" }, "updated": "2022-02-12T14:25:46.396+0000" });
        fields.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
        json!({ "key": key, "fields": fields })
    };
    json!({ "issues": issues.iter().map(issue).collect::<Vec<_>>() }).to_string().into_bytes()
}

/// A spreadsheet; texts of digits become numbers.
fn sheet(rows: &[Vec<&str>]) -> Vec<u8> {
    let mut book = Workbook::new();
    let page = book.add_worksheet();
    for (line, row) in rows.iter().enumerate() {
        for (column, text) in row.iter().enumerate() {
            let (line, column) = (line as u32, column as u16);
            match text.parse::<f64>() {
                Ok(number) => page.write_number(line, column, number),
                Err(_) => page.write_string(line, column, *text),
            }
            .expect("a cell");
        }
    }
    book.save_to_buffer().expect("a spreadsheet")
}

/// A product and its publications have the ticket's date and cause, whichever of list, ticket and delivery comes first.
#[test]
fn deletions_reach_products_and_publications_in_any_order() {
    let lists: Files = vec![
        ("DEMO-1_LTA_S2B_DelList_20220830_V20220830_20220830.csv", format!("\u{feff}{DATASTRIP}.tar\n{GRANULE}.tar").into_bytes()),
        ("DEMO-3_LTA_S2B_DelList_20230112.csv", format!("{GRANULE}\n").into_bytes()),
    ];
    let archived = json!({ "customfield_10114": "2022-01-12T07:12:53.994+0000", "customfield_10115": "The dog ate the products",
                           "customfield_10098": [{ "value": "Exprivia" }] });
    let again = json!({ "customfield_10114": "2023-01-12", "customfield_10115": "Again", "customfield_10098": [{ "value": " exprivia" }, { "value": "DLR" }] });
    let issues: Files = vec![("Jira_OMCS_Deletion_LTA_20230113T000000_1.json", tickets(&[("DEMO-1", archived), ("DEMO-3", again)]))];
    let (granule, datastrip) = (format!("{GRANULE}.tar"), format!("{DATASTRIP}.tar"));
    let both = [granule.as_str(), datastrip.as_str()];
    let delivered: Files = vec![
        ("LTA_Exprivia_S2_20220101T000000_1.json", page("LTA_Exprivia_S2", &both)),
        ("LTA_Acri_20220101T000000_1.json", page("LTA_Acri", &both)),
    ];
    for order in [[&lists, &issues, &delivered], [&delivered, &issues, &lists], [&issues, &delivered, &lists], [&lists, &delivered, &issues]] {
        for sandbox in Sandbox::on_each_store(SATELLITES) {
            order.iter().for_each(|files| import(&sandbox, files));
            let of = |name: &str| one(&sandbox, &format!("product name={name}"));
            let wanted = json!({ "product_type": "MSI_L0__DS", "deletion_tickets": ["DEMO-1"], "deleted_from": ["LTA_Exprivia"], "lta_deleted": 1, "lta_served": 2,
                                 "deletion_date": "2022-01-12T07:12:53.994Z", "deletion_causes": ["The dog ate the products"] });
            has(&of(DATASTRIP), &wanted);
            let wanted = json!({ "deletion_tickets": ["DEMO-1", "DEMO-3"], "deleted_from": ["LTA_Exprivia", "LTA_Exprivia", "LTA_S5P_DLR"], "lta_deleted": 2,
                                 "deletion_date": "2023-01-12T00:00:00Z", "dd_deleted": 0 });
            has(&of(GRANULE), &wanted);
            // only at the interfaces that the ticket names; of several tickets the last one
            let at = |service: &str, name: &str| one(&sandbox, &format!("publication service={service} name={name}"));
            let wanted = json!({ "deleted_by": "DEMO-1", "deletion_date": "2022-01-12T07:12:53.994Z", "deletion_cause": "The dog ate the products" });
            has(&at("LTA_Exprivia_S2", DATASTRIP), &wanted);
            has(
                &at("LTA_Exprivia_S2", GRANULE),
                &json!({ "deleted_by": "DEMO-3", "deletion_date": "2023-01-12T00:00:00Z", "deletion_cause": "Again" }),
            );
            let none = json!({ "deleted_by": null, "deletion_date": null, "deletion_cause": null });
            has(&at("LTA_Acri", DATASTRIP), &none);
            has(&at("LTA_Acri", GRANULE), &none);
            // of causes and of interfaces
            let counted = |question: &str| one(&sandbox, &format!("{question} | sum(products), sum(publications)"));
            has(&counted("deletion_ticket cause='The dog ate the products'"), &json!({ "sum(products)": 2, "sum(publications)": 2 }));
            has(&counted("deletion_ticket services=LTA_Exprivia"), &json!({ "sum(products)": 3, "sum(publications)": 4 }));
            sandbox.ok(&["check", "--deep"]);
        }
    }
}

/// Lists of distributors name containers, too; a list may be a spreadsheet, have a header after all, and come without its ticket.
#[test]
fn lists_of_distributors_and_spreadsheets_are_read() {
    let sandbox = Sandbox::new(SATELLITES);
    let container = format!("{CONTAINER}.SAFE");
    let alone = "S1A_IW_OCN__2SDH_20220207T093448_20220207T093513_041805_04F9D1_820F";
    let hubs =
        json!({ "customfield_10114": "2022-03-01T01:00:00.000+0100", "customfield_10118": { "value": "Wrong format" }, "customfield_10116": null });
    import(
        &sandbox,
        &[
            ("DD_DHUS_20220101T000000_1.json", page("DD_DHUS", &[container.as_str(), GRANULE])),
            ("DEMO-2_DHUS_S2A_DelList_20220830.xlsx", sheet(&[vec!["product_name"], vec![container.as_str()], vec![GRANULE]])),
            ("DEMO-4_LTA_S1A__DelList_20220823_V20220818_20220818.xlsx", sheet(&[vec![format!("{alone}.SAFE.zip").as_str()]])),
            ("Jira_OMCS_Deletion_DHUS_20220301T000000_1.json", tickets(&[("DEMO-2", hubs)])),
        ],
    );
    let wanted = json!({ "deleted_by": "DEMO-2", "deletion_date": "2022-03-01T00:00:00Z", "deletion_cause": "Wrong format" });
    for name in [CONTAINER, GRANULE] {
        has(&one(&sandbox, &format!("publication service=DD_DHUS name={name}")), &wanted);
    }
    has(&one(&sandbox, "container"), &json!({ "key": CONTAINER, "level": "L1C", "deletion_tickets": ["DEMO-2"], "deleted_from": ["DD_DHUS"] }));
    has(&one(&sandbox, &format!("product name={GRANULE}")), &json!({ "lta_deleted": 0, "dd_deleted": 1 }));
    let ticket =
        json!({ "interfaces": ["DHUS"], "service_type": "DD", "products": 2, "satellites": 2, "publications": 2, "date": "2022-03-01T00:00:00Z" });
    has(&one(&sandbox, "deletion_ticket"), &ticket);
    // nobody has delivered it: it has no type, and is part of nothing
    has(
        &one(&sandbox, &format!("product name={alone}")),
        &json!({ "deletion_tickets": ["DEMO-4"], "deleted_from": null, "product_type": null, "planned": null }),
    );
    has(&one(&sandbox, &format!("deletion name={alone}")), &json!({ "ticket": "DEMO-4", "service_type": "LTA", "satellite": "S1A", "date": null }));
    assert_eq!(found(&sandbox, "deletion").len(), 3, "a header is no product");
}

const BUDGET: &str = "TYPE;#Num/day;Level;Timeliness;P;A;D;Volume per day [GB];Mission;Version";

/// Values are cleaned, and types that stand for several are resolved.
#[test]
fn a_data_budget_is_cleaned_as_by_the_original() {
    for sandbox in Sandbox::on_each_store(SATELLITES) {
        let rows = "IW_GRDH_1S (SH/SV/DH/DV);8,9;0;NTC;P;A; ;1215,3;S1;1.4\n\
                    S(1.2.3.4.5.6.7.8)_GRDH_1S;6666.6;1;_;P;;D;9999.9;S1;1.4\n\
                    S[1..6]_ETA__AX;2;2;TOTO;P;A;D;10;S1;1.4\n\
                    S[1..9]_ETA__AX;2;L1A;TOTO;P;A;D;10;S2;1.4\n\
                    MSI_L1C_TL (EUP);2;L1Z;NTC;P;A;D;10;S2;1.4\n\
                    SR_2_SIC{N,S,T}AX;66666.6;L2;NTC;-;A;. -;-;S3;1.4\n\
                    OFFL_L2__HCCO_;2;L2;NTC;P;A;D;10;S5;1.4\n\
                    OFFL_L1B_IR_UVN;2;L1B;OFFL;P;A;D;10;S5;1.4\n\
                    AUX_NONE;2;_;NTC;P;A;D;10;S5;1.4\n";
        let aux = "AUX_WND;8,9;;;P;A; ;0,3;S1;1.4\n";
        import(
            &sandbox,
            &[("Databudget_v1.4.csv", format!("{BUDGET}\n{rows}").into_bytes()), ("DatabudgetAUX_v1.4.csv", format!("{BUDGET}\n{aux}").into_bytes())],
        );
        assert_eq!(found(&sandbox, "databudget version=1.4").len(), 9, "what has the level _ is left out");
        let of = |kind: &str| one(&sandbox, &format!("databudget product_types={kind}"));
        let wanted = json!({ "type": "IW_GRDH_1S", "number": 8.9, "volume": 1215.3, "level": "L0", "timeliness": "NTC", "is_produced": true, "is_archived": true,
                             "is_disseminated": false, "product_timeliness": ["NT", "NTC", "OPER", "OFFL", "NOMINAL"] });
        has(&of("IW_GRDH_1S"), &wanted);
        let eight: Vec<String> = (1..=8).map(|number| format!("S{number}_GRDH_1S")).collect();
        has(&of("S8_GRDH_1S"), &json!({ "product_types": eight, "level": "L1", "timeliness": "UNDERSCORE", "number": 6666.6, "volume": 9999.9 }));
        let nine: Vec<String> = (1..=9).map(|number| format!("S{number}_ETA__AX")).collect();
        has(&of("S9_ETA__AX"), &json!({ "product_types": nine, "level": "L1", "timeliness": "TOTO", "product_timeliness": [] }));
        has(&one(&sandbox, "databudget type='S[1..6]_ETA__AX'"), &json!({ "level": "L2", "timeliness": "A" }));
        has(&of("MSI_L1C_TL"), &json!({ "level": "L1", "product_timeliness": ["NOMINAL", "NOT_RECORDING"] }));
        let wanted =
            json!({ "product_types": ["SR_2_SICNAX", "SR_2_SICSAX", "SR_2_SICTAX"], "volume": null, "is_produced": false, "is_disseminated": false });
        has(&of("SR_2_SICTAX"), &wanted);
        has(&of("OFFL_L2__HCHO_"), &json!({ "mission": "S5", "product_timeliness": ["OPER", "OFFL"] }));
        has(&of("OFFL_L1B_IR_UVN"), &json!({ "level": "L1" }));
        has(&of("AUX_WND"), &json!({ "level": "AUX", "timeliness": "AUX", "product_timeliness": ["_"], "volume": 0.3 }));
        // a file that is delivered again counts instead of the older one
        let later = rows.replace("S[1..6]_ETA__AX;2;", "S[1..6]_ETA__AX;3;").replace("OFFL_L1B_IR_UVN;2;L1B;OFFL;P;A;D;10;S5;1.4\n", "");
        let path = sandbox.write_file("Databudget_v1.4.csv", format!("{BUDGET}\n{later}"));
        sandbox.import(&[&path]);
        assert_eq!(one(&sandbox, "databudget type='S[1..6]_ETA__AX'")["number"], 3.0);
        assert_eq!(found(&sandbox, "databudget").len(), 8);
    }
}

/// What is expected of a mission, and of a level and timeliness of it: sums of rows.
#[test]
fn totals_of_a_data_budget_are_those_of_the_original() {
    let sandbox = Sandbox::new(SATELLITES);
    let marks = [("P;;", 1.0), ("P;A;", 2.0), ("P;A;D", 3.0), (";A;D", 4.0), (";;D", 5.0), ("P;;D", 6.0)];
    let levels = [("L1", 11.0), ("L2", 22.0), ("L3", 33.0)];
    let timelinesses = [("NTC", 333.0), ("NRT", 666.0), ("STC", 999.0)];
    let (mut global, mut specific) = (format!("{BUDGET}\n"), format!("{BUDGET}\n"));
    for mission in [1.0, 2.0, 3.0, 5.0] {
        for (number, (marks, times)) in marks.iter().enumerate() {
            let row = |kind: &str, level: &str, timeliness: &str, factor: f64, version: &str| {
                format!(
                    "{kind};{};{level};{timeliness};{marks};{};S{mission};{version}\n",
                    1.2 * times * mission * factor,
                    10.4 * times * mission * factor
                )
            };
            global += &row(&format!("T{number}"), "CHARLIE", "GOLF", 1.0, "G");
            for (level, of_level) in levels {
                for (timeliness, of_timeliness) in timelinesses {
                    specific += &row(&format!("T{number}"), level, timeliness, of_level * of_timeliness, "S");
                }
            }
        }
    }
    import(&sandbox, &[("Databudget_vG.csv", global.into_bytes()), ("Databudget_vS.csv", specific.into_bytes())]);
    let is = |question: &str, factor: f64| {
        let sums = one(&sandbox, &format!("{question} | sum(number), sum(volume)"));
        for (column, each) in [("sum(number)", 1.2), ("sum(volume)", 10.4)] {
            let sum = sums[column].as_f64().expect("a sum");
            assert!((sum / (each * factor) - 1.0).abs() < 1e-9, "{question}: {sums}");
        }
    };
    for mission in [1.0, 2.0, 3.0, 5.0] {
        for (service, times) in [("is_produced", 12.0), ("is_archived", 9.0), ("is_disseminated", 18.0)] {
            is(&format!("databudget version=G mission=S{mission} {service}=true"), times * mission);
            for (level, of_level) in levels {
                for (timeliness, of_timeliness) in timelinesses {
                    let question = format!("databudget version=S mission=S{mission} level={level} timeliness={timeliness} {service}=true");
                    is(&question, times * mission * of_level * of_timeliness);
                }
            }
        }
    }
}

#[test]
fn names_of_counters_say_what_they_count() {
    for sandbox in Sandbox::on_each_store(SATELLITES) {
        let values = |names: &[&str], time: &str, counter: u64| {
            let value = |name: &&str| json!({ "Name": name, "Timestamp": time, "MetricType": "Counter", "Counter": counter });
            json!({ "value": names.iter().map(value).collect::<Vec<_>>() }).to_string().into_bytes()
        };
        import(
            &sandbox,
            &[
                (
                    "metrics_LTA_Exprivia_S1_20230406T000000_20230407T000000_1000_P000000.json",
                    values(
                        &["Archived.WV_RAW__0N.SENTINEL-1.A.size", "Archived._AUX_CTM_CO.SENTINEL-5P.P.count"],
                        "2023-04-06T08:30:00.560Z",
                        6_446_299_846,
                    ),
                ),
                (
                    "metrics_LTA_Exprivia_S2_20240905T000000_20240906T000000_1000_P000000.json",
                    values(&["Download.MSI_L0__DS.SENTINEL-2.A.s2b_ps_cap.size"], "2024-09-05T11:30:00.581Z", 36_208_640),
                ),
                (
                    "metrics_LTA_S5P_DLR_20230406T000000_20230407T000000_1000_P000000.json",
                    values(&["Archived.VIIRS_CM._.size", "Archived.SENTINEL-1.A.size", "Archived.L1.S5.P.size"], "2023-04-06T08:30:00.560Z", 1),
                ),
            ],
        );
        let wanted = json!({ "time": "2023-04-06T08:30:00.56Z", "counter": 6_446_299_846_u64, "metric": "archived", "kind": "Counter", "measure": "size",
                             "product_type": "WV_RAW__0N", "mission": "S1", "satellite": "S1A", "service_id": "Exprivia", "user": null });
        has(&one(&sandbox, "metric name=Archived.WV_RAW__0N.SENTINEL-1.A.size"), &wanted);
        let wanted = json!({ "counter": 36_208_640, "interface": "metrics_LTA_Exprivia_S2", "service_id": "Exprivia", "service_type": "LTA", "metric": "download",
                             "measure": "size", "product_type": "MSI_L0__DS", "satellite": "S2A", "user": "s2b_ps_cap", "mission": "S2" });
        has(&one(&sandbox, "metric product_type=MSI_L0__DS satellite=S2A"), &wanted);
        has(
            &one(&sandbox, "metric product_type=_AUX_CTM_CO"),
            &json!({ "measure": "count", "mission": "S5", "satellite": "S5P", "service_id": "Exprivia" }),
        );
        assert_eq!(found(&sandbox, "metric").len(), 3);
        let journal: Vec<Json> = sandbox.journal(3);
        assert_eq!(journal.len(), 3);
        for line in journal {
            assert_eq!((&line["outcome"], &line["reasons"]), (&json!("skipped"), &json!(["not the name of a counter of a type"])), "{line}");
        }
    }
}

const TABLE: [&str; 23] = [
    "DOY",
    "Satellite",
    "Downlink Orbit",
    "Antenna ID",
    "Antenna status",
    "Front End ID",
    "Front End status",
    "Planned Data start",
    "Planned Data stop",
    "First Frame start",
    "Last Frame stop",
    "Delivery Push status",
    "Start Delivery",
    "Stop Delivery",
    "Number of chunks",
    "Overall Data Volume",
    "Overall Number of downlinked frames",
    "Overall Number of bad downlinked frames",
    "FER_Downlink",
    "Overall Number of data acquired frames",
    "Overall Number of bad data acquired frames",
    "FER_Data",
    "Notes",
];

/// A row of a table of a station.
fn pass(antenna_status: &'static str, volume: &'static str, notes: &'static str) -> Vec<&'static str> {
    let times = ["2001-02-02T10:42:42.100", "2011-11-09T05:10:10.110", "2021-06-07T02:21:15.100", "N/A"];
    let mut row = vec!["158", "S5P", "32001", "ABCD", antenna_status, "QRST", "OK"];
    row.extend(times);
    row.extend([
        "OK",
        "2020-05-06T08:12:32.100",
        "2021-06-07T03:23:45.100",
        "9876",
        volume,
        "45454545",
        "789789",
        "1234.5",
        "13311331",
        "123123",
        "5678,9",
        notes,
    ]);
    row
}

/// A pass in tables of a day and of a month is one record: the table of the longer time counts, whichever comes first.
#[test]
fn tables_of_stations_become_passes() {
    let daily: Files = vec![("INU_DayRep_2021_158_0200_0400_X.xlsx", sheet(&[TABLE.to_vec(), pass("OK", "456456", "of the day")]))];
    let monthly: Files = vec![("INU_MonthRep_2021_06_0200_0400_X.xlsx", sheet(&[TABLE.to_vec(), pass("NOK", "912912", "of the month")]))];
    let ticket = json!({ "issues": [{ "key": "AN-1", "fields": {
        "updated": "2021-06-08T00:00:00.000+0000", "created": "2024-08-01T00:00:00.000+0000", "customfield_10238": "S5P-32001",
        "customfield_10225": { "value": "X-Band", "child": { "value": "INU" } }, "issuelinks": [{ "outwardIssue": { "key": "DEMO-9" } }],
    } }] });
    for sandbox in Sandbox::on_each_store(SATELLITES) {
        import(&sandbox, &daily);
        let key = "S5P/32001/ABCD/2001-02-02T10:42:42.1Z";
        let wanted = json!({ "key": key, "mission": "S5", "station": "INU", "status": "OK", "notes": "of the day", "chunks": 9876, "volume": 456_456,
                             "fer_downlink": 1234.5, "fer_data": 5678.9, "stop": null, "delivery": "PT1H2M30S", "bytes_per_second": 456_456.0 / 3_750.0,
                             "planned_stop": "2011-11-09T05:10:10.11Z", "frames": 45_454_545, "bad_data_frames": 123_123, "front_end": "QRST",
                             "on": "S5P_X-Band_32001_INU", "report": { "station_day": daily[0].0 } });
        has(&one(&sandbox, "station_pass satellite=S5P"), &wanted);
        has(&sandbox.get("pass", "S5P_X-Band_32001_INU"), &json!({ "reports": 1, "reports_ok": 1 }));
        import(&sandbox, &[("Jira_CAMS_Cloud_Anomaly_Correlation_1.json", ticket.to_string().into_bytes())]);
        assert_eq!(one(&sandbox, "station_pass")["cams_tickets"], json!(["DEMO-9"]));
    }
    for order in [[&daily, &monthly], [&monthly, &daily]] {
        for sandbox in Sandbox::on_each_store(SATELLITES) {
            order.iter().for_each(|files| import(&sandbox, files));
            let reports = json!({ "station_day": daily[0].0, "station_month": monthly[0].0 });
            has(&one(&sandbox, "station_pass"), &json!({ "status": "NOK", "notes": "of the month", "volume": 912_912, "report": reports }));
            has(&sandbox.get("pass", "S5P_X-Band_32001_INU"), &json!({ "reports": 1, "reports_ok": 0 }));
        }
    }
    // another station calls its columns otherwise, and writes satellites in full
    let sandbox = Sandbox::new(SATELLITES);
    let renamed = |name: &'static str| match name {
        "Antenna status" => "Antenna status (OK/NOK)",
        "Front End status" => "Front End Status",
        "Delivery Push status" => "Delivery Push Status (OK/NOK)",
        "Front End ID" => "Front End Id",
        "Planned Data start" => "Planned Data Start",
        "Planned Data stop" => "Planned Data Stop",
        "First Frame start" => "First frame Start",
        "Last Frame stop" => "Last frame Stop",
        "Number of chunks" => "Number of Chunks",
        other => other,
    };
    let mut row = pass("OK", "456456", "");
    (row[1], row[2]) = ("SENTINEL-2A", "36102");
    let table = sheet(&[TABLE.map(renamed).to_vec(), row, vec!["", "", "remarks"]]);
    import(&sandbox, &[("S2_COP_REP_PERF_CGS-INS__20220522T122038_V20220521T120000_20220522T115959.xlsx", table)]);
    let wanted = json!({ "key": "S2A/36102/ABCD/2001-02-02T10:42:42.1Z", "mission": "S2", "station": "INS", "status": "OK", "delivery": "PT1H2M30S", "chunks": 9876 });
    has(&one(&sandbox, "station_pass station=INS"), &wanted);
}

/// What a row of a list of relay sessions has that is the same for both of its ground stations.
struct RelaySession {
    link: &'static str,
    doy: u16,
    status: &'static str,
    notes: &'static str,
    stations: [Dissemination; 2],
}

/// When a ground station passed the data on, as hours and minutes.
#[derive(Clone, Copy)]
struct Dissemination {
    station: &'static str,
    from: (u16, u8),
    until: (u16, u8),
}

/// Writes a cell, merged with the one below it.
fn merged(page: &mut Worksheet, row: u32, column: u16, text: &str) {
    page.merge_range(row, column, row + 1, column, text, &Format::new()).expect("merged cells");
}

/// A list of relay sessions: titles, the year in a cell of its own, a header of two rows, and two rows with merged cells for each session.
fn relay_sessions(sessions: &[RelaySession]) -> Vec<u8> {
    let mut book = Workbook::new();
    let page = book.add_worksheet();
    page.merge_range(1, 1, 2, 20, "DAILY OPERATIONS REPORT", &Format::new()).expect("a title");
    page.write(6, 17, "52-1 / 2023-2024").expect("a cell");
    page.write(9, 1, "LINK SESSIONS DETAILS").expect("a cell");
    for (column, name) in ["LINK SESSION ID", "GEO", "LEO", "DOY", "START", "STOP"].into_iter().enumerate() {
        merged(page, 10, 1 + column as u16, name);
    }
    let clock = Format::new().set_num_format("hh:mm:ss");
    for (number, session) in sessions.iter().enumerate() {
        let row = 12 + 2 * number as u32;
        let texts = ["OK", "OK", "OK", "OK", "OK", "OK", session.status];
        let common = [session.link, "EDRS-A", "S1A", "", "23:50:00", "00:05:30"].into_iter().chain(texts);
        common.enumerate().for_each(|(column, text)| merged(page, row, 1 + column as u16, text));
        merged(page, row, 21, session.notes);
        page.write(row, 4, session.doy).expect("a cell");
        for (line, Dissemination { station, from, until }) in (row..).zip(session.stations) {
            page.write(line, 14, station).expect("a cell");
            for (column, (hour, minute)) in [(15, from), (16, until)] {
                let time = ExcelDateTime::from_hms(hour, minute, 0).expect("a time");
                page.write_datetime_with_format(line, column, &time, &clock).expect("a cell");
            }
            page.write(line, 17, 1_000 + line).expect("a cell");
            page.write(line, 18, 0.25).expect("a cell");
        }
    }
    book.save_to_buffer().expect("a spreadsheet")
}

/// Each of the two rows of a session has what is written once for both. The list of the longer time counts, whichever comes first, also where sessions
/// are in a list in JSON.
#[test]
fn lists_of_relay_sessions_are_read_with_their_merged_cells() {
    const LATE: &str = "L20231231235000153001045";
    let stations =
        [Dissemination { station: "HDGS", from: (23, 52), until: (0, 20) }, Dissemination { station: "RDGS", from: (0, 1), until: (0, 25) }];
    let listed = |status: &'static str, notes: &'static str| {
        let other = RelaySession { link: "L20240101120000153001046", doy: 1, status: "NOK", notes: "-", stations };
        relay_sessions(&[RelaySession { link: LATE, doy: 365, status, notes, stations }, other])
    };
    let daily: Files = vec![("EDRS_S1 DOR 2023-365.xlsx", listed("NOK", "of the day"))];
    let monthly: Files = vec![("EDRS_S1 MOR 2023-12.xlsx", listed("OK", "of the month"))];
    let list: Files = vec![(
        "edrs.json",
        json!({ "value": [{ "link_session_id": LATE, "ground_station": "HDGS", "total_status": "NOK" }] }).to_string().into_bytes(),
    )];
    for order in [[&daily, &monthly, &list], [&list, &monthly, &daily]] {
        for sandbox in Sandbox::on_each_store(SATELLITES) {
            order.iter().for_each(|files| import(&sandbox, files));
            let keys: Vec<Json> = found(&sandbox, "edrs_session").iter().map(|row| row["key"].clone()).collect();
            let named = |link: &str, station: &str| json!(format!("{link}/{station}"));
            let next = "L20240101120000153001046";
            assert_eq!(keys, [named(LATE, "HDGS"), named(LATE, "RDGS"), named(next, "HDGS"), named(next, "RDGS")]);
            let wanted = json!({ "satellite": "S1A", "relay": "EDRS-A", "status": "OK", "usable": "OK", "notes": "of the month",
                                 "planned_start": "2023-12-31T23:50:00Z", "planned_stop": "2024-01-01T00:05:30Z",
                                 "dissemination_start": "2023-12-31T23:52:00Z", "dissemination_stop": "2024-01-01T00:20:00Z", "cadus": 1012,
                                 "frame_error_rate": 0.25, "at": format!("S1A_EDRS_{LATE}_HDGS") });
            has(&sandbox.get("edrs_session", &format!("{LATE}/HDGS")), &wanted);
            // the other station's row has its own times and counts, and everything else from the same cells
            let wanted =
                json!({ "station": "RDGS", "status": "OK", "notes": "of the month", "cadus": 1013, "dissemination_start": "2023-12-31T00:01:00Z" });
            has(&sandbox.get("edrs_session", &format!("{LATE}/RDGS")), &wanted);
            has(
                &sandbox.get("edrs_session", &format!("{next}/RDGS")),
                &json!({ "status": "NOK", "usable": null, "notes": null, "planned_start": "2024-01-01T23:50:00Z" }),
            );
        }
    }
}

/// A field of a ticket has any number of values. Orbits without a satellite are those of all satellites that the ticket names.
#[test]
fn tickets_name_any_number_of_passes_products_and_satellites() {
    let sandbox = Sandbox::new(SATELLITES);
    let many = |number: &dyn Fn(usize) -> String| (0..15).map(number).collect::<Vec<_>>().join(";\n ");
    let issue = json!({ "issues": [{ "key": "AN-2", "fields": {
        "updated": "2024-02-08T00:00:00.000+0000", "created": "2024-02-01T00:00:00.000+0000", "customfield_10237": many(&|n| format!("S1A-{n}")),
        "customfield_10238": "S2B-900 ; 901", "customfield_10239": many(&|n| format!("P{n}.SAFE.zip")),
        "customfield_10242": [{ "value": "S1A" }, { "value": "S1B" }],
        "customfield_10225": { "value": "X-Band", "child": { "value": "SGS" } }, "issuelinks": [{ "outwardIssue": { "key": "DEMO-10" } }],
    } }] });
    import(&sandbox, &[("Jira_CAMS_Cloud_Anomaly_Correlation_2.json", issue.to_string().into_bytes())]);
    let ticket = one(&sandbox, "ticket");
    assert_eq!(ticket["observations"], json!((0..15).map(|n| format!("S1A-{n}")).collect::<Vec<_>>()));
    assert_eq!(ticket["products"], json!((0..15).map(|n| format!("P{n}")).collect::<Vec<_>>()));
    assert_eq!(ticket["passes"], json!(["S2B_X-Band_900_SGS", "S1A_X-Band_901_SGS", "S1B_X-Band_901_SGS"]));
}

/// The time from the production interface to another one, whichever page comes first.
#[test]
fn publications_know_how_long_after_production_they_came() {
    let at = |interface: &str, published: &str| {
        let document = json!({ "Id": interface, "Name": format!("{GRANULE}.tar"), "PublicationDate": published });
        json!({ "value": [document] }).to_string().into_bytes()
    };
    let pages: [(&str, Vec<u8>); 2] = [
        ("PRIP_S2B_CAPGEMINI_20220101T000000_1.json", at("PRIP_S2B_CAPGEMINI", "2022-09-01T00:00:00Z")),
        ("DD_DHUS_20220101T000000_1.json", at("DD_DHUS", "2022-09-01T01:30:00Z")),
    ];
    for order in [[0, 1], [1, 0]] {
        for sandbox in Sandbox::on_each_store(SATELLITES) {
            order.iter().for_each(|page| import(&sandbox, std::slice::from_ref(&pages[*page])));
            let times: Vec<Json> = found(&sandbox, "publication | grep key, service_type, from_prip")
                .iter()
                .map(|row| json!([row["service_type"], row["from_prip"]]))
                .collect();
            assert!(times.contains(&json!(["DD", "PT1H30M"])) && times.contains(&json!(["PRIP", null])), "{times:?}");
        }
    }
}

/// A report of one pass, as stations write it for each.
#[test]
fn reports_of_stations_become_passes() {
    for sandbox in Sandbox::on_each_store(SATELLITES) {
        let report = |orbit: &str, errors: &str, status: &str| {
            format!(
                "<?xml version=\"1.0\"?>\n<Earth_Explorer_File><Earth_Explorer_Header><Fixed_Header><Mission>Sentinel-2A</Mission></Fixed_Header>\
                 <Variable_Header><Downlink_Orbit>{orbit}</Downlink_Orbit></Variable_Header></Earth_Explorer_Header><Data_Block type=\"xml\">\
                 <StationAcquisitionReport><StationId>SGS_</StationId><StationDownlinkDetails><Acq_Id>40123_01</Acq_Id><AntennaId>ANT1</AntennaId>\
                 <DownlinkStartTime>UTC=2024-01-01T00:00:00.500000</DownlinkStartTime><DownlinkEndTime>UTC=2024-01-01T00:10:00</DownlinkEndTime>\
                 <DownlinkStatus>{status}</DownlinkStatus><FEP_Information><FER_Downlink>{errors}</FER_Downlink><FER_Data>n/a</FER_Data>\
                 </FEP_Information><Comments>none</Comments></StationDownlinkDetails></StationAcquisitionReport></Data_Block></Earth_Explorer_File>"
            )
        };
        let (good, bad) = ("S2A_OPER_REP_STNACQ_SGS_20240101T010000_V20240101T000000_20240101T001000.EOF", "S2A_OPER_REP_STNACQ_SGS_2.EOF");
        import(&sandbox, &[(good, report("040123", "1,5E-6", "OK").into_bytes()), (bad, report("40124", "", "NOK").into_bytes())]);
        let wanted = json!({ "key": "S2A/40123/ANT1/2024-01-01T00:00:00.5Z", "mission": "S2", "station": "SGS", "status": "OK", "acquisition": "40123_01",
                             "start": "2024-01-01T00:00:00.5Z", "stop": "2024-01-01T00:10:00Z", "fer_downlink": 1.5e-6, "fer_data": null, "notes": "none",
                             "on": "S2A_X-Band_40123_SGS", "report": { "station_report": good } });
        has(&one(&sandbox, "station_pass orbit=40123"), &wanted);
        has(&one(&sandbox, "station_pass status=NOK"), &json!({ "orbit": "40124", "fer_downlink": null }));
        // the pass is the one that sessions and tickets name
        let session = json!({ "value": [{ "SessionId": "S2A_20240101000000040123", "Satellite": "S2A", "DownlinkOrbit": 40123, "PublicationDate": "2024-01-01T02:00:00Z" }] });
        import(&sandbox, &[("CADIP_Svalbard_Sessions_20240101T000000_1.json", session.to_string().into_bytes())]);
        has(&sandbox.get("pass", "S2A_X-Band_40123_SGS"), &json!({ "reports": 1, "reports_ok": 1, "sessions": 1 }));
    }
}
