//! Geometries in imports, on both stores: repairs are reported with field and document, text that is no geometry is left out, and expressions
//! can use the rest.

use crate::support;

use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::parse::parse;
use stook_engine::record;
use stook_engine::work::{self, WorkerOptions};
use stook_store::{ReadDetail, Store, Tenant};

const DEFINITION: &str = "\
catalogue: products
sources:
  satellite: { format: json, as_of: meta.received, into: product }
  ground: { format: json, as_of: meta.received, into: product }
collections:
  product:
    key: id
    fields:
      id: text
      footprint: { type: geometry, compare: true, index: intersects }
      joined: { type: geometry, expr: \"coalesce(footprint, 'POLYGON((0 0, 1 0, 1 1, 0 1))')\" }
      square_km: { type: float, derive: \"area(footprint) / 1e6\" }
      tile: { type: boolean, derive: \"intersects(footprint, geometry('POLYGON((0 0, 10 0, 10 10, 0 10, 0 0))'))\" }
      inside: { type: boolean, derive: \"within(footprint, geometry('POLYGON((0 0, 10 0, 10 10, 0 10, 0 0))'))\" }
      share: { type: float, derive: \"fraction(footprint, geometry('POLYGON((0 0, 10 0, 10 10, 0 10, 0 0))'))\" }
";

struct Desk {
    catalogue: Arc<Catalogue>,
    store: Box<dyn Store>,
    tenant: Tenant,
    folder: std::path::PathBuf,
}

impl Desk {
    /// Imports lines; returns the reasons that the journal has for each document.
    fn import(&self, source: &str, documents: &[Json]) -> Vec<(Option<String>, Vec<String>)> {
        let text: String = documents.iter().map(|document| format!("{document}\n")).collect();
        let file = self.folder.join(format!("{source}.ndjson"));
        let job = support::job(&self.catalogue, &*self.store, &self.tenant, source, (&file, &text), 100);
        let options = WorkerOptions { workers: 1, lease_seconds: 60, drain: true, settles: true, only: None };
        work::run(&self.catalogue, &*self.store, &options, &AtomicBool::new(false), &|_| ()).expect("it works");
        self.store.journal(job, 0, 100, true).expect("the journal").into_iter().map(|entry| (entry.key, entry.reasons)).collect()
    }

    fn record(&self, key: &str) -> Json {
        let keys = [Key::new(key).expect("a key")];
        let found = self.store.read(&self.tenant, CollectionId::from(0), &keys, ReadDetail::Full).expect("it reads");
        record::to_json(&self.catalogue.collections[CollectionId::from(0)], found[0].as_ref().expect("a record"))
    }
}

fn desks(name: &str) -> Vec<Desk> {
    let catalogue: Arc<Catalogue> = Arc::new(parse(DEFINITION).unwrap_or_else(|problems| panic!("{problems:?}")));
    let folder = support::folder(name);
    let stores = [Some(support::on_a_file(&folder, &catalogue, 1)), support::on_a_server(name, &catalogue)];
    let desk = |mut stores: Vec<Box<dyn Store>>| {
        let store = stores.pop().expect("a store");
        Desk { catalogue: catalogue.clone(), store, tenant: Tenant::new(stook_store::DEFAULT_TENANT).expect("a name"), folder: folder.clone() }
    };
    stores.into_iter().flatten().map(desk).collect()
}

#[test]
fn repairs_and_mistakes_are_reported_with_field_and_document() {
    for desk in desks("geometries") {
        let reported = desk.import(
            "satellite",
            &[
                json!({ "id": "valid", "footprint": "geography'SRID=4326;POLYGON((5 5, 15 5, 15 6, 5 6, 5 5))'" }),
                json!({ "id": "bow", "footprint": { "type": "Polygon", "coordinates": [[[0, 0], [2, 2], [2, 0], [0, 2], [0, 0]]] } }),
                json!({ "id": "wrong", "footprint": "POINT(1 95)" }),
                json!({ "id": "none" }),
            ],
        );
        let reasons = |key: &str| {
            reported
                .iter()
                .filter(|(own, _)| own.as_deref() == Some(key))
                .flat_map(|(_, reasons)| reasons.clone())
                .collect::<Vec<String>>()
                .join("\n")
        };
        assert!(reasons("bow").contains("footprint: $.coordinates: the ring crosses itself"), "{reported:?}");
        assert!(reasons("wrong").contains("footprint: \"POINT(1 95)\" is not a geometry: byte 6: latitude 95"), "{reported:?}");
        assert!(reasons("wrong").contains("it is ignored"), "{reported:?}");
        assert!(reasons("none").contains("joined: byte"), "{reported:?}");
        assert_eq!(reasons("valid"), "", "{reported:?}");
        let valid = desk.record("valid");
        assert_eq!(valid["footprint"], json!({ "type": "Polygon", "coordinates": [[[5.0, 5.0], [15.0, 5.0], [15.0, 6.0], [5.0, 6.0], [5.0, 5.0]]] }));
        assert_eq!((&valid["tile"], &valid["inside"], &valid["share"]), (&json!(true), &json!(false), &json!(0.5)));
        assert!(valid["square_km"].as_f64().is_some_and(|area| (122_000.0..124_000.0).contains(&area)), "{valid}");
        let bow = desk.record("bow");
        assert_eq!((&bow["inside"], &bow["share"]), (&json!(true), &json!(1.0)), "{bow}");
        let none = desk.record("none");
        assert_eq!((&none["footprint"], &none["square_km"], &none["tile"]), (&Json::Null, &Json::Null, &Json::Null), "{none}");
        // another form of the same area is neither a change nor a conflict
        desk.import("ground", &[json!({ "id": "valid", "footprint": "POLYGON((375 6, 365 6, 365 5, 375 5, 375 6))" })]);
        assert_eq!(desk.record("valid")["footprint"], valid["footprint"]);
        let keys = [Key::new("valid").expect("a key")];
        let found = desk.store.read(&desk.tenant, CollectionId::from(0), &keys, ReadDetail::Full).expect("it reads");
        assert!(found[0].as_ref().expect("a record").conflicts.is_empty());
    }
}
