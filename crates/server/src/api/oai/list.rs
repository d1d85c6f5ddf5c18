//! Answers requests from the records of a tenant.

use super::arguments::{FORMS, ListKind, OaiError, OaiRequest, Selection};
use super::token::ListToken;
use super::xml::{element, seconds};
use crate::App;
use crate::api::response::percent;
use crate::guard::problem::Problem;
use crate::guard::request::percent_decoded;
use stook_catalogue::definition::{Catalogue, Repository as Definition};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_engine::publish::{PublishedForm, RecordPublisher};
use stook_formats::xml::escaped;
use stook_store::changes::{ChangePosition, ChangeRange, RevisedRecord};
use stook_store::{ReadDetail, Store, StoredRecord, Tenant};

/// Records of a page.
const PAGE_RECORDS: usize = 100;
/// Headers of a page.
const PAGE_HEADERS: usize = 1_000;
/// The number of bytes after which a page ends.
const PAGE_BYTES: usize = 4 << 20;

/// Elements that answer a request, or what is wrong with it.
type Answered = Result<String, Vec<OaiError>>;

/// The published records of a tenant.
pub(super) struct Repository<'a> {
    catalogue: &'a Catalogue,
    definition: &'a Definition,
    store: &'a dyn Store,
    tenant: &'a Tenant,
    base: String,
    /// The time up to which all changes have been committed.
    horizon: i64,
}

/// A collection whose records are listed, and in which form.
struct ListedCollection<'a> {
    id: CollectionId,
    name: &'a str,
    form: PublishedForm,
}

/// What a page has so far.
#[derive(Default)]
struct Page {
    content: String,
    records: usize,
    /// The last record that was listed, or left out.
    last: Option<(String, ChangePosition)>,
    is_full: bool,
}

impl<'a> Repository<'a> {
    pub(super) fn new(app: &'a App, tenant: &'a Tenant, base: String) -> Result<Self, Problem> {
        let definition = app.catalogue.repository.as_ref().ok_or_else(|| Problem::not_found("this catalogue publishes nothing"))?;
        let horizon = app.store.committed_until()?;
        Ok(Self { catalogue: &app.catalogue, definition, store: &*app.store, tenant, base, horizon })
    }

    /// The URL of the repository.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// The time of responses: what is asked for from there on is everything that they lack.
    pub(super) fn date(&self) -> i64 {
        self.horizon
    }

    pub(super) fn answer(&self, request: &OaiRequest) -> Result<Answered, Problem> {
        match request {
            OaiRequest::Identify => self.identify().map(Ok),
            OaiRequest::ListMetadataFormats(identifier) => self.formats(identifier.as_deref()),
            OaiRequest::ListSets => Ok(Ok(self.sets())),
            OaiRequest::List(kind, selection) => self.list(*kind, selection, None),
            OaiRequest::Continue(kind, token) => self.list(*kind, &token.selection, Some(token)),
            OaiRequest::GetRecord { identifier, prefix } => self.record(identifier, prefix),
        }
    }

    fn identify(&self) -> Result<String, Problem> {
        let mut earliest = self.horizon;
        for (id, ..) in self.catalogue.published() {
            let range = ChangeRange { after: ChangePosition { revision: i64::MIN, key: String::new() }, until: self.horizon };
            let first = self.store.changed(self.tenant, id, &range, 1)?;
            earliest = first.first().map_or(earliest, |first| first.revision.min(earliest));
        }
        let sample = self.catalogue.published().next().map_or("collection", |(_, collection, _)| collection.name.as_str());
        let description = format!(
            "<description><oai-identifier xmlns=\"http://www.openarchives.org/OAI/2.0/oai-identifier\" \
             xsi:schemaLocation=\"http://www.openarchives.org/OAI/2.0/oai-identifier http://www.openarchives.org/OAI/2.0/oai-identifier.xsd\">\
             <scheme>oai</scheme>{}<delimiter>:</delimiter>{}</oai-identifier></description>",
            element("repositoryIdentifier", &self.definition.domain),
            element("sampleIdentifier", &format!("oai:{}:{sample}/1", self.definition.domain))
        );
        let elements = [
            element("repositoryName", &self.definition.name),
            element("baseURL", &self.base),
            element("protocolVersion", "2.0"),
            element("adminEmail", &self.definition.email),
            element("earliestDatestamp", &seconds(earliest)),
            // a record without any contribution is removed, and with it the time of its deletion
            element("deletedRecord", "transient"),
            element("granularity", "YYYY-MM-DDThh:mm:ssZ"),
            description,
        ];
        Ok(format!("<Identify>{}</Identify>", elements.concat()))
    }

    /// The forms in which a collection is published.
    fn forms_of(&self, id: CollectionId) -> impl Iterator<Item = (&'static str, PublishedForm)> {
        let has_marc = self.catalogue.collections[id].publish.as_ref().is_some_and(|publication| publication.has_marc);
        FORMS.iter().filter(move |(_, form, ..)| has_marc || *form == PublishedForm::DublinCore).map(|(name, form, ..)| (*name, *form))
    }

