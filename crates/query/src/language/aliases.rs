//! Replaces aliases, the `words:` of a definition, by collections and fields.

use super::syntax::{ComparisonOperator, FieldPath, GrepItem, Query, QueryCondition, Stage, ValueLiteral};
use stook_catalogue::definition::{Catalogue, Collection, QueryAlias};
use stook_catalogue::diagnostic::Diagnostic;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::links::Derivation;
use stook_store::plan::AggregateFunction;

impl Query {
    /// Replaces aliases by collections and fields.
    ///
    /// If several names have no comparison, each is a column of one collection: `file, run dataset=D`. So is a single name whose collection does not
    /// know all conditions: `site dataset=D` returns the sites of blocks. If one of them is a member of structs, there is a row for each struct.
    ///
    /// # Errors
    /// When a name selects no collection, an alias has no meaning for the collection, or a value has a form that the alias does not accept.
    pub fn apply_aliases(&mut self, catalogue: &Catalogue) -> Result<(), Diagnostic> {
        if catalogue.aliases.is_empty() {
            return Ok(());
        }
        let resolver = AliasResolver { catalogue };
        let Some(selected) = resolver.selected(self)? else { return Ok(()) };
        let columns = match resolver.counted_pairs(self, selected)? {
            Some(columns) => Some(columns),
            None => resolver.columns(self, selected)?,
        };
        let assumed = resolver.assumed(self, selected);
        let lookup = &mut self.lookup;
        lookup.conditions.extend(assumed);
        let has_extra_names = !lookup.extra_names.is_empty();
        lookup.extra_names.clear();
        let apply = |condition: &mut QueryCondition| match resolver.alias(&condition.path.text) {
            Some(alias) => apply_test(catalogue, alias, selected, condition),
            None => Ok(()),
        };
        lookup.conditions.iter_mut().try_for_each(apply)?;
        lookup.combined.iter_mut().try_for_each(|tree| tree.change(&mut |condition| apply(condition)))?;
        let named = resolver.collection_called(&lookup.collection.text).filter(|candidate| *candidate != selected && !has_extra_names);
        let rows = RowNames { resolver: &resolver, selected, named_collection: named.map(|candidate| (lookup.collection.text.clone(), candidate)) };
        lookup.collection.text.clone_from(&catalogue.collections[selected].name);
        for stage in &mut self.stages {
            match stage {
                Stage::Grep(items) => {
                    for item in items {
                        match item {
                            GrepItem::Condition(condition) => {
                                rows.replace_name(&mut condition.path, false)?;
                                apply(condition)?;
                            }
                            GrepItem::Combined(tree) => tree.change(&mut |condition| {
                                rows.replace_name(&mut condition.path, false)?;
                                apply(condition)
                            })?,
                            GrepItem::Column(path) => rows.replace_name(path, true)?,
                        }
                    }
                }
                Stage::Sort(order) => order.iter_mut().try_for_each(|item| rows.replace_name(&mut item.path, true))?,
                Stage::Aggregates(wanted, by) => {
                    let mut paths = wanted.iter_mut().map(|(_, path)| path).chain(by.iter_mut().map(|group| &mut group.path));
                    paths.try_for_each(|path| rows.replace_name(path, true))?;
                }
                Stage::Each(path) => rows.replace_name(path, true)?,
                Stage::Unique | Stage::Limit(_) => {}
            }
        }
        if let Some(columns) = columns {
            self.show(columns, (&catalogue.collections[selected], identifying_field(catalogue, selected)), rows.named_collection.is_some());
        }
        Ok(())
    }

