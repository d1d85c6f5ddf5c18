//! Records that a pass could not write, because another record has a unique value that they would get. They wait for it: an edge leads from
//! the record that has the value, its holder, to the mark that must be processed again. A change of a unique value marks the record if it has
//! such edges ([`Propagation::follow`](crate::relations::Propagation::follow)). A pass that writes such an edge marks the holder as well,
//! because its value may have changed between the reading and the commit.

use super::pass_state::{CausingJobs, PassState};
use crate::content::unique::reserved;
use crate::relations::marks::parse_key;
use crate::relations::stored::damaged_edge;
use std::collections::BTreeMap;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::value::SmolStr;
use stook_store::{Edge, EdgeChange, PassContext, RecordContent, RefusalReason, Result, StaleMark, StoredRecord};

/// The mark that must be processed again, without its job: the job that gives up the value replaces it.
pub(super) struct WaitingMark {
    pub(super) pass_order: u32,
    pub(super) rule: u32,
    pub(super) target: SmolStr,
    pub(super) part: SmolStr,
}

impl WaitingMark {
    /// The edge from the holder of a value. A record that waits for several values has an edge for each.
    fn edge(&self, link: u32, holder: &str, (field, value): (&str, &[u8])) -> Edge {
        Edge {
            link,
            target: holder.into(),
            group: self.part.clone(),
            start: i64::from(self.pass_order) << 32 | i64::from(self.rule),
            child: self.target.clone(),
            payload: [field.as_bytes(), &[0], value].concat(),
        }
    }

    /// Reads the mark from an edge.
    fn from_edge(edge: &Edge) -> Self {
        let (pass_order, rule) = ((edge.start >> 32) as u32, edge.start as u32);
        Self { pass_order, rule, target: edge.child.clone(), part: edge.group.clone() }
    }
}

impl PassState<'_> {
    /// Whether a record must stay as it is, because another record has a unique value that it would get, or because it was erased. In the first case, the
    /// marks are processed again when that value is given up.
    pub(super) fn must_wait(
        &mut self,
        (collection, key): (CollectionId, &Key),
        content: &RecordContent,
        marks: &[WaitingMark],
        jobs: &CausingJobs,
    ) -> bool {
        // the last conflict counts: the value may have got another holder since
        let Some(position) = self.refused.iter().rposition(|refused| refused.collection == collection && refused.key == *key) else { return false };
        self.refused_positions.insert(position);
        let RefusalReason::Taken { field: taken, holder } = &self.refused[position].reason else { return true };
        let (relations, field) = (&self.rules.relations[collection], &self.rules.catalogue.collections[collection].fields[*taken]);
        let value = reserved(field, &content.golden[*taken]);
        for mark in marks {
            self.propagation.edge(EdgeChange::Put(mark.edge(relations.waiting, holder, (&field.name, &value))));
        }
        for job in jobs {
            self.propagation.mark_waiting(self.rules, collection, holder.as_str().into(), *job);
        }
        true
    }

    /// Marks again what waits for unique values that their holders no longer have.
    pub(super) fn process_waiting(&mut self, context: &mut dyn PassContext, collection: CollectionId, marks: &[StaleMark]) -> Result<()> {
        let relations = &self.rules.relations[collection];
        let holders: BTreeMap<Key, ()> = marks.iter().map(|mark| Ok((parse_key(&mark.target)?, ()))).collect::<Result<_>>()?;
        let holders: Vec<Key> = holders.into_keys().collect();
        // once a holder is locked, transactions that were changing it have ended
        let locked: BTreeMap<SmolStr, StoredRecord> = context
            .read_for_update(collection, &holders)?
            .into_iter()
            .flatten()
            .filter(|record| record.exists)
            .map(|record| (record.key.shared(), record))
            .collect();
        let pass_order = marks.first().map(|mark| mark.pass_order).unwrap_or_default();
        let (edges, jobs) = self.edges_of_marks(context, relations.waiting, (pass_order, relations.waiting), marks)?;
        let definition = &self.rules.catalogue.collections[collection];
        for edge in edges {
            let end = edge.payload.iter().position(|byte| *byte == 0).ok_or_else(|| damaged_edge(&edge, "it names no field"))?;
            let (name, value) = (String::from_utf8_lossy(&edge.payload[..end]), &edge.payload[end + 1..]);
            let still_has_value = locked.get(&edge.target).is_some_and(|holder| {
                let field = definition.field(&name).filter(|(_, field)| field.unique);
                field.is_some_and(|(index, field)| reserved(field, &holder.golden[index]) == value)
            });
            if still_has_value {
                continue;
            }
            let mark = WaitingMark::from_edge(&edge);
            for job in jobs.get(&edge.target).into_iter().flatten() {
                self.propagation.mark(mark.pass_order, mark.rule, mark.target.clone(), mark.part.clone(), *job);
            }
            self.propagation.edge(EdgeChange::Delete(edge));
        }
        Ok(())
    }
}