    fn formats(&self, identifier: Option<&str>) -> Result<Answered, Problem> {
        let collections: Vec<CollectionId> = match identifier {
            None => self.catalogue.published().map(|(id, ..)| id).collect(),
            Some(identifier) => match self.find(identifier)? {
                Some((id, _)) => vec![id],
                None => return Ok(Err(vec![unknown(identifier)])),
            },
        };
        let is_given = |name: &str| collections.iter().any(|id| self.forms_of(*id).any(|(own, _)| own == name));
        let shown = FORMS.iter().filter(|(name, ..)| is_given(name)).map(|(name, _, schema, namespace)| {
            let elements = [element("metadataPrefix", name), element("schema", schema), element("metadataNamespace", namespace)];
            format!("<metadataFormat>{}</metadataFormat>", elements.concat())
        });
        Ok(Ok(format!("<ListMetadataFormats>{}</ListMetadataFormats>", shown.collect::<String>())))
    }

    fn sets(&self) -> String {
        let shown = self
            .catalogue
            .published()
            .map(|(_, collection, _)| format!("<set>{}{}</set>", element("setSpec", &collection.name), element("setName", &collection.name)));
        format!("<ListSets>{}</ListSets>", shown.collect::<String>())
    }

    /// The collections of a selection.
    fn listed(&self, selection: &Selection) -> Result<Vec<ListedCollection<'a>>, OaiError> {
        let Selection { prefix, set, .. } = selection;
        if let Some(set) = set
            && !self.catalogue.published().any(|(_, collection, _)| collection.name == *set)
        {
            // a set that does not exist has no records
            return Ok(Vec::new());
        }
        let wanted = self.catalogue.published().filter(|(_, collection, _)| set.as_ref().is_none_or(|set| collection.name == *set));
        let listed = wanted.filter_map(|(id, collection, _)| {
            let (_, form) = self.forms_of(id).find(|(name, _)| name == prefix)?;
            Some(ListedCollection { id, name: collection.name.as_str(), form })
        });
        let listed: Vec<_> = listed.collect();
        if listed.is_empty() {
            return Err(OaiError::new("cannotDisseminateFormat", format!("no record is published as `{prefix}`")));
        }
        Ok(listed)
    }

    fn list(&self, kind: ListKind, selection: &Selection, token: Option<&ListToken>) -> Result<Answered, Problem> {
        let listed = match self.listed(selection) {
            Ok(listed) => listed,
            Err(error) => return Ok(Err(vec![error])),
        };
        let horizon = token.map_or_else(|| selection.until.map_or(self.horizon, |until| until.min(self.horizon)), |token| token.horizon);
        let begun = token.map_or(Some(0), |token| listed.iter().position(|own| own.name == token.collection));
        let Some(begun) = begun else {
            let text = "the definition has changed since the list was begun; begin it again";
            return Ok(Err(vec![OaiError::new("badResumptionToken", text)]));
        };
        let mut page = Page::default();
        let start = ChangePosition { revision: selection.from.unwrap_or(i64::MIN), key: String::new() };
        for (index, collection) in listed.iter().enumerate().skip(begun) {
            let after = token.filter(|_| index == begun).map_or_else(|| start.clone(), |token| token.after.clone());
            self.fill(kind, collection, ChangeRange { after, until: horizon }, &mut page)?;
            if page.is_full {
                break;
            }
        }
        if page.records == 0 {
            return Ok(Err(vec![OaiError::new("noRecordsMatch", "nothing has changed in this time")]));
        }
        let cursor = token.map_or(0, |token| token.cursor);
        let resumption = match page.last.filter(|_| page.is_full) {
            Some((collection, after)) => {
                let selection = Selection { until: Some(horizon), ..selection.clone() };
                let next = ListToken { selection, horizon, collection, after, cursor: cursor + page.records as u64 };
                format!("<resumptionToken cursor=\"{cursor}\">{}</resumptionToken>", next.to_text())
            }
            // the last page of several has an empty token
            None if token.is_some() => format!("<resumptionToken cursor=\"{cursor}\"/>"),
            None => String::new(),
        };
        let verb = kind.verb();
        Ok(Ok(format!("<{verb}>{}{resumption}</{verb}>", page.content)))
    }

    /// Adds records of a collection to a page until it is full, which is so only where another record follows.
    fn fill(&self, kind: ListKind, collection: &ListedCollection<'_>, mut range: ChangeRange, page: &mut Page) -> Result<(), Problem> {
        let size = if kind == ListKind::Records { PAGE_RECORDS } else { PAGE_HEADERS };
        let publisher = RecordPublisher::new(self.catalogue, collection.id)?;
        loop {
            let wanted = size + 1 - page.records;
            let changed = self.store.changed(self.tenant, collection.id, &range, wanted)?;
            let records = self.read(collection, &changed, kind)?;
            for (revised, stored) in changed.iter().zip(records) {
                if page.records == size || page.content.len() > PAGE_BYTES {
                    page.is_full = true;
                    return Ok(());
                }
                let position = ChangePosition { revision: revised.revision, key: revised.key.as_str().to_owned() };
                page.last = Some((collection.name.to_owned(), position.clone()));
                range.after = position;
                // a record that was removed meanwhile is in no list
                let Some(stored) = stored else { continue };
                if let Some(text) = self.shown(kind, collection, &publisher, stored)? {
                    page.content.push_str(&text);
                    page.records += 1;
                }
            }
            if changed.len() < wanted {
                return Ok(());
            }
        }
    }

    /// Reads what is listed of records: all of them, or their heads.
    fn read(&self, collection: &ListedCollection<'_>, changed: &[RevisedRecord], kind: ListKind) -> Result<Vec<Option<StoredRecord>>, Problem> {
        // only complete records show whether they have a document
        let detail = if kind == ListKind::Records || collection.form == PublishedForm::MarcXml { ReadDetail::Full } else { ReadDetail::Head };
        let keys: Vec<Key> = changed.iter().map(|revised| revised.key.clone()).collect();
        if keys.is_empty() { Ok(Vec::new()) } else { Ok(self.store.read(self.tenant, collection.id, &keys, detail)?) }
    }

    /// A record of a list; `None` if it has no document in the form of the list.
    fn shown(
        &self,
        kind: ListKind,
        collection: &ListedCollection<'_>,
        publisher: &RecordPublisher<'_>,
        stored: StoredRecord,
    ) -> Result<Option<String>, Problem> {
        let header = self.header(collection.name, &stored);
        let text = match (kind, stored.exists) {
            (ListKind::Identifiers, _) if collection.form == PublishedForm::DublinCore || !stored.exists => header,
            (ListKind::Records, false) => format!("<record>{header}</record>"),
            (_, _) => match (publisher.write(stored, collection.form)?, kind) {
                (None, _) => return Ok(None),
                (Some(_), ListKind::Identifiers) => header,
                (Some(document), ListKind::Records) => format!("<record>{header}<metadata>{document}</metadata></record>"),
            },
        };
        Ok(Some(text))
    }

    fn header(&self, collection: &str, stored: &StoredRecord) -> String {
        let status = if stored.exists { "" } else { " status=\"deleted\"" };
        let identifier = format!("oai:{}:{collection}/{}", self.definition.domain, percent(stored.key.as_str()));
        let elements = [element("identifier", &identifier), element("datestamp", &seconds(stored.version.revision)), element("setSpec", collection)];
        format!("<header{status}>{}</header>", elements.concat())
    }

    /// The record with an identifier, if it is published.
    fn find(&self, identifier: &str) -> Result<Option<(CollectionId, StoredRecord)>, Problem> {
        let own = identifier.strip_prefix("oai:").and_then(|rest| rest.strip_prefix(self.definition.domain.as_str())?.strip_prefix(':'));
        let Some((collection, key)) = own.and_then(|own| own.split_once('/')) else { return Ok(None) };
        let Some((id, ..)) = self.catalogue.published().find(|(_, own, _)| own.name == collection) else { return Ok(None) };
        let key = percent_decoded(key).and_then(|bytes| String::from_utf8(bytes).ok()).and_then(|text| Key::new(text).ok());
        let Some(key) = key else { return Ok(None) };
        let stored = self.store.read(self.tenant, id, std::slice::from_ref(&key), ReadDetail::Full)?.pop().flatten();
        Ok(stored.map(|stored| (id, stored)))
    }

    fn record(&self, identifier: &str, prefix: &str) -> Result<Answered, Problem> {
        let Some((id, stored)) = self.find(identifier)? else { return Ok(Err(vec![unknown(identifier)])) };
        let other_form = || OaiError::new("cannotDisseminateFormat", format!("`{identifier}` is not published as `{prefix}`"));
        let form = self.forms_of(id).find(|(name, _)| *name == prefix).map(|(_, form)| form);
        let Some(form) = form else { return Ok(Err(vec![other_form()])) };
        let collection = ListedCollection { id, name: &self.catalogue.collections[id].name, form };
        let publisher = RecordPublisher::new(self.catalogue, id)?;
        let shown = self.shown(ListKind::Records, &collection, &publisher, stored)?;
        Ok(shown.map(|record| format!("<GetRecord>{record}</GetRecord>")).ok_or_else(|| vec![other_form()]))
    }
}

fn unknown(identifier: &str) -> OaiError {
    let shown: String = escaped(identifier).chars().take(200).collect();
    OaiError::new("idDoesNotExist", format!("there is no record `{shown}`"))
}
