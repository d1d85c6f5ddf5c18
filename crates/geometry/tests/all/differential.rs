//! Geometries next to shapely (GEOS) and pyproj (PROJ): what is read, areas, relations and shares of thousands of footprints.
//!
//! `STOOK_TEST_PYTHON` names a Python that has both (else `~/.cache/stook/venv/bin/python` is tried); without it the test says so and
//! passes. `STOOK_TEST_FOOTPRINTS` is the number of pairs, 1 000 if it is not set.

use crate::support;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use stook_geometry::Geometry;
use support::{Made, Random};

/// A Python that has what the reference needs.
fn python() -> Option<PathBuf> {
    let of_home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/stook/venv/bin/python"));
    let python = std::env::var_os("STOOK_TEST_PYTHON").map(PathBuf::from).or_else(of_home)?;
    let probed = Command::new(&python).args(["-c", "import numpy, pyproj, shapely"]).output();
    if probed.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    stook_testkit::skip::missing(&format!("{} cannot import shapely and pyproj", python.display()));
    None
}

fn reference(python: &Path, cases: &[Value]) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/reference/geometry.py");
    let mut child = Command::new(python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let lines: String = cases.iter().map(|case| case.to_string() + "\n").collect();
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    std::str::from_utf8(&output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

struct Case {
    kinds: [&'static str; 2],
    written: [String; 2],
    geometries: [Geometry; 2],
}

fn cases(count: u64) -> Vec<Case> {
    (0..count)
        .map(|seed| {
            let mut random = Random::new(seed);
            let one = Made::new(&mut random, None);
            let center = (!random.one_in(8)).then(|| one.center());
            let other = if random.one_in(3) { one.neighbour(&mut random) } else { Made::new(&mut random, center) };
            let [one, other] = if random.one_in(2) { [other, one] } else { [one, other] };
            let written = [&one, &other].map(|made| if random.one_in(4) || made.has_half_turn() { made.wkt() } else { made.wrapped().wkt() });
            let geometries = [one.read().geometry, other.read().geometry];
            Case { kinds: [one.kind, other.kind], written, geometries }
        })
        .collect()
}

#[derive(Default)]
struct Tally {
    counted: usize,
    equal: usize,
    holds: usize,
    worst: f64,
}

impl Tally {
    fn agree(&mut self, ours: bool, theirs: bool) {
        self.counted += 1;
        self.equal += usize::from(ours == theirs);
        self.holds += usize::from(ours);
    }

    fn is_within_tolerance(&mut self, difference: f64, allowed: f64) -> bool {
        self.counted += 1;
        self.equal += usize::from(difference <= allowed);
        self.worst = self.worst.max(difference);
        difference <= allowed
    }
}

#[test]
fn geometries_are_read_measured_and_related_as_by_shapely_and_pyproj() {
    let Some(python) = python() else { return };
    let count = std::env::var("STOOK_TEST_FOOTPRINTS").ok().and_then(|count| count.parse().ok()).unwrap_or(1_000);
    let cases = cases(count);
    let asked: Vec<Value> =
        cases.iter().map(|case| json!({ "written": case.written, "canonical": case.geometries.each_ref().map(Geometry::to_wkt) })).collect();
    let answers = reference(&python, &asked);
    assert_eq!(answers.len(), cases.len());
    let [mut shapes, mut areas, mut plain, mut intersects, mut within, mut shares] = std::array::from_fn(|_| Tally::default());
    let mut wrong = Vec::new();
    for (case, theirs) in cases.iter().zip(&answers) {
        let [one, other] = &case.geometries;
        let mut report = |what: &str| {
            wrong.push(format!("{what} {:?}\n  {}\n  {theirs}\n  {}\n  {}", case.kinds, case.written.join("\n  "), one.to_wkt(), other.to_wkt()))
        };
        for (index, geometry) in case.geometries.iter().enumerate() {
            let number = |name: &str| theirs[name][index].as_f64().unwrap();
            if theirs["valid"][index] != true {
                report("not valid");
            }
            // coordinates are rounded to half a unit of the grid, and crossings once more
            let rounding = number("around") * 4e-7 + 1e-12;
            if !shapes.is_within_tolerance(number("difference") / rounding, 1.0) {
                report("another shape");
            }
            if !geometry.areas().is_empty() {
                let area = geometry.area();
                // pyproj is exact to about 0.1 m²
                let error = ((area - number("area")).abs() - 0.5).max(0.0) / area;
                if !areas.is_within_tolerance(error, 1e-3) {
                    report(&format!("area {area}"));
                }
                if index == 0 {
                    plain.is_within_tolerance(((area - theirs["plain"].as_f64().unwrap()).abs() - 0.5).max(0.0) / area, 1e-3);
                }
            }
        }
        let ours = one.intersects(other).unwrap();
        intersects.agree(ours, theirs["intersects"] == true);
        if ours != (theirs["intersects"] == true) {
            report(&format!("intersects {ours}"));
        }
        let ours = one.is_within(other).unwrap();
        within.agree(ours, theirs["within"] == true);
        if ours != (theirs["within"] == true) {
            report(&format!("within {ours}"));
        }
        let ours = one.fraction_in(other).unwrap();
        assert_eq!(ours.is_none(), theirs["fraction"].is_null());
        if let (Some(ours), Some(theirs)) = (ours, theirs["fraction"].as_f64()) {
            if !shares.is_within_tolerance((ours - theirs).abs(), 1e-4) {
                report(&format!("fraction {ours}"));
            }
            shares.holds += usize::from(ours > 0.0 && ours < 1.0);
        }
    }
    println!("shapes: {} of {} equal but for rounding", shapes.equal, shapes.counted);
    println!("areas: {} of {} within 0.1 %, worst {:.2e}", areas.equal, areas.counted, areas.worst);
    println!("areas between corners on geodesics: {} of {} within 0.1 %", plain.equal, plain.counted);
    println!("intersects: {} of {} equal, {} hold", intersects.equal, intersects.counted, intersects.holds);
    println!("within: {} of {} equal, {} hold", within.equal, within.counted, within.holds);
    println!("fraction: {} of {} within 0.0001, worst {:.2e}, {} are parts", shares.equal, shares.counted, shares.worst, shares.holds);
    for wrong in wrong.iter().take(12) {
        println!("{wrong}");
    }
    assert!(wrong.is_empty(), "{} differ", wrong.len());
}
