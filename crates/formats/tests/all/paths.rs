//! What paths find: MARCspec, XPath, JSONPath and column names, each on one small document.

use crate::support;

use stook_catalogue::path::{Path, PathLanguage};
use stook_formats::marc::{MarcBuilder, MarcRecord};
use stook_formats::{Document, ParseContext, SelectedValue, Syntax, select};

fn selected<'d>(document: &'d Document<'_>, path: &str, language: PathLanguage, namespaces: &[(&str, &str)]) -> Vec<SelectedValue<'d>> {
    let namespaces: Vec<(String, String)> = namespaces.iter().map(|(prefix, uri)| ((*prefix).to_owned(), (*uri).to_owned())).collect();
    let path = Path::compile(path, language, &namespaces).unwrap_or_else(|error| panic!("{path}: {}", error.message));
    let mut found = Vec::new();
    select(document, &path, &mut found);
    found
}

fn texts(found: Vec<SelectedValue<'_>>) -> Vec<String> {
    let text = |selected| match selected {
        SelectedValue::Text(text, _) => text.into_owned(),
        SelectedValue::Json(value) => value.to_string(),
    };
    found.into_iter().map(text).collect()
}

const LEADER: &str = "00123nz  a2200100n  4500";
const FIXED: &str = "850101n| azannaabn          |n aaa      ";

fn record() -> MarcRecord<'static> {
    type Data = (&'static str, &'static str, &'static [(&'static str, &'static str)]);
    let fields: [Data; 6] = [
        ("100", "1 ", &[("a", "Dvořák, Antonín,"), ("d", "1841-1904"), ("t", "Rusalka")]),
        ("400", "1 ", &[("a", "Dvorak, A."), ("q", "(Antonín)"), ("d", "1841")]),
        ("400", "0 ", &[("w", "nne"), ("a", "Dvorjak"), ("a", "Second, A b")]),
        ("500", "1 ", &[("0", "id1"), ("a", "X"), ("0", "id2"), ("0", "id3")]),
        ("551", "  ", &[("a", "Praha")]),
        ("551", " 4", &[("a", ""), ("z", "Čechy")]),
    ];
    let built = MarcBuilder::new(LEADER).and_then(|mut builder| {
        builder.control("001", "n1")?;
        builder.control("008", FIXED)?;
        for (tag, indicators, subfields) in fields {
            builder.data(tag, &indicators[..1], &indicators[1..])?;
            for (code, value) in subfields {
                builder.subfield(code, value)?;
            }
        }
        Ok(builder.finish())
    });
    built.unwrap_or_else(|error| panic!("{error}"))
}

/// What a MARCspec finds in the record above.
fn marc(spec: &str) -> Vec<String> {
    texts(selected(&Document::Marc(record()), spec, PathLanguage::Marc, &[]))
}

#[test]
fn repeated_fields_and_subfields_are_found_in_document_order() {
    assert_eq!(marc("400$a"), ["Dvorak, A.", "Dvorjak", "Second, A b"]);
    assert_eq!(marc("500$0"), ["id1", "id2", "id3"]);
    assert_eq!(marc("...$a"), ["Dvořák, Antonín,", "Dvorak, A.", "Dvorjak", "Second, A b", "X", "Praha", ""]);
}

#[test]
fn a_dot_stands_for_any_character_of_a_tag() {
    assert_eq!(marc("1..$a"), ["Dvořák, Antonín,"]);
    assert_eq!(marc(".51$a"), ["Praha", ""]);
    assert_eq!(marc("5.0$a"), ["X"]);
    assert_eq!(marc("6..$a"), Vec::<String>::new());
}

#[test]
fn several_subfields_are_found_in_the_order_of_the_field_not_of_the_spec() {
    assert_eq!(marc("400$d$a"), ["Dvorak, A.", "1841", "Dvorjak", "Second, A b"]);
    assert_eq!(marc("400$a$a"), ["Dvorak, A.", "Dvorjak", "Second, A b"]);
}