    /// Inserts the stages that show these columns before the others. If the query names the collection of one of them, equal rows are returned once.
    fn show(&mut self, columns: Vec<FieldPath>, (collection, identity): (&Collection, &str), is_named: bool) {
        let list_of = |path: &FieldPath| match collection.field(&path.text)?.1.derive {
            Some(Derivation::Member(list, _)) => Some(collection.fields[list].name.as_str()),
            _ => None,
        };
        let mut new_stages = Vec::new();
        let is_each = |stage: &Stage| matches!(stage, Stage::Each(_));
        if let Some((list, path)) = columns.iter().find_map(|path| Some((list_of(path)?, path))).filter(|_| !self.stages.iter().any(is_each)) {
            new_stages.push(Stage::Each(FieldPath { text: list.to_owned(), span: path.span.clone() }));
            // conditions on the record's structs apply to each row's struct, too
            let is_of_list = |condition: &QueryCondition| list_of(&condition.path) == Some(list);
            let list_conditions = self.lookup.conditions.iter().filter(|condition| is_of_list(condition)).cloned().map(GrepItem::Condition);
            let combined = self.lookup.combined.iter().filter(|tree| tree.conditions().into_iter().all(is_of_list));
            let list_conditions: Vec<GrepItem> = list_conditions.chain(combined.cloned().map(GrepItem::Combined)).collect();
            new_stages.extend((!list_conditions.is_empty()).then_some(Stage::Grep(list_conditions)));
        }
        let lacks_key = columns.iter().all(|path| path.text != identity);
        let names_columns = |stage: &Stage| matches!(stage, Stage::Grep(items) if items.iter().any(|item| matches!(item, GrepItem::Column(_))));
        let has_columns = self.stages.iter().any(names_columns);
        if !has_columns {
            new_stages.push(Stage::Grep(columns.into_iter().map(GrepItem::Column).collect()));
        }
        // equal columns of several records are returned once
        new_stages.extend((lacks_key && (is_named || !has_columns)).then_some(Stage::Unique));
        self.stages.splice(0..0, new_stages);
    }
}

/// A name without a comparison in a query, and the column that it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedColumn {
    /// The name.
    pub name: String,
    /// The field of the records that the query finds.
    pub field: String,
    /// What the value is called among the values of the name: the key of the collection it selects, or the last part of the field.
    pub member: String,
}

/// The names in a query that are columns of another collection's records, or of several: `run, lumi dataset=D`.
pub fn named_columns(query: &Query, catalogue: &Catalogue) -> Vec<NamedColumn> {
    let resolver = AliasResolver { catalogue };
    let Ok(Some(selected)) = resolver.selected(query) else { return Vec::new() };
    let Ok(Some(_)) = resolver.columns(query, selected) else { return Vec::new() };
    let named_column = |path: &FieldPath| {
        let field = resolver.column(&path.text, selected)?;
        let key = resolver.collection_called(&path.text).map(|collection| identifying_field(catalogue, collection));
        let member = key.unwrap_or_else(|| field.rsplit('.').next().unwrap_or(field));
        Some(NamedColumn { name: path.text.clone(), field: field.to_owned(), member: member.to_owned() })
    };
    let shown_with: Vec<FieldPath> = resolver.shown_with(query, selected).into_iter().map(|(path, _)| path).collect();
    names(query).chain(&shown_with).filter_map(named_column).collect()
}

/// The names without a comparison.
fn names(query: &Query) -> impl Iterator<Item = &FieldPath> {
    std::iter::once(&query.lookup.collection).chain(query.lookup.extra_names.iter().map(|(path, _)| path))
}

/// The field by which queries name records of a collection: what the alias that selects it tests in it, or else its key. `None` if the alias tests
/// nothing, because its records have no name of their own.
pub fn identity(catalogue: &Catalogue, collection: CollectionId) -> Option<&str> {
    let definition = &catalogue.collections[collection];
    let selects = |alias: &&QueryAlias| alias.select == Some(collection);
    let of_its_name = catalogue.aliases.iter().filter(selects).find(|alias| alias.name == definition.name);
    match of_its_name.or(catalogue.aliases.iter().find(selects)) {
        Some(alias) => {
            let mut fields = alias.tests.iter().flat_map(|test| &test.fields);
            fields.find(|(candidate, _)| *candidate == collection).map(|(_, field)| field.as_str())
        }
        None => Some(key_of(definition)),
    }
}

/// The same; the key if the alias tests nothing.
fn identifying_field(catalogue: &Catalogue, collection: CollectionId) -> &str {
    identity(catalogue, collection).unwrap_or(key_of(&catalogue.collections[collection]))
}

fn key_of(collection: &Collection) -> &str {
    collection.key_field().map_or("key", |key| collection.fields[key].name.as_str())
}

struct AliasResolver<'c> {
    catalogue: &'c Catalogue,
}

