//! Processes the marks of a source with complete deliveries: shares of files, decisions, retiring and restoring.

use super::names::job_note;
use super::retire::RetirementChange;
use super::share::FileShare;
use crate::relations::stored::damaged_edge;
use crate::settle::pass_state::PassState;
use std::collections::BTreeSet;
use stook_catalogue::definition::CompleteDelivery;
use stook_store::queue::JobId;
use stook_store::{EdgeChange, PassContext, Result, StaleMark};

impl PassState<'_> {
    /// Processes marks of a source with complete deliveries.
    pub(in crate::settle) fn process_complete_delivery(
        &mut self,
        context: &mut dyn PassContext,
        replaces: &CompleteDelivery,
        marks: &[StaleMark],
    ) -> Result<()> {
        match marks.first().map(|mark| mark.rule) {
            Some(rule) if rule == replaces.shares_link() => self.add_up_shares(context, replaces, marks),
            Some(rule) if rule == replaces.ledger_link() => self.decide(context, replaces, marks),
            Some(rule) if rule == replaces.history_link() => self.retire_or_restore(context, replaces, marks, RetirementChange::Restore),
            _ => self.retire_or_restore(context, replaces, marks, RetirementChange::Retire),
        }
    }

    /// Merges the shares of each file into one; a complete file without failures is passed on to be decided about.
    fn add_up_shares(&mut self, context: &mut dyn PassContext, replaces: &CompleteDelivery, marks: &[StaleMark]) -> Result<()> {
        self.cleared.extend(marks.iter().map(|mark| mark.id));
        let files: BTreeSet<&str> = marks.iter().map(|mark| mark.target.as_str()).collect();
        let targets: Vec<(String, Option<String>)> = files.iter().map(|file| ((*file).to_owned(), None)).collect();
        let edges = context.edges(replaces.shares_link(), &targets, None)?;
        for shares in edges.chunk_by(|a, b| a.target == b.target) {
            let (mut share, file) = (FileShare::default(), &shares[0].target);
            for edge in shares {
                share.include(&FileShare::from_edge(edge)?);
                self.propagation.edge(EdgeChange::Delete(edge.clone()));
            }
            if share.file_documents != Some(share.documents) {
                share.edges(replaces, file, "").into_iter().for_each(|edge| self.propagation.edge(EdgeChange::Put(edge)));
                continue;
            }
            let numbers = file.split_once(' ').and_then(|(job, file)| Some((job.parse().ok()?, file.parse().ok()?)));
            let (job, number): (JobId, usize) = numbers.ok_or_else(|| damaged_edge(&shares[0], "it names no file"))?;
            if share.failed > 0 {
                let payload = share.failed.to_string().into();
                self.propagation.edge(EdgeChange::Put(job_note(replaces, job, format!("b{number}").into(), payload)));
            } else {
                self.add_complete_file(replaces, (job, number), &share)?;
            }
        }
        Ok(())
    }
}