#[test]
fn ranges_of_subfields_take_every_code_between() {
    assert_eq!(marc("400$a-q"), ["Dvorak, A.", "(Antonín)", "1841", "Dvorjak", "Second, A b"]);
    assert_eq!(marc("500$0-9"), ["id1", "id2", "id3"]);
    assert_eq!(marc("400$b-c"), Vec::<String>::new());
}

#[test]
fn a_field_alone_is_its_text_or_each_of_its_subfields() {
    assert_eq!(marc("001"), ["n1"]);
    assert_eq!(marc("100"), ["Dvořák, Antonín,", "1841-1904", "Rusalka"]);
    assert_eq!(marc("LDR"), [LEADER]);
    assert_eq!(marc("999"), Vec::<String>::new());
}

#[test]
fn every_value_has_the_number_of_its_field() {
    let document = Document::Marc(record());
    let fields = selected(&document, "4..$a", PathLanguage::Marc, &[]).into_iter().map(|found| match found {
        SelectedValue::Text(_, field) => field,
        SelectedValue::Json(_) => panic!("text"),
    });
    assert_eq!(fields.collect::<Vec<_>>(), [3, 4, 4]);
}

#[test]
fn occurrences_count_from_zero_and_from_the_last() {
    assert_eq!(marc("400[0]$a"), ["Dvorak, A."]);
    assert_eq!(marc("400[1]$a"), ["Dvorjak", "Second, A b"]);
    assert_eq!(marc("400[#]$w"), ["nne"]);
    assert_eq!(marc("...[0-2]"), ["n1", FIXED, "Dvořák, Antonín,", "1841-1904", "Rusalka"]);
    assert_eq!(marc("5..[1-#]$a"), ["Praha", ""]);
    assert_eq!(marc("5..[#-1]$a"), ["Praha", ""]);
    assert_eq!(marc("400[2]$a"), Vec::<String>::new());
    assert_eq!(marc("500$0[0]"), ["id1"]);
    assert_eq!(marc("500$0[1-2]"), ["id2", "id3"]);
    assert_eq!(marc("500$0[#]"), ["id3"]);
    assert_eq!(marc("500$0[#-1]"), ["id2", "id3"]);
    assert_eq!(marc("500$0[3]"), Vec::<String>::new());
    // in each field, and in a range for each code
    assert_eq!(marc("400$a[0]"), ["Dvorak, A.", "Dvorjak"]);
    assert_eq!(marc("500$0-9[0]"), ["id1"]);
    assert_eq!(marc("...$a-z[1]"), ["Second, A b"]);
}

#[test]
fn characters_are_characters_not_bytes() {
    assert_eq!(marc("008/0-5"), ["850101"]);
    assert_eq!(marc("008/6"), ["n"]);
    assert_eq!(marc("008/#"), [" "]);
    assert_eq!(marc("008/35-#"), ["     "]);
    assert_eq!(marc("008/#-39"), [FIXED]);
    assert_eq!(marc("008/40"), Vec::<String>::new());
    assert_eq!(marc("LDR/05"), ["n"]);
    assert_eq!(marc("LDR/0-4"), ["00123"]);
    assert_eq!(marc("LDR/24-30"), Vec::<String>::new());
    assert_eq!(marc("100$a/3"), ["ř"]);
    assert_eq!(marc("100$a/0-5"), ["Dvořák"]);
    assert_eq!(marc("100$a/#-4"), ["onín,"]);
    assert_eq!(marc("001/0"), ["n"]);
}

#[test]
fn indicators_are_values_too() {
    assert_eq!(marc("100^1"), ["1"]);
    assert_eq!(marc("100^2"), [" "]);
    assert_eq!(marc("400^1"), ["1", "0"]);
    assert_eq!(marc("551^2"), [" ", "4"]);
    assert_eq!(marc("001^1"), Vec::<String>::new());
}

