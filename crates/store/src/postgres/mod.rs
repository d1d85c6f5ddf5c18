//! The store on a PostgreSQL server, which any number of processes share.
//!
//! * [`store`] opens the store at an [`address`]; [`roles`] is the contract, method by method; [`clock`] is the server's time.
//! * [`session`] opens connections, keeps a bounded number of them and says what an error means; [`writer`] takes units in
//!   line and commits each in a transaction of its own.
//! * [`mod@unit`] writes a unit of work, with [`rows`], [`unique`], [`edges`] and [`tags`]; [`pass`] runs a settle pass, with [`marks`].
//! * [`records`] reads records, [`query`] turns plans into SQL, [`jobs`], [`queue`] and [`journal`] keep what is to be done and what became of it.
//! * [`tables`] says how a definition becomes tables of one schema, [`values`] how types are written, [`tenants`] which numbers tenants have.

mod address;
mod clock;
mod edges;
mod jobs;
mod journal;
mod marks;
mod options;
mod pass;
mod query;
mod queue;
mod records;
mod roles;
mod rows;
mod session;
mod store;
mod tables;
mod tags;
mod tenants;
mod unique;
mod unit;
mod values;
mod writer;

pub use options::PostgresOptions;
pub use store::PostgresStore;