impl<'c> AliasResolver<'c> {
    fn alias(&self, name: &str) -> Option<&'c QueryAlias> {
        self.catalogue.aliases.iter().find(|alias| alias.name == name)
    }

    /// The collection that a query finds; `None` if there is none, which compiling the query reports.
    fn selected(&self, query: &Query) -> Result<Option<CollectionId>, Diagnostic> {
        let first = &query.lookup.collection;
        let called = self.collection_called(&first.text);
        let is_condition = query.lookup.all_conditions().any(|condition| condition.path.span == first.span);
        let names: Vec<&FieldPath> = names(query).collect();
        let has_all_names = |candidate: CollectionId| {
            let mut conditions = query.lookup.all_conditions();
            names.iter().all(|path| self.column(&path.text, candidate).is_some())
                && conditions.all(|condition| self.column(&condition.path.text, candidate).is_some())
        };
        // a single name without a comparison is a column if its own collection does not have all fields of the conditions
        let knows_all = |called: CollectionId| {
            let knows = |path: &FieldPath| self.column(&path.text, called).is_some() || self.begins_with_link(&path.text, called);
            names.iter().all(|path| knows(path)) && query.lookup.all_conditions().all(|condition| knows(&condition.path))
        };
        if query.lookup.extra_names.is_empty() && called.is_some_and(|called| is_condition || knows_all(called)) {
            return Ok(called);
        }
        // the first named collection that has all fields, or else any collection that has them
        let named = names.iter().filter_map(|path| self.collection_called(&path.text));
        let mut candidates = named.chain(self.catalogue.collections.ids());
        let found = candidates.find(|candidate| !is_condition && has_all_names(*candidate));
        match (found, self.alias(&first.text)) {
            (None, Some(alias)) if called.is_none() => {
                let problem = Diagnostic::new(first.span.clone(), format!("`{}` does not select a collection", alias.name));
                let names = self.catalogue.collections.iter().map(|collection| collection.name.as_str());
                Err(problem.help(format!("name a collection: {}", names.collect::<Vec<_>>().join(", "))))
            }
            (found, _) => Ok(found.or(called)),
        }
    }

    /// The collection that a name selects.
    fn collection_called(&self, name: &str) -> Option<CollectionId> {
        match self.catalogue.collection(name) {
            Some((index, _)) => Some(index),
            None => self.alias(name)?.select,
        }
    }

    /// Whether a name is a path through a link of a collection, or through a link of another one to it.
    fn begins_with_link(&self, name: &str, collection: CollectionId) -> bool {
        let begins_with = |of: &str| name.strip_prefix(of).is_some_and(|rest| rest.starts_with('.'));
        self.catalogue.links.iter().any(|link| {
            (link.child_collection == collection && begins_with(&link.name))
                || (link.target_collection == collection && begins_with(&self.catalogue.collections[link.child_collection].name))
        })
    }

    /// The field of a collection that a name means.
    fn column(&self, name: &str, collection: CollectionId) -> Option<&'c str> {
        let definition = &self.catalogue.collections[collection];
        if self.collection_called(name) == Some(collection) {
            return Some(identifying_field(self.catalogue, collection));
        }
        let test =
            self.alias(name).and_then(|alias| alias.tests.iter().find_map(|test| test.fields.iter().find(|(candidate, _)| *candidate == collection)));
        let field = || definition.field(name).map(|(_, field)| field.name.as_str());
        test.map(|(_, field)| field.as_str()).or_else(field).or_else(|| definition.state(name).map(|(_, state)| state.name.as_str()))
    }

    /// The conditions that a query has without saying so: values that it was given, and defaults of aliases on which it has no condition.
    fn assumed(&self, query: &Query, selected: CollectionId) -> Vec<QueryCondition> {
        let lookup = &query.lookup;
        let has_condition = |alias: &QueryAlias| {
            let is_field = |name: &str| alias.tests.iter().flat_map(|test| &test.fields).any(|(of, field)| *of == selected && field == name);
            // a query by key names the record
            let is_of =
                |condition: &QueryCondition| condition.path.text == "key" || condition.path.text == alias.name || is_field(&condition.path.text);
            let in_stage = |stage: &Stage| match stage {
                Stage::Grep(items) => items.iter().any(|item| match item {
                    GrepItem::Condition(condition) => is_of(condition),
                    GrepItem::Combined(tree) => tree.conditions().into_iter().any(is_of),
                    GrepItem::Column(_) => false,
                }),
                _ => false,
            };
            lookup.all_conditions().any(is_of) || query.stages.iter().any(in_stage)
        };
        let value_of = |alias: &QueryAlias| {
            let mut tests = alias.tests.iter().filter(|test| test.fields.iter().any(|(of, _)| *of == selected)).peekable();
            tests.peek()?;
            let given = lookup.given.iter().find(|(word, _)| *word == alias.name).map(|(_, value)| value.clone());
            given.or_else(|| tests.find_map(|test| test.default.clone()))
        };
        let condition = |alias: &QueryAlias| {
            let value = value_of(alias).filter(|_| !has_condition(alias))?;
            // a mistake is shown at the name that selects the collection, because the condition is not in the text
            let span = lookup.collection.span.clone();
            let path = FieldPath { text: alias.name.clone(), span: span.clone() };
            let values = vec![ValueLiteral { pieces: vec![value], span: span.clone() }];
            Some(QueryCondition { path, operator: ComparisonOperator::Equal, values, span })
        };
        self.catalogue.aliases.iter().filter_map(condition).collect()
    }

    /// The columns of names without a comparison, unless the only one is the collection.
    fn columns(&self, query: &Query, selected: CollectionId) -> Result<Option<Vec<FieldPath>>, Diagnostic> {
        let lookup = &query.lookup;
        if lookup.extra_names.is_empty() && self.collection_called(&lookup.collection.text) == Some(selected) {
            return Ok(None);
        }
        let extra = lookup.extra_names.iter().map(|(path, problem)| (path, Some(problem)));
        let mut columns = Vec::new();
        for (path, problem) in std::iter::once((&lookup.collection, None)).chain(extra) {
            match (self.column(&path.text, selected), problem) {
                (Some(field), _) => columns.push(FieldPath { text: field.to_owned(), span: path.span.clone() }),
                (None, Some(problem)) => return Err((**problem).clone()),
                (None, None) => {}
            }
        }
        columns.extend(self.shown_with(query, selected).into_iter().map(|(path, field)| FieldPath { text: field.to_owned(), ..path }));
        Ok(Some(columns))
    }

    /// The words that are shown because others are [within](QueryAlias::within) them, with their fields.
    fn shown_with(&self, query: &Query, selected: CollectionId) -> Vec<(FieldPath, &'c str)> {
        let mut shown: Vec<(FieldPath, &'c str)> = Vec::new();
        for path in names(query) {
            let Some(within) = self.alias(&path.text).and_then(|alias| alias.within.as_deref()) else { continue };
            let is_shown = names(query).chain(shown.iter().map(|(path, _)| path)).any(|path| path.text == within);
            if let Some(field) = self.column(within, selected).filter(|_| !is_shown) {
                shown.push((FieldPath { text: within.to_owned(), span: path.span.clone() }, field));
            }
        }
        shown
    }

    /// The columns of unique rows in which each value of a word is found once with the word that it is within, if the query counts these and names no
    /// columns.
    ///
    /// # Errors
    /// If other aggregates are asked for, which need other rows.
    fn counted_pairs(&self, query: &Query, selected: CollectionId) -> Result<Option<Vec<FieldPath>>, Diagnostic> {
        let has_columns = query.stages.iter().any(|stage| match stage {
            Stage::Grep(items) => items.iter().any(|item| matches!(item, GrepItem::Column(_))),
            _ => false,
        });
        let pair_of = |path: &FieldPath| {
            // `lumi` or `lumi.number`
            let (word, member) = path.text.split_once('.').map_or((path.text.as_str(), None), |(word, member)| (word, Some(member)));
            let alias = self.alias(word)?;
            let field = self.column(word, selected).filter(|field| member.is_none_or(|member| field.rsplit('.').next() == Some(member)))?;
            Some([self.column(alias.within.as_deref()?, selected)?, field])
        };
        for stage in &query.stages {
            let Stage::Aggregates(wanted, by) = stage else { continue };
            let is_count = |function: AggregateFunction| function == AggregateFunction::Count;
            let Some((path, pair)) = wanted.iter().find_map(|(function, path)| Some((path, pair_of(path).filter(|_| is_count(*function))?))) else {
                continue;
            };
            if has_columns {
                return Ok(None);
            }
            if wanted.iter().any(|(function, other)| !is_count(*function) || pair_of(other) != Some(pair)) {
                let [within, field] = pair;
                let message = format!(
                    "count({}) counts pairs of `{within}` and `{field}`, each once, which needs other rows than the other aggregates",
                    path.text
                );
                let help = format!("ask for it alone; count({field}) counts the values of each record");
                return Err(Diagnostic::new(path.span.clone(), message).help(help));
            }
            let of_groups = by.iter().map(|group| self.column(&group.path.text, selected).unwrap_or(&group.path.text));
            let mut columns: Vec<FieldPath> = Vec::new();
            for field in of_groups.chain(pair) {
                if columns.iter().all(|column| column.text != field) {
                    columns.push(FieldPath { text: field.to_owned(), span: path.span.clone() });
                }
            }
            return Ok(Some(columns));
        }
        Ok(None)
    }
}