#[test]
fn a_condition_on_a_field_chooses_fields() {
    assert_eq!(marc(r"400{^1=\1}$a"), ["Dvorak, A."]);
    assert_eq!(marc(r"400{^1!=\1}$a"), ["Dvorjak", "Second, A b"]);
    assert_eq!(marc(r"551{^2=\\s}$a"), ["Praha"]);
    assert_eq!(marc("400{$q}$a"), ["Dvorak, A."]);
    assert_eq!(marc("400{?$q}$a"), ["Dvorak, A."]);
    assert_eq!(marc("400{!$q}$a"), ["Dvorjak", "Second, A b"]);
    assert_eq!(marc(r"400{$a~\jak}$a"), ["Dvorjak", "Second, A b"]);
    assert_eq!(marc(r"400{$a!~\jak}$a"), ["Dvorak, A."]);
    assert_eq!(marc(r"...{$z=\Čechy}^2"), ["4"]);
}

#[test]
fn a_comparison_needs_one_of_many_values_and_a_negation_none() {
    assert_eq!(marc(r"500{$0=\id2}$a"), ["X"]);
    assert_eq!(marc(r"500{$0!=\id2}$a"), Vec::<String>::new());
    assert_eq!(marc(r"500{$b!=\id2}$a"), ["X"]);
    assert_eq!(marc(r"500{$b=\id2}$a"), Vec::<String>::new());
}

#[test]
fn conditions_are_all_required_and_their_tests_are_alternatives() {
    assert_eq!(marc(r"400{^1=\1}{$d}$a"), ["Dvorak, A."]);
    assert_eq!(marc(r"400{^1=\1}{$w}$a"), Vec::<String>::new());
    assert_eq!(marc(r"400{$q|$w}$w$q"), ["(Antonín)", "nne"]);
    assert_eq!(marc(r"400{^1=\7|$d=\1841}$d"), ["1841"]);
}

#[test]
fn a_condition_on_a_subfield_chooses_subfields() {
    assert_eq!(marc(r"400$a{=\Dvorjak}"), ["Dvorjak"]);
    assert_eq!(marc(r"400$a{~\,\sA}"), ["Dvorak, A.", "Second, A b"]);
    assert_eq!(marc(r"400$a{$d}"), ["Dvorak, A."]);
    assert_eq!(marc(r"400$a{$d=\1841}$q"), ["Dvorak, A.", "(Antonín)"]);
    assert_eq!(marc(r"400$a{!=\Dvorjak}"), ["Dvorak, A.", "Second, A b"]);
}

#[test]
fn a_condition_can_look_at_other_fields_and_the_leader() {
    assert_eq!(marc(r"100$a{008/0-1=\85}"), ["Dvořák, Antonín,"]);
    assert_eq!(marc(r"100$a{008/0-1=\86}"), Vec::<String>::new());
    assert_eq!(marc(r"100{LDR/6=\z}$t"), ["Rusalka"]);
    assert_eq!(marc(r"100{551$a=\Praha}$t"), ["Rusalka"]);
    assert_eq!(marc(r"100{!999}$t"), ["Rusalka"]);
    assert_eq!(marc(r"100{400$d=100$d}$t"), Vec::<String>::new());
    assert_eq!(marc(r"100{$d~400$d}$t"), ["Rusalka"]);
    assert_eq!(marc(r"LDR/5{/6=\z}"), ["n"]);
    assert_eq!(marc(r"001{/0=\n}"), ["n1"]);
    assert_eq!(marc(r"001{=\n1}"), ["n1"]);
}

