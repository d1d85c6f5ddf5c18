//! Where the fields of a damaged ISO 2709 record are: entries of the directory and pieces between terminators brought together.

use crate::record::{FIELD_END, LEADER, RECORD_END, number, show_tag};
use crate::repair::{RepairKind, Repairs};
use memchr::{memchr, memchr_iter, memmem};

const ENTRY: usize = 12;
/// Where the directory may begin at the earliest, if the leader has lost bytes.
const EARLIEST: usize = LEADER - 4;

/// A field: its tag and its data without the terminator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) tag: [u8; 3],
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// What was found in a record.
pub(crate) struct Layout {
    pub(crate) spans: Vec<Span>,
    /// Where the directory begins, if that is not behind 24 bytes.
    pub(crate) leader_start: Option<usize>,
}

/// The pieces between terminators, after the directory.
struct Pieces {
    base: usize,
    /// Start and end of each, the terminator excluded.
    list: Vec<(usize, usize)>,
}

impl Pieces {
    /// `end` is where the record terminator is.
    fn new(bytes: &[u8], base: usize, end: usize) -> Self {
        let mut list = Vec::new();
        let mut start = base;
        for at in memchr_iter(FIELD_END, &bytes[base..end]) {
            list.push((start, base + at));
            start = base + at + 1;
        }
        // the last one may have lost its terminator; what is but a stray byte is no field
        if end - start > 1 || end > start && bytes[start].is_ascii_alphanumeric() && end == bytes.len() - 1 {
            list.push((start, end));
        }
        Self { base, list }
    }

    /// The pieces that an entry covers, if it begins with one and ends with one.
    fn covered(&self, entry: &Entry) -> Option<(usize, usize)> {
        let (length, position) = entry.extent?;
        let start = self.base + position;
        let end = (start + length).checked_sub(1)?;
        let first = self.list.binary_search_by_key(&start, |piece| piece.0).ok()?;
        let last = first + self.list[first..].binary_search_by_key(&end, |piece| piece.1).ok()?;
        Some((first, last + 1))
    }
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    tag: [u8; 3],
    /// Length with the terminator, and position after the base address.
    extent: Option<(usize, usize)>,
}

fn entries(directory: &[u8]) -> Vec<Entry> {
    let entry = |&[a, b, c, l0, l1, l2, l3, p0, p1, p2, p3, p4]: &[u8; ENTRY]| Entry {
        tag: [a, b, c],
        extent: number(&[l0, l1, l2, l3]).zip(number(&[p0, p1, p2, p3, p4])),
    };
    directory.as_chunks::<ENTRY>().0.iter().map(entry).collect()
}

/// Finds the fields of a record, and tells what had to be ignored for that.
pub(crate) fn find(bytes: &[u8], repairs: &mut Repairs) -> Option<Layout> {
    let end = if bytes.last() == Some(&RECORD_END) { bytes.len() - 1 } else { bytes.len() };
    let announced = bytes[12..17].first_chunk::<5>().and_then(number);
    let base_candidates = base_candidates(bytes, announced, end);
    let (base, pieces, directory_entries) = base_candidates
        .into_iter()
        .flatten()
        .map(|base| {
            let pieces = Pieces::new(bytes, base, end);
            let directory_entries = entries(&bytes[LEADER..directory_end(bytes, base)]);
            (base, pieces, directory_entries)
        })
        .max_by_key(|(base, pieces, directory_entries)| {
            let followable = directory_entries.iter().filter(|entry| pieces.covered(entry).is_some()).count();
            // of equals the one after a terminator, then the one that is announced
            (followable, bytes[base - 1] == FIELD_END, Some(*base) == announced, std::cmp::Reverse(*base))
        })?;
    let directory_length = directory_end(bytes, base) - LEADER;
    let followable = directory_entries.iter().filter(|entry| pieces.covered(entry).is_some()).count();
    let is_complete = directory_length.is_multiple_of(ENTRY);
    if is_complete && (2 * followable >= directory_entries.len() || directory_entries.len() == pieces.list.len()) {
        if bytes[base - 1] != FIELD_END {
            repairs.add(RepairKind::Terminator, None, Some(base), "there is no field terminator behind the directory; the data begin");
        } else if announced != Some(base) {
            report_ignored_base(bytes, base, repairs);
        }
        return Some(Layout { spans: spans_by_order(bytes, &directory_entries, &pieces, repairs), leader_start: None });
    }
    let searched = base_candidates.into_iter().flatten().map(|base| {
        let pieces = Pieces::new(bytes, base, end);
        (search_directory(bytes, &pieces), pieces)
    });
    // of equals the first
    let best = |(found, pieces): &(Vec<Option<(usize, usize)>>, Pieces)| (found.iter().flatten().count(), std::cmp::Reverse(pieces.base));
    let (found, pieces) = searched.max_by_key(best)?;
    Some(spans_by_search(bytes, &found, &pieces, repairs))
}

