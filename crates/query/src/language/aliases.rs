//! Replaces aliases, the `words:` of a definition, by collections and fields.

use super::syntax::{FieldPath, GrepItem, Query, QueryCondition, Stage};
use stook_catalogue::definition::{Catalogue, Collection, QueryAlias};
use stook_catalogue::diagnostic::Diagnostic;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::links::Derivation;

impl Query {
    /// Replaces aliases by collections and fields.
    ///
    /// If several names have no comparison, each is a column of one collection: `file, run dataset=D`. So is a single name whose collection does not
    /// know all conditions: `site dataset=D` returns the sites of blocks. If one of them is a member of structs, there is a row for each struct.
    ///
    /// # Errors
    /// When a name selects no collection, an alias has no meaning for the collection, or a value has a form that the alias does not accept.
    pub fn apply_words(&mut self, catalogue: &Catalogue) -> Result<(), Diagnostic> {
        if catalogue.words.is_empty() {
            return Ok(());
        }
        let words = AliasResolver { catalogue };
        let Some(selected) = words.selected(self)? else { return Ok(()) };
        let shown = words.columns(self, selected)?;
        let lookup = &mut self.lookup;
        let several = !lookup.extra_names.is_empty();
        lookup.extra_names.clear();
        let apply = |condition: &mut QueryCondition| match words.named(&condition.path.text) {
            Some(word) => tested(catalogue, word, selected, condition),
            None => Ok(()),
        };
        lookup.conditions.iter_mut().try_for_each(apply)?;
        let named = words.of_name(&lookup.collection.text).filter(|own| *own != selected && !several);
        let rows = RowNames { words: &words, selected, named: named.map(|own| (lookup.collection.text.clone(), own)) };
        lookup.collection.text.clone_from(&catalogue.collections[selected].name);
        for stage in &mut self.stages {
            match stage {
                Stage::Grep(items) => {
                    for item in items {
                        match item {
                            GrepItem::Condition(condition) => {
                                rows.put(&mut condition.path, false)?;
                                apply(condition)?;
                            }
                            GrepItem::Column(path) => rows.put(path, true)?,
                        }
                    }
                }
                Stage::Sort(order) => order.iter_mut().try_for_each(|(path, _)| rows.put(path, true))?,
                Stage::Aggregates(wanted) => wanted.iter_mut().try_for_each(|(_, path)| rows.put(path, true))?,
                Stage::Each(path) => rows.put(path, true)?,
                Stage::Unique => {}
            }
        }
        if let Some(shown) = shown {
            self.show(shown, &catalogue.collections[selected], rows.named.is_some());
        }
        Ok(())
    }

    /// Inserts the stages that show these columns before the others. If the query names the collection of one of them, equal rows are returned once.
    fn show(&mut self, shown: Vec<FieldPath>, collection: &Collection, is_named: bool) {
        let list_of = |path: &FieldPath| match collection.field(&path.text)?.1.derive {
            Some(Derivation::Member(list, _)) => Some(collection.fields[list].name.as_str()),
            _ => None,
        };
        let mut first = Vec::new();
        let is_each = |stage: &Stage| matches!(stage, Stage::Each(_));
        if let Some((list, path)) = shown.iter().find_map(|path| Some((list_of(path)?, path))).filter(|_| !self.stages.iter().any(is_each)) {
            first.push(Stage::Each(FieldPath { text: list.to_owned(), span: path.span.clone() }));
            // conditions on the record's structs apply to each row's struct, too
            let own = self.lookup.conditions.iter().filter(|condition| list_of(&condition.path) == Some(list));
            let own: Vec<GrepItem> = own.cloned().map(GrepItem::Condition).collect();
            first.extend((!own.is_empty()).then_some(Stage::Grep(own)));
        }
        let keyless = collection.key_field().is_none_or(|key| shown.iter().all(|path| path.text != collection.fields[key].name));
        let chooses = |stage: &Stage| matches!(stage, Stage::Grep(items) if items.iter().any(|item| matches!(item, GrepItem::Column(_))));
        let has_columns = self.stages.iter().any(chooses);
        if !has_columns {
            first.push(Stage::Grep(shown.into_iter().map(GrepItem::Column).collect()));
        }
        // equal columns of several records are returned once
        first.extend((keyless && (is_named || !has_columns)).then_some(Stage::Unique));
        self.stages.splice(0..0, first);
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
    let words = AliasResolver { catalogue };
    let Ok(Some(selected)) = words.selected(query) else { return Vec::new() };
    let Ok(Some(_)) = words.columns(query, selected) else { return Vec::new() };
    let one = |path: &FieldPath| {
        let field = words.column(&path.text, selected)?;
        let key = words.of_name(&path.text).map(|own| key_of(&catalogue.collections[own]));
        let member = key.unwrap_or_else(|| field.rsplit('.').next().unwrap_or(field));
        Some(NamedColumn { name: path.text.clone(), field: field.to_owned(), member: member.to_owned() })
    };
    names(query).filter_map(one).collect()
}

/// The names without a comparison.
fn names(query: &Query) -> impl Iterator<Item = &FieldPath> {
    std::iter::once(&query.lookup.collection).chain(query.lookup.extra_names.iter().map(|(path, _)| path))
}

fn key_of(collection: &Collection) -> &str {
    collection.key_field().map_or("key", |key| collection.fields[key].name.as_str())
}

struct AliasResolver<'c> {
    catalogue: &'c Catalogue,
}

