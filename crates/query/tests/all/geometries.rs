//! Conditions on geometries, as they are written, and the errors for texts that are no geometries.

use crate::support;

use stook_catalogue::diagnostic::render;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::value::{FieldType, Value, from_text};
use stook_store::Queries;
use stook_store::plan::{Aggregate, AggregateFunction, Comparison, GeometryRelation, PlanColumn};
use support::{Record, compiled, definition, filled, main_tenant, try_compile};

const DEFINITION: &str = "
catalogue: geometries
collections:
  product:
    key: name
    fields:
      name: text
      footprint: { type: geometry, index: intersects }
      within: integer
      size: integer
";

fn geometry(text: &str) -> Value {
    from_text(text, &FieldType::Geometry, None).expect(text)
}

#[test]
fn conditions_test_the_relation_of_a_geometry() {
    let catalogue = definition(DEFINITION);
    let area = "POLYGON((5 45, 15 45, 15 55, 5 55, 5 45))";
    for (query, relation, wanted) in [
        ("product footprint intersects bbox(5, 45, 15, 55)", GeometryRelation::Intersects, area),
        ("product footprint within bbox( 5,45 , 15,55 )", GeometryRelation::Within, area),
        ("product footprint intersects 'POLYGON((5 45, 15 45, 15 55, 5 55, 5 45))'", GeometryRelation::Intersects, area),
        ("product | grep name, footprint within \"POLYGON((5 45, 5 55, 15 55, 15 45, 5 45))\"", GeometryRelation::Within, area),
        (
            "product footprint intersects bbox(170, -20, -170, 20)",
            GeometryRelation::Intersects,
            "POLYGON((170 -20, 190 -20, 190 20, 170 20, 170 -20))",
        ),
        ("product footprint intersects bbox(1e1, 5, 10, 5.0)", GeometryRelation::Intersects, "POINT(10 5)"),
        (
            "product footprint within bbox(-180, -90, 180, 90)",
            GeometryRelation::Within,
            "POLYGON((-180 -90, 0 -90, 180 -90, 180 90, 0 90, -180 90, -180 -90))",
        ),
        // a box wider than half of the Earth
        ("product footprint within bbox(-120, 0, 120, 10)", GeometryRelation::Within, "POLYGON((-120 0, 0 0, 120 0, 120 10, 0 10, -120 10, -120 0))"),
    ] {
        let conditions = compiled(&catalogue, query).plan.conditions;
        let Value::Geometry(wanted) = geometry(wanted) else { panic!("a geometry") };
        assert_eq!(conditions.len(), 1, "{query}");
        assert_eq!(conditions[0].test, Comparison::Related(relation, wanted), "{query}");
    }
    // these operators can also be names of fields
    assert_eq!(compiled(&catalogue, "product within=5").plan.conditions[0].test, Comparison::Equal(Value::Int(5)));
    assert_eq!(compiled(&catalogue, "product size=1 within=5, footprint within bbox(0, 0, 1, 1)").plan.conditions.len(), 3);
}