/// What names after the first `|` mean in the rows of a collection.
struct RowNames<'w, 'c> {
    resolver: &'w AliasResolver<'c>,
    selected: CollectionId,
    /// The collection that the query names, if it is a column of the selected one's rows.
    named_collection: Option<(String, CollectionId)>,
}

impl RowNames<'_, '_> {
    /// Replaces a name by its field; aliases only if `replaces_aliases`, because in conditions the field depends on the value.
    ///
    /// # Errors
    /// For fields of the named collection other than its key, because the rows do not have them.
    fn replace_name(&self, path: &mut FieldPath, replaces_aliases: bool) -> Result<(), Diagnostic> {
        let (resolver, definition) = (self.resolver, &self.resolver.catalogue.collections[self.selected]);
        if let Some((name, named)) = &self.named_collection {
            let other = &resolver.catalogue.collections[*named];
            let member = |of: &str| path.text.strip_prefix(of).and_then(|rest| rest.strip_prefix('.'));
            let member = member(name).or(member(&other.name)).unwrap_or(&path.text);
            if (member == identifying_field(resolver.catalogue, *named) || path.text == *name || path.text == other.name)
                && let Some(field) = resolver.column(name, self.selected)
            {
                field.clone_into(&mut path.text);
                return Ok(());
            }
            if other.field(member).is_some() {
                let message = format!("`{member}` of `{}` is not known here: each is a column of `{}`", other.name, definition.name);
                return Err(
                    Diagnostic::new(path.span.clone(), message).help(format!("leave it out, or ask for each by its key: {} key=KEY", other.name))
                );
            }
        }
        let is_field = |name: &str| definition.field(name).is_some() || definition.state(name).is_some() || name == definition.name;
        // `run.run_number` means the same as `run` if the rows have runs
        let alias_of_key = |(name, member): (&str, &str)| {
            let other = resolver.collection_called(name).filter(|other| *other != self.selected)?;
            (identifying_field(resolver.catalogue, other) == member).then(|| name.to_owned())
        };
        // `lumi.number` means the same as `lumi` if the rows have it as a member `number` of some list
        let alias_of_member = |(name, member): (&str, &str)| {
            let field = resolver.alias(name).and_then(|_| resolver.column(name, self.selected))?;
            field.rsplit_once('.').filter(|(_, last)| *last == member).map(|_| name.to_owned())
        };
        let parts = path.text.split_once('.').filter(|_| !is_field(&path.text));
        let name = parts.and_then(|parts| alias_of_key(parts).or_else(|| alias_of_member(parts))).unwrap_or_else(|| path.text.clone());
        if (replaces_aliases || name != path.text)
            && !is_field(&name)
            && resolver.alias(&name).is_some()
            && let Some(field) = resolver.column(&name, self.selected)
        {
            field.clone_into(&mut path.text);
        }
        Ok(())
    }
}

