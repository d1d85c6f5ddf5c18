//! The four services of the sample `datasets` over HTTP, with faults on request: `PUT /fault/SERVICE/KIND?times=N`. The catalogue service has the paths,
//! arguments and members of DBS 3, an instance of its own below `prod/global` and `prod/phys03`, and the lumi sections of files beside their other members.

use crate::datasets::{self, BLOCKS, Block, Dataset, Datasets, FIRST_RUN, GROUPS, Replica, SITES, StoredFile, TRANSFERS};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use serde_json::{Value as Json, json};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// Bytes sent at one time.
const PIECE: usize = 64 << 10;

/// A fault of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It answers 503.
    Failing,
    /// It answers that the client must come back later.
    Busy,
    /// It waits for three seconds first.
    Slow,
    /// It never answers.
    Silent,
    /// The connection is closed in the middle of the response.
    Truncated,
    /// The response ends in the middle, as if it were complete.
    TruncatedBody,
    /// It sends an HTML page.
    Wrong,
    /// It sends bytes forever.
    Endless,
    /// It sends few bytes that decompress to many.
    CompressionBomb,
    /// It redirects to another host.
    Redirect,
    /// It sends a document whose entities expand enormously, or that is nested extremely deeply.
    EntityBomb,
}

const FAULTS: [(&str, Fault); 11] = [
    ("failing", Fault::Failing),
    ("busy", Fault::Busy),
    ("slow", Fault::Slow),
    ("silent", Fault::Silent),
    ("truncated", Fault::Truncated),
    ("cut", Fault::TruncatedBody),
    ("wrong", Fault::Wrong),
    ("endless", Fault::Endless),
    ("swollen", Fault::CompressionBomb),
    ("elsewhere", Fault::Redirect),
    ("bomb", Fault::EntityBomb),
];

/// The running services.
pub struct SampleServices {
    data: Datasets,
    faults: Mutex<HashMap<String, (Fault, u64)>>,
    asked: Mutex<Vec<String>>,
    /// Blocks that the catalogue service no longer knows, and copies that the transfer service no longer knows: by block and site.
    removed: Mutex<HashSet<(String, String)>>,
}

impl SampleServices {
    /// Creates the services of a sample.
    pub fn new(data: Datasets) -> Arc<Self> {
        Arc::new(Self { data, faults: Mutex::default(), asked: Mutex::default(), removed: Mutex::default() })
    }

    /// Serves until the process ends; `bound` is called with the address.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub fn serve(self: &Arc<Self>, listen: SocketAddr, bound: impl FnOnce(SocketAddr)) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let app = Router::new()
            .route("/catalog/{group}/{name}/DBSReader/{call}", get(catalog))
            .route("/catalog/{group}/{name}/DBSReader/{call}/", get(catalog))
            .route("/transfer/blockreplicas", get(transfer_replicas))
            .route("/sites/sites", get(sites))
            .route("/runs/runs", get(runs))
            .route("/fault/{service}/{kind}", put(fault))
            .route("/removed", put(remove))
            .route("/asked", get(asked))
            .with_state(self.clone());
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::bind(listen).await?;
            bound(listener.local_addr()?);
            axum::serve(listener, app).await
        })
    }

    /// Makes the next requests of a service fail.
    pub fn fault(&self, service: &str, fault: Fault, times: u64) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).insert(service.to_owned(), (fault, times));
    }

    /// Removes all faults.
    pub fn heal(&self) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Removes a block from the catalogue service.
    pub fn remove_block(&self, name: &str) {
        self.remove_copy(name, "");
    }

    /// Removes a copy of a block from the transfer service.
    pub fn remove_copy(&self, block: &str, site: &str) {
        self.removed.lock().unwrap_or_else(PoisonError::into_inner).insert((block.to_owned(), site.to_owned()));
    }

    /// Restores all removed blocks and copies.
    pub fn restore(&self) {
        self.removed.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Returns the requests since the last call.
    pub fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, service: &str, arguments: &HashMap<String, String>) -> Option<Fault> {
        let mut sorted: Vec<String> = arguments.iter().map(|(name, value)| format!("{name}={value}")).collect();
        sorted.sort_unstable();
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{service}?{}", sorted.join("&")));
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let (fault, times) = faults.get_mut(service.split('/').next().unwrap_or(service))?;
        *times = times.checked_sub(1)?;
        Some(*fault)
    }

    /// Notes a request to the catalogue service. The original instance is not mentioned, nor are arguments that say how much is sent.
    fn note_catalog(&self, instance: Instance, call: &str, arguments: &HashMap<String, String>) -> Option<Fault> {
        let place = match instance {
            Instance::Global => format!("catalog/{call}"),
            Instance::Local => format!("catalog/prod/phys03/{call}"),
        };
        let said = arguments.iter().filter(|(name, value)| *name != "detail" && value.as_str() != "*" && *name != "validFileOnly");
        self.note(&place, &said.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    fn is_removed(&self, block: &Block, site: &str) -> bool {
        let removed = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
        !removed.is_empty() && removed.contains(&(block.name.clone(), site.to_owned()))
    }
}

/// An instance of the catalogue service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instance {
    /// `prod/global`
    Global,
    /// `prod/phys03`
    Local,
}

