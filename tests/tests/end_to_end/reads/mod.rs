//! What the server answers is true: random requests of every kind that reads, of random records with skew, by several clients at once,
//! against every record looked at in the plainest way; while others change some records, an answer is that of a moment between the request
//! and its end.
//!
//! `STOOK_READS_SECONDS=1200 cargo test --workspace --test end_to_end reads::` goes on for so long with new seeds, from `STOOK_READS_SEED` on.

mod market;
mod naive;
mod requests;

use market::{Item, MARKET, Shop};
use naive::World;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use stook_tests::http::{Client, Served};
use stook_tests::{Dice, Sandbox};

/// Seeds of every run, those that have found something among them.
const SEEDS: [u64; 1] = [1];
/// Requests of each client with one seed.
const REQUESTS: u64 = 150;
/// So many times as many where it is said how long it goes on, before the next store or seed has its turn.
const LONGER: u64 = 4;
const CLIENTS: u64 = 4;
/// Records that somebody changes all the time.
const MOVERS: [&str; 2] = ["i00100x", "m"];

/// A record that is changed again and again, by one writer: it goes from one of its states to the next.
struct Mover {
    /// What it is; the last state is that it is gone.
    states: [Option<Item>; 3],
    /// So many changes were begun, and so many are known to be done.
    started: AtomicU64,
    done: AtomicU64,
}

impl Mover {
    fn new(dice: &mut Dice, id: &str) -> Self {
        let mut states = [0, 1].map(|_| Some(market::item(dice, id.to_owned()))).into_iter().chain([None]);
        let mut states: [Option<Item>; 3] = std::array::from_fn(|_| states.next().flatten());
        // what a rare value finds changes, too
        states[0].as_mut().unwrap().kind = Some("rare".into());
        Self { states, started: AtomicU64::new(0), done: AtomicU64::new(0) }
    }

    fn state(&self, change: u64) -> Option<&Item> {
        self.states[change as usize % self.states.len()].as_ref()
    }

    /// Makes the next change.
    fn apply_next_change(&self, client: &Client) {
        let change = self.started.fetch_add(1, Ordering::SeqCst) + 1;
        let id = &self.states[0].as_ref().unwrap().id;
        let path = format!("/v1/main/item/{id}");
        let reply = match self.state(change) {
            Some(item) => client.call("PUT", &path, &item.document()),
            None => client.send("DELETE", &path, &[], b""),
        };
        assert!(matches!(reply.status, 200 | 201 | 204), "{}", reply.text());
        self.done.store(change, Ordering::SeqCst);
    }

    /// The states that may be seen by who has asked when `done` changes were done, and has the answer now.
    fn seen(&self, done: u64) -> Vec<Option<&Item>> {
        let seen: BTreeSet<u64> = (done..=self.started.load(Ordering::SeqCst)).map(|change| change % self.states.len() as u64).collect();
        seen.into_iter().map(|change| self.state(change)).collect()
    }
}

/// All worlds that there may have been.
fn possible_worlds<'w>(items: &'w [Item], shops: &'w [Shop], movers: &[Vec<Option<&'w Item>>]) -> Vec<World<'w>> {
    let mut chosen: Vec<Vec<&Item>> = vec![Vec::new()];
    for states in movers {
        let with_state = |chosen: &Vec<&'w Item>| states.iter().map(|state| chosen.iter().copied().chain(*state).collect()).collect::<Vec<_>>();
        chosen = chosen.iter().flat_map(with_state).collect();
    }
    let world = |moved: Vec<&'w Item>| {
        let mut all: Vec<&Item> = items.iter().chain(moved).collect();
        all.sort_by(|left, right| left.id.as_bytes().cmp(right.id.as_bytes()));
        World { items: all, shops }
    };
    chosen.into_iter().map(world).collect()
}

fn lines(records: impl Iterator<Item = serde_json::Value>) -> String {
    records.map(|record| record.to_string() + "\n").collect()
}

