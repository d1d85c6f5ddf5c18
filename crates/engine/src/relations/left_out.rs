//! What links of a record ignore because its lists are longer than a link takes.

use super::edges::elements;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::links::{TargetRule, list_field_in_key};
use stook_catalogue::value::Value;

/// Describes, in sentences, which values links of a record ignore.
pub(crate) fn left_out(catalogue: &Catalogue, collection: CollectionId, values: &[Value]) -> Vec<String> {
    let definition = &catalogue.collections[collection];
    let mut left_out = Vec::new();
    for link in catalogue.links.iter().filter(|link| link.involves_lists(&catalogue.collections)) {
        // in a link from a collection to itself, a record is both child and target
        for is_target in
            [false, true].into_iter().filter(|is_target| collection == if *is_target { link.target_collection } else { link.child_collection })
        {
            let criteria: Vec<Vec<FieldId>> = match &link.target_rule {
                TargetRule::Key(key) if !is_target => vec![list_field_in_key(definition, key).into_iter().collect()],
                rule if is_target => rule.target_criteria(),
                rule => rule.own_criteria(),
            };
            for fields in criteria {
                let max_values = link.max_equal_elements(definition, fields.iter().copied());
                // lists are nearly always short enough, and then need not be compared
                if fields.iter().map(|field| values[*field].elements().len()).fold(1, usize::saturating_mul) <= max_values {
                    continue;
                }
                let number = fields.iter().map(|field| elements(definition, *field, values).len()).fold(1, usize::saturating_mul);
                if number > max_values {
                    let names: Vec<&str> = fields.iter().map(|field| definition.fields[*field].name.as_str()).collect();
                    let (of, names, rest) = (&catalogue.collections[link.child_collection].name, names.join("`, `"), number - max_values);
                    left_out.push(format!("link `{of}.{}` uses only the first {max_values} values of `{names}`; {rest} are ignored", link.name));
                }
            }
        }
    }
    left_out
}
