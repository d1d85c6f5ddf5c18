//! Passes that fan out: from a record that children find or read, to these children.

use super::pass_state::{CausingJobs, MAX_CHILDREN, PassState};
use super::targets::merge;
use crate::relations::marks::{FOUND, READ, SearchBounds, damaged_mark, parse_key};
use std::collections::BTreeMap;
use stook_catalogue::ids::{CollectionId, LinkId};
use stook_catalogue::key::Key;
use stook_catalogue::value::SmolStr;
use stook_store::{Edge, EdgeCursor, PassContext, Result, StaleMark, StartRange};

/// Where a pass continues that could not read all children at once: group, start, child.
type ChildCursor = (String, i64, String);

impl PassState<'_> {
    /// Settles all children that may have a changed record as their target, for marks of records that children find by equal fields.
    pub(super) fn process_found(&mut self, context: &mut dyn PassContext, link: LinkId, marks: &[StaleMark]) -> Result<()> {
        // children that looked for targets while these changed become visible when their transactions end
        context.wait_for_units_in_progress()?;
        let definition = &self.rules.catalogue.links[link];
        let depth = self.rules.relations[definition.child_collection].depth;
        let overlap = definition.target_rule.overlap().copied();
        let search_interval = |bounds: &SearchBounds| match overlap {
            Some(overlap) => {
                let distance = overlap.tolerance.saturating_add(overlap.reach);
                (bounds.low.saturating_sub(distance), bounds.high.saturating_add(overlap.tolerance))
            }
            None => (0, 0),
        };
        let (edges, jobs) = self.paged(context, definition.children(), (depth << 2 | FOUND, definition.id), marks, &search_interval)?;
        self.settle_children_of(context, definition.child_collection, &edges, |edge| jobs.get(&edge.target).cloned().unwrap_or_default())
    }

    /// Returns the edges between the bounds of marks, and the jobs that caused these marks, by target. Clears all marks whose edges one pass can
    /// read; if there are none, reads a page of one mark's edges and leaves another mark for the rest.
    pub(super) fn paged(
        &mut self,
        context: &mut dyn PassContext,
        link: u32,
        (pass_order, rule): (u32, u32),
        marks: &[StaleMark],
        search_interval: &dyn Fn(&SearchBounds) -> (i64, i64),
    ) -> Result<(Vec<Edge>, BTreeMap<SmolStr, CausingJobs>)> {
        let read: Vec<(&StaleMark, SearchBounds)> = marks.iter().map(|mark| Ok((mark, SearchBounds::parse(mark)?))).collect::<Result<_>>()?;
        let unpaged = || read.iter().filter(|(_, bounds)| bounds.cursor.is_none());
        let range = |(mark, bounds): &(&StaleMark, SearchBounds)| {
            let (low, high) = search_interval(bounds);
            StartRange { target: mark.target.clone(), low, high }
        };
        let ranges = unpaged().map(range).collect();
        let merged = merge(ranges);
        let edges = if merged.is_empty() { Vec::new() } else { context.edges_starting_between(link, &merged, Some(MAX_CHILDREN))? };
        // which ranges were read completely: all, or those that end before the last edge
        let cut = edges.last().filter(|_| edges.len() >= MAX_CHILDREN).map(|last| (last.target.as_str(), last.start));
        let is_read = |target: &str, high: i64| cut.is_none_or(|cut| (target, high) < cut);
        let mut jobs: BTreeMap<SmolStr, CausingJobs> = BTreeMap::new();
        for (mark, _) in unpaged().filter(|(mark, bounds)| is_read(&mark.target, search_interval(bounds).1)) {
            self.cleared.push(mark.id);
            jobs.entry(mark.target.clone()).or_default().insert(mark.job);
        }
        if !jobs.is_empty() {
            let complete_edges = edges.into_iter().filter(|edge| jobs.contains_key(&edge.target)).collect();
            return Ok((complete_edges, jobs));
        }
        // too many for one pass: one mark, page by page
        let Some((mark, bounds)) = read.iter().find(|(_, bounds)| bounds.cursor.is_some()).or(read.first()) else {
            return Ok((Vec::new(), jobs));
        };
        let (low, high) = search_interval(bounds);
        let (start, child) = bounds.cursor.clone().unwrap_or((low.saturating_sub(1), "\u{10ffff}".into()));
        let page = context.edges_after(link, &mark.target, EdgeCursor { group: "", start, child: &child }, MAX_CHILDREN)?;
        let within_bounds: Vec<Edge> = page.into_iter().filter(|edge| edge.start <= high).collect();
        if within_bounds.len() == MAX_CHILDREN
            && let Some(last) = within_bounds.last()
        {
            let remaining = SearchBounds { cursor: Some((last.start, last.child.to_string())), ..*bounds };
            self.propagation.mark(pass_order, rule, mark.target.clone(), remaining.text(), mark.job);
        }
        self.cleared.push(mark.id);
        jobs.insert(mark.target.clone(), CausingJobs::from([mark.job]));
        Ok((within_bounds, jobs))
    }

    /// Settles the children of records of which fields that children read have changed.
    pub(super) fn process_read(&mut self, context: &mut dyn PassContext, link: LinkId, marks: &[StaleMark]) -> Result<()> {
        let definition = &self.rules.catalogue.links[link];
        let depth = self.rules.relations[definition.child_collection].depth;
        let (edges, jobs) = self.edges_of_marks(context, definition.edges(), (depth << 2 | READ, definition.id), marks)?;
        self.settle_children_of(context, definition.child_collection, &edges, |edge| jobs.get(&edge.target).cloned().unwrap_or_default())
    }

    /// Returns the edges to the targets of marks, and the jobs that caused these marks, by target. Clears all marks whose edges one pass can read;
    /// if there are none, reads a page of one mark's edges and leaves another mark for the rest.
    pub(super) fn edges_of_marks(
        &mut self,
        context: &mut dyn PassContext,
        link: u32,
        (pass_order, rule): (u32, u32),
        marks: &[StaleMark],
    ) -> Result<(Vec<Edge>, BTreeMap<SmolStr, CausingJobs>)> {
        let unpaged = |mark: &&StaleMark| mark.part.is_empty();
        let mut jobs: BTreeMap<SmolStr, CausingJobs> = BTreeMap::new();
        for mark in marks.iter().filter(unpaged) {
            jobs.entry(mark.target.clone()).or_default().insert(mark.job);
        }
        let targets: Vec<(String, Option<String>)> = jobs.keys().map(|target| (target.to_string(), None)).collect();
        let edges = if targets.is_empty() { Vec::new() } else { context.edges(link, &targets, Some(MAX_CHILDREN))? };
        // there may be more edges to the last target than were read
        let cut = edges.last().filter(|_| edges.len() >= MAX_CHILDREN).map(|last| last.target.clone());
        let is_read = |target: &str| cut.as_deref().is_none_or(|cut| target < cut);
        self.cleared.extend(marks.iter().filter(unpaged).filter(|mark| is_read(&mark.target)).map(|mark| mark.id));
        if !self.cleared.is_empty() {
            let complete_edges: Vec<Edge> = edges.into_iter().filter(|edge| is_read(&edge.target)).collect();
            return Ok((complete_edges, jobs));
        }
        // too many for one pass: one mark, page by page
        let Some(mark) = marks.iter().find(|mark| !unpaged(mark)).or(marks.first()) else { return Ok((Vec::new(), BTreeMap::new())) };
        let (group, start, child): ChildCursor = match mark.part.as_str() {
            "" => (String::new(), i64::MIN, String::new()),
            part => serde_json::from_str(part).map_err(|error| damaged_mark(mark, &error.to_string()))?,
        };
        let page = context.edges_after(link, &mark.target, EdgeCursor { group: &group, start, child: &child }, MAX_CHILDREN)?;
        if page.len() == MAX_CHILDREN
            && let Some(last) = page.last()
        {
            let cursor = serde_json::json!([last.group, last.start, last.child]).to_string();
            self.propagation.mark(pass_order, rule, mark.target.clone(), cursor, mark.job);
        }
        self.cleared.push(mark.id);
        Ok((page, BTreeMap::from([(mark.target.clone(), CausingJobs::from([mark.job]))])))
    }

    fn settle_children_of(
        &mut self,
        context: &mut dyn PassContext,
        collection: CollectionId,
        edges: &[Edge],
        jobs: impl Fn(&Edge) -> CausingJobs,
    ) -> Result<()> {
        let mut children: BTreeMap<Key, CausingJobs> = BTreeMap::new();
        for edge in edges {
            children.entry(parse_key(&edge.child)?).or_default().extend(jobs(edge));
        }
        self.children(context, collection, &children)
    }
}