/// Asks with one seed until each client has made its requests, or for so long.
fn check(sandbox: &Sandbox, seed: u64, until: Option<Instant>) {
    println!("seed {seed}");
    let (items, shops) = market::records(seed);
    let file = sandbox.write_file("items.ndjson", lines(items.iter().map(Item::document)));
    sandbox.ok(&["import", &file, "--source", "items"]);
    let file = sandbox.write_file("shops.ndjson", lines(shops.iter().map(|shop| json!({ "id": shop.id, "town": shop.town }))));
    sandbox.ok(&["import", &file, "--source", "shops"]);
    let served = [Served::new(sandbox, &["--workers", "0"]), Served::new(sandbox, &["--workers", "0", "--cache", "0"])];
    let clients: Vec<Client> = served.iter().map(|served| served.client(None)).collect();
    clients[0].call("POST", "/v1/main/tags/item", &json!({ "name": "big", "query": "size>=1000" })).expect_json(201);
    let mut dice = Dice::new(seed + 7);
    let movers = MOVERS.map(|id| Mover::new(&mut dice, id));
    for mover in &movers {
        // change 0 is the first state
        mover.started.store(2, Ordering::SeqCst);
        mover.apply_next_change(&clients[0]);
    }
    let is_over = AtomicBool::new(false);
    let (answered, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (items, shops, movers, clients, is_over) = (&items, &shops, &movers, &clients, &is_over);
        let (answered, refused) = (&answered, &refused);
        for (number, mover) in movers.iter().enumerate() {
            let mut dice = Dice::new(seed * 31 + number as u64);
            scope.spawn(move || {
                while !is_over.load(Ordering::SeqCst) {
                    for _ in 0..dice.below(4) {
                        mover.apply_next_change(&clients[dice.below(2) as usize]);
                    }
                    std::thread::sleep(Duration::from_millis(dice.below(150)));
                }
            });
        }
        let client_threads: Vec<_> = (0..CLIENTS)
            .map(|number| {
                scope.spawn(move || {
                    let mut dice = Dice::new(seed * 1_009 + number + 100);
                    let may_continue = |request_number: u64| {
                        until.map_or(request_number < REQUESTS, |until| Instant::now() < until && request_number < LONGER * REQUESTS)
                    };
                    for request_number in 0.. {
                        if !may_continue(request_number) || is_over.load(Ordering::SeqCst) {
                            break;
                        }
                        let request = requests::random_request(&mut dice, &MOVERS);
                        let done: Vec<u64> = movers.iter().map(|mover| mover.done.load(Ordering::SeqCst)).collect();
                        let client = &clients[dice.below(2) as usize];
                        let reply = match request.method {
                            "GET" => client.get(&request.path),
                            _ => client.call(request.method, &request.path, &request.body),
                        };
                        // a machine that is too busy says so
                        if reply.status == 503 {
                            refused.fetch_add(1, Ordering::SeqCst);
                            continue;
                        }
                        let seen: Vec<Vec<Option<&Item>>> = movers.iter().zip(&done).map(|(mover, done)| mover.seen(*done)).collect();
                        let possible_worlds = possible_worlds(items, shops, &seen);
                        if let Err(reason) = (request.check)(&reply, &possible_worlds) {
                            is_over.store(true, Ordering::SeqCst);
                            let moved: Vec<usize> = seen.iter().map(Vec::len).collect();
                            panic!(
                                "seed {seed}, client {number}, request {request_number}: {} {} {}\nstates of what moves: {moved:?}\n{reason}",
                                request.method,
                                stook_tests::http::url_decoded(&request.path),
                                request.body
                            );
                        }
                        answered.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        let ended: Vec<_> = client_threads.into_iter().map(|client| client.join()).collect();
        is_over.store(true, Ordering::SeqCst);
        for client in ended {
            client.unwrap_or_else(|problem| std::panic::resume_unwind(problem));
        }
    });
    let (answered, refused) = (answered.into_inner(), refused.into_inner());
    println!("seed {seed}: {answered} answers, {refused} refused, {:?} changes", movers.each_ref().map(|mover| mover.done.load(Ordering::SeqCst)));
    assert!(refused <= answered, "most are answered");
}

#[test]
fn every_response_equals_a_scan_of_all_records() {
    let number = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("a number"));
    let until = number("STOOK_READS_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let first = number("STOOK_READS_SEED");
    let mut seeds: Vec<u64> = first.map_or_else(|| SEEDS.to_vec(), |seed| vec![seed]);
    while let Some(seed) = seeds.first().copied() {
        for sandbox in Sandbox::on_each_store(MARKET) {
            check(&sandbox, seed, until);
        }
        seeds.remove(0);
        if seeds.is_empty() && until.is_some_and(|until| Instant::now() < until) {
            seeds.push(seed + 1);
        }
    }
}
