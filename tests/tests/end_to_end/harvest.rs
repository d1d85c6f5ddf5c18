//! `stook collect` from repositories of OAI-PMH, and `stook import` of their saved responses: what they have is in the catalogue, and what they have
//! deleted is not.

use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use stook_tests::service::{BUSY, Service, ServiceRequest};
use stook_tests::{Answer, Sandbox};

const MARC: &str = "\
catalogue: library
sources:
  bibs:
    format: marc
    let:
      header: { around: header/identifier }
      status: { around: header/@status }
      number: { first: ['001'] }
    gone: \"status == 'deleted'\"
    as_of: meta.received
    collect: { oai: { north: \"${OAI_URL}/north?set=maps\" } }
    feeds:
      - { into: book, map: { id: { expr: \"coalesce(number, replace(header, 'oai:x:', ''))\" }, title: 245$a } }
collections:
  book: { key: id, raw: keep, fields: { id: { type: text, required: true }, title: { type: text, required: true } } }
";

const XML: &str = "\
catalogue: datasets
sources:
  archive:
    format: xml
    records: ListRecords/record
    namespaces: { o: 'http://www.openarchives.org/OAI/2.0/', dc: 'http://purl.org/dc/elements/1.1/' }
    let: { status: 'o:header/@status' }
    gone: \"status == 'deleted'\"
    as_of: meta.received
    into: dataset
    collect: { oai: { north: \"${OAI_URL}/north\" }, since: 2024-01-01T00:00:00Z }
collections:
  dataset:
    key: id
    fields:
      id: { path: 'o:header/o:identifier', type: text }
      title: { path: './/dc:title', type: text, required: true }
";

/// A record of the repository: when it changed, and its title unless it is deleted.
#[derive(Clone)]
struct Kept {
    changed: String,
    title: Option<String>,
}

#[derive(Default)]
struct Repository {
    records: BTreeMap<String, Kept>,
    /// What it says the time is.
    now: String,
    is_daily: bool,
    page: usize,
    /// How many requests it refuses because it is busy, and with how many tokens it has expired.
    busy: usize,
    expired: usize,
    requests: Vec<Vec<(String, String)>>,
}

const OAI: &str = "http://www.openarchives.org/OAI/2.0/";

fn answer(state: &mut Repository, request: &ServiceRequest<'_>) -> (&'static str, String) {
    if state.busy > 0 {
        state.busy -= 1;
        return (BUSY, "later".to_owned());
    }
    state.requests.push(request.parameters.clone());
    let one = |name: &str| request.all(name).first().map(|value| (*value).to_owned());
    let page = |inner: &str| {
        ("text/xml", format!("<?xml version='1.0'?><OAI-PMH xmlns='{OAI}'><responseDate>{}</responseDate>{inner}</OAI-PMH>", state.now))
    };
    let wrong = |code: &str| page(&format!("<error code='{code}'>no: &lt;{code}&gt;</error>"));
    if one("verb").as_deref() == Some("Identify") {
        let granularity = if state.is_daily { "YYYY-MM-DD" } else { "YYYY-MM-DDThh:mm:ssZ" };
        return page(&format!("<Identify><granularity>{granularity}</granularity></Identify>"));
    }
    let (prefix, from, skip) = match one("resumptionToken") {
        Some(_) if request.parameters.len() != 2 => return wrong("badArgument"),
        Some(_) if state.expired > 0 => {
            state.expired -= 1;
            return wrong("badResumptionToken");
        }
        Some(token) => {
            let [prefix, from, skip] = token.split('|').collect::<Vec<_>>()[..] else { return wrong("badResumptionToken") };
            (prefix.to_owned(), Some(from.to_owned()).filter(|from| !from.is_empty()), skip.parse::<usize>().unwrap())
        }
        None => (one("metadataPrefix").unwrap_or_default(), one("from"), 0),
    };
    if from.as_ref().is_some_and(|from| (from.len() == 10) != state.is_daily) {
        return wrong("badArgument");
    }
    if !["marc21", "oai_dc"].contains(&prefix.as_str()) {
        return wrong("cannotDisseminateFormat");
    }
    let is_wanted = |kept: &Kept| from.as_ref().is_none_or(|from| kept.changed.as_str() >= from.as_str());
    let wanted: Vec<(&String, &Kept)> = state.records.iter().filter(|(_, kept)| is_wanted(kept)).collect();
    if wanted.is_empty() {
        return wrong("noRecordsMatch");
    }
    let record = |(id, kept): &(&String, &Kept)| match &kept.title {
        None => {
            format!("<record><header status=\"deleted\"><identifier>oai:x:{id}</identifier><datestamp>{}</datestamp></header></record>", kept.changed)
        }
        Some(title) => {
            let header = format!("<header><identifier>oai:x:{id}</identifier><datestamp>{}</datestamp></header>", kept.changed);
            let payload = match prefix.as_str() {
                "marc21" => format!(
                    "<record xmlns='http://www.loc.gov/MARC21/slim'><leader>00000nam a2200000 i 4500</leader><controlfield tag='001'>{id}</controlfield>\
                     <datafield tag='245' ind1='1' ind2='0'><subfield code='a'>{title}</subfield></datafield></record>"
                ),
                _ => format!("<dc xmlns='http://purl.org/dc/elements/1.1/'><title>{title}</title></dc>"),
            };
            format!("<record>{header}<metadata>{payload}</metadata></record>")
        }
    };
    let records: String = wanted.iter().skip(skip).take(state.page).map(record).collect();
    let token = match skip + state.page < wanted.len() {
        true => format!("<resumptionToken cursor='{skip}'>{prefix}|{}|{}</resumptionToken>", from.unwrap_or_default(), skip + state.page),
        false if skip > 0 => "<resumptionToken/>".to_owned(),
        false => String::new(),
    };
    page(&format!("<ListRecords>{records}{token}</ListRecords>"))
}

struct Served {
    state: Arc<Mutex<Repository>>,
    service: Service,
}

impl Served {
    fn new(numbers: std::ops::Range<usize>) -> Self {
        let kept =
            |number: usize| (format!("b{number:02}"), Kept { changed: "2024-03-01T00:00:00Z".to_owned(), title: Some(format!("Title {number}")) });
        let records = numbers.map(kept).collect();
        let state = Arc::new(Mutex::new(Repository { records, now: "2024-03-02T10:00:00Z".to_owned(), page: 10, ..Repository::default() }));
        let own = state.clone();
        Self { service: Service::new(move |request| answer(&mut own.lock().unwrap(), request)), state }
    }

    fn change(&self, id: &str, changed: &str, title: Option<&str>) {
        self.state.lock().unwrap().records.insert(id.to_owned(), Kept { changed: changed.to_owned(), title: title.map(str::to_owned) });
    }

    fn set(&self, change: impl FnOnce(&mut Repository)) {
        change(&mut self.state.lock().unwrap());
    }

    fn collect(&self, sandbox: &Sandbox, arguments: &[&str]) -> Answer {
        sandbox.run_json("collect", &[("OAI_URL", &self.service.url)], arguments)
    }

    /// The arguments of the lists since this was asked last.
    fn lists(&self) -> Vec<String> {
        let requests = std::mem::take(&mut self.state.lock().unwrap().requests);
        let shown = |request: Vec<(String, String)>| request.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ");
        requests.into_iter().map(shown).filter(|request| !request.contains("verb=Identify")).collect()
    }
}

fn titles(sandbox: &Sandbox, collection: &str) -> BTreeMap<String, String> {
    let rows = sandbox.run(&["query", &format!("{collection} | grep id, title"), "--format", "ndjson", "--limit", "1000"]).exits(0).lines();
    let text = |row: &Json, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    rows.iter().map(|row| (text(row, "id"), text(row, "title"))).collect()
}

fn watermark(sandbox: &Sandbox) -> Json {
    sandbox.run(&["collect", "--status", "--json"]).exits(0).lines()[0]["until"].clone()
}

#[test]
fn a_repository_is_collected_once_and_then_its_changes_and_deletions() {
    let (sandbox, served) = (Sandbox::new(MARC), Served::new(0..25));
    let status = &served.collect(&sandbox, &[]).exits(0).lines()[0];
    assert_eq!((&status["pages"], &status["counts"]["created"]), (&json!(3), &json!(25)));
    assert_eq!((titles(&sandbox, "book").len(), watermark(&sandbox)), (25, json!("2024-03-02T10:00:00Z")));
    let lists = served.lists();
    assert_eq!(lists[0], "verb=ListRecords set=maps metadataPrefix=marc21");
    assert_eq!(lists[1], "verb=ListRecords resumptionToken=marc21||10");
    // nothing is new: that is no error, and the time moves on
    served.set(|state| state.now = "2024-03-03T10:00:00Z".to_owned());
    let status = &served.collect(&sandbox, &[]).exits(0).lines()[0];
    assert_eq!((&status["pages"], watermark(&sandbox)), (&json!(0), json!("2024-03-03T10:00:00Z")));
    assert_eq!(served.lists(), ["verb=ListRecords set=maps metadataPrefix=marc21 from=2024-03-02T10:00:00Z"]);
    // one is deleted, one is changed, one is new
    served.change("b03", "2024-03-03T11:00:00Z", None);
    served.change("b04", "2024-03-03T10:00:00Z", Some("Changed"));
    served.change("b99", "2024-03-03T12:00:00Z", Some("New"));
    let status = &served.collect(&sandbox, &[]).exits(0).lines()[0];
    assert_eq!((&status["documents"], &status["counts"]["created"], &status["counts"]["updated"]), (&json!(3), &json!(1), &json!(1)), "{status}");
    let known = titles(&sandbox, "book");
    assert_eq!((known.len(), known.get("b03"), known["b04"].as_str(), known["b99"].as_str()), (25, None, "Changed", "New"));
    // the kept document is the record, not the element around it
    let exported = sandbox.ok(&["export", "book", "--format", "marcxml"]);
    assert!(!exported.contains("identifier") && exported.contains("Changed"), "{exported}");
    // it comes back
    served.change("b03", "2024-03-04T00:00:00Z", Some("Again"));
    served.collect(&sandbox, &[]).exits(0);
    assert_eq!(titles(&sandbox, "book")["b03"], "Again");
}

#[test]
fn a_busy_repository_is_asked_again_and_a_list_whose_token_expired_is_begun_again() {
    let (sandbox, served) = (Sandbox::new(MARC), Served::new(0..25));
    served.set(|state| (state.busy, state.expired) = (2, 1));
    let status = &served.collect(&sandbox, &[]).exits(0).lines()[0];
    assert_eq!((&status["counts"]["created"], &status["counts"]["unchanged"]), (&json!(25), &json!(10)));
    // but not for ever
    let sandbox = Sandbox::new(MARC);
    served.set(|state| state.expired = 1_000);
    served.collect(&sandbox, &[]).exits(1).stderr_contains(&["north", "resumption tokens expired", "4 times"]);
    assert_eq!((titles(&sandbox, "book").len(), watermark(&sandbox)), (10, Json::Null));
}

#[test]
fn times_are_days_where_the_repository_has_no_seconds() {
    let (sandbox, served) = (Sandbox::new(XML), Served::new(0..12));
    served.set(|state| state.is_daily = true);
    served.collect(&sandbox, &[]).exits(0);
    served.change("b03", "2024-03-02T11:00:00Z", None);
    served.collect(&sandbox, &[]).exits(0);
    let lists = served.lists();
    assert_eq!((lists[0].as_str(), lists.len()), ("verb=ListRecords metadataPrefix=oai_dc from=2024-01-01", 3));
    assert_eq!(lists[2], "verb=ListRecords metadataPrefix=oai_dc from=2024-03-02");
    let known = titles(&sandbox, "dataset");
    assert_eq!((known.len(), known["oai:x:b04"].as_str(), known.get("oai:x:b03")), (11, "Title 4", None));
}

#[test]
fn what_a_repository_refuses_is_said() {
    let (sandbox, served) = (Sandbox::new(&MARC.replace("?set=maps", "?metadataPrefix=mods")), Served::new(0..2));
    served.collect(&sandbox, &[]).exits(1).stderr_contains(&["north", "cannotDisseminateFormat", "no: <cannotDisseminateFormat>"]);
    let other = Service::new(|_| ("text/html", "<html><body>closed</body></html>".to_owned()));
    let output = sandbox.command(&["collect"]).env("OAI_URL", &other.url).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("it looks like HTML") && text.contains("closed"), "{text}");
}

const SAVED: &str = "<?xml version='1.0'?><o:OAI-PMH xmlns:o='http://www.openarchives.org/OAI/2.0/'><o:ListRecords>\
    <o:record><o:header status='deleted'><o:identifier>oai:x:1</o:identifier></o:header></o:record>\
    <o:record><o:header><o:identifier>oai:x:2</o:identifier></o:header></o:record>\
    <o:record><o:header><o:identifier>oai:x:3</o:identifier></o:header><o:metadata><m:record xmlns:m='http://www.loc.gov/MARC21/slim'>\
    <m:leader>00000nam a2200000 i 4500</m:leader><m:datafield tag='245' ind1='1' ind2='0'><m:subfield code='a'>T</m:subfield></m:datafield>\
    </m:record></o:metadata><o:about><x/></o:about></o:record></o:ListRecords></o:OAI-PMH>";

#[test]
fn saved_responses_are_imported_with_the_headers_of_deleted_records() {
    let sandbox = Sandbox::new(MARC);
    let file = sandbox.write_file("page.xml", SAVED);
    sandbox.run(&["import", &file]).exits(0);
    assert_eq!(titles(&sandbox, "book"), BTreeMap::from([("3".to_owned(), "T".to_owned())]));
    let journal = sandbox.ok(&["journal", "1"]);
    assert!(journal.contains("header of a record without the record"), "{journal}");
    // a source that does not say what such a header means skips it, with the reason
    let definition = MARC
        .replace("header: { around: header/identifier }", "header: { first: ['003'] }")
        .replace("status: { around: header/@status }", "status: { first: ['003'] }");
    let sandbox = Sandbox::new(&definition.replace("coalesce(number, replace(header, 'oai:x:', ''))", "'one'"));
    let file = sandbox.write_file("page.xml", SAVED);
    let counts = sandbox.run(&["import", &file, "--json"]).exits(0).lines().pop().unwrap();
    assert_eq!((&counts["counts"]["skipped"], &counts["counts"]["created"]), (&json!(2), &json!(1)), "{counts}");
}