/// Where the directory ends before data that begin at `base`: its terminator may be another byte, or none.
fn directory_end(bytes: &[u8], base: usize) -> usize {
    let is_terminated = base > LEADER && (bytes[base - 1] == FIELD_END || (base - 1 - LEADER).is_multiple_of(ENTRY));
    base - usize::from(is_terminated)
}

fn report_ignored_base(bytes: &[u8], base: usize, repairs: &mut Repairs) {
    let shown = String::from_utf8_lossy(&bytes[12..17]).escape_debug().to_string();
    let done = format!("the base address `{shown}` in the leader was ignored; the data begin behind the directory");
    repairs.add(RepairKind::BaseAddress, None, Some(base), done);
}

/// Where the data may begin: as announced, after the first field terminator, and after the last thing that is an entry.
fn base_candidates(bytes: &[u8], announced: Option<usize>, end: usize) -> [Option<usize>; 4] {
    let is_in_range = |base: &usize| *base > LEADER && *base <= end;
    let first = memchr(FIELD_END, &bytes[EARLIEST..end]).map(|at| EARLIEST + at + 1);
    let is_entry = |entry: &[u8; ENTRY]| entry[..3].iter().all(u8::is_ascii_graphic) && entry[3..].iter().all(u8::is_ascii_digit);
    let entry_count = bytes[LEADER..end].as_chunks::<ENTRY>().0.iter().take_while(|entry| is_entry(entry)).count();
    let after_entries = Some(LEADER + ENTRY * entry_count).filter(|_| entry_count > 0);
    // where a terminator is there, the data do not begin before it
    let unterminated = after_entries.filter(|base| bytes.get(*base) != Some(&FIELD_END));
    let announced = announced.filter(|base| is_in_range(base) && (bytes[base - 1] == FIELD_END || Some(base - 1) == after_entries));
    [announced, first.filter(is_in_range), unterminated.filter(is_in_range), after_entries.map(|base| base + 1).filter(is_in_range)]
}

/// Whether a tag can be one.
fn is_tag(tag: [u8; 3]) -> bool {
    tag.iter().all(u8::is_ascii_graphic)
}

/// Adds a field, if its tag is one.
fn push(tag: [u8; 3], (start, end): (usize, usize), spans: &mut Vec<Span>, repairs: &mut Repairs) {
    if is_tag(tag) {
        return spans.push(Span { tag, start, end });
    }
    let shown = String::from_utf8_lossy(&tag).escape_debug().to_string();
    let done = format!("a field of {} bytes whose tag is `{shown}` was left out", end - start);
    repairs.add(RepairKind::Tag, None, Some(start), done);
}

fn report_found_by_terminators(tag: [u8; 3], at: usize, repairs: &mut Repairs) {
    let done = "its length or position in the directory was ignored; the field was found by its terminators";
    repairs.add(RepairKind::FieldPosition, Some(&show_tag(tag)), Some(at), done);
}

fn report_unnamed_bytes((start, end): (usize, usize), repairs: &mut Repairs) {
    if end > start {
        let done = format!("{} bytes that no entry of the directory names were left out", end - start);
        repairs.add(RepairKind::NoEntry, None, Some(start), done);
    }
}

