//! The services of the sample `datasets`, and the example's definition with their addresses in it.

use std::sync::Arc;
use stook_sample::datasets::Datasets;
use stook_sample::services::SampleServices;

/// The definition of `examples/datasets`.
pub const CATALOGUE: &str = include_str!("../../examples/datasets/catalogue.yaml");

/// Starts the services of a sample on a port of their own.
pub fn services(data: Datasets) -> (Arc<SampleServices>, String) {
    let services = SampleServices::new(data);
    let (sender, receiver) = std::sync::mpsc::channel();
    let serving = services.clone();
    std::thread::spawn(move || serving.serve("127.0.0.1:0".parse().expect("an address"), |address| sender.send(address).expect("a receiver")));
    let url = format!("http://{}", receiver.recv().expect("they serve"));
    let mut definition = CATALOGUE.to_owned();
    for name in ["CATALOG", "TRANSFER", "SITES", "RUNS"] {
        definition = definition.replace(&format!("${{{name}_URL}}"), &format!("{url}/{}", name.to_lowercase()));
    }
    (services, definition)
}

/// The key of a record of the instance that is asked where a query names none.
pub fn key_of(name: &str) -> String {
    format!("prod/global:{name}")
}