impl Instance {
    fn dataset(self, data: Datasets, number: u64) -> Option<Dataset> {
        match self {
            Self::Global => Some(data.dataset(number)),
            Self::Local => data.local_dataset(number),
        }
    }
}

/// A request to the catalogue service.
struct CatalogRequest {
    services: Arc<SampleServices>,
    instance: Instance,
    arguments: HashMap<String, String>,
    fault: Option<Fault>,
}

impl CatalogRequest {
    fn data(&self) -> Datasets {
        self.services.data
    }

    fn text(&self, name: &str) -> Option<String> {
        self.arguments.get(name).cloned()
    }

    /// The dataset of this name, if the instance has it.
    fn dataset(&self, name: &str) -> Option<Dataset> {
        self.instance.dataset(self.data(), self.data().number_of(name)?)
    }

    /// The run that the arguments name.
    fn run(&self) -> Option<u64> {
        self.text("run_num").and_then(|run| run.parse().ok())
    }

    /// The blocks with their files that the arguments name: of a file, a block, or a dataset; with events of a run, if they name one.
    fn files(&self) -> Vec<(Block, Vec<StoredFile>)> {
        let (file, run) = (self.text("logical_file_name"), self.run());
        // names of files contain the names of their blocks
        let of_file = file.as_ref().and_then(|file| {
            let (block, _) = file.strip_prefix("/store")?.rsplit_once('/')?;
            block.rsplit_once('/').map(|(dataset, id)| format!("{dataset}#{id}"))
        });
        let block = self.text("block_name").or(of_file);
        let name = block.as_ref().and_then(|block| block.split('#').next()).map(str::to_owned).or(self.text("dataset")).unwrap_or_default();
        let Some(dataset) = self.dataset(&name) else { return Vec::new() };
        let own_files = |place: u64| {
            let own = self.data().block(&dataset, place);
            if !own.catalogued || block.as_ref().is_some_and(|block| *block != own.name) {
                return None;
            }
            let data = self.data();
            let has_run = |file: &StoredFile| run.is_none_or(|run| file.lumis.iter().any(|(own, _)| *own == run));
            let wanted = data.files(&dataset, place).filter(|own| has_run(own) && file.as_ref().is_none_or(|file| *file == own.name));
            Some((own, wanted.collect()))
        };
        (0..BLOCKS).filter_map(own_files).collect()
    }
}

type ServicesState = State<Arc<SampleServices>>;
type QueryArguments = Query<HashMap<String, String>>;

