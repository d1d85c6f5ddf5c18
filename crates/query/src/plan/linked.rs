//! Follows links: paths such as `authors.name`, which is a field of the records that a link leads to, and `book.authors.title`, which is one of the records
//! whose link leads here. A condition on one of them becomes a search for the linked records, and holds if one of these is found.

use super::columns::Resolver;
use crate::language::{FieldPath, QueryCondition};
use std::ops::Range;
use stook_catalogue::diagnostic::Diagnostic;
use stook_catalogue::ids::{CollectionId, LinkId};
use stook_catalogue::links::{Link, LinkEnd, LinkedRead};
use stook_catalogue::value::FieldType;
use stook_store::plan::{Comparison, Condition, LinkedColumn, LinkedPart, MAX_LINKS, PlanColumn, QueryPlan};

/// Where a query reads records of another collection.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkedUse {
    /// The other collection.
    pub collection: CollectionId,
    /// The path in the text.
    pub span: Range<usize>,
}

/// What a path means at the other end of the link that it begins with.
struct Followed<'c> {
    read: LinkedRead,
    /// Resolves names there.
    resolver: Resolver<'c>,
    /// The rest of the path.
    rest: FieldPath,
}

/// A link that a name begins with, seen from one of its ends.
struct Beginning<'n> {
    link: LinkId,
    end: LinkEnd,
    /// What follows.
    rest: &'n str,
}