/// Entries that lead to a field are followed; the others get the pieces that lie between those of their neighbours.
fn spans_by_order(bytes: &[u8], directory_entries: &[Entry], pieces: &Pieces, repairs: &mut Repairs) -> Vec<Span> {
    let mut piece_ranges: Vec<Option<(usize, usize)>> = directory_entries.iter().map(|entry| pieces.covered(entry)).collect();
    drop_overlaps(directory_entries, &mut piece_ranges, pieces.list.len());
    let mut taken = vec![false; pieces.list.len()];
    for (first, last) in piece_ranges.iter().flatten() {
        taken[*first..*last].fill(true);
    }
    let mut spans = Vec::with_capacity(directory_entries.len());
    let mut index = 0;
    while index < directory_entries.len() {
        if let Some((first, last)) = piece_ranges[index] {
            push(directory_entries[index].tag, (pieces.list[first].0, pieces.list[last - 1].1), &mut spans, repairs);
            index += 1;
            continue;
        }
        let run = directory_entries[index..].iter().zip(&piece_ranges[index..]).take_while(|(_, range)| range.is_none()).count();
        let low = if index == 0 { 0 } else { piece_ranges[index - 1].map_or(0, |(_, last)| last) };
        let high = piece_ranges.get(index + run).copied().flatten().map_or(pieces.list.len(), |(first, _)| first);
        // entries that lead to and fro must not make this look at everything again and again
        let free: Vec<usize> = (low..high.max(low)).take(64 + 16 * run).filter(|piece| !taken[*piece]).collect();
        let mut next = 0;
        for (run_index, entry) in directory_entries[index..index + run].iter().enumerate() {
            let (remaining, following) = (free.len() - next, &directory_entries[index + run_index + 1..index + run]);
            let length_of = |piece: usize| pieces.list[piece].1 - pieces.list[piece].0 + 1;
            let fits = |entry: &Entry, piece: usize| entry.extent.is_some_and(|(length, _)| length == length_of(piece));
            // there are fewer pieces than entries: it is this one that has none, if the next entry fits better
            let is_absent = remaining <= following.len()
                && (remaining == 0 || !fits(entry, free[next]) && following.first().is_some_and(|other| fits(other, free[next])));
            if is_absent {
                let done = "the directory names it, but there are no data for it; it was left out";
                repairs.add(
                    RepairKind::NoData,
                    Some(&show_tag(entry.tag).escape_debug().to_string()),
                    Some(LEADER + ENTRY * (index + run_index)),
                    done,
                );
                continue;
            }
            let piece_count = piece_count(entry, pieces, &free[next..], remaining.saturating_sub(following.len()).max(1));
            let (first, last) = (free[next], free[next + piece_count - 1]);
            let data_range = (pieces.list[first].0, pieces.list[last].1);
            taken[first..=last].fill(true);
            next += piece_count;
            if is_tag(entry.tag) {
                report_found_by_terminators(entry.tag, data_range.0, repairs);
            }
            push(entry.tag, data_range, &mut spans, repairs);
        }
        index += run;
    }
    for (data_range, _) in pieces.list.iter().zip(&taken).filter(|(_, taken)| !**taken) {
        report_unnamed_bytes(*data_range, repairs);
    }
    if bytes.last() == Some(&RECORD_END) && bytes.len() > 1 && bytes[bytes.len() - 2] != FIELD_END {
        let tag = spans.last().filter(|span| span.end == bytes.len() - 1).map(|span| show_tag(span.tag));
        let done = "there is no field terminator before the record terminator; the data were read up to there";
        repairs.add(RepairKind::Terminator, tag.as_deref(), Some(bytes.len() - 1), done);
    }
    spans
}

