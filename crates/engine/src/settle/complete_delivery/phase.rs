//! Processes the marks of a source with complete deliveries: parts of files, decisions, retiring and restoring.

use super::names::job_note;
use super::part::FilePart;
use super::retire::RetirementChange;
use crate::relations::stored::damaged_edge;
use crate::settle::pass_state::PassState;
use std::collections::BTreeSet;
use stook_catalogue::definition::CompleteDelivery;
use stook_store::queue::JobId;
use stook_store::{EdgeChange, PassContext, Result, StaleMark};

impl PassState<'_> {
    /// Processes marks of a source with complete deliveries.
    pub(in crate::settle) fn complete_delivery_marks(
        &mut self,
        context: &mut dyn PassContext,
        replaces: &CompleteDelivery,
        marks: &[StaleMark],
    ) -> Result<()> {
        match marks.first().map(|mark| mark.rule) {
            Some(rule) if rule == replaces.parts() => self.parts(context, replaces, marks),
            Some(rule) if rule == replaces.ledger() => self.decide(context, replaces, marks),
            Some(rule) if rule == replaces.history() => self.retire_or_restore(context, replaces, marks, RetirementChange::Restore),
            _ => self.retire_or_restore(context, replaces, marks, RetirementChange::Retire),
        }
    }

    /// Merges the parts of each file into one; a complete file without failures is passed on to be decided about.
    fn parts(&mut self, context: &mut dyn PassContext, replaces: &CompleteDelivery, marks: &[StaleMark]) -> Result<()> {
        self.cleared.extend(marks.iter().map(|mark| mark.id));
        let files: BTreeSet<&str> = marks.iter().map(|mark| mark.target.as_str()).collect();
        let targets: Vec<(String, Option<String>)> = files.iter().map(|file| ((*file).to_owned(), None)).collect();
        let edges = context.edges(replaces.parts(), &targets, None)?;
        for parts in edges.chunk_by(|a, b| a.target == b.target) {
            let (mut part, file) = (FilePart::default(), &parts[0].target);
            for edge in parts {
                part.include(&FilePart::from_edge(edge)?);
                self.propagation.edge(EdgeChange::Delete(edge.clone()));
            }
            if part.file_documents != Some(part.documents) {
                part.edges(replaces, file, "").into_iter().for_each(|edge| self.propagation.edge(EdgeChange::Put(edge)));
                continue;
            }
            let numbers = file.split_once(' ').and_then(|(job, file)| Some((job.parse().ok()?, file.parse().ok()?)));
            let (job, number): (JobId, usize) = numbers.ok_or_else(|| damaged_edge(&parts[0], "it names no file"))?;
            if part.failed > 0 {
                let payload = part.failed.to_string().into();
                self.propagation.edge(EdgeChange::Put(job_note(replaces, job, format!("b{number}").into(), payload)));
            } else {
                self.add_complete_file(replaces, (job, number), &part)?;
            }
        }
        Ok(())
    }
}
