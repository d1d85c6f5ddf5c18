//! Words of the definition in the place of collections and fields.

use crate::parse::{Comparison, Item, Query, Stage};
use stook_catalogue::definition::{Catalogue, QueryWord};
use stook_catalogue::diagnostic::Diagnostic;

impl Query {
    /// Puts collections and fields in the place of the definition's words.
    ///
    /// # Errors
    /// When a word does not say what it is to test.
    pub fn apply_words(&mut self, catalogue: &Catalogue) -> Result<(), Diagnostic> {
        let word = |name: &str| catalogue.words.iter().find(|word| word.name == name);
        if catalogue.words.is_empty() {
            return Ok(());
        }
        let selecting = &mut self.lookup.collection;
        let selected = match catalogue.collection(&selecting.text) {
            Some((index, _)) => index,
            None => match word(&selecting.text) {
                Some(QueryWord { select: Some(index), .. }) => {
                    // a comparison of the word itself is still found by it
                    selecting.text.clone_from(&catalogue.collections[*index].name);
                    *index
                }
                Some(known) => {
                    let problem = Diagnostic::new(selecting.span.clone(), format!("`{}` selects nothing by itself", known.name));
                    let names = catalogue.collections.iter().map(|collection| collection.name.as_str());
                    return Err(problem.help(format!("say what is asked for: {}", names.collect::<Vec<_>>().join(", "))));
                }
                // whoever compiles says so
                None => return Ok(()),
            },
        };
        let apply = |condition: &mut Comparison| match word(&condition.path.text) {
            Some(word) => tested(catalogue, word, selected, condition),
            None => Ok(()),
        };
        self.lookup.conditions.iter_mut().try_for_each(apply)?;
        for stage in &mut self.stages {
            let Stage::Grep(items) = stage else { continue };
            for item in items {
                if let Item::Condition(condition) = item {
                    apply(condition)?;
                }
            }
        }
        Ok(())
    }
}

fn tested(catalogue: &Catalogue, word: &QueryWord, selected: usize, condition: &mut Comparison) -> Result<(), Diagnostic> {
    let collection = &catalogue.collections[selected];
    let mut tests = word.tests.iter().filter_map(|test| Some((test, test.fields.iter().find(|(own, _)| *own == selected)?))).peekable();
    if tests.peek().is_none() {
        // a field of this name, or the collection's own key
        if collection.field(&word.name).is_some() || collection.state(&word.name).is_some() || word.name == collection.name {
            return Ok(());
        }
        let problem = Diagnostic::new(condition.path.span.clone(), format!("`{}` tests nothing of `{}`", word.name, collection.name));
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
    let accepted = tests.find(|(test, _)| test.shape.as_ref().is_none_or(fits));
    let Some((_, (_, field))) = accepted else {
        let problem = Diagnostic::new(condition.span.clone(), format!("this is no `{}` of `{}`", word.name, collection.name));
        let shapes: Vec<&str> = word.tests.iter().filter_map(|test| test.shape.as_ref()).map(|shape| shape.as_str()).collect();
        return Err(problem.help(format!("a value looks like {}", shapes.join(" or "))));
    };
    condition.path.text.clone_from(field);
    Ok(())
}