impl<'c> Resolver<'c> {
    fn link(&self, link: LinkId) -> &'c Link {
        &self.catalogue.links[link]
    }

    /// The links that a name begins with. Those from other collections to this one are called as in rollups, `book.authors`, or by the collection alone.
    fn beginnings<'n>(&self, name: &'n str) -> Vec<Beginning<'n>> {
        let after = |of: &str| name.strip_prefix(of).and_then(|rest| rest.strip_prefix('.'));
        let own = self.catalogue.links.enumerate().filter(|(_, link)| link.child_collection == self.id);
        let own: Vec<Beginning<'n>> =
            own.filter_map(|(index, link)| Some(Beginning { link: index, end: LinkEnd::Targets, rest: after(&link.name)? })).collect();
        if !own.is_empty() {
            return own;
        }
        let towards = || self.catalogue.links.enumerate().filter(|(_, link)| link.target_collection == self.id);
        let child_name = |link: &Link| self.catalogue.collections[link.child_collection].name.as_str();
        let begin = |(link, rest)| Beginning { link, end: LinkEnd::Children, rest };
        let named: Vec<Beginning<'n>> =
            towards().filter_map(|(index, link)| Some((index, after(&format!("{}.{}", child_name(link), link.name))?))).map(begin).collect();
        if !named.is_empty() {
            return named;
        }
        towards().filter_map(|(index, link)| Some((index, after(child_name(link))?))).map(begin).collect()
    }

    /// Follows the link that a path begins with, unless the records have a field of this name themselves.
    fn follow(&self, path: &FieldPath) -> Result<Option<Followed<'c>>, Diagnostic> {
        let name = self.name_in_collection(path);
        if self.own_column(name).is_some() {
            return Ok(None);
        }
        let beginnings = self.beginnings(name);
        let Some(Beginning { link, end, rest }) = beginnings.first() else { return Ok(None) };
        let problem = |message: String| Diagnostic::new(path.span.clone(), message);
        if beginnings.len() > 1 {
            let child = &self.catalogue.collections[self.link(*link).child_collection].name;
            let message = format!("`{child}` has {} links to `{}`", beginnings.len(), self.collection.name);
            let names = beginnings.iter().map(|beginning| format!("{child}.{}.{rest}", self.link(beginning.link).name));
            return Err(problem(message).help(format!("say which: {}", names.collect::<Vec<_>>().join(", "))));
        }
        if self.links_followed == MAX_LINKS {
            let help = "a field that a collection in between derives (`derive: LINK.FIELD`) makes the way shorter";
            return Err(problem(format!("a query follows at most {MAX_LINKS} links, one after the other")).help(help));
        }
        let read = LinkedRead { link: *link, end: *end, fields: Vec::new() };
        let (id, link) = (read.collection(self.catalogue), self.link(*link));
        if *end == LinkEnd::Targets && *rest == "key" {
            let other = &self.catalogue.collections[id].name;
            return Err(problem(format!("`{}` has no field `{name}`: `{}` is a link to `{other}`", self.collection.name, link.name))
                .help(format!("`{}` is the key itself", link.name)));
        }
        // the position of the rest, unless a word of the definition stands for the path
        let start = if path.span.len() == path.text.len() { path.span.end - rest.len() } else { path.span.start };
        let rest = FieldPath { text: (*rest).to_owned(), span: start..path.span.end };
        self.linked_uses.borrow_mut().push(LinkedUse { collection: id, span: path.span.clone() });
        let resolver = Resolver {
            id,
            collection: &self.catalogue.collections[id],
            each: None,
            is_ranked: false,
            links_followed: self.links_followed + 1,
            ..*self
        };
        let followed = Followed { read, resolver, rest };
        if self.catalogue.needs_fetch(&followed.read) {
            return Err(self.fetched(&followed));
        }
        Ok(Some(followed))
    }

    /// The error for what services are asked for: a query asks them for its own records, and for what fields are derived from.
    fn fetched(&self, followed: &Followed<'_>) -> Diagnostic {
        let other = &followed.resolver.collection.name;
        let problem = Diagnostic::new(followed.rest.span.clone(), format!("this is read of `{other}`, for which services are asked"));
        problem.help(match followed.read.end {
            LinkEnd::Targets => {
                let path = format!("{}.{}", self.link(followed.read.link).name, followed.rest.text);
                format!("services are asked if a field of `{}` has it: `derive: {path}`", self.collection.name)
            }
            LinkEnd::Children => format!("ask for the records of `{other}` first"),
        })
    }

    /// Refuses parts of linked records about which a query cannot ask.
    fn check_part(&self, followed: &Followed<'_>, column: PlanColumn) -> Result<(), Diagnostic> {
        let id = followed.resolver.id;
        match column {
            PlanColumn::Tag => {
                let problem = Diagnostic::new(followed.rest.span.clone(), "a query does not ask for tags of linked records");
                Err(problem.help(format!("ask for the records of `{}` first", followed.resolver.collection.name)))
            }
            PlanColumn::Field(field) if self.catalogue.needs_fetch_elsewhere(id, field) => Err(self.fetched(followed)),
            _ => Ok(()),
        }
    }

    /// Adds a condition on linked records; false if the path is not one of them.
    pub fn linked_condition(&self, comparison: &QueryCondition, conditions: &mut Vec<Condition>) -> Result<bool, Diagnostic> {
        let Some(followed) = self.follow(&comparison.path)? else { return Ok(false) };
        let mut found = Vec::new();
        followed.resolver.condition(&QueryCondition { path: followed.rest.clone(), ..comparison.clone() }, &mut found)?;
        let Some(last) = found.last_mut() else { return Ok(true) };
        self.check_part(&followed, last.column)?;
        if matches!(last.test, Comparison::Related(..)) {
            let problem = Diagnostic::new(comparison.span.clone(), "geometries of linked records are not compared");
            return Err(problem.help(format!("ask for the records of `{}` first", followed.resolver.collection.name)));
        }
        // none of them satisfies the opposite
        let negated = match &last.test {
            Comparison::NotEqual(value) => Some(Comparison::Equal(value.clone())),
            Comparison::NotWildcard(pieces) => Some(Comparison::Wildcard(pieces.clone())),
            Comparison::NotAmong(rows) => Some(Comparison::Among(rows.clone())),
            _ => None,
        };
        let is_negated = negated.is_some();
        last.test = negated.unwrap_or_else(|| last.test.clone());
        let (own, other) = self.ends(&followed.read);
        let rows = QueryPlan { conditions: found, columns: vec![other], ..QueryPlan::all(self.tenant.clone(), followed.resolver.id) }.into();
        let test = if is_negated { Comparison::NotAmong(rows) } else { Comparison::Among(rows) };
        conditions.push(Condition { column: own, test });
        Ok(true)
    }

    /// The columns that are equal at this end of a link and at the other one.
    fn ends(&self, read: &LinkedRead) -> (PlanColumn, PlanColumn) {
        let field = PlanColumn::Field(self.link(read.link).field);
        match read.end {
            LinkEnd::Targets => (field, PlanColumn::Key),
            LinkEnd::Children => (PlanColumn::Key, field),
        }
    }

    /// The type of what a condition compares; of linked records, that of one of them.
    pub fn compared_type(&self, path: &FieldPath) -> Result<FieldType, Diagnostic> {
        match self.follow(path)? {
            Some(followed) => followed.resolver.compared_type(&followed.rest),
            None => Ok(self.resolve(path)?.1),
        }
    }

    /// The column of a part of the records that links lead to.
    pub fn linked_column(&self, path: &FieldPath) -> Result<Option<(PlanColumn, FieldType)>, Diagnostic> {
        let Some(mut followed) = self.follow(path)? else { return Ok(None) };
        let (mut links, mut are_several) = ([None; MAX_LINKS], false);
        for place in &mut links {
            let link = self.link(followed.read.link);
            if followed.read.end == LinkEnd::Children {
                let (child, name) = (&followed.resolver.collection.name, &link.name);
                let problem = Diagnostic::new(
                    path.span.clone(),
                    format!("records of `{child}` can only be in conditions here: there may be any number of them"),
                );
                return Err(problem.help(format!("{child} {name}=KEY finds those of one record; a rollup over {child}.{name} counts them")));
            }
            *place = Some(followed.read.link);
            are_several |= link.many;
            match followed.resolver.follow(&followed.rest)? {
                Some(next) => followed = next,
                None => break,
            }
        }
        let (column, ty) = followed.resolver.resolve(&followed.rest)?;
        self.check_part(&followed, column)?;
        let part = match column {
            PlanColumn::Key => LinkedPart::Key,
            PlanColumn::Field(field) => LinkedPart::Field(field),
            PlanColumn::State(state) => LinkedPart::State(state),
            _ => {
                let problem = Diagnostic::new(followed.rest.span.clone(), format!("`{}` of linked records is no column", followed.rest.text));
                return Err(problem.help("columns are their fields and their state"));
            }
        };
        let ty = match ty {
            ty if !are_several => ty,
            ty if ty.element().is_ordered() => FieldType::List(Box::new(ty.element().clone())),
            ty => {
                let message = format!("`{}` is of type {ty}, of which several records have no list", path.text);
                return Err(
                    Diagnostic::new(followed.rest.span.clone(), message).help("fields with one value, and lists of such values, can be columns")
                );
            }
        };
        Ok(Some((PlanColumn::Linked(LinkedColumn { links, part }), ty)))
    }
}