/// Streams a body that a thread of its own makes.
fn streamed(kind: &'static str, fault: Option<Fault>, make: impl FnOnce(&mut dyn FnMut(&str) -> bool) + Send + 'static) -> Response {
    let (sender, receiver) = mpsc::channel::<Result<Bytes, std::io::Error>>(8);
    tokio::task::spawn_blocking(move || {
        let mut piece = String::with_capacity(PIECE + 4_096);
        let mut goes_on = true;
        make(&mut |text| {
            piece.push_str(text);
            if piece.len() >= PIECE {
                goes_on = sender.blocking_send(Ok(std::mem::take(&mut piece).into())).is_ok();
                piece.reserve(PIECE + 4_096);
            }
            goes_on
        });
        match fault {
            Some(Fault::Truncated) => {
                piece.truncate(piece.len() / 2);
                let _ = sender.blocking_send(Ok(piece.into()));
                // the client must see what was sent before the connection ends
                std::thread::sleep(Duration::from_millis(50));
                let _ = sender.blocking_send(Err(std::io::Error::other("the connection ends")));
            }
            Some(Fault::TruncatedBody) => {
                piece.truncate(piece.len() - piece.len() / 3);
                let _ = sender.blocking_send(Ok(piece.into()));
            }
            _ => {
                let _ = sender.blocking_send(Ok(piece.into()));
            }
        }
    });
    let stream = futures_util::stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) });
    ([(header::CONTENT_TYPE, kind)], Body::from_stream(stream)).into_response()
}

/// Returns the response of a fault; `None` if the response is made as usual.
async fn instead(fault: Option<Fault>, kind: &'static str) -> Option<Response> {
    match fault? {
        Fault::Failing => Some((StatusCode::SERVICE_UNAVAILABLE, "out of order").into_response()),
        Fault::Busy => {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
            Some((StatusCode::TOO_MANY_REQUESTS, headers, "not so fast").into_response())
        }
        Fault::Slow => {
            tokio::time::sleep(Duration::from_secs(3)).await;
            None
        }
        Fault::Silent => {
            std::future::pending::<()>().await;
            None
        }
        Fault::Wrong => Some(([(header::CONTENT_TYPE, "text/html")], "<html>log in, please</html>").into_response()),
        Fault::Endless => Some(streamed(kind, None, |put| while put("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[") {})),
        Fault::CompressionBomb => {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            let packed = packed.write_all(&vec![b' '; 64 << 20]).and_then(|()| packed.finish()).unwrap_or_default();
            Some(([(header::CONTENT_TYPE, kind), (header::CONTENT_ENCODING, "gzip")], packed).into_response())
        }
        Fault::Redirect => Some((StatusCode::FOUND, [(header::LOCATION, "http://127.0.0.1:9/elsewhere")]).into_response()),
        Fault::EntityBomb if kind.contains("xml") => {
            // each entity is ten of the one before: a gigabyte in total
            let nested: String = (1..9).map(|level| format!("<!ENTITY e{level} \"{}\">", format!("&e{};", level - 1).repeat(10))).collect();
            let bomb = format!("<?xml version=\"1.0\"?><!DOCTYPE b [<!ENTITY e0 \"aaaaaaaaaa\">{nested}]><phedex><block name=\"&e8;\"/></phedex>");
            Some(([(header::CONTENT_TYPE, kind)], bomb).into_response())
        }
        Fault::EntityBomb => Some(([(header::CONTENT_TYPE, kind)], "[".repeat(100_000)).into_response()),
        Fault::Truncated | Fault::TruncatedBody => None,
    }
}

/// Whether a text matches an argument; `star` matches any text.
fn fits(wanted: &str, star: char, text: &str) -> bool {
    let pieces: Vec<&str> = wanted.split(star).collect();
    let [first, between @ .., last] = pieces.as_slice() else { return wanted == text };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    for piece in between {
        let Some((_, behind)) = rest.split_once(piece) else { return false };
        rest = behind;
    }
    rest.ends_with(last)
}