#[test]
fn errors_point_at_the_wrong_part() {
    let catalogue = definition(DEFINITION);
    for (query, at, message, help) in [
        ("product footprint intersect bbox(1, 2, 3, 4)", "intersect", "expected a comparison after `footprint`", "did you mean `intersects`?"),
        ("product footprint intersects box(1, 2, 3, 4)", "box", "expected `bbox(west, south, east, north)`", "did you mean `bbox`?"),
        ("product footprint intersects POINT(1 2)", "POINT", "expected `bbox(west, south, east, north)`", "for example: intersects bbox("),
        ("product footprint within", "", "expected `bbox(west, south, east, north)`", "for example: intersects bbox("),
        ("product footprint within bbox(1, 2, 3)", "bbox(1, 2, 3)", "expected four sides of a box, there are 3", "west, south, east and north"),
        ("product footprint within bbox(1, 2, 3, 4", "", "expected `,` or `)`", "for example"),
        ("product footprint within bbox(1, two, 3, 4)", "two", "expected a number of degrees from -90 to 90", "bbox(west, south, east, north)"),
        ("product footprint within bbox(1, 2, 300, 4)", "300", "expected a number of degrees from -180 to 180", "bbox(west, south, east, north)"),
        ("product footprint within bbox(nan, 2, 3, 4)", "nan", "expected a number of degrees", "bbox(west, south, east, north)"),
        ("product footprint within bbox(1, 5, 3, 4)", "5", "the south of this box, 5, is north of its north, 4", "bbox(west, south, east, north)"),
        ("product footprint within 'POINT(1 95)'", "'POINT(1 95)'", "latitude 95 is not between -90 and 90", "for example"),
        ("product footprint within 'POLYGON((0 0, 2 2, 2 0, 0 2, 0 0))'", "'POLYGON((0 0, 2 2, 2 0, 0 2, 0 0))'", "crosses itself", "for example"),
        ("product footprint within \"P*\"", "\"P*\"", "a geometry has no `*`", "for example"),
        ("product size within bbox(1, 2, 3, 4)", "size", "`size` is of type integer, not a geometry", "how geometries lie"),
        ("product footprint='POINT(1 2)'", "footprint", "which cannot be compared", "footprint intersects bbox("),
        ("product footprint intersects [1, 2]", "[", "expected `bbox(west, south, east, north)`", "for example"),
        ("product | sort footprint", "footprint", "which has no order", "sort by"),
    ] {
        let problem = try_compile(&catalogue, query).err().unwrap_or_else(|| panic!("accepted: {query}"));
        let shown = render("query", query, std::slice::from_ref(&problem), false);
        assert_eq!(&query[problem.span.clone()], at, "{shown}");
        assert!(problem.message.contains(message), "{shown}");
        assert!(problem.help.as_deref().unwrap_or_default().contains(help), "{shown}");
    }
}

#[test]
fn answers_are_exact_and_of_every_kind() {
    let catalogue = definition(DEFINITION);
    let collection = &catalogue.collections[CollectionId::from(0)];
    let records: Vec<Record> = [
        ("in", Some("POLYGON((6 46, 7 46, 7 47, 6 47, 6 46))"), 1),
        ("across", Some("POLYGON((14 50, 17 50, 17 52, 14 52, 14 50))"), 2),
        // its bounding box intersects the other box, but it does not
        ("near", Some("POLYGON((4 56, 16 56.5, 16 44, 15.5 44, 15.5 55.5, 4 55.5, 4 56))"), 4),
        ("far", Some("POLYGON((-5 0, -4 0, -4 1, -5 1, -5 0))"), 8),
        ("nowhere", None, 16),
    ]
    .into_iter()
    .map(|(name, footprint, size)| {
        let golden = vec![Value::text(name), footprint.map_or(Value::Null, geometry), Value::Null, Value::Int(size)];
        Record { golden, ..Record::empty(name, collection) }
    })
    .collect();
    let filled = filled(catalogue.clone(), &[(main_tenant(), &records)]);
    let keys = |query: &str| -> Vec<String> {
        let plan = compiled(&catalogue, query).plan;
        let (page, total) = filled.store.find_and_count(&plan).expect("found");
        assert_eq!((page.rows.len() as u64, filled.store.count(&plan).expect("counted")), (total, total), "{query}");
        page.rows.iter().map(|row| row[0].show(&FieldType::Text)).collect()
    };
    let area = "bbox(5, 45, 15, 55)";
    assert_eq!(keys(&format!("product footprint intersects {area} | grep key")), ["across", "in"]);
    assert_eq!(keys(&format!("product footprint within {area} | grep key")), ["in"]);
    assert_eq!(keys(&format!("product footprint intersects {area} size>1 | grep key")), ["across"]);
    assert_eq!(keys(&format!("product footprint intersects {area} footprint intersects bbox(16, 40, 18, 60) | grep key")), ["across"]);
    assert_eq!(keys(&format!("product footprint intersects {area} | grep key | sort size-")), ["across", "in"]);
    assert_eq!(keys("product footprint intersects bbox(100, 0, 101, 1) | grep key"), Vec::<String>::new());
    let plan = compiled(&catalogue, &format!("product footprint intersects {area}")).plan;
    let size = Aggregate { function: AggregateFunction::Sum, column: PlanColumn::Field(3.into()) };
    assert_eq!(filled.store.aggregate(&plan, &[size]).expect("summed"), [Value::Int(3)]);
    let explanation = filled.store.explain(&plan).expect("explained").join("\n");
    assert!(explanation.contains("finds records through the boxes around footprint"), "{explanation}");
}