impl<'c> AliasResolver<'c> {
    fn named(&self, name: &str) -> Option<&'c QueryAlias> {
        self.catalogue.words.iter().find(|word| word.name == name)
    }

    /// The collection that a query finds; `None` if there is none, which compiling the query reports.
    fn selected(&self, query: &Query) -> Result<Option<CollectionId>, Diagnostic> {
        let first = &query.lookup.collection;
        let own = self.of_name(&first.text);
        let is_condition = query.lookup.conditions.first().is_some_and(|condition| condition.path.span == first.span);
        let names: Vec<&FieldPath> = names(query).collect();
        let means = |candidate: CollectionId| {
            let mut conditions = query.lookup.conditions.iter();
            names.iter().all(|path| self.column(&path.text, candidate).is_some())
                && conditions.all(|condition| self.column(&condition.path.text, candidate).is_some())
        };
        // a single name without a comparison is a column if its own collection does not have all fields of the conditions
        if query.lookup.extra_names.is_empty() && own.is_some_and(|own| is_condition || means(own)) {
            return Ok(own);
        }
        // the first named collection that has all fields, or else any collection that has them
        let named = names.iter().filter_map(|path| self.of_name(&path.text));
        let mut candidates = named.chain(self.catalogue.collections.ids());
        let found = candidates.find(|candidate| !is_condition && means(*candidate));
        match (found, self.named(&first.text)) {
            (None, Some(word)) if own.is_none() => {
                let problem = Diagnostic::new(first.span.clone(), format!("`{}` does not select a collection", word.name));
                let names = self.catalogue.collections.iter().map(|collection| collection.name.as_str());
                Err(problem.help(format!("name a collection: {}", names.collect::<Vec<_>>().join(", "))))
            }
            (found, _) => Ok(found.or(own)),
        }
    }

    /// The collection that a name selects.
    fn of_name(&self, name: &str) -> Option<CollectionId> {
        match self.catalogue.collection(name) {
            Some((index, _)) => Some(index),
            None => self.named(name)?.select,
        }
    }

    /// The field of a collection that a name means.
    fn column(&self, name: &str, collection: CollectionId) -> Option<&'c str> {
        let own = &self.catalogue.collections[collection];
        if self.of_name(name) == Some(collection) {
            return Some(key_of(own));
        }
        let test = self.named(name).and_then(|word| word.tests.iter().find_map(|test| test.fields.iter().find(|(of, _)| *of == collection)));
        let field = || own.field(name).map(|(_, field)| field.name.as_str());
        test.map(|(_, field)| field.as_str()).or_else(field).or_else(|| own.state(name).map(|(_, state)| state.name.as_str()))
    }

    /// The columns of names without a comparison, unless the only one is the collection.
    fn columns(&self, query: &Query, selected: CollectionId) -> Result<Option<Vec<FieldPath>>, Diagnostic> {
        let lookup = &query.lookup;
        if lookup.extra_names.is_empty() && self.of_name(&lookup.collection.text) == Some(selected) {
            return Ok(None);
        }
        let also = lookup.extra_names.iter().map(|(path, problem)| (path, Some(problem)));
        let mut columns = Vec::new();
        for (path, problem) in std::iter::once((&lookup.collection, None)).chain(also) {
            match (self.column(&path.text, selected), problem) {
                (Some(field), _) => columns.push(FieldPath { text: field.to_owned(), span: path.span.clone() }),
                (None, Some(problem)) => return Err((**problem).clone()),
                (None, None) => {}
            }
        }
        Ok(Some(columns))
    }
}