#[test]
fn a_local_control_field_has_text() {
    let xml = "<record><leader>00000nam a2200000   4500</leader><controlfield tag='FMT'>BK</controlfield>\
        <datafield tag='CAT' ind1=' ' ind2=' '><subfield code='a'>B1</subfield></datafield></record>";
    let Ok(Document::Marc(record)) = Document::parse(xml.as_bytes(), Syntax::MarcXml, &ParseContext::default()) else { panic!("valid") };
    let bytes = support::iso2709(&record);
    for record in [record, MarcRecord::parse(&bytes).expect("valid")] {
        let document = Document::Marc(record);
        assert_eq!(texts(selected(&document, "FMT", PathLanguage::Marc, &[])), ["BK"]);
        assert_eq!(texts(selected(&document, "FMT/0", PathLanguage::Marc, &[])), ["B"]);
        assert_eq!(texts(selected(&document, "CAT$a", PathLanguage::Marc, &[])), ["B1"]);
    }
}

const XML: &str = "<r xmlns='urn:none' xmlns:p='urn:p' xml:lang='cs' n='0'>\
    <x xmlns=''><b n='1'>one<b n='2'>two</b></b><b n='3'/></x>\
    <p:x p:n='4'> text &amp; <!-- no --><p:i>more</p:i><![CDATA[ <end>]]></p:x>\
    <p:x n='5'><p:i>5</p:i><p:i>6</p:i><c xmlns='' m=\"it's\">7</c></p:x></r>";

fn xml(path: &str) -> Vec<String> {
    let Ok(document) = Document::parse(XML.as_bytes(), Syntax::Xml, &ParseContext::default()) else { panic!("well-formed") };
    texts(selected(&document, path, PathLanguage::Xml, &[("q", "urn:p"), ("d", "urn:none")]))
}

#[test]
fn nodes_are_found_once_and_in_document_order() {
    assert_eq!(xml("//b"), ["onetwo", "two", ""]);
    assert_eq!(xml("//b/@n"), ["1", "2", "3"]);
    assert_eq!(xml("x//b"), ["onetwo", "two", ""]);
    assert_eq!(xml("//b//b"), ["two"]);
    assert_eq!(xml("//b/../@n"), ["1"]);
    assert_eq!(xml("//q:i/.."), [" text & more <end>", "567"]);
    assert_eq!(xml("x/b/.."), ["onetwo"]);
}

#[test]
fn a_name_without_prefix_means_no_namespace() {
    assert_eq!(xml("x/b"), ["onetwo", ""]);
    assert_eq!(xml("q:x/q:i"), ["more", "5", "6"]);
    assert_eq!(xml("i"), Vec::<String>::new());
    assert_eq!(xml("/r"), Vec::<String>::new());
    assert_eq!(xml("/d:r/@n"), ["0"]);
    assert!(Path::compile("p:x", PathLanguage::Xml, &[]).is_err_and(|error| error.message.contains("`p` is not bound")));
    assert_eq!(xml("*"), ["onetwo", " text & more <end>", "567"]);
    assert_eq!(xml("@xml:lang"), ["cs"]);
    assert_eq!(xml("q:x/@q:n"), ["4"]);
    assert_eq!(xml("q:x/@n"), ["5"]);
}

#[test]
fn a_value_is_all_text_below_without_comments() {
    assert_eq!(xml("q:x[1]"), [" text & more <end>"]);
    assert_eq!(xml("."), ["onetwo text & more <end>567"]);
    assert_eq!(xml("q:x[1]/text()"), [" text & ", " <end>"]);
    assert_eq!(xml("//b/text()"), ["one", "two"]);
}

#[test]
fn positions_count_from_one_and_per_parent() {
    assert_eq!(xml("x/b[2]/@n"), ["3"]);
    assert_eq!(xml("x/b[3]"), Vec::<String>::new());
    assert_eq!(xml("//b[1]/@n"), ["1", "2"]);
    assert_eq!(xml("//q:i[1]"), ["more", "5"]);
    assert_eq!(xml("q:x[2]/q:i[2]"), ["6"]);
    assert_eq!(xml("q:x[@n][1]/q:i"), ["5", "6"]);
}

