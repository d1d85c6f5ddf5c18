//! The store on a PostgreSQL server, which any number of processes share.
//!
//! * [`store`] opens the store at an [`address`]; [`roles`] implements the contract; [`clock`] is the server's time.
//! * [`session`] opens connections, keeps a bounded number of them and classifies errors; [`writer`] queues units and commits each in a transaction,
//!   alone or with others.
//! * [`mod@unit`] writes a unit of work, with [`rows`], [`unique`], [`edges`], [`tags`] and [`former`]; [`pass`] runs a settle pass, with [`marks`].
//! * [`records`] reads records, [`query`] turns plans into SQL, [`jobs`], [`queue`] and [`journal`] keep jobs, their chunks and the outcomes of their
//!   documents.
//! * [`dump`] gives everything for a backup, and takes it.
//! * [`tables`] maps a definition to tables of one schema, [`values`] encodes values, [`tenants`] finds the ids of tenants.

mod access;
mod address;
mod audit;
mod change_feed;
mod clock;
mod computed_column;
mod dump;
mod edges;
mod erasure;
mod former;
mod health;
mod jobs;
mod journal;
mod marks;
mod options;
mod pass;
mod query;
mod queue;
mod record_counts;
mod records;
mod roles;
mod rows;
mod session;
mod sql_queries;
mod store;
mod tables;
mod tags;
mod tenants;
mod unique;
mod unit;
mod upgrade;
mod values;
mod views;
mod words_index;
mod writer;

pub use options::PostgresOptions;
pub use store::PostgresStore;