fn apply_test(catalogue: &Catalogue, alias: &QueryAlias, selected: CollectionId, condition: &mut QueryCondition) -> Result<(), Diagnostic> {
    let collection = &catalogue.collections[selected];
    let mut tests = alias.tests.iter().filter_map(|test| Some((test, test.fields.iter().find(|(candidate, _)| *candidate == selected)?))).peekable();
    if tests.peek().is_none() {
        // it is a field, or means the collection's own key
        if collection.field(&alias.name).is_some() || collection.state(&alias.name).is_some() || alias.name == collection.name {
            return Ok(());
        }
        let problem = Diagnostic::new(condition.path.span.clone(), format!("`{}` has no meaning for `{}`", alias.name, collection.name));
        let mut collections: Vec<&str> = Vec::new();
        for (candidate, _) in alias.tests.iter().flat_map(|test| &test.fields) {
            let name = catalogue.collections[*candidate].name.as_str();
            if !collections.contains(&name) {
                collections.push(name);
            }
        }
        return Err(problem.help(format!("it is a condition on {}", if collections.is_empty() { "nothing".into() } else { collections.join(", ") })));
    }
    let fits = |shape: &regex::Regex| condition.values.iter().all(|value| shape.is_match(&value.pieces.join("*")));
    let accepted = tests.find(|(test, _)| test.matches.as_ref().is_none_or(fits));
    let Some((_, (_, field))) = accepted else {
        let problem = Diagnostic::new(condition.span.clone(), format!("`{}` cannot have this value for `{}`", alias.name, collection.name));
        let shapes: Vec<&str> = alias.tests.iter().filter_map(|test| test.matches.as_ref()).map(|shape| shape.as_str()).collect();
        return Err(problem.help(format!("a value looks like {}", shapes.join(" or "))));
    };
    condition.path.text.clone_from(field);
    Ok(())
}
