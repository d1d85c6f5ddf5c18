//! Steps bound the time of an evaluation: all text that is read costs steps, and so does everything that is evaluated again for every node.

use std::fmt::Write as _;
use stook_xpath::tree::XmlTree;
use stook_xpath::{XPath, XPathValue, evaluate};

fn tree(xml: &str) -> XmlTree<'static> {
    XmlTree::parse(xml.as_bytes()).expect("a document")
}

/// The smallest number of steps with which an expression is evaluated.
fn smallest_step_limit(expression: &str, tree: &XmlTree<'_>) -> u64 {
    let xpath = XPath::parse(expression, &[]).unwrap_or_else(|error| panic!("{expression}: {error}"));
    let (mut known_too_few, mut known_enough) = (0, 1 << 40);
    assert!(evaluate(&xpath, tree, known_enough).is_ok(), "{expression}");
    while known_enough - known_too_few > 1 {
        let middle = known_too_few + (known_enough - known_too_few) / 2;
        match evaluate(&xpath, tree, middle) {
            Ok(_) => known_enough = middle,
            Err(_) => known_too_few = middle,
        }
    }
    known_enough
}

const NODES: u64 = 100;

const LENGTH: u64 = 32_000;

/// Many nodes next to a long text that is one node: reading the text as a value copies nothing.
fn tree_with_long_text() -> XmlTree<'static> {
    let (text, nodes) = ("7".repeat(LENGTH as usize), "<n/>".repeat(NODES as usize));
    tree(&format!("<r xml:lang='{text}'><t a='{text}'>{text}</t>{nodes}</r>"))
}

#[test]
fn reading_a_long_text_for_every_node_costs_steps_for_its_length_each_time() {
    let tree = tree_with_long_text();
    // each is true for no node: every node is visited
    let conditions = [
        "contains(/r/t, 'x')",
        "starts-with(/r/t, concat(/r/t, 'x')) or starts-with(/r/t, /r/t/@a) = false()",
        "string-length(/r/t) = 1",
        "normalize-space(/r/t) = 'x'",
        "substring(/r/t, 2) = 'x'",
        "substring-before(/r/t, 'x') = 'x'",
        "substring-after(/r/t, 'x') = 'x'",
        "translate(/r/t, '8', '9') = 'x'",
        "translate('a', /r/t, 'x') = 'x'",
        "concat(/r/t, 'x') = 'x'",
        "string(/r/t) != string(/r/t/@a)",
        "/r/t != string(/r/t/@a)",
        "/r/t = 1",
        "number(/r/t) = 1",
        "sum(/r/t) = 1",
        "/r/t < /r/t/@a",
        "not(/r/t = /r/t/@a)",
        "lang(/r/t/@a) = false()",
        "id(/r/t)",
        "contains('a', /r/t)",
    ];
    for condition in conditions {
        let expression = format!("count(//n[{condition}])");
        let xpath = XPath::parse(&expression, &[]).unwrap_or_else(|error| panic!("{expression}: {error}"));
        let read = NODES * LENGTH;
        assert!(evaluate(&xpath, &tree, read / 64 - 1).is_err(), "{expression}: too few steps for {read} bytes");
        assert_eq!(evaluate(&xpath, &tree, read), Ok(XPathValue::Number(0.0)), "{expression}: too many steps for {read} bytes");
    }
}

#[test]
fn every_evaluation_of_a_part_of_an_expression_costs_steps() {
    let tree = tree(&format!("<r>{}</r>", "<n/>".repeat(1_000)));
    for (part, between) in [("1", " + "), ("'a'", " = "), ("true()", " and "), ("position()", " - "), ("contains('ab', 'b')", " and ")] {
        let of = |parts: usize| smallest_step_limit(&format!("count(//n[{}])", vec![part; parts].join(between)), &tree);
        let (few_parts, many_parts) = (of(10), of(50));
        assert!(many_parts >= few_parts + 40 * 1_000, "{part}: {few_parts} and {many_parts} steps");
    }
}

#[test]
fn id_finds_many_ids_in_one_pass() {
    const IDS: usize = 4_000;
    let mut xml = String::from("<r>");
    for id in 0..IDS {
        // only the first element with an id has it
        let _ = write!(xml, "<n xml:id='i{id}'/><m xml:id='i{id}'/>");
    }
    let wanted: Vec<String> = (0..IDS).rev().step_by(2).map(|id| format!("i{id}")).collect();
    let _ = write!(xml, "<w>{}</w></r>", wanted.join(" "));
    let tree = tree(&xml);
    let count = |expression: &str| evaluate(&XPath::parse(expression, &[]).expect("an expression"), &tree, 100_000).expect("few steps");
    assert_eq!(count("count(id(//w))"), XPathValue::Number(IDS as f64 / 2.0));
    assert_eq!(count("count(id(//w)[self::m])"), XPathValue::Number(0.0));
}

#[test]
fn namespaces_of_deep_nodes_cost_steps_for_all_their_ancestors() {
    let declared: String = (0..50).map(|number| format!(" xmlns:p{number}='u{number}'")).collect();
    let tree = tree(&format!("<r{declared}>{}{}</r>", "<n>".repeat(20), "</n>".repeat(20)));
    let steps = smallest_step_limit("count(//n/namespace::*[name() = 'x'])", &tree);
    assert!(steps >= 20 * 50 * 50, "{steps} steps");
}

/// The replacement of characters, by either way of finding it.
#[test]
fn translate_uses_the_first_replacement_of_a_character() {
    let tree = tree("<r/>");
    for (text, from, to, expected) in [
        ("bar", "abc", "ABC", "BAr"),
        ("--aaa--", "abc-", "ABC", "AAA"),
        ("aab", "aa", "xy", "xxb"),
        ("aab", "aa", "", "b"),
        ("äöü", "üöä", "uoa", "aou"),
        ("abc", "", "xyz", "abc"),
    ] {
        let expression = format!("translate('{text}', '{from}', '{to}')");
        let found = evaluate(&XPath::parse(&expression, &[]).expect("an expression"), &tree, 1_000);
        assert_eq!(found, Ok(XPathValue::Text(expected.into())), "{expression}");
    }
}
