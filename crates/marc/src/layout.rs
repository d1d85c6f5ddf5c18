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
        let (length, position) = entry.place?;
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
    place: Option<(usize, usize)>,
}

fn entries(directory: &[u8]) -> Vec<Entry> {
    let entry = |&[a, b, c, l0, l1, l2, l3, p0, p1, p2, p3, p4]: &[u8; ENTRY]| Entry {
        tag: [a, b, c],
        place: number(&[l0, l1, l2, l3]).zip(number(&[p0, p1, p2, p3, p4])),
    };
    directory.as_chunks::<ENTRY>().0.iter().map(entry).collect()
}

/// Finds the fields of a record, and tells what had to be ignored for that.
pub(crate) fn find(bytes: &[u8], repairs: &mut Repairs) -> Option<Layout> {
    let end = if bytes.last() == Some(&RECORD_END) { bytes.len() - 1 } else { bytes.len() };
    let announced = bytes[12..17].first_chunk::<5>().and_then(number);
    let bases = bases(bytes, announced, end);
    let (base, pieces, known) = bases
        .into_iter()
        .flatten()
        .map(|base| {
            let pieces = Pieces::new(bytes, base, end);
            let known = entries(&bytes[LEADER..directory_end(bytes, base)]);
            (base, pieces, known)
        })
        .max_by_key(|(base, pieces, known)| {
            let sound = known.iter().filter(|entry| pieces.covered(entry).is_some()).count();
            // of equals the one after a terminator, then the one that is announced
            (sound, bytes[base - 1] == FIELD_END, Some(*base) == announced, std::cmp::Reverse(*base))
        })?;
    let directory_length = directory_end(bytes, base) - LEADER;
    let sound = known.iter().filter(|entry| pieces.covered(entry).is_some()).count();
    let whole = directory_length.is_multiple_of(ENTRY);
    if whole && (2 * sound >= known.len() || known.len() == pieces.list.len()) {
        if bytes[base - 1] != FIELD_END {
            repairs.add(RepairKind::Terminator, None, Some(base), "there is no field terminator behind the directory; the data begin");
        } else if announced != Some(base) {
            base_told(bytes, base, repairs);
        }
        return Some(Layout { spans: by_order(bytes, &known, &pieces, repairs), leader_start: None });
    }
    let searched = bases.into_iter().flatten().map(|base| {
        let pieces = Pieces::new(bytes, base, end);
        (search(bytes, &pieces), pieces)
    });
    // of equals the first
    let best = |(found, pieces): &(Vec<Option<(usize, usize)>>, Pieces)| (found.iter().flatten().count(), std::cmp::Reverse(pieces.base));
    let (found, pieces) = searched.max_by_key(best)?;
    Some(by_search(bytes, &found, &pieces, repairs))
}

/// Where the directory ends before data that begin at `base`: its terminator may be another byte, or none.
fn directory_end(bytes: &[u8], base: usize) -> usize {
    let is_terminated = base > LEADER && (bytes[base - 1] == FIELD_END || (base - 1 - LEADER).is_multiple_of(ENTRY));
    base - usize::from(is_terminated)
}

fn base_told(bytes: &[u8], base: usize, repairs: &mut Repairs) {
    let said = String::from_utf8_lossy(&bytes[12..17]).escape_debug().to_string();
    let done = format!("the base address `{said}` in the leader was ignored; the data begin behind the directory");
    repairs.add(RepairKind::BaseAddress, None, Some(base), done);
}