/// Returns datasets by name, or by a pattern.
fn chosen(data: Datasets, wanted: Option<String>, star: char) -> Box<dyn Iterator<Item = Dataset> + Send> {
    match wanted {
        Some(name) if !name.contains(star) => Box::new(data.number_of(&name).map(|number| data.dataset(number)).into_iter()),
        Some(pattern) => {
            Box::new((0..data.records).map(move |number| data.dataset(number)).filter(move |dataset| fits(&pattern, star, &dataset.name)))
        }
        None => Box::new((0..data.records).map(move |number| data.dataset(number))),
    }
}

/// Returns blocks by name or pattern, or of datasets.
fn chosen_blocks(data: Datasets, (dataset, block): (Option<String>, Option<String>), star: char) -> impl Iterator<Item = Block> + Send + use<> {
    let dataset = match (&block, dataset) {
        (Some(block), None) if !block.contains(star) => block.split('#').next().map(str::to_owned),
        (_, dataset) => dataset,
    };
    let wanted = move |own: &Block| block.as_ref().is_none_or(|block| fits(block, star, &own.name));
    chosen(data, dataset, star).flat_map(move |dataset| (0..BLOCKS).map(move |block| data.block(&dataset, block))).filter(wanted)
}

const JSON: &str = "application/json";

fn array(fault: Option<Fault>, items: impl Iterator<Item = String> + Send + 'static) -> Response {
    streamed(JSON, fault, |put| {
        let mut begin = "[";
        for item in items {
            if !put(begin) || !put(&item) {
                return;
            }
            begin = ",\n";
        }
        put(if begin == "[" { "[]" } else { "]" });
    })
}

