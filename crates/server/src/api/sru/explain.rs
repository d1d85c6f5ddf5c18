//! Describes a database: a record of ZeeRex (<http://explain.z3950.org/>).

use super::arguments::MAX_RECORDS;
use stook_catalogue::definition::{Collection, Repository};
use stook_engine::publish::PublishedForm;
use stook_formats::xml::escaped;
use stook_query::cql::CqlIndexes;

/// The database of a collection.
pub(super) struct Database<'d> {
    pub(super) repository: &'d Repository,
    /// The host that the request was sent to.
    pub(super) host: &'d str,
    pub(super) tenant: &'d str,
    pub(super) collection: &'d Collection,
    pub(super) indexes: &'d CqlIndexes<'d>,
    pub(super) forms: &'d [(&'static str, &'static str, PublishedForm)],
}

impl Database<'_> {
    pub(super) fn explained(&self) -> String {
        let url = self.repository.url.as_deref().and_then(|url| url.split_once("://")).map_or(self.host, |(_, host)| host);
        let (host, port) = url.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).unwrap_or((url, "80"));
        let database = format!("v1/{}/sru/{}", self.tenant, self.collection.name);
        let index = |(name, _): &(String, Vec<_>)| {
            let (set, local) = match name.split_once('.') {
                Some((set @ ("dc" | "rec"), local)) => (format!(" set=\"{set}\""), local),
                _ => (String::new(), name.as_str()),
            };
            let title = escaped(name);
            format!("<index search=\"true\"><title>{title}</title><map><name{set}>{}</name></map></index>", escaped(local))
        };
        let indexes: String = self.indexes.names.iter().map(index).collect();
        let schema = |(name, identifier, _): &(&str, &str, PublishedForm)| {
            format!("<schema identifier=\"{identifier}\" name=\"{name}\"><title>{name}</title></schema>")
        };
        let schemas: String = self.forms.iter().map(schema).collect();
        format!(
            "<explain xmlns=\"http://explain.z3950.org/dtd/2.0/\"><serverInfo protocol=\"SRU\" version=\"1.2\" transport=\"http\" method=\"GET\">\
             <host>{}</host><port>{port}</port><database>{}</database></serverInfo>\
             <databaseInfo><title>{}</title><contact>{}</contact></databaseInfo>\
             <indexInfo><set name=\"dc\" identifier=\"info:srw/cql-context-set/1/dc-v1.1\"/><set name=\"rec\" identifier=\"info:srw/cql-context-set/2/rec-1.1\"/>\
             <set name=\"cql\" identifier=\"info:srw/cql-context-set/1/cql-v1.2\"/>{indexes}</indexInfo><schemaInfo>{schemas}</schemaInfo>\
             <configInfo><default type=\"numberOfRecords\">10</default><setting type=\"maximumRecords\">{MAX_RECORDS}</setting>\
             <default type=\"contextSet\">dc</default><default type=\"index\">title</default></configInfo></explain>",
            escaped(host),
            escaped(&database),
            escaped(&format!("{}: {}", self.repository.name, self.collection.name)),
            escaped(&self.repository.email),
        )
    }
}
