"""What shapely and pyproj say of geometries: reads lines {"written": [a, b], "canonical": [a, b]} of WKT, prints one line for each.

"written" is what a catalogue delivers; it is unwrapped, repaired, closed through the poles and cut here by another method than in Rust:
shapely intersects the unwrapped geometry with strips of 360 degrees. "canonical" is what Stook made of it, compared with that and used
for the relations, scaled to the integers of its grid."""

import json
import sys

import numpy
import shapely
from pyproj import Geod
from shapely.affinity import translate
from shapely.geometry import LineString, MultiPolygon, Polygon, box

UNITS = 5_000_000
GEOD = Geod(ellps="WGS84")


def step(polygon):
    """Degrees after which an edge gets another point, so that pyproj's geodesics follow edges that are straight in longitude and latitude:
    less for narrow polygons, which the bow of a geodesic can be wider than."""
    steepest = min(max(abs(polygon.bounds[1]), abs(polygon.bounds[3]), 45), 85)
    bow = polygon.area / polygon.length / numpy.tan(numpy.radians(steepest))
    return min(0.05, max(0.0001, numpy.sqrt(0.01 * bow)))


def unwrapped(coordinates):
    """Longitudes as a path goes, each edge the short way, and how many times it goes around."""
    path = [coordinates[0]]
    for previous, current in zip(coordinates, coordinates[1:]):
        step = (current[0] - previous[0] + 180) % 360 - 180
        if abs(current[0] - previous[0]) <= 180:
            step = current[0] - previous[0]
        path.append((path[-1][0] + step, current[1]))
    return path, round((path[-1][0] - path[0][0]) / 360)


def from_clear_start(path, turns):
    """A path around the Earth from a point from which it never comes back to where it has been, if there is one. From another point, a
    path that turns back would enclose what it passes twice."""
    for start in range(len(path) - 1):
        tail = [(x + 360 * turns, y) for x, y in path[1 : start + 1]]
        candidate = path[start:] + tail
        ends = sorted((candidate[0][0], candidate[-1][0]))
        if all(ends[0] <= x <= ends[1] for x, _ in candidate):
            return candidate
    return path


def filled(path, turns, pole):
    if turns:
        path = from_clear_start(path, turns)
        path = path + [(path[-1][0], pole), (path[0][0], pole), path[0]]
    if len(path) < 4:
        return Polygon()
    return shapely.make_valid(Polygon(path), method="structure", keep_collapsed=False)


def height(path):
    """Positive if what is north of a path around the Earth is smaller than what is south of it."""
    points = numpy.array(shapely.segmentize(LineString(path), 0.5).coords)
    middle = numpy.sin(numpy.radians((points[1:, 1] + points[:-1, 1]) / 2))
    return float(numpy.sum(middle * numpy.abs(numpy.diff(points[:, 0]))))


def on_map(geometry):
    """Cut into strips of 360 degrees, which are laid on each other."""
    if geometry.is_empty:
        return geometry
    west, _, east, _ = geometry.bounds
    strips = []
    for turn in range(int((west + 180) // 360), int((east + 180) // 360) + 1):
        strip = box(turn * 360 - 180, -90, turn * 360 + 180, 90)
        strips.append(translate(shapely.intersection(geometry, strip), -turn * 360))
    return shapely.union_all(strips)


def polygon(written):
    shell, turns = unwrapped(list(written.exterior.coords))
    holes = [unwrapped(list(hole.coords)) for hole in written.interiors]
    north = height(shell) >= 0
    for hole, hole_turns in holes:
        if hole_turns:
            north = height(hole) >= height(shell)
            break
    pole = 90 if north else -90
    # the planes of shell and holes may be turns apart, so they are laid on the map first
    result = on_map(filled(shell, turns, pole))
    for hole, turns in holes:
        result = shapely.difference(result, on_map(filled(hole, turns, pole)))
    return result


def areas_of(written):
    parts = shapely.get_parts(written) if hasattr(written, "geoms") else [written]
    return shapely.union_all([polygon(part) for part in parts if part.geom_type == "Polygon"])


def geodesic_area(geometry, divided=True):
    if geometry.is_empty:
        return 0.0
    total = 0.0
    for part in getattr(geometry, "geoms", [geometry]):
        if part.geom_type == "Polygon":
            part = shapely.orient_polygons(part)
            total += GEOD.geometry_area_perimeter(shapely.segmentize(part, step(part)) if divided else part)[0]
    return total


def only_areas(geometry):
    if geometry.geom_type in ("Polygon", "MultiPolygon"):
        return geometry
    parts = [part for part in getattr(geometry, "geoms", []) if part.geom_type in ("Polygon", "MultiPolygon")]
    return shapely.union_all(parts) if parts else MultiPolygon()


def on_grid(canonical):
    return shapely.transform(canonical, lambda coordinates: numpy.round(coordinates * UNITS))


def answer(case):
    written = [areas_of(shapely.from_wkt(text)) for text in case["written"]]
    canonical = [shapely.from_wkt(text) for text in case["canonical"]]
    grid = [on_grid(geometry) for geometry in canonical]
    first, second = grid
    result = {"valid": [bool(shapely.is_valid(geometry)) for geometry in grid]}
    areas = [only_areas(geometry) for geometry in canonical]
    result["area"] = [geodesic_area(geometry) for geometry in areas]
    # edges as geodesics between the corners, for the share of footprints for which that makes no difference
    result["plain"] = geodesic_area(areas[0], False)
    # what one has and the other has not, in the plane, in square degrees
    difference = [shapely.symmetric_difference(a, b).area for a, b in zip(written, areas)]
    result["difference"] = difference
    result["around"] = [a.length + b.length for a, b in zip(written, areas)]
    width = 360 * UNITS
    shifted = [translate(first, shift * width) for shift in (-1, 0, 1)]
    result["intersects"] = any(shapely.intersects(geometry, second) for geometry in shifted)
    result["within"] = bool(shapely.covered_by(first, second))
    if areas[0].is_empty:
        result["fraction"] = None
    else:
        common = only_areas(shapely.intersection(areas[0], areas[1]))
        result["fraction"] = geodesic_area(common) / result["area"][0]
    return result


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=False)
