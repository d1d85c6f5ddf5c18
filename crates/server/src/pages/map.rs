//! Geometries on a map with meridians and parallels; each shape links to its record.

use maud::{Markup, html};
use serde_json::Value as Json;
use stook_catalogue::value::{FieldType, Geometry, Value, from_json};

/// Max points of all shapes of a map.
const MAX_POINTS: usize = 3_000;
/// Up to this number, shapes are filled more strongly, because few overlap.
const MAX_STRONGLY_FILLED: usize = 10;
/// Min degrees that a map shows.
const MIN_DEGREES: f64 = 0.5;
/// Outlines of land are shown on maps of at least so many degrees. They have about as many positions as a map of the whole Earth needs, and would be wrong
/// by a visible distance on smaller ones.
const MIN_LAND_DEGREES: f64 = 5.0;
/// Their address; an asset, so that a browser reads them once.
const LAND: &str = concat!("/assets/land.svg?", env!("CARGO_PKG_VERSION"), "#land");
/// The allowed ratio of width to height. A map outside this range is enlarged to it.
const RATIO: std::ops::RangeInclusive<f64> = 1.6..=2.5;
/// Possible distances between meridians, and between parallels, in degrees.
const STEPS: [f64; 12] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 45.0, 60.0, 90.0];

/// A geometry to draw, with its label and link.
pub(super) struct MapFeature {
    pub label: String,
    pub href: Option<String>,
    pub geometry: Json,
}

/// Draws a map of the readable geometries; empty if there are none. `column` is the name of their field.
pub(super) fn map(column: &str, features: &[MapFeature]) -> Markup {
    let id = format!("map-{column}");
    let geometry_of = |feature: &MapFeature| match from_json(&feature.geometry, &FieldType::Geometry, None) {
        Ok(Value::Geometry(geometry)) => Some(geometry),
        _ => None,
    };
    let shapes: Vec<_> = features.iter().filter_map(|feature| Some((feature, geometry_of(feature)?))).collect();
    let Some(view) = View::of_geometries(shapes.iter().map(|(_, geometry)| &**geometry)) else { return html! {} };
    let points = (MAX_POINTS / shapes.len().max(1)).max(8);
    let digits = if view.height() < 2.0 { 4 } else { 3 };
    let (size, line_distance) = (view.height() * 0.045, view.step());
    html! {
        svg.map viewBox=(view.shown()) role="group" aria-label={ "Map of " (column) } {
            @if view.height() >= MIN_LAND_DEGREES {
                g.land aria-hidden="true" transform={ "scale(" (view.narrowed) " 1)" } {
                    @for turn in view.turns() { use href=(LAND) x=(turn) {} }
                }
            }
            g.grid aria-hidden="true" {
                @for meridian in multiples(view.west, view.east, line_distance) {
                    line x1=(view.x(meridian)) x2=(view.x(meridian)) y1=(-view.north) y2=(-view.south) {}
                    text x=(view.x(meridian)) y=(-view.south - size * 0.4) dx=(size * 0.2) font-size=(size) { (degrees(meridian, "E", "W")) }
                }
                @for parallel in multiples(view.south, view.north, line_distance) {
                    line x1=(view.x(view.west)) x2=(view.x(view.east)) y1=(-parallel) y2=(-parallel) {}
                    text x=(view.x(view.west)) y=(-parallel) dx=(size * 0.2) dy=(-size * 0.2) font-size=(size) { (degrees(parallel, "N", "S")) }
                }
            }
            g.many[shapes.len() > MAX_STRONGLY_FILLED] transform={ "scale(" (view.narrowed) " 1)" } {
                g #(id) {
                    @for (feature, geometry) in &shapes {
                        @let path = html! { path d=(geometry.simplified(points).svg_path(digits)) { title { (feature.label) } } };
                        @match &feature.href {
                            Some(href) => a href=(href) aria-label=(feature.label) { (path) },
                            None => (path),
                        }
                    }
                }
                // on a map that extends across the antimeridian: a copy of all shapes, moved by 360 degrees
                @if view.east > 180.0 { use href={ "#" (id) } x="360" aria-hidden="true" {} }
            }
        }
    }
}

/// The part of the Earth that a map shows, in degrees. Longitudes beyond the antimeridian exceed 180.
struct View {
    west: f64,
    south: f64,
    east: f64,
    north: f64,
    /// The length of a degree of longitude relative to one of latitude.
    narrowed: f64,
}