/// What names after the first `|` mean in the rows of a collection.
struct RowNames<'w, 'c> {
    words: &'w AliasResolver<'c>,
    selected: CollectionId,
    /// The collection that the query names, if it is a column of the selected one's rows.
    named: Option<(String, CollectionId)>,
}

impl RowNames<'_, '_> {
    /// Replaces a name by its field; aliases only if `words_too`, because in conditions the field depends on the value.
    ///
    /// # Errors
    /// For fields of the named collection other than its key, because the rows do not have them.
    fn put(&self, path: &mut FieldPath, words_too: bool) -> Result<(), Diagnostic> {
        let (words, own) = (self.words, &self.words.catalogue.collections[self.selected]);
        if let Some((name, named)) = &self.named {
            let other = &words.catalogue.collections[*named];
            let member = |of: &str| path.text.strip_prefix(of).and_then(|rest| rest.strip_prefix('.'));
            let member = member(name).or(member(&other.name)).unwrap_or(&path.text);
            if (member == key_of(other) || path.text == *name || path.text == other.name)
                && let Some(field) = words.column(name, self.selected)
            {
                field.clone_into(&mut path.text);
                return Ok(());
            }
            if other.field(member).is_some() {
                let message = format!("`{member}` of `{}` is not known here: each is a column of `{}`", other.name, own.name);
                return Err(
                    Diagnostic::new(path.span.clone(), message).help(format!("leave it out, or ask for each by its key: {} key=KEY", other.name))
                );
            }
        }
        let is_field = |name: &str| own.field(name).is_some() || own.state(name).is_some() || name == own.name;
        // `run.run_number` means the same as `run` if the rows have runs
        let key_of_other = |(name, member): (&str, &str)| {
            let other = words.of_name(name).filter(|other| *other != self.selected)?;
            (key_of(&words.catalogue.collections[other]) == member).then(|| name.to_owned())
        };
        let name = path.text.split_once('.').and_then(key_of_other).filter(|_| !is_field(&path.text)).unwrap_or_else(|| path.text.clone());
        if (words_too || name != path.text)
            && !is_field(&name)
            && words.named(&name).is_some()
            && let Some(field) = words.column(&name, self.selected)
        {
            field.clone_into(&mut path.text);
        }
        Ok(())
    }
}

fn tested(catalogue: &Catalogue, word: &QueryAlias, selected: CollectionId, condition: &mut QueryCondition) -> Result<(), Diagnostic> {
    let collection = &catalogue.collections[selected];
    let mut tests = word.tests.iter().filter_map(|test| Some((test, test.fields.iter().find(|(own, _)| *own == selected)?))).peekable();
    if tests.peek().is_none() {
        // it is a field, or means the collection's own key
        if collection.field(&word.name).is_some() || collection.state(&word.name).is_some() || word.name == collection.name {
            return Ok(());
        }
        let problem = Diagnostic::new(condition.path.span.clone(), format!("`{}` has no meaning for `{}`", word.name, collection.name));
        let mut known: Vec<&str> = Vec::new();
        for (own, _) in word.tests.iter().flat_map(|test| &test.fields) {
            let name = catalogue.collections[*own].name.as_str();
            if !known.contains(&name) {
                known.push(name);
            }
        }
        return Err(problem.help(format!("it is a condition on {}", if known.is_empty() { "nothing".into() } else { known.join(", ") })));
    }
    let fits = |shape: &regex::Regex| condition.values.iter().all(|value| shape.is_match(&value.pieces.join("*")));
    let accepted = tests.find(|(test, _)| test.matches.as_ref().is_none_or(fits));
    let Some((_, (_, field))) = accepted else {
        let problem = Diagnostic::new(condition.span.clone(), format!("`{}` cannot have this value for `{}`", word.name, collection.name));
        let shapes: Vec<&str> = word.tests.iter().filter_map(|test| test.matches.as_ref()).map(|shape| shape.as_str()).collect();
        return Err(problem.help(format!("a value looks like {}", shapes.join(" or "))));
    };
    condition.path.text.clone_from(field);
    Ok(())
}