/// Where the data may begin: as announced, after the first field terminator, and after the last thing that is an entry.
fn bases(bytes: &[u8], announced: Option<usize>, end: usize) -> [Option<usize>; 4] {
    let within = |base: &usize| *base > LEADER && *base <= end;
    let first = memchr(FIELD_END, &bytes[EARLIEST..end]).map(|at| EARLIEST + at + 1);
    let is_entry = |entry: &[u8; ENTRY]| entry[..3].iter().all(u8::is_ascii_graphic) && entry[3..].iter().all(u8::is_ascii_digit);
    let steps = bytes[LEADER..end].as_chunks::<ENTRY>().0.iter().take_while(|entry| is_entry(entry)).count();
    let behind = Some(LEADER + ENTRY * steps).filter(|_| steps > 0);
    // where a terminator is there, the data do not begin before it
    let unterminated = behind.filter(|base| bytes.get(*base) != Some(&FIELD_END));
    let announced = announced.filter(|base| within(base) && (bytes[base - 1] == FIELD_END || Some(base - 1) == behind));
    [announced, first.filter(within), unterminated.filter(within), behind.map(|base| base + 1).filter(within)]
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
    let said = String::from_utf8_lossy(&tag).escape_debug().to_string();
    let done = format!("a field of {} bytes whose tag is `{said}` was left out", end - start);
    repairs.add(RepairKind::Tag, None, Some(start), done);
}

fn found_by_terminators(tag: [u8; 3], at: usize, repairs: &mut Repairs) {
    let done = "its length or position in the directory was ignored; the field was found by its terminators";
    repairs.add(RepairKind::FieldPosition, Some(&show_tag(tag)), Some(at), done);
}

fn no_entry((start, end): (usize, usize), repairs: &mut Repairs) {
    if end > start {
        let done = format!("{} bytes that no entry of the directory names were left out", end - start);
        repairs.add(RepairKind::NoEntry, None, Some(start), done);
    }
}

/// Entries that lead to a field are followed; the others get the pieces that lie between those of their neighbours.
fn by_order(bytes: &[u8], known: &[Entry], pieces: &Pieces, repairs: &mut Repairs) -> Vec<Span> {
    let mut places: Vec<Option<(usize, usize)>> = known.iter().map(|entry| pieces.covered(entry)).collect();
    drop_overlaps(known, &mut places, pieces.list.len());
    let mut taken = vec![false; pieces.list.len()];
    for (first, last) in places.iter().flatten() {
        taken[*first..*last].fill(true);
    }
    let mut spans = Vec::with_capacity(known.len());
    let mut at = 0;
    while at < known.len() {
        if let Some((first, last)) = places[at] {
            push(known[at].tag, (pieces.list[first].0, pieces.list[last - 1].1), &mut spans, repairs);
            at += 1;
            continue;
        }
        let run = known[at..].iter().zip(&places[at..]).take_while(|(_, place)| place.is_none()).count();
        let low = if at == 0 { 0 } else { places[at - 1].map_or(0, |(_, last)| last) };
        let high = places.get(at + run).copied().flatten().map_or(pieces.list.len(), |(first, _)| first);
        // entries that lead to and fro must not make this look at everything again and again
        let free: Vec<usize> = (low..high.max(low)).take(64 + 16 * run).filter(|piece| !taken[*piece]).collect();
        let mut next = 0;
        for (index, entry) in known[at..at + run].iter().enumerate() {
            let (left, following) = (free.len() - next, &known[at + index + 1..at + run]);
            let length_of = |piece: usize| pieces.list[piece].1 - pieces.list[piece].0 + 1;
            let fits = |entry: &Entry, piece: usize| entry.place.is_some_and(|(length, _)| length == length_of(piece));
            // there are fewer pieces than entries: it is this one that has none, if the next entry fits better
            let absent =
                left <= following.len() && (left == 0 || !fits(entry, free[next]) && following.first().is_some_and(|other| fits(other, free[next])));
            if absent {
                let done = "the directory names it, but there are no data for it; it was left out";
                repairs.add(RepairKind::NoData, Some(&show_tag(entry.tag).escape_debug().to_string()), Some(LEADER + ENTRY * (at + index)), done);
                continue;
            }
            let joined = joined(entry, pieces, &free[next..], left.saturating_sub(following.len()).max(1));
            let (first, last) = (free[next], free[next + joined - 1]);
            let place = (pieces.list[first].0, pieces.list[last].1);
            taken[first..=last].fill(true);
            next += joined;
            if is_tag(entry.tag) {
                found_by_terminators(entry.tag, place.0, repairs);
            }
            push(entry.tag, place, &mut spans, repairs);
        }
        at += run;
    }
    for (place, _) in pieces.list.iter().zip(&taken).filter(|(_, taken)| !**taken) {
        no_entry(*place, repairs);
    }
    if bytes.last() == Some(&RECORD_END) && bytes.len() > 1 && bytes[bytes.len() - 2] != FIELD_END {
        let tag = spans.last().filter(|span| span.end == bytes.len() - 1).map(|span| show_tag(span.tag));
        let done = "there is no field terminator before the record terminator; the data were read up to there";
        repairs.add(RepairKind::Terminator, tag.as_deref(), Some(bytes.len() - 1), done);
    }
    spans
}