/// The calls of the catalogue service.
async fn catalog(
    State(services): ServicesState,
    Path((group, name, call)): Path<(String, String, String)>,
    Query(arguments): QueryArguments,
) -> Response {
    let instance = match (&*group, &*name) {
        ("prod", "global") => Instance::Global,
        ("prod", "phys03") => Instance::Local,
        _ => return (StatusCode::NOT_FOUND, format!("there is no instance {group}/{name}\n")).into_response(),
    };
    let fault = services.note_catalog(instance, &call, &arguments);
    if let Some(answer) = instead(fault, JSON).await {
        return answer;
    }
    let request = CatalogRequest { services, instance, arguments, fault };
    match &*call {
        "datasets" => catalog_datasets(&request),
        "blocks" => catalog_blocks(request),
        "files" => {
            let files = request.files().into_iter().flat_map(|(block, files)| files.into_iter().map(move |file| datasets::file_json(&block, &file)));
            array(fault, files.map(|file| file.to_string()))
        }
        "filelumis" => catalog_sections(request),
        "runs" => {
            let files = request.files().into_iter().flat_map(|(_, files)| files);
            let runs: BTreeSet<u64> = files.flat_map(|file| file.lumis).map(|(run, _)| run).collect();
            array(fault, runs.into_iter().map(|run| json!({ "run_num": run }).to_string()))
        }
        "releaseversions" => {
            let release = request.text("dataset").and_then(|name| request.dataset(&name)).map(|dataset| dataset.release);
            array(fault, release.into_iter().map(|release| json!({ "release_version": release }).to_string()))
        }
        "filesummaries" => catalog_summaries(&request),
        "primarydatasets" => catalog_primary_datasets(&request),
        "datasetparents" => {
            let data = request.data();
            let parent = |number| data.parent(number).map(|parent| (parent, number));
            let relations = request.text("dataset").and_then(|name| data.number_of(&name)).and_then(parent).into_iter();
            let row = move |(parent, own)| json!({ "parent_dataset": data.dataset(parent).name, "this_dataset": data.dataset(own).name });
            array(fault, relations.map(row).map(|row| row.to_string()))
        }
        "datasetchildren" => {
            let data = request.data();
            let number = request.text("dataset").and_then(|name| data.number_of(&name));
            let child = number
                .and_then(|number| Some((number, number + 1)).filter(|(own, child)| *child < data.records && data.parent(*child) == Some(*own)));
            let row = move |(own, child)| json!({ "child_dataset": data.dataset(child).name, "dataset": data.dataset(own).name });
            array(fault, child.into_iter().map(row).map(|row| row.to_string()))
        }
        "physicsgroups" => {
            let wanted = request.text("physics_group_name");
            let found = GROUPS.into_iter().filter(move |group| wanted.as_ref().is_none_or(|wanted| fits(wanted, '*', group)));
            array(fault, found.map(|group| json!({ "physics_group_name": group }).to_string()))
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

fn catalog_datasets(request: &CatalogRequest) -> Response {
    let (data, instance) = (request.data(), request.instance);
    let number = |name: &str, otherwise: u64| request.arguments.get(name).and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let (from, to) = (number("min_cdate", 0), number("max_cdate", u64::MAX));
    // as there, only valid ones are told where nothing else is asked for
    let (status, release) = (request.text("dataset_access_type").unwrap_or_else(|| "VALID".to_owned()), request.text("release_version"));
    let wanted = move |own: &Dataset| {
        (from..=to).contains(&own.created) && fits(&status, '*', own.status) && release.as_ref().is_none_or(|release| *release == own.release)
    };
    let known = chosen(data, request.text("dataset"), '*').filter_map(move |dataset| instance.dataset(data, dataset.number));
    array(request.fault, known.filter(wanted).map(|dataset| datasets::dataset_json(&dataset).to_string()))
}

fn catalog_blocks(request: CatalogRequest) -> Response {
    let (data, instance, services, fault) = (request.data(), request.instance, request.services, request.fault);
    let (dataset, block) = (request.arguments.get("dataset").cloned(), request.arguments.get("block_name").cloned());
    let known = chosen_blocks(data, (dataset, block), '*').filter(move |block| {
        let number = data.number_of(&block.dataset);
        number.is_some_and(|number| instance.dataset(data, number).is_some()) && block.catalogued && !services.is_removed(block, "")
    });
    let item = move |block: Block| {
        let mut text = String::new();
        datasets::block_json(&data, &block, &mut text);
        text
    };
    array(fault, known.map(item))
}

/// The sections of runs in files, each as a row, of a file or a block; of one run, if the request names it.
fn catalog_sections(request: CatalogRequest) -> Response {
    let (run, fault) = (request.run(), request.fault);
    let files = request.files().into_iter().flat_map(|(_, files)| files);
    let rows = files.flat_map(move |file| datasets::section_rows(&file, run));
    array(fault, rows.map(|row| row.to_string()))
}

fn catalog_summaries(request: &CatalogRequest) -> Response {
    let (run, blocks) = (request.run(), request.files());
    let files = blocks.iter().flat_map(|(block, files)| files.iter().map(move |file| (block, file.clone())));
    let summary = (!blocks.is_empty()).then(|| datasets::summary_json(files, run).to_string());
    array(request.fault, summary.into_iter())
}

fn catalog_primary_datasets(request: &CatalogRequest) -> Response {
    let (data, instance) = (request.data(), request.instance);
    let wanted = request.text("primary_ds_name");
    let known = (0..data.records).filter_map(move |number| instance.dataset(data, number));
    let named = known.filter_map(|dataset| Some((dataset.name.split('/').nth(1)?.to_owned(), dataset.datatype)));
    let found = named.filter(move |(name, _)| wanted.as_ref().is_none_or(|wanted| fits(wanted, '*', name)));
    array(request.fault, found.map(|(name, datatype)| json!({ "primary_ds_name": name, "primary_ds_type": datatype }).to_string()))
}

async fn transfer_replicas(State(services): ServicesState, Query(arguments): QueryArguments) -> Response {
    const XML: &str = "application/xml";
    let fault = services.note("transfer/blockreplicas", &arguments);
    if let Some(answer) = instead(fault, XML).await {
        return answer;
    }
    let data = services.data;
    let named = (arguments.get("dataset").cloned(), arguments.get("block").cloned());
    let found = chosen_blocks(data, named, '%').filter(|block| block.transferable);
    let (node, se) = (arguments.get("node").cloned(), arguments.get("se").cloned());
    // if copies are requested by site, other copies are left out, and blocks without any
    let is_told = move |block: &Block, copy: &Replica| {
        let is_meant = |wanted: &Option<String>, own: &str| wanted.as_ref().is_none_or(|wanted| fits(wanted, '%', own));
        is_meant(&node, &copy.site) && is_meant(&se, &copy.se) && !services.is_removed(block, &copy.site)
    };
    let in_part = arguments.contains_key("node") || arguments.contains_key("se");
    streamed(XML, fault, move |put| {
        put(TRANSFERS.0);
        let mut text = String::new();
        for block in found {
            let mut copies = data.replicas(&block);
            copies.retain(|copy| is_told(&block, copy));
            if in_part && copies.is_empty() {
                continue;
            }
            text.clear();
            datasets::block_xml(&block, &copies, &mut text);
            if !put(&text) {
                return;
            }
        }
        put(TRANSFERS.1);
    })
}

async fn sites(State(services): ServicesState, Query(arguments): QueryArguments) -> Response {
    let fault = services.note("sites/sites", &arguments);
    if let Some(answer) = instead(fault, JSON).await {
        return answer;
    }
    let all: Vec<Json> = (0..SITES).map(|number| datasets::site_json(&services.data.site(number))).collect();
    let headers = [(header::CONTENT_TYPE, JSON), (header::CACHE_CONTROL, "max-age=10800")];
    (headers, json!({ "result": all }).to_string()).into_response()
}

/// Runs, a hundred per page.
async fn runs(State(services): ServicesState, Query(arguments): QueryArguments) -> Response {
    let fault = services.note("runs/runs", &arguments);
    if let Some(answer) = instead(fault, JSON).await {
        return answer;
    }
    let data = services.data;
    let number = |name: &str, otherwise: u64| arguments.get(name).and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let (min, max, page) = (number("min", 0).max(FIRST_RUN), number("max", u64::MAX).min(FIRST_RUN + data.runs() - 1), number("page", 0));
    let (from, to) = (number("from", 0), number("to", u64::MAX));
    let all = (min..=max).map(|number| data.run(number)).filter(|run| (from..=to).contains(&run.start));
    let mut found: Vec<Json> = all.skip(page as usize * 100).take(101).map(|run| datasets::run_json(&data, &run)).collect();
    let mut body = json!({});
    if found.len() > 100 {
        found.pop();
        body["next"] = json!(format!("/runs/runs?min={min}&max={max}&from={from}&to={to}&page={}", page + 1));
    }
    body["runs"] = found.into();
    ([(header::CONTENT_TYPE, JSON)], body.to_string()).into_response()
}

async fn fault(State(services): ServicesState, Path((service, kind)): Path<(String, String)>, Query(arguments): QueryArguments) -> Response {
    if kind == "none" {
        services.heal();
        return StatusCode::NO_CONTENT.into_response();
    }
    let Some((_, fault)) = FAULTS.iter().find(|(name, _)| *name == kind) else {
        let names: Vec<&str> = FAULTS.iter().map(|(name, _)| *name).collect();
        return (StatusCode::NOT_FOUND, format!("faults are {}, none\n", names.join(", "))).into_response();
    };
    let times = arguments.get("times").and_then(|times| times.parse().ok()).unwrap_or(u64::MAX);
    services.fault(&service, *fault, times);
    StatusCode::NO_CONTENT.into_response()
}

async fn remove(State(services): ServicesState, Query(arguments): QueryArguments) -> Response {
    if let Some(block) = arguments.get("block") {
        services.remove_copy(block, arguments.get("site").map_or("", String::as_str));
    }
    StatusCode::NO_CONTENT.into_response()
}

async fn asked(State(services): ServicesState) -> Response {
    json!(services.take_requests()).to_string().into_response()
}
