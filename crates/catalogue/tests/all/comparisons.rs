//! When values of contributors are a conflict: `compare` of a field.

use proptest::prelude::*;
use stook_catalogue::definition::Comparison;
use stook_catalogue::diagnostic::render;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::parse::parse;
use stook_catalogue::value::{FieldType, Value, from_text};

fn definition(ty: &str, compare: &str) -> String {
    format!("catalogue: a\ncollections: {{ x: {{ key: k, fields: {{ k: text, f: {{ type: {ty}, compare: {compare} }} }} }} }}")
}

/// The comparison of a field, and the type of its values.
fn comparison(ty: &str, compare: &str) -> (Option<Comparison>, FieldType) {
    let text = definition(ty, compare);
    let catalogue = parse(&text).unwrap_or_else(|problems| panic!("{}", render("catalogue.yaml", &text, &problems, false)));
    let (_, field) = catalogue.collections[CollectionId::from(0)].field("f").expect("defined");
    (field.compare, field.ty.clone())
}

#[test]
fn values_agree_within_the_distance_and_folded() {
    for (ty, compare, first, second, agree) in [
        ("float", "{ within: 0.01 }", "1.00", "1.01", true),
        ("float", "{ within: 0.01 }", "1.00", "1.0101", false),
        ("float", "{ within: 0.01 }", "100000.00", "100000.01", true),
        ("float", "{ within: 0.01 }", "-0.005", "0.005", true),
        ("float", "{ within: 1e307 }", "-1e308", "1e308", false),
        ("integer", "{ within: 2 }", "7", "9", true),
        ("integer", "{ within: 2 }", "7", "10", false),
        ("integer", "{ within: 2 }", "-9223372036854775808", "9223372036854775807", false),
        ("integer", "{ within: 0 }", "7", "8", false),
        ("timestamp", "{ within: 1h }", "2026-05-01T10:00:00Z", "2026-05-01T13:00:00+02:00", true),
        ("timestamp", "{ within: 1h }", "2026-05-01T10:00:00Z", "2026-05-01T11:00:00.000001Z", false),
        ("date", "{ within: 1d }", "2024-02-29", "2024-03-01", true),
        ("date", "{ within: 1d }", "2024-02-28", "2024-03-01", false),
        ("duration", "{ within: 5s }", "1m", "65s", true),
        ("size", "{ within: 10 kB }", "1 MB", "1010 kB", true),
        ("size", "{ within: 10 kB }", "1 MB", "1011 kB", false),
        ("text", "folded", "The  SEA", "the sea", true),
        ("text", "folded", "A\u{30a}sa", "\u{e5}sa", true),
        ("text", "folded", "The Sea", "A Sea", false),
        ("text", "true", "The Sea", "the sea", false),
    ] {
        let (comparison, ty) = comparison(ty, compare);
        let value = |text: &str| from_text(text, &ty, None).unwrap_or_else(|error| panic!("{text}: {error}"));
        let (first, second) = (value(first), value(second));
        let comparison = comparison.expect("compared");
        assert_eq!(comparison.agree([&first, &second]), agree, "{first:?} {second:?} by {comparison}");
        assert_eq!(comparison.agree([&second, &first]), agree, "{second:?} {first:?} by {comparison}");
    }
    let lists = [["A", "b "], ["a", "B"]].map(|list| Value::List(list.into_iter().map(Value::text).collect()));
    assert!(comparison("[text]", "folded").0.expect("compared").agree(&lists));
    assert_eq!(comparison("text", "false").0, None);
}

#[test]
fn a_comparison_that_does_not_fit_the_type_is_refused() {
    for (ty, compare, message) in [
        ("text", "{ within: 1 }", "`within` compares numbers, timestamps, dates, durations and sizes; `f` is text"),
        ("text", "{ within: 1 }", "texts can be compared folded: compare: folded"),
        ("[float]", "{ within: 1 }", "`f` is [float]"),
        ("float", "folded", "only texts can be compared folded; `f` is float"),
        ("float", "{ within: 1h }", "how far apart values of float may be is a number such as 0.01; `1h` is not, or is negative"),
        ("float", "{ within: -0.1 }", "`-0.1` is not, or is negative"),
        ("integer", "{ within: 0.5 }", "a whole number such as 5"),
        ("timestamp", "{ within: 5 }", "a duration such as 15s or 1h"),
        ("timestamp", "{ within: -1h }", "a duration such as 15s or 1h"),
        ("date", "{ within: 36h }", "whole days such as 2d"),
        ("size", "{ within: much }", "a size such as 10 kB"),
        ("float", "{ withn: 1 }", "did you mean `within`?"),
        ("float", "{}", "`within` is missing"),
        ("text", "fold", "did you mean `folded`?"),
        ("text", "yes", "it is one of true, false, folded"),
    ] {
        let text = definition(ty, compare);
        let problems = parse(&text).err().unwrap_or_else(|| panic!("accepted: {text}"));
        let shown = render("catalogue.yaml", &text, &problems, false);
        assert!(shown.contains(message), "{message}\n{shown}");
    }
}

proptest! {
    #[test]
    fn whether_values_agree_does_not_depend_on_their_order(numbers in proptest::collection::vec(-3.0_f64..3.0, 0..6), distance in 0.0_f64..4.0) {
        let floats: Vec<Value> = numbers.iter().map(|number| Value::float(*number)).collect();
        let whole: Vec<Value> = numbers.iter().map(|number| Value::Int(*number as i64)).collect();
        let texts: Vec<Value> = numbers.iter().map(|number| Value::text(if *number < 0.0 { "A b" } else { "a B" })).collect();
        for (comparison, values) in [
            (Comparison::WithinFloat(distance), &floats),
            (Comparison::Within(distance as u64), &whole),
            (Comparison::Folded, &texts),
            (Comparison::Exact, &whole),
        ] {
            let agree = comparison.agree(values);
            prop_assert_eq!(agree, comparison.agree(values.iter().rev()));
            // what agrees as a whole agrees in pairs
            let pairs = values.iter().all(|first| values.iter().all(|second| comparison.agree([first, second])));
            prop_assert_eq!(agree, pairs);
        }
    }
}