/// Two entries for the same data: the one that does not follow its neighbour is not believed, if there are data that nobody names.
fn drop_overlaps(known: &[Entry], places: &mut [Option<(usize, usize)>], pieces: usize) {
    let mut claims = vec![0_u32; pieces];
    for (first, last) in places.iter().flatten() {
        claims[*first..(*last).min(*first + 64)].iter_mut().for_each(|claim| *claim += 1);
    }
    if !claims.iter().any(|claim| *claim > 1) {
        return;
    }
    for index in 0..places.len() {
        let Some((first, last)) = places[index] else { continue };
        let range = first..last.min(first + 64);
        if claims[range.clone()].iter().all(|claim| *claim < 2) {
            continue;
        }
        let follows = match index.checked_sub(1).and_then(|before| known[before].place) {
            Some((length, position)) => known[index].place.is_some_and(|place| place.1 == length + position),
            None => first == 0,
        };
        let before_next = known.get(index + 1).and_then(|next| next.place).zip(known[index].place);
        let is_followed = before_next.is_none_or(|(next, (length, position))| next.1 == length + position);
        if !follows || !is_followed {
            claims[range].iter_mut().for_each(|claim| *claim -= 1);
            places[index] = None;
        }
    }
}

/// How many pieces an entry stands for: more than one where a terminator is inside of a field and its length says so.
fn joined(entry: &Entry, pieces: &Pieces, free: &[usize], most: usize) -> usize {
    let Some((length, _)) = entry.place else { return 1 };
    let start = pieces.list[free[0]].0;
    let reaches = |count: &usize| free[*count - 1] == free[0] + count - 1 && pieces.list[free[*count - 1]].1 - start + 1 == length;
    (1..=most.min(16)).find(reaches).unwrap_or(1)
}

/// Where in the directory the length and position of each piece are, and how long they are there.
fn search(bytes: &[u8], pieces: &Pieces) -> Vec<Option<(usize, usize)>> {
    let directory = &bytes[..pieces.base - 1];
    let mut found = Vec::with_capacity(pieces.list.len());
    let (mut cursor, mut missed) = (EARLIEST, 0);
    for (start, end) in &pieces.list {
        let (length, position) = (end - start + 1, start - pieces.base);
        let wanted = format!("{length:04}{position:05}");
        let window = directory.get(cursor..).unwrap_or_default();
        let window = &window[..window.len().min(2 * ENTRY + 2 + (ENTRY * missed).min(400))];
        let place = memmem::find(window, wanted.as_bytes()).map(|at| (cursor + at, wanted.len())).filter(|(at, _)| *at >= EARLIEST + 3);
        match place {
            Some((at, length)) => (cursor, missed) = (at + length, 0),
            None => missed += 1,
        }
        found.push(place);
    }
    found
}

/// The directory is no list of entries any more: tags are what stands before the length and position of a piece, where these were found.
fn by_search(bytes: &[u8], found: &[Option<(usize, usize)>], pieces: &Pieces, repairs: &mut Repairs) -> Layout {
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
            None => no_entry(pieces.list[index], repairs),
        }
        (cursor, index) = ((cursor + ENTRY).min(limit), index + 1);
    }
    Layout { spans, leader_start: Some(begin).filter(|begin| *begin != LEADER) }
}
