//! What every store does with patterns: folding, bounds of a prefix, trigrams.

use stook_catalogue::fold::fold;

/// The longest pattern every store takes, in bytes.
pub const MAX_PATTERN: usize = 50_000;

/// Trigrams of a pattern that are asked for; more of them cost more than they leave out.
const MAX_TRIGRAMS: usize = 32;

/// Pieces of a pattern in the form in which folded text is kept. Blanks at the ends of the whole pattern go, as they do in a
/// text; a blank beside a wildcard stays, because the next word stands after it.
pub fn fold_pieces(pieces: &[String]) -> Vec<String> {
    // a neighbour with which nothing combines keeps the blanks
    const WALL: char = '\u{1}';
    let mut folded: Vec<String> = pieces.iter().map(|piece| fold(&format!("{WALL}{piece}{WALL}"))).collect();
    for piece in &mut folded {
        *piece = piece.strip_prefix(WALL).and_then(|piece| piece.strip_suffix(WALL)).unwrap_or(piece).to_owned();
    }
    if let Some(first) = folded.first_mut() {
        *first = first.trim_start().to_owned();
    }
    if let Some(last) = folded.last_mut() {
        *last = last.trim_end().to_owned();
    }
    folded
}

/// The first text after all that begin with `prefix`, in the order of bytes; nothing when there is none.
pub fn after_prefix(prefix: &str) -> Option<String> {
    let mut next: Vec<char> = prefix.chars().collect();
    while let Some(last) = next.pop() {
        if let Some(following) = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32) {
            next.push(following);
            return Some(next.into_iter().collect());
        }
    }
    None
}

/// Trigrams that every text has which contains all pieces.
pub fn trigrams(pieces: &[String]) -> Vec<String> {
    let mut wanted: Vec<String> = Vec::new();
    for piece in pieces {
        let characters: Vec<char> = piece.chars().collect();
        for three in characters.windows(3) {
            let three: String = three.iter().collect();
            // no store's table knows NUL
            if wanted.len() < MAX_TRIGRAMS && !three.contains('\0') && !wanted.contains(&three) {
                wanted.push(three);
            }
        }
    }
    wanted
}
