//! Actions on all records that a query finds, from the pages: previewed, bounded, done once, and only within the visitor's rights.

use serde_json::{Value as Json, json};
use stook_tests::Sandbox;
use stook_tests::http::{Client, Reply, Served, url_encoded};

const DEFINITION: &str = "
catalogue: machines
sources:
  machines: { format: csv, into: machine, as_of: meta.received }
  others:   { format: csv, into: other, as_of: meta.received }
collections:
  machine:
    key: id
    tags: {}
    fields:
      id: text
      pool: { type: text, index: equal }
      size: { type: integer, index: equal }
    state:
      status: { type: text, seed: \"'free'\", index: equal }
      taker: text
    transitions:
      take:
        args: { by: { type: text, required: true } }
        refuse: [{ when: \"status == 'taken'\", reason: \"'it is taken'\" }]
        set: { status: \"'taken'\", taker: args.by }
  other:
    key: id
    fields: { id: text }
";

fn token(sandbox: &Sandbox, may: &str) -> String {
    sandbox.ok(&["token", "create", "--may", may, "--name", "test"]).trim().to_owned()
}

/// The page on which the visitor sees what would be changed.
fn preview(client: &Client, query: &str, action: &str) -> Reply {
    client.get(&format!("/t/main/many?q={}&{action}", url_encoded(query)))
}

/// Sends the form of a preview, with further fields.
fn send(client: &Client, preview: &Reply, more: &str) -> Reply {
    let text = preview.text();
    let form = text.split("action=\"/t/main/many/change\"").nth(1).expect("a form").split("</form>").next().unwrap();
    let value = |field: &str| {
        let value = form.split(&format!("name=\"{field}\" value=\"")).nth(1).unwrap_or("").split('"').next().unwrap_or("");
        value.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    };
    let fields = ["csrf", "q", "collection", "do", "tag", "mark", "keys"].map(|field| format!("{field}={}", url_encoded(&value(field))));
    let body = format!("{}{more}", fields.join("&"));
    client.send("POST", "/t/main/many/change", &[("content-type", "application/x-www-form-urlencoded")], body.as_bytes())
}

#[test]
fn what_a_query_finds_is_tagged_and_makes_transitions_once() {
    for sandbox in Sandbox::on_each_store(DEFINITION) {
        let rows: String = (0..1_030).map(|number| format!("m{number},{},{number}\n", ["a", "b"][number % 2])).collect();
        let file = sandbox.write_file("machines.csv", format!("id,pool,size\n{rows}"));
        sandbox.ok(&["import", &file, "--source", "machines"]);
        sandbox.ok(&["tag", "create", "hot", "--of", "machine"]);
        let (write, read, part) = (token(&sandbox, "write"), token(&sandbox, "read"), token(&sandbox, "write:machine[pool=a]"));
        let stook = Served::new(&sandbox, &["--workers", "0"]);
        let (writer, reader, some) = (stook.client(Some(&write)), stook.client(Some(&read)), stook.client(Some(&part)));
        let count = |query: &str| {
            let path = format!("/v1/main/query?q={}", url_encoded(&format!("machine {query} | count(key)")));
            writer.get(&path).expect_json(200)["rows"][0]["count(key)"].clone()
        };
        // the page of results offers it to whoever may change the records
        assert!(writer.get("/t/main/search?q=machine").text().contains("Change all that are found"));
        assert!(!reader.get("/t/main/search?q=machine").text().contains("Change all that are found"));
        assert_eq!(preview(&reader, "machine", "do=tag&tag=hot").status, 403);
        // a tag
        let shown = preview(&writer, "machine size<25 | grep pool", "do=tag&tag=hot");
        assert!(shown.text().contains("<strong>25</strong> of machine") && shown.text().contains("and 5 more"), "{}", shown.text());
        assert!(send(&writer, &shown, "").text().contains("<strong>25</strong> changed"));
        assert!(send(&writer, &shown, "").text().contains("25 were so already"));
        assert_eq!(count("tag=hot"), 25);
        assert!(send(&writer, &preview(&writer, "machine size<5", "do=untag&tag=hot"), "").text().contains("<strong>5</strong> changed"));
        assert_eq!(count("tag=hot"), 20);
        // a transition: what is found when the form is sent does not matter, and sending it again changes nothing
        let shown = preview(&writer, "machine size<10", "do=transition:take");
        let taken = send(&writer, &shown, "&arg.by=ann");
        assert!(taken.text().contains("<strong>10</strong> changed") && !taken.text().contains("not changed"), "{}", taken.text());
        let again = send(&writer, &shown, "&arg.by=ann");
        assert_eq!(again.text(), taken.text(), "a reload gets the same answer");
        let log = writer.get("/v1/main/machine/m3/log").expect_json(200);
        assert_eq!(log["entries"].as_array().unwrap().len(), 1);
        let refused = send(&writer, &preview(&writer, "machine size<12", "do=transition:take"), "&arg.by=ben");
        assert!(
            refused.text().contains("<strong>2</strong> changed") && refused.text().contains("10 not changed: it is taken"),
            "{}",
            refused.text()
        );
        let missing = send(&writer, &preview(&writer, "machine size=20", "do=transition:take"), "");
        assert!(missing.text().contains("1 not changed") && missing.text().contains("is required"), "{}", missing.text());
        // bounds, and what is no action
        let many = preview(&writer, "machine", "do=tag&tag=hot");
        assert_eq!(
            (many.status, many.text().contains("finds 1\u{202f}030") || many.text().contains("1,000") || many.text().contains("at most")),
            (409, true)
        );
        for (query, action, status) in [
            ("machine | count(key)", "do=tag&tag=hot", 400),
            ("machine size<3", "do=tag", 400),
            ("machine size<3", "do=transition:nothing", 404),
            ("other", "do=tag&tag=hot", 404),
            ("machine sise<3", "do=tag&tag=hot", 400),
        ] {
            assert_eq!(preview(&writer, query, action).status, status, "{query} {action}");
        }
        assert_eq!(send(&writer, &preview(&writer, "machine size<3", "do=tag&tag=unknown"), "").status, 404);
        let keys = json!(["m1"]).to_string();
        let forged = format!("collection=machine&do=tag&tag=hot&mark=x&keys={}&csrf=0", url_encoded(&keys));
        let forged = writer.send("POST", "/t/main/many/change", &[("content-type", "application/x-www-form-urlencoded")], forged.as_bytes());
        assert_eq!(forged.status, 403);
        // who may change some records changes these
        let shown = preview(&some, "machine size>=100 and size<110", "do=transition:take");
        assert!(shown.text().contains("<strong>5</strong> of machine"), "{}", shown.text());
        assert!(send(&some, &shown, "&arg.by=cal").text().contains("<strong>5</strong> changed"));
        let shown = preview(&some, "machine size>=100 and size<110", "do=tag&tag=hot");
        let others = Reply { body: shown.text().replace("m100", "m101").into_bytes(), ..shown };
        let tagged = send(&some, &others, "");
        assert!(tagged.text().contains("<strong>4</strong> changed") && tagged.text().contains("1 not changed"), "{}", tagged.text());
        assert_eq!((count("tag=hot pool=b size>=100"), count("status=taken pool=b size>=100")), (Json::from(0), Json::from(0)));
        let audited = stook.client(Some(&token(&sandbox, "admin")));
        std::thread::sleep(std::time::Duration::from_millis(1_500));
        assert!(audited.get("/v1/main/audit?limit=5").text().contains("machine"), "each change has its entry");
    }
}
