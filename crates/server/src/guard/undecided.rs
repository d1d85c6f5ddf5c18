//! Requests of which it is not decided yet whether the caller may make them.
//!
//! A handler that takes a [`RequestContext`] is for callers who may read all collections. One that is also for callers with rights for single collections
//! takes an [`UndecidedContext`], of which it gets the request only by saying how that is decided: by the collection of its path, or by a [`Decides`] that
//! names where. Whatever is forgotten is refused. So are callers with rights for some records of a collection, unless the handler takes their filter
//! ([`UndecidedContext::of_part`], [`RequestContext::part`]) or gives it to a query ([`RequestContext::visible`]).

use crate::App;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::{CollectionId, SourceId};
use stook_store::access::{Operation, Reach, Rights, Role};
use stook_store::{RecordFilter, Tenant, Visibility};

/// A request of which it is not decided yet whether the caller may make it.
pub struct UndecidedContext(RequestContext);

/// Where a handler decides what the caller may see or do.
pub enum Decides {
    /// In [`compiled`](crate::api::queries::compiled) and [`compile_for_all_collections`](crate::api::queries::compile_for_all_collections), by the
    /// collections that are queried.
    ByQuery,
    /// In [`job`](crate::api::jobs::job) and by [`RequestContext::sees_source`], by the source of a job.
    ByJob,
    /// By [`RequestContext::require_source`], by the source that is imported.
    BySource,
    /// By [`RequestContext::require`], by the collections that the request or the route names.
    ByName,
    /// By [`RequestContext::sees`], by leaving out what is of other collections.
    ByFilter,
    /// It shows nothing of records.
    ShowsNoRecords,
}

impl FromRequestParts<Arc<App>> for UndecidedContext {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        RequestContext::undecided(parts, app).await.map(Self)
    }
}

/// The records of a collection with which a caller may do something; `None` for all.
pub type Part = Option<Arc<RecordFilter>>;

impl UndecidedContext {
    /// The request, for a collection with some of whose records the caller may do this, and the filter that the handler applies to them.
    ///
    /// # Errors
    /// 403 when the caller may do it with none.
    pub fn of_part(self, operation: Operation, collection: CollectionId) -> HandlerResult<(RequestContext, Part)> {
        let part = self.0.part(operation, collection)?;
        Ok((self.0.with_collection(collection), part))
    }

    /// The request, for a collection with all of whose records the caller may do this.
    ///
    /// # Errors
    /// 403 when the caller may not.
    pub fn of(self, operation: Operation, collection: CollectionId) -> HandlerResult<RequestContext> {
        self.0.require(operation, collection)?;
        Ok(self.0.with_collection(collection))
    }

    /// The request, for a handler that decides.
    pub fn decided(self, _decides: Decides) -> RequestContext {
        self.0
    }
}

impl RequestContext {
    /// Checks that the caller may do something with all records of a collection.
    ///
    /// # Errors
    /// 403 when it may not.
    pub fn require(&self, operation: Operation, collection: CollectionId) -> HandlerResult<()> {
        self.caller.require(operation, self.definition(collection))
    }

    /// Whether the caller may read all records of a collection.
    pub fn sees(&self, collection: CollectionId) -> bool {
        self.caller.rights.may(Operation::Read, &self.definition(collection).name)
    }

    /// The records of a collection with which the caller may do something.
    ///
    /// # Errors
    /// 403 when there are none, or the conditions of the caller's rights do not fit the definition any more.
    pub fn part(&self, operation: Operation, collection: CollectionId) -> HandlerResult<Part> {
        let (definition, rights) = (self.definition(collection), &self.caller.rights);
        let Reach::Part(_) = rights.reach(operation, &definition.name) else { return self.require(operation, collection).map(|()| None) };
        let found = filter_of(&self.app, &self.tenant, rights, operation, collection);
        found.map(|filter| Some(Arc::new(filter))).map_err(|reason| {
            let name = &definition.name;
            let detail = format!(
                "the conditions of {}:{name} do not fit the definition any more; ask an admin to change the right: {reason}",
                operation.name()
            );
            Problem::new(StatusCode::FORBIDDEN, detail)
        })
    }

    /// A function that says which records of a collection the caller may read. Where the conditions of its rights do not fit the definition, there are none.
    pub fn visible(&self) -> impl Fn(CollectionId) -> Visibility + Send + Sync + 'static {
        let (app, tenant, rights) = (self.app.clone(), self.tenant.clone(), self.caller.rights.clone());
        move |collection| match rights.reach(Operation::Read, &app.catalogue.collections[collection].name) {
            Reach::Everything => Visibility::Everything,
            Reach::Nothing => Visibility::Nothing,
            Reach::Part(_) => {
                let filter = filter_of(&app, &tenant, &rights, Operation::Read, collection);
                filter.map_or(Visibility::Nothing, |filter| Visibility::Part(Arc::new(filter)))
            }
        }
    }

    /// Checks that the caller may import into every collection that a source feeds.
    ///
    /// # Errors
    /// 403 when it may not.
    pub fn require_source(&self, source: SourceId) -> HandlerResult<()> {
        if self.caller.rights.may_everywhere(Operation::Import) {
            return Ok(());
        }
        let collections = fed_by(&self.app.catalogue, source);
        // a source that feeds none is nobody's
        if collections.is_empty() {
            self.caller.require_role(Role::Write)?;
        }
        collections.into_iter().try_for_each(|collection| self.require(Operation::Import, collection))
    }

    /// Whether the caller may read, or import into, every collection that the source of a job feeds, or that it evaluates tags of.
    pub fn sees_source(&self, name: &str) -> bool {
        if self.caller.rights.may_everywhere(Operation::Read) {
            return true;
        }
        let may = |collection: CollectionId| self.sees(collection) || self.require(Operation::Import, collection).is_ok();
        if let Some(collection) = stook_engine::tags::is_rebuild(name) {
            return self.app.catalogue.collection(collection).is_some_and(|(id, _)| may(id));
        }
        let fed = self.app.catalogue.source(name).map(|(source, _)| fed_by(&self.app.catalogue, source)).unwrap_or_default();
        !fed.is_empty() && fed.into_iter().all(may)
    }
}

/// The filter of the conditions under which rights allow something with a collection.
fn filter_of(app: &App, tenant: &Tenant, rights: &Rights, operation: Operation, collection: CollectionId) -> Result<RecordFilter, String> {
    let name = &app.catalogue.collections[collection].name;
    let Reach::Part(conditions) = rights.reach(operation, name) else { return Err("the right has no conditions".into()) };
    // whoever reads all records learns why one of them cannot be changed
    let hides = !rights.may(Operation::Read, name);
    stook_query::record_filter(&app.catalogue, collection, &conditions, hides, tenant, app.store.clock())
}

/// The collections to which documents of a source contribute, also by other sources' documents that are embedded in them.
fn fed_by(catalogue: &Catalogue, source: SourceId) -> Vec<CollectionId> {
    let (mut sources, mut collections, mut next) = (vec![source], Vec::new(), 0);
    while let Some(source) = sources.get(next).copied() {
        next += 1;
        collections.extend(catalogue.sources[source].feeds.iter().map(|feed| feed.collection));
        let embedded: Vec<SourceId> = catalogue.sources[source].embeds.iter().map(|embedded| embedded.source).collect();
        sources.extend(embedded.into_iter().filter(|embedded| !sources.contains(embedded)).collect::<Vec<_>>());
    }
    collections.sort();
    collections.dedup();
    collections
}
