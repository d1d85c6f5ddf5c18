//! What both stores do with patterns: folding, bounds of a prefix, trigrams.

use stook_catalogue::fold::fold;

/// Maximum length in bytes of a pattern that both stores accept.
pub const MAX_PATTERN: usize = 50_000;

/// Maximum number of a pattern's trigrams to search for; looking up more costs more than it saves.
const MAX_TRIGRAMS: usize = 32;

/// Folds the pieces of a pattern like stored text. Blanks at the ends of the whole pattern are removed, as in a text; a blank next to a wildcard
/// stays, because a word may follow it.
pub fn fold_pieces(pieces: &[String]) -> Vec<String> {
    // a neighbouring character that does not combine with others keeps the blanks
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

/// Returns the first text, in byte order, after all that begin with `prefix`; `None` if there is none.
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

/// Returns trigrams that every text has which contains all pieces.
pub fn trigrams(pieces: &[String]) -> Vec<String> {
    let mut trigrams: Vec<String> = Vec::new();
    for piece in pieces {
        let characters: Vec<char> = piece.chars().collect();
        for trigram in characters.windows(3) {
            let trigram: String = trigram.iter().collect();
            // no store's index has NUL
            if trigrams.len() < MAX_TRIGRAMS && !trigram.contains('\0') && !trigrams.contains(&trigram) {
                trigrams.push(trigram);
            }
        }
    }
    trigrams
}
