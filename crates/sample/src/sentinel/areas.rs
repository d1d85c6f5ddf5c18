//! Named areas that are likenesses of the real ones, and footprints whose relation to them is known: the grid of tiles of Sentinel-2, and
//! masks of Sentinel-1. Files with these areas lie beside the example's definition.

use serde_json::{Value as Json, json};

/// A polygon of four corners, its first one repeated at its end, in longitude and latitude.
pub(super) type Footprint = [(f64, f64); 5];

/// Columns and rows of the grid; a tile is as wide and as high as a degree.
const COLUMNS: u64 = 12;
const ROWS: u64 = 10;
/// The south-western corner of the grid.
const CORNER: (f64, f64) = (-30.0, -5.0);
/// The names of a row's tiles contain the letter of their band of latitudes.
const BANDS: [char; ROWS as usize] = ['M', 'N', 'P', 'Q', 'R', 'S', 'T', 'U', 'V', 'W'];

/// The half of the masks that is north of the equator is ocean west of Greenwich; the half south of it is ice as well, everywhere.
const MASKS: [(&str, Footprint); 2] = [("ocean", rectangle(-20.0, -10.0, 0.0, 10.0)), ("ew_slc", rectangle(-20.0, -10.0, 20.0, 0.0))];

const fn rectangle(west: f64, south: f64, east: f64, north: f64) -> Footprint {
    [(west, south), (east, south), (east, north), (west, north), (west, south)]
}

fn tile(column: u64, row: u64) -> String {
    let letter = |number: u64| char::from(b'A' + number as u8);
    format!("{}{}{}{}", 26 + column / 6, BANDS[row as usize], letter(column % 6), letter(row))
}

/// The footprint of an acquisition of Sentinel-2 in a row of the grid, and the tiles that it meets.
pub(super) fn optical_footprint(random: u64, tiles: u64) -> (Footprint, Vec<String>) {
    let (row, first) = (random % ROWS, random / ROWS % (COLUMNS - tiles + 1));
    let (west, south) = (CORNER.0 + first as f64, CORNER.1 + row as f64);
    let footprint = rectangle(west + 0.125, south + 0.125, west + tiles as f64 - 0.125, south + 0.875);
    (footprint, (first..first + tiles).map(|column| tile(column, row)).collect())
}

/// The footprint of a slice of Sentinel-1 of which so many per cent are ocean, and that reaches the mask of ice or does not.
pub(super) fn radar_footprint(ocean: f64, reaches_ice: bool) -> Footprint {
    let (width, away) = (2.5, (ocean as u64 % 7) as f64);
    let south = if reaches_ice { -1.0 - away } else { 1.0 + away };
    let west = -width * ocean / 100.0;
    rectangle(west, south, west + width, south + 2.0)
}

/// The files beside the definition: their names and what is in them.
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

/// A FeatureCollection, a feature in a line.
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

    /// With `STOOK_WRITE_AREAS` it writes them.
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
