//! Named areas that resemble the real ones, and footprints with known relations to them: the grid of Sentinel-2 tiles, and masks of Sentinel-1. Files
//! with these areas are next to the example's definition.

use serde_json::{Value as Json, json};

/// A polygon of four corners, with the first one repeated at the end, as longitude and latitude.
pub(super) type Footprint = [(f64, f64); 5];

/// Columns and rows of the grid; a tile is one degree wide and high.
const COLUMNS: u64 = 12;
const ROWS: u64 = 10;
/// The south-western corner of the grid.
const CORNER: (f64, f64) = (-30.0, -5.0);
/// Letters of latitude bands, which names of tiles contain.
const BANDS: [char; ROWS as usize] = ['M', 'N', 'P', 'Q', 'R', 'S', 'T', 'U', 'V', 'W'];

/// The ocean mask is west of Greenwich, on both sides of the equator; the ice mask is south of the equator, on both sides of Greenwich.
const MASKS: [(&str, Footprint); 2] = [("ocean", rectangle(-20.0, -10.0, 0.0, 10.0)), ("ew_slc", rectangle(-20.0, -10.0, 20.0, 0.0))];

const fn rectangle(west: f64, south: f64, east: f64, north: f64) -> Footprint {
    [(west, south), (east, south), (east, north), (west, north), (west, south)]
}

fn tile(column: u64, row: u64) -> String {
    let letter = |number: u64| char::from(b'A' + number as u8);
    format!("{}{}{}{}", 26 + column / 6, BANDS[row as usize], letter(column % 6), letter(row))
}

/// Returns the footprint of a Sentinel-2 acquisition in a row of the grid, and the tiles it meets.
pub(super) fn optical_footprint(random: u64, tiles: u64) -> (Footprint, Vec<String>) {
    let (row, first) = (random % ROWS, random / ROWS % (COLUMNS - tiles + 1));
    let (west, south) = (CORNER.0 + first as f64, CORNER.1 + row as f64);
    let footprint = rectangle(west + 0.125, south + 0.125, west + tiles as f64 - 0.125, south + 0.875);
    (footprint, (first..first + tiles).map(|column| tile(column, row)).collect())
}

/// Returns the footprint of a Sentinel-1 slice with this percentage of ocean, which reaches the ice mask or not.
pub(super) fn radar_footprint(ocean: f64, reaches_ice: bool) -> Footprint {
    let (width, away) = (2.5, (ocean as u64 % 7) as f64);
    let south = if reaches_ice { -1.0 - away } else { 1.0 + away };
    let west = -width * ocean / 100.0;
    rectangle(west, south, west + width, south + 2.0)
}

/// Returns the files next to the definition: names and contents.
pub fn files() -> [(&'static str, String); 2] {
    let mut tiles = Vec::new();
    for row in 0..ROWS {
        for column in 0..COLUMNS {
            let (west, south) = (CORNER.0 + column as f64, CORNER.1 + row as f64);
            tiles.push((tile(column, row), rectangle(west, south, west + 1.0, south + 1.0)));
        }
    }
    let masks = MASKS.map(|(name, mask)| (name.to_owned(), mask));
    [("tiles.geojson", collection(&tiles)), ("masks.geojson", collection(&masks))]
}

/// Formats a FeatureCollection, one feature per line.
fn collection(areas: &[(String, Footprint)]) -> String {
    let feature = |(name, ring): &(String, Footprint)| {
        let ring: Vec<Json> = ring.iter().map(|(x, y)| json!([x, y])).collect();
        json!({ "type": "Feature", "properties": { "name": name }, "geometry": { "type": "Polygon", "coordinates": [ring] } }).to_string()
    };
    let features: Vec<String> = areas.iter().map(feature).collect();
    format!("{{\"type\":\"FeatureCollection\",\"features\":[\n{}\n]}}\n", features.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// With `STOOK_WRITE_AREAS` the test writes the files.
    #[test]
    fn the_files_beside_the_definition_have_these_areas() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sentinel");
        for (name, text) in files() {
            if std::env::var_os("STOOK_WRITE_AREAS").is_some() {
                std::fs::write(folder.join(name), &text).unwrap();
            }
            assert!(std::fs::read_to_string(folder.join(name)).unwrap() == text, "{name}: run the test with STOOK_WRITE_AREAS=1");
        }
    }
}