impl View {
    fn of_geometries<'g>(geometries: impl Iterator<Item = &'g Geometry>) -> Option<Self> {
        let boxes: Vec<_> = geometries.flat_map(Geometry::bounds).collect();
        let south = boxes.iter().map(|bounds| bounds.south()).reduce(f64::min)?;
        let north = boxes.iter().map(|bounds| bounds.north()).reduce(f64::max)?;
        let (west, east) = around(boxes.iter().map(|bounds| (bounds.west(), bounds.east())).collect());
        let narrowed = ((south + north) / 2.0).to_radians().cos().max(0.2);
        let (mut width, mut height) = ((east - west).max(MIN_DEGREES) * 1.2, (north - south).max(MIN_DEGREES) * 1.2);
        height = height.max(width * narrowed / RATIO.end());
        width = width.max(height * RATIO.start() / narrowed).min(360.0);
        let (middle, centre) = ((west + east) / 2.0, (south + north) / 2.0);
        let (south, north) = ((centre - height / 2.0).max(-90.0), (centre + height / 2.0).min(90.0));
        Some(Self { west: middle - width / 2.0, south, east: middle + width / 2.0, north, narrowed })
    }

    fn height(&self) -> f64 {
        self.north - self.south
    }

    fn x(&self, longitude: f64) -> f64 {
        longitude * self.narrowed
    }

    fn shown(&self) -> String {
        format!("{:.4} {:.4} {:.4} {:.4}", self.x(self.west), -self.north, self.x(self.east - self.west), self.height())
    }

    /// By how many degrees a map of the whole Earth is moved where it is seen.
    fn turns(&self) -> impl Iterator<Item = i16> {
        let (west, east) = (self.west, self.east);
        [-360, 0, 360].into_iter().filter(move |turn| west < f64::from(turn + 180) && east > f64::from(turn - 180))
    }

    /// The smallest distance that gives at most about eight lines.
    fn step(&self) -> f64 {
        let longer = self.x(self.east - self.west).max(self.height());
        STEPS.into_iter().find(|step| longer / step <= 8.0).unwrap_or(90.0)
    }
}

/// Returns the range of longitudes that leaves out the widest gap.
fn around(mut spans: Vec<(f64, f64)>) -> (f64, f64) {
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let first = spans.first().map_or(0.0, |span| span.0);
    let (mut end, mut widest, mut found) = (first, 0.0, None);
    for (low, high) in &spans {
        if low - end > widest {
            (widest, found) = (low - end, Some((*low, end + 360.0)));
        }
        end = end.max(*high);
    }
    // the range does not cross the antimeridian if the gap there is the widest
    if first + 360.0 - end >= widest { (first, end) } else { found.unwrap_or((first, end)) }
}

/// Returns the multiples of a step between two numbers.
fn multiples(low: f64, high: f64, step: f64) -> impl Iterator<Item = f64> {
    let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
    (first..=last).map(move |number| number as f64 * step)
}

/// Formats a longitude or a latitude.
fn degrees(value: f64, above: &str, below: &str) -> String {
    let value = if value > 180.0 {
        value - 360.0
    } else if value < -180.0 {
        value + 360.0
    } else {
        value
    };
    let number = format!("{:.1}", value.abs());
    let number = number.trim_end_matches(".0");
    match value {
        0.0 => "0°".to_owned(),
        _ if value.abs() == 180.0 => "180°".to_owned(),
        _ => format!("{number}°{}", if value > 0.0 { above } else { below }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn square(west: f64, south: f64) -> Json {
        json!({ "type": "Polygon", "coordinates": [[[west, south], [west + 2.0, south], [west + 2.0, south + 2.0], [west, south + 2.0], [west, south]]] })
    }

    fn drawn(features: &[Json]) -> String {
        let features: Vec<MapFeature> =
            features.iter().map(|geometry| MapFeature { label: "one".into(), href: Some("/x?a=1&b=2".into()), geometry: geometry.clone() }).collect();
        map("m", &features).into_string()
    }

    #[test]
    fn a_map_shows_shapes_with_links_and_a_labelled_grid() {
        let map = drawn(&[square(10.0, 50.0)]);
        assert!(map.contains("d=\"M10 -50L12 -50L12 -52L10 -52Z\"") && map.contains("href=\"/x?a=1&amp;b=2\""), "{map}");
        assert!(map.contains(">11°E<") && map.contains(">51°N<"), "{map}");
        assert_eq!(drawn(&[json!(null), json!({ "type": "Nothing" })]), "");
    }

    #[test]
    fn land_is_shown_where_its_outlines_are_good_enough() {
        let across = |west: f64, east: f64| {
            let ring = [[west, 0.0], [east, 0.0], [east, 8.0], [west, 8.0], [west, 0.0]];
            drawn(&[json!({ "type": "Polygon", "coordinates": [ring] })])
        };
        let copies = |map: &str| map.matches("land.svg?").count();
        assert_eq!((copies(&across(10.0, 20.0)), copies(&across(175.0, 185.0)), copies(&drawn(&[square(10.0, 50.0)]))), (1, 2, 0));
        assert!(across(175.0, 185.0).contains("#land\" x=\"360\""));
    }

    #[test]
    fn a_map_extends_across_the_antimeridian_where_that_is_shorter() {
        let map = drawn(&[square(177.0, 10.0), square(-179.0, 10.0)]);
        assert!(map.contains("<use href=\"#map-m\" x=\"360\"") && map.contains(">180°<") && map.contains(">179°W<"), "{map}");
        assert_eq!(around(vec![(177.0, 179.0), (-179.0, -177.0)]), (177.0, 183.0));
        assert_eq!(around(vec![(-10.0, 0.0), (5.0, 20.0)]), (-10.0, 20.0));
    }
}