/// Two entries for the same data: the one that does not follow its neighbour is not believed, if there are data that nobody names.
fn drop_overlaps(directory_entries: &[Entry], piece_ranges: &mut [Option<(usize, usize)>], pieces: usize) {
    let mut claims = vec![0_u32; pieces];
    for (first, last) in piece_ranges.iter().flatten() {
        claims[*first..(*last).min(*first + 64)].iter_mut().for_each(|claim| *claim += 1);
    }
    if !claims.iter().any(|claim| *claim > 1) {
        return;
    }
    for index in 0..piece_ranges.len() {
        let Some((first, last)) = piece_ranges[index] else { continue };
        let range = first..last.min(first + 64);
        if claims[range.clone()].iter().all(|claim| *claim < 2) {
            continue;
        }
        let follows = match index.checked_sub(1).and_then(|previous| directory_entries[previous].extent) {
            Some((length, position)) => directory_entries[index].extent.is_some_and(|extent| extent.1 == length + position),
            None => first == 0,
        };
        let next_and_this = directory_entries.get(index + 1).and_then(|next| next.extent).zip(directory_entries[index].extent);
        let is_followed = next_and_this.is_none_or(|(next, (length, position))| next.1 == length + position);
        if !follows || !is_followed {
            claims[range].iter_mut().for_each(|claim| *claim -= 1);
            piece_ranges[index] = None;
        }
    }
}

/// How many pieces an entry stands for: more than one where a terminator is inside of a field and its length says so.
fn piece_count(entry: &Entry, pieces: &Pieces, free: &[usize], max_pieces: usize) -> usize {
    let Some((length, _)) = entry.extent else { return 1 };
    let start = pieces.list[free[0]].0;
    let has_announced_length = |count: &usize| free[*count - 1] == free[0] + count - 1 && pieces.list[free[*count - 1]].1 - start + 1 == length;
    (1..=max_pieces.min(16)).find(has_announced_length).unwrap_or(1)
}

/// Where in the directory the length and position of each piece are, and how long they are there.
fn search_directory(bytes: &[u8], pieces: &Pieces) -> Vec<Option<(usize, usize)>> {
    let directory = &bytes[..pieces.base - 1];
    let mut found = Vec::with_capacity(pieces.list.len());
    let (mut cursor, mut missed) = (EARLIEST, 0);
    for (start, end) in &pieces.list {
        let (length, position) = (end - start + 1, start - pieces.base);
        let length_and_position = format!("{length:04}{position:05}");
        let window = directory.get(cursor..).unwrap_or_default();
        let window = &window[..window.len().min(2 * ENTRY + 2 + (ENTRY * missed).min(400))];
        let found_at = memmem::find(window, length_and_position.as_bytes())
            .map(|at| (cursor + at, length_and_position.len()))
            .filter(|(at, _)| *at >= EARLIEST + 3);
        match found_at {
            Some((at, length)) => (cursor, missed) = (at + length, 0),
            None => missed += 1,
        }
        found.push(found_at);
    }
    found
}

/// The directory is no list of entries any more: tags are what stands before the length and position of a piece, where these were found.
fn spans_by_search(bytes: &[u8], found: &[Option<(usize, usize)>], pieces: &Pieces, repairs: &mut Repairs) -> Layout {
    let directory = &bytes[..pieces.base - 1];
    let done = "the directory is no list of entries of twelve bytes; fields were found by their terminators, tags in their order";
    repairs.add(RepairKind::Directory, None, None, done);
    let begin = match found.first() {
        Some(Some((at, _))) if at - 3 != LEADER && (at - 3).abs_diff(LEADER) <= 4 => at - 3,
        _ => LEADER,
    };
    let mut spans = Vec::with_capacity(pieces.list.len());
    let (mut cursor, mut index, mut following) = (begin, 0, 0);
    while index < pieces.list.len() {
        if let Some((at, length)) = found[index] {
            let tag = [directory[at - 3], directory[at - 2], directory[at - 1]];
            push(tag, pieces.list[index], &mut spans, repairs);
            (cursor, index) = (at + length, index + 1);
            continue;
        }
        // the tag is before the next length that was found
        following = following.max(index);
        while found.get(following) == Some(&None) {
            following += 1;
        }
        let limit = found.get(following).copied().flatten().map_or(directory.len(), |(at, _)| (at - 3).max(cursor));
        let tag = directory.get(cursor..limit).and_then(|rest| rest.first_chunk::<3>());
        match tag {
            Some(tag) => push(*tag, pieces.list[index], &mut spans, repairs),
            None => report_unnamed_bytes(pieces.list[index], repairs),
        }
        (cursor, index) = ((cursor + ENTRY).min(limit), index + 1);
    }
    Layout { spans, leader_start: Some(begin).filter(|begin| *begin != LEADER) }
}