#[test]
fn predicates_test_attributes_children_and_the_node_itself() {
    assert_eq!(xml("//b[@n='2']"), ["two"]);
    assert_eq!(xml("//b[@n!='2']/@n"), ["1", "3"]);
    assert_eq!(xml("//b[@m!='2']"), Vec::<String>::new());
    assert_eq!(xml("//b[not(@n='2')]/@n"), ["1", "3"]);
    assert_eq!(xml("q:x[not(@n)]/q:i"), ["more"]);
    assert_eq!(xml("q:x[q:i='6']/@n"), ["5"]);
    assert_eq!(xml("q:x[c]/c"), ["7"]);
    assert_eq!(xml("//q:i[.='5']"), ["5"]);
    assert_eq!(xml("//@n[.='3']"), ["3"]);
    assert_eq!(xml("//c[@m=\"it's\"]"), ["7"]);
    assert_eq!(xml("//*[@*]/@n"), ["0", "1", "2", "3", "5"]);
}

#[test]
fn an_expression_that_gives_no_nodes_gives_one_value_or_none() {
    assert_eq!(xml("count(//b)"), ["3"]);
    assert_eq!(xml("sum(//q:i[number(.) = number(.)]) div 2"), ["5.5"]);
    assert_eq!(xml("sum(//q:i)"), Vec::<String>::new());
    assert_eq!(xml("string(//b[2])"), Vec::<String>::new());
    assert_eq!(xml("concat(//c, '!')"), ["7!"]);
    assert_eq!(xml("//c = 7"), ["true"]);
}

const JSON: &str = r#"{"a": {"b": [1, "two", null, {"c": true}], "": 0}, "none": null, "list": [{"n": 1, "x": "p"}, {"n": 2}], "é": "e"}"#;

fn json(path: &str) -> Vec<String> {
    let Ok(document) = Document::parse(JSON.as_bytes(), Syntax::Json, &ParseContext::default()) else { panic!("valid") };
    texts(selected(&document, path, PathLanguage::Json, &[]))
}

#[test]
fn member_names_lead_to_values() {
    assert_eq!(json("$.list[0].x"), ["\"p\""]);
    assert_eq!(json("$.a.b"), ["[1,\"two\",null,{\"c\":true}]"]);
    assert_eq!(json("$['a']['b'][3]['c']"), ["true"]);
    assert_eq!(json("$.é"), ["\"e\""]);
    assert_eq!(json("$.a.b.c"), Vec::<String>::new());
    assert_eq!(json("$.missing.b"), Vec::<String>::new());
}

#[test]
fn null_is_nothing() {
    assert_eq!(json("$.none"), Vec::<String>::new());
    assert_eq!(json("$.a.b[*]"), ["1", "\"two\"", "{\"c\":true}"]);
}

#[test]
fn json_paths_select_filter_and_descend() {
    assert_eq!(json("$.list[*].n"), ["1", "2"]);
    assert_eq!(json("$.list[-1].n"), ["2"]);
    assert_eq!(json("$.list[?@.x == 'p'].n"), ["1"]);
    assert_eq!(json("$.list[?@.n > 1].n"), ["2"]);
    assert_eq!(json("$..n"), ["1", "2"]);
    assert_eq!(json("$.a.b[0:2]"), ["1", "\"two\""]);
}

#[test]
fn a_column_is_found_by_its_name_unless_it_is_empty() {
    let head = ParseContext::new(Syntax::Csv, b"id,\"the, name\",id,");
    let Ok(document) = Document::parse(b"1,\"x, y\",2,", Syntax::Csv, &head) else { panic!("a row") };
    let column = |name| texts(selected(&document, name, PathLanguage::Csv, &[]));
    assert_eq!(column("id"), ["1"]);
    assert_eq!(column("the, name"), ["x, y"]);
    assert_eq!(column(""), Vec::<String>::new());
    assert_eq!(column("ID"), Vec::<String>::new());
}

#[test]
fn a_path_of_another_language_finds_nothing() {
    let document = Document::Marc(record());
    assert_eq!(selected(&document, "$.a", PathLanguage::Json, &[]), []);
    assert_eq!(selected(&document, "//a", PathLanguage::Xml, &[]), []);
}
