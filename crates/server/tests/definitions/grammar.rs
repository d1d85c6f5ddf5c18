//! Random definitions: any keyword where it is allowed, with corner cases more often than people write them.
//!
//! A definition is a tree like parsed YAML, so that shrinking needs to know nothing of the language. Names begin with a prefix, so that definitions
//! with different prefixes can share a store.

use serde_json::{Map, Value as Json, json};
use std::collections::BTreeSet;
use stook_sample::random::Random;

/// The members of a source's documents, with the type that reads each.
#[derive(Debug, Clone)]
pub struct Members {
    pub source: String,
    pub named: Vec<(String, Json)>,
}

/// A definition, and what its documents may contain.
#[derive(Debug, Clone)]
pub struct GeneratedDefinition {
    pub definition: Json,
    pub members: Vec<Members>,
    /// Fields by which children are divided in coverages.
    pub groups: BTreeSet<String>,
    /// Fields that are compared with fields, or keys, of other records.
    pub linked: BTreeSet<String>,
}

/// A field of a definition in progress.
#[derive(Debug, Clone)]
struct Field {
    name: String,
    ty: Json,
    /// Its keywords in addition to the type.
    keywords: Map<String, Json>,
    /// Whether documents give it a value.
    is_contributed: bool,
}

impl Field {
    fn is(&self, ty: &str) -> bool {
        self.ty == ty
    }

    fn is_list(&self) -> bool {
        self.ty.is_array()
    }

    fn members(&self) -> Vec<(String, Json)> {
        let entries = self.ty.get(0).and_then(Json::as_object);
        entries.into_iter().flatten().map(|(name, ty)| (name.clone(), ty.clone())).collect()
    }
}

struct Collection {
    name: String,
    fields: Vec<Field>,
    /// The format in whose path language its rules are written.
    format: &'static str,
    /// The fields of its key.
    key: Json,
    keys: usize,
    keywords: Map<String, Json>,
    is_fed: bool,
}

struct Source {
    name: String,
    format: &'static str,
    keywords: Map<String, Json>,
    lets: Map<String, Json>,
    feeds: Vec<usize>,
    members: Vec<(String, Json)>,
}

const SCALARS: [&str; 10] = ["text", "integer", "float", "boolean", "timestamp", "date", "duration", "size", "uuid", "json"];

/// Generates definitions.
pub struct Grammar<'r> {
    random: &'r mut Random,
    prefix: String,
}

/// Generates a definition from this stream of random numbers.
pub fn make(random: &mut Random, prefix: &str) -> GeneratedDefinition {
    Grammar { random, prefix: prefix.to_owned() }.make()
}

impl Grammar<'_> {
    fn chance(&mut self, per_mille: u64) -> bool {
        self.random.per_mille(per_mille)
    }

    fn one<T: Clone>(&mut self, choices: &[T]) -> T {
        self.random.one(choices).clone()
    }

    fn name(&self, kind: &str, number: usize) -> String {
        format!("{}{kind}{number}", self.prefix)
    }

    fn make(mut self) -> GeneratedDefinition {
        let formats = ["json", "json", "json", "json", "json", "csv", "xml", "xml", "marc"];
        // tags are about documents of several sources
        let is_xml = self.chance(80);
        let number = if is_xml { 3 } else { self.random.between(1, 3) as usize };
        let mut sources: Vec<Source> = (0..number)
            .map(|number| Source {
                name: self.name("s", number),
                format: if is_xml { "xml" } else { self.one(&formats) },
                keywords: Map::new(),
                lets: Map::new(),
                feeds: Vec::new(),
                members: Vec::new(),
            })
            .collect();
        let most = self.one(&[1, 1, 2, 2, 3]);
        let mut collections: Vec<Collection> = (0..most).map(|number| self.collection(number)).collect();
        self.feed(&mut sources, &mut collections);
        for collection in &mut collections {
            let formats_of_sources: Vec<&'static str> =
                sources.iter().filter(|source| self.feeds(source, collection)).map(|source| source.format).collect();
            collection.format = if formats_of_sources.is_empty() { "json" } else { self.one(&formats_of_sources) };
        }
        let names: Vec<String> = sources.iter().map(|source| source.name.clone()).collect();
        for collection in &mut collections {
            self.attributes(collection, &names);
        }
        self.links(&mut collections);
        for collection in &mut collections {
            self.derived(collection);
            self.state(collection);
        }
        let mut finished = Map::new();
        for index in 0..sources.len() {
            let source = self.source(index, &mut sources, &collections);
            finished.insert(sources[index].name.clone(), source);
        }
        self.embeds(&sources, &collections, &mut finished);
        self.tags(&sources, &mut collections);
        self.whole(&sources, collections, finished)
    }

    fn whole(mut self, sources: &[Source], collections: Vec<Collection>, finished: Map<String, Json>) -> GeneratedDefinition {
        let mut definition = json!({ "catalogue": "c", "lookups": {}, "patterns": {}, "sources": finished, "collections": {} });
        let (table, ordered, pattern) = (self.name("k", 0), self.name("k", 1), self.name("p", 0));
        definition["lookups"][table] = json!({ "a": "one", "b": "two", "k1": "three", "else": "other" });
        definition["lookups"][ordered] = json!([{ "a.*": "one" }, { "[bk]": ["two", "three"] }, { "else": "other" }]);
        definition["patterns"][pattern] = json!(["^(?P<head>[a-z])(?P<rest>[0-9a-z]*)$", "^(?P<head>.)"]);
        let mut services = Map::new();
        for source in sources {
            let source_definition = &definition["sources"][&source.name];
            if let Some(service) = source_definition["asks"]["service"].as_str() {
                services.insert(service.to_owned(), self.service());
            }
        }
        if !services.is_empty() {
            definition["services"] = services.into();
        }
        self.surroundings(&mut definition, sources, &collections);
        for collection in collections {
            let mut entries = Map::new();
            entries.insert("key".into(), collection.key);
            let mut fields = Map::new();
            for field in collection.fields {
                let short = field.keywords.is_empty();
                let mut keywords: Map<String, Json> = [("type".to_owned(), field.ty.clone())].into_iter().collect();
                keywords.extend(field.keywords);
                fields.insert(field.name, if short { field.ty } else { keywords.into() });
            }
            entries.insert("fields".into(), fields.into());
            entries.extend(collection.keywords);
            definition["collections"][collection.name] = entries.into();
        }
        let members = sources.iter().map(|source| Members { source: source.name.clone(), named: source.members.clone() }).collect();
        let links = definition["collections"].as_object().into_iter().flat_map(Map::values).filter_map(|collection| collection["links"].as_object());
        let links: Vec<&Json> = links.flat_map(Map::values).collect();
        let groups = links.iter().filter_map(|link| link["group"].as_str().map(str::to_owned)).collect();
        let same = links.iter().filter_map(|link| link["same"].as_object()).flatten();
        let named = links.iter().filter_map(|link| link["same"].as_array()).flatten().chain(links.iter().map(|link| &link["key"]));
        let linked = named.filter_map(Json::as_str).chain(same.flat_map(|(mine, theirs)| [Some(mine.as_str()), theirs.as_str()]).flatten());
        let linked = linked.map(str::to_owned).collect();
        GeneratedDefinition { definition, members, groups, linked }
    }

    // --- collections -----------------------------------------------------------------------------------------------------

    fn collection(&mut self, number: usize) -> Collection {
        let mut fields = Vec::new();
        for index in 0..self.random.between(2, 7) as usize {
            let ty = if index == 0 { json!(self.one(&["text", "text", "text", "text", "integer"])) } else { self.ty() };
            fields.push(Field { name: format!("f{index}"), ty, keywords: Map::new(), is_contributed: true });
        }
        let template = self.chance(250) && fields[1].ty.is_string() && !["json", "ranges", "geometry"].iter().any(|ty| fields[1].is(ty));
        let expression = !template && fields[0].is("text") && self.chance(60);
        let (key, keys) = if template {
            (json!(self.one(&["{f0}/{f1}", "{f0}-{f1}", "x{f1}:{f0}"])), 2)
        } else if expression {
            (json!("f0 + '-' + 'x'"), 1)
        } else {
            (json!("f0"), 1)
        };
        let mut keywords = Map::new();
        for (word, choices, chance) in [
            ("raw", vec![json!("keep"), json!("drop")], 200),
            ("exists", vec![json!("any"), json!("latest")], 250),
            ("history", vec![json!(1), json!(20)], 120),
            ("changes", vec![json!("30d"), json!("1h")], 200),
        ] {
            if self.chance(chance) {
                keywords.insert(word.into(), self.one(&choices));
            }
        }
        Collection { name: self.name("c", number), fields, format: "json", key, keys, keywords, is_fed: false }
    }

    fn ty(&mut self) -> Json {
        let element = |grammar: &mut Self| json!(grammar.one(&SCALARS));
        match self.random.below(100) {
            0..35 => json!("text"),
            35..50 => json!("integer"),
            50..70 => element(self),
            70..82 => json!(["text"]),
            82..88 => json!([element(self)]),
            88..90 => json!("ranges"),
            90..93 => json!("geometry"),
            93..97 => json!([{ "a": "text", "b": "integer" }]),
            _ => json!([{ "a": "text", "b": element_of_struct(self), "c": "ranges" }]),
        }
    }

    fn survivorship(&mut self, names: &[String], union: bool) -> Json {
        let mut simple = vec!["latest", "earliest", "earliest"];
        if union {
            simple.extend(["union", "union"]);
        }
        match self.random.below(10) {
            0..4 => json!(self.one(&simple)),
            4..6 => json!("by_contributor"),
            _ => {
                let mut rule = json!({ "prefer": self.some_sources(names) });
                if self.chance(500) {
                    rule["then"] = json!(self.one(&["latest", "earliest"]));
                }
                rule
            }
        }
    }

    /// Returns a way to compare values of a type.
    fn comparison(&mut self, ty: &Json) -> Json {
        let element = ty.get(0).unwrap_or(ty);
        let mut choices = vec![json!(true)];
        choices.extend(match (element.as_str(), ty.as_str()) {
            (Some("text"), _) => vec![json!("folded"), json!("folded"), json!(false)],
            (_, Some("integer")) => vec![json!({ "within": 0 }), json!({ "within": 6 }), json!({ "within": 11 })],
            (_, Some("float")) => vec![json!({ "within": 1.75 }), json!({ "within": 4.5 }), json!({ "within": "1e307" })],
            (_, Some("timestamp")) => vec![json!({ "within": "1h" }), json!({ "within": "26h" })],
            (_, Some("date")) => vec![json!({ "within": "55d" }), json!({ "within": "0d" })],
            (_, Some("duration")) => vec![json!({ "within": "5s" }), json!({ "within": "PT2H" })],
            (_, Some("size")) => vec![json!({ "within": "10 kB" }), json!({ "within": 9990 })],
            _ => Vec::new(),
        });
        self.one(&choices)
    }

    /// Returns some sources in any order, including `api`.
    fn some_sources(&mut self, names: &[String]) -> Json {
        let mut remaining: Vec<&str> = names.iter().map(String::as_str).chain(["api", "api"]).collect();
        let mut some: Vec<&str> = Vec::new();
        for _ in 0..self.random.between(1, 3).min(remaining.len() as u64) {
            let index = self.random.below(remaining.len() as u64) as usize;
            let name = remaining.remove(index);
            if !some.contains(&name) {
                some.push(name);
            }
        }
        json!(some)
    }

    fn attributes(&mut self, collection: &mut Collection, names: &[String]) {
        if self.chance(150) {
            collection.keywords.insert("survivorship".into(), self.survivorship(names, true));
        }
        let (keys, format) = (collection.keys, collection.format);
        for (index, field) in collection.fields.iter_mut().enumerate() {
            let is_key = index < keys;
            let structs = !field.members().is_empty();
            let by = structs && self.chance(400);
            if by {
                field.keywords.insert("by".into(), json!("a"));
            }
            if !is_key && !by && self.chance(400) {
                field.keywords.insert("survivorship".into(), self.survivorship(names, field.is_list()));
            }
            if !is_key && self.chance(150) {
                field.keywords.insert("from".into(), self.some_sources(names));
            }
            if self.chance(120) {
                let compare = self.comparison(&field.ty);
                field.keywords.insert("compare".into(), compare);
            }
            if structs {
                if self.chance(400) {
                    field.keywords.insert("index".into(), json!({ "a": "equal" }));
                }
            } else if field.is("geometry") {
                if self.chance(500) {
                    field.keywords.insert("index".into(), json!("intersects"));
                }
            } else if !field.is("json") && !field.is("ranges") && field.ty != json!(["json"]) && self.chance(250) {
                let mut kinds = vec![json!("equal")];
                if field.is("text") {
                    kinds.extend([json!("prefix"), json!("contains"), json!(["equal", "contains"])]);
                }
                if field.is("text") || field.ty == json!(["text"]) {
                    kinds.extend([json!("words"), json!(["words", "equal"])]);
                }
                field.keywords.insert("index".into(), self.one(&kinds));
            }
            let text = field.is("text") || field.ty == json!(["text"]);
            if text && self.chance(80) {
                field.keywords.insert("fold".into(), json!(true));
                if field.is_list() {
                    field.keywords.insert("index".into(), json!("equal"));
                }
            }
            if text && !is_key && self.chance(80) {
                field.keywords.insert("one_of".into(), json!(["a", "b", "k1", "true"]));
            }
            if field.is("integer") && !is_key && self.chance(80) {
                field.keywords.insert("one_of".into(), json!([0, 1, 7]));
            }
            let named = matches!(format, "json" | "csv");
            if is_key && !named {
                field.keywords.insert("path".into(), json!(path(format, &field.name, false)));
            }
            if (is_key && self.chance(100)) || (named && !structs && self.chance(40)) {
                field.keywords.insert("required".into(), json!(true));
            }
            // its own rule, in the language of the format that feeds it without a map
            if !is_key && !structs && self.chance(350) || (structs && format == "xml") {
                let rule = self.rule(field, format, &["who".to_owned()], true);
                match rule {
                    Json::Object(rule) => field.keywords.extend(rule),
                    path => {
                        field.keywords.insert("path".into(), path);
                    }
                }
            }
        }
        // a unique field
        if self.chance(30) && collection.fields.len() > 2 && collection.fields[2].is("text") {
            collection.fields[2].keywords.insert("unique".into(), json!(true));
        }
    }

    // --- links and what follows from them ----------------------------------------------------------------------------------

    fn links(&mut self, collections: &mut [Collection]) {
        for from in 0..collections.len() {
            let number = self.one(&[0, 0, 1, 1, 2]);
            for index in 0..number {
                let to = if self.chance(150) { from } else { self.random.below(collections.len() as u64) as usize };
                let name = format!("l{index}");
                if self.link(collections, from, to, &name).is_none() {
                    continue;
                }
                // if nothing else follows from a link, an error in creating records by it is noticed
                if collections[from].keywords["links"][&name].get("create").is_some() && self.chance(400) {
                    continue;
                }
                self.through(collections, from, to, &name);
                self.rollups(collections, from, to, &name);
                self.coverage(collections, from, to, &name);
            }
        }
    }

    fn link(&mut self, collections: &mut [Collection], from: usize, to: usize, name: &str) -> Option<()> {
        let own_fields = collections[from].fields.clone();
        let own_collection = &collections[from];
        let plain: Vec<&Field> = own_fields.iter().filter(|field| field.is_contributed && golden_has_field_type(own_collection, field)).collect();
        if plain.is_empty() || !plain.iter().any(|field| field.is("text") || field.is("integer")) {
            return None;
        }
        let scalars: Vec<String> = plain.iter().filter(|field| field.is("text") || field.is("integer")).map(|field| field.name.clone()).collect();
        let lists: Vec<String> = plain.iter().filter(|field| field.ty == json!(["text"])).map(|field| field.name.clone()).collect();
        let times: Vec<String> = plain.iter().filter(|field| field.is("timestamp")).map(|field| field.name.clone()).collect();
        let target_fields = collections[to].fields.clone();
        let mut link = json!({ "to": collections[to].name });
        let by_field = collections[to].key == json!("f0");
        if self.chance(600) && (collections[to].keys == 1 || scalars.len() > 1) {
            let key = if collections[to].keys == 2 {
                let (a, b) = (self.one(&scalars), self.one(&scalars));
                format!("{{{a}}}/{{{b}}}")
            } else if !lists.is_empty() && self.chance(400) {
                self.one(&lists)
            } else {
                self.one(&scalars)
            };
            link["key"] = json!(key);
            // a record created by a link must not create records that link to it
            let ends = from < to || !key.contains("f0");
            if ends && by_field && collections[to].fields[0].is("text") && self.chance(500) {
                link["create"] = json!(true);
            }
        } else {
            let mut pairs = Vec::new();
            for own_field in plain.iter().filter(|field| field.is("text") || field.is("integer") || field.ty == json!(["text"])) {
                let element = if own_field.is_list() { own_field.ty[0].clone() } else { own_field.ty.clone() };
                for target_field in
                    target_fields.iter().filter(|target_field| target_field.is_contributed && golden_has_field_type(&collections[to], target_field))
                {
                    if target_field.ty == element || target_field.ty == json!([element]) {
                        pairs.push((own_field.name.clone(), target_field.name.clone()));
                    }
                }
            }
            let (own_field, target_field) = if pairs.is_empty() { return None } else { self.one(&pairs) };
            link["same"] = if own_field == target_field && self.chance(300) { json!([own_field]) } else { json!({ own_field: target_field }) };
            let their_times: Vec<String> = target_fields
                .iter()
                .filter(|field| field.is_contributed && field.is("timestamp") && golden_has_field_type(&collections[to], field))
                .map(|field| field.name.clone())
                .collect();
            if !times.is_empty() && !their_times.is_empty() && self.chance(500) {
                let (a, b, c, d) = (self.one(&times), self.one(&times), self.one(&their_times), self.one(&their_times));
                link["overlap"] = json!({ "mine": [a, b], "theirs": [c, d], "tolerance": "15s", "reach": "30m" });
            }
        }
        if self.chance(200) {
            link["when"] = json!(format!("{} != null", self.one(&scalars)));
        }
        if self.chance(150) {
            link["index"] = json!("equal");
        }
        if self.chance(300) {
            link["group"] = json!(self.one(&scalars));
        }
        if !times.is_empty() && self.chance(500) {
            let (a, b) = (self.one(&times), self.one(&times));
            link["span"] = json!([a, b]);
        }
        let links = collections[from].keywords.entry("links").or_insert_with(|| json!({}));
        links[name] = link;
        Some(())
    }

    /// Makes a field that is read through a link.
    fn through(&mut self, collections: &mut [Collection], from: usize, to: usize, link: &str) {
        if !self.chance(700) {
            return;
        }
        let reads_several = leads_to_several(&collections[from], link);
        let contributed: Vec<Field> =
            collections[to].fields.iter().filter(|field| field.is_contributed && field.members().is_empty()).cloned().collect();
        // the result for texts of several records is known
        let texts: Vec<Field> = contributed.iter().filter(|field| reads_several && field.is("text")).cloned().collect();
        let candidates = if texts.is_empty() || self.chance(300) { contributed } else { texts };
        let mut read_field = self.one(&candidates);
        if !golden_has_field_type(&collections[to], &read_field) {
            read_field.ty = json!("json");
        }
        // values of several records are a list
        if reads_several && !read_field.is_list() {
            read_field.ty = if read_field.is("ranges") || read_field.is("geometry") { json!(["json"]) } else { json!([read_field.ty]) };
        }
        let has_same_type = |field: &&Field| {
            field.is_contributed && field.ty == read_field.ty && field.name != "f0" && golden_has_field_type(&collections[from], field)
        };
        let own_field = collections[from].fields.iter().find(has_same_type).map(|field| field.name.clone());
        let (derive, ty) = match own_field {
            Some(own_field) if self.chance(400) => (format!("coalesce({own_field}, {link}.{})", read_field.name), read_field.ty.clone()),
            _ if self.chance(150) => (format!("{link}.key"), if reads_several { json!(["text"]) } else { json!("text") }),
            _ if self.chance(150) => (format!("{link}.exists"), json!("boolean")),
            _ => (format!("{link}.{}", read_field.name), read_field.ty.clone()),
        };
        let mut field = Field { name: format!("t{link}"), ty, keywords: Map::new(), is_contributed: false };
        field.keywords.insert("derive".into(), json!(derive));
        if field.is("text") && self.chance(300) {
            field.keywords.insert("index".into(), json!("equal"));
        }
        collections[from].fields.push(field);
    }

    fn rollups(&mut self, collections: &mut [Collection], from: usize, to: usize, link: &str) {
        if !self.chance(600) {
            return;
        }
        let over = format!("{}.{link}", collections[from].name);
        let contributed: Vec<Field> =
            collections[from].fields.iter().filter(|field| field.is_contributed && field.ty.is_string() && !field.is("ranges")).cloned().collect();
        let plain = |field: &&Field| golden_has_field_type(&collections[from], field);
        let numbers: Vec<Field> = contributed.iter().filter(|field| field.is("integer") || field.is("float")).filter(plain).cloned().collect();
        for number in 0..self.random.between(1, 2) {
            let mut rollup = json!({ "over": over });
            let ty = match self.random.below(5) {
                0 if !numbers.is_empty() => {
                    let field = self.one(&numbers);
                    rollup["sum"] = json!(field.name);
                    field.ty
                }
                1 => {
                    let field = self.one(&contributed);
                    let function = self.one(&["min", "max"]);
                    rollup[function] = json!(field.name);
                    if golden_has_field_type(&collections[from], &field) { field.ty } else { json!("json") }
                }
                2 => {
                    rollup["distinct"] = json!(self.one(&contributed).name);
                    json!("integer")
                }
                _ => {
                    rollup["count"] = json!(true);
                    json!("integer")
                }
            };
            if self.chance(300) {
                rollup["where"] = json!(format!("{} != null", self.one(&contributed).name));
            }
            if self.chance(150) {
                rollup["groups"] = json!(self.one(&["a", "k.", ""]));
            }
            let mut keywords = Map::new();
            keywords.insert("rollup".into(), rollup);
            collections[to].fields.push(Field { name: format!("r{from}{link}{number}"), ty, keywords, is_contributed: false });
        }
    }

    fn coverage(&mut self, collections: &mut [Collection], from: usize, to: usize, link: &str) {
        if !self.chance(400) {
            return;
        }
        let over = format!("{}.{link}", collections[from].name);
        let has_span = collections[from].keywords["links"][link].get("span").is_some();
        let contributed: Vec<String> =
            collections[from].fields.iter().filter(|field| field.is_contributed && field.is("text")).map(|field| field.name.clone()).collect();
        let times: Vec<String> = collections[to]
            .fields
            .iter()
            .filter(|field| field.is_contributed && field.is("timestamp") && golden_has_field_type(&collections[to], field))
            .map(|field| field.name.clone())
            .collect();
        let own_text: Vec<String> =
            collections[to].fields.iter().filter(|field| field.is_contributed && field.is("text")).map(|field| field.name.clone()).collect();
        let grouping = collections[from].keywords["links"][link].get("group").is_none() && self.chance(700);
        let uncombined = collections[from]
            .fields
            .iter()
            .filter(|field| field.is_contributed && field.is("text") && golden_has_field_type(&collections[from], field));
        let groups: Vec<String> = uncombined.map(|field| field.name.clone()).collect();
        if grouping && !groups.is_empty() {
            let group = self.one(&groups);
            if let Some(links) = collections[from].keywords.get_mut("links") {
                links[link]["group"] = json!(group);
            }
        }
        let name = format!("v{from}{link}");
        let mut coverage = json!({ "over": over });
        if self.chance(200) {
            coverage["when"] = json!("f0 != null");
        }
        if self.chance(300) && !contributed.is_empty() {
            coverage["where"] = json!(format!("{} != null", self.one(&contributed)));
        }
        if self.chance(400) {
            coverage["with"] = json!(["f0"]);
        }
        let mut total = false;
        if has_span && !contributed.is_empty() && self.chance(250) {
            coverage["runs"] = json!({ "value": self.one(&contributed) });
            if self.chance(500) {
                coverage["runs"]["max_gap"] = json!("2h");
            }
        } else {
            let union = has_span && self.chance(500);
            let expected = if union { json!("duration('2h')") } else { json!("3") };
            let mut measure = if union { json!("union") } else { json!("count") };
            if !union && !contributed.is_empty() && self.chance(300) {
                measure = json!({ "distinct": [self.one(&contributed)] });
                if has_span && self.chance(500) {
                    measure["near"] = json!("2ms");
                }
            }
            let mut case = json!({ "measure": measure });
            if self.chance(700) {
                case["expected"] = expected;
            }
            if self.chance(200) {
                case["value"] = json!("value");
            }
            if has_span && !times.is_empty() && self.chance(500) {
                let (a, b) = (self.one(&times), self.one(&times));
                case["gaps"] = json!({ "within": [a, b] });
                if self.chance(400) {
                    case["gaps"]["shift"] = json!("6s");
                }
                if self.chance(400) {
                    case["gaps"]["until"] = json!(self.one(&times));
                }
            }
            if has_span && self.chance(300) {
                case["overlaps"] = json!({ "longer": self.one(&["0s", "1h"]) });
            }
            if self.chance(400) {
                let mut matched = case.clone();
                matched["match"] = json!("a");
                coverage["cases"] = json!([matched, case]);
            } else if let (Some(keywords), Some(case)) = (coverage.as_object_mut(), case.as_object()) {
                keywords.extend(case.clone());
            }
            if self.chance(300) {
                let table = self.name("k", 1);
                let mut choices = vec!["['a', 'zz']".to_owned()];
                choices.extend(own_text.first().map(|field| format!("lookup('{table}', {field})")));
                coverage["groups"] = json!(self.one(&choices));
            }
            total = self.chance(400);
        }
        let coverages = collections[to].keywords.entry("coverage").or_insert_with(|| json!({}));
        coverages[&name] = coverage;
        if total {
            let mut sum = json!({ "of": name });
            if self.chance(500) {
                sum["by"] = json!(self.one(&["'all'", "group"]));
            }
            if self.chance(200) {
                sum["value"] = json!("adjusted");
                sum["expected"] = json!("expected");
            }
            coverages[format!("{name}t")] = sum;
        }
    }

    // --- what is computed ---------------------------------------------------------------------------------------------------

    fn derived(&mut self, collection: &mut Collection) {
        let contributed: Vec<Field> = collection.fields.iter().filter(|field| field.is_contributed).cloned().collect();
        for number in 0..self.one(&[0, 0, 1, 1, 2]) {
            let (ty, derive) = self.expression(&contributed);
            let mut keywords = Map::new();
            keywords.insert("derive".into(), json!(derive));
            if (ty == "text" || ty == "integer") && self.chance(300) {
                keywords.insert("index".into(), json!("equal"));
            }
            collection.fields.push(Field { name: format!("d{number}"), ty: json_type(ty), keywords, is_contributed: false });
        }
    }

    /// Makes an expression over fields, with the type of its value.
    fn expression(&mut self, fields: &[Field]) -> (&'static str, String) {
        let of = |ty: &str| -> Vec<String> { fields.iter().filter(|field| field.is(ty)).map(|field| field.name.clone()).collect() };
        let (texts, numbers, times, lists) = (of("text"), of("integer"), of("timestamp"), {
            let lists = fields.iter().filter(|field| field.ty == json!(["text"]));
            lists.map(|field| field.name.clone()).collect::<Vec<_>>()
        });
        let table = self.name("k", 0);
        let mut choices: Vec<(&'static str, String)> = vec![("[text]", "sources".into()), ("integer", "1 + 2".into())];
        if !texts.is_empty() {
            let (a, b) = (self.one(&texts), self.one(&texts));
            choices.extend([
                ("text", format!("coalesce({a}, {b}, 'none')")),
                ("text", format!("{a} + '-' + {b}")),
                ("text", format!("squash([{a}, {b}])")),
                ("text", format!("trim({a})")),
                ("text", format!("trim({a}, 'k1')")),
                ("text", format!("{}({a})", self.one(&["lower", "upper", "strip_marks", "nfc", "digits"]))),
                ("text", format!("{}({a})", self.one(&["isbn", "issn", "lccn"]))),
                ("text", format!("replace({a}, 'k', {b})")),
                ("text", format!("join([{a}, {b}], '; ')")),
                ("[text]", format!("split({a}, '0123456789 ')")),
                ("[text]", format!("flatten([[{a}], split({b}, ' ')])")),
                ("text", format!("fold({a})")),
                ("text", format!("lookup('{table}', {a})")),
                ("text", format!("{a} == null ? 'none' : {a}")),
                ("text", format!("md5({a})")),
                ("text", format!("substring({a}, 0, 1)")),
                ("uuid", format!("uuid5('x', {a})")),
                ("boolean", format!("{a} == 'a'")),
                ("boolean", format!("{a} != null && {b} != 'k1'")),
                ("integer", format!("size({a})")),
            ]);
        }
        if !numbers.is_empty() {
            let (a, b) = (self.one(&numbers), self.one(&numbers));
            choices.extend([
                ("integer", format!("{a} + {b}")),
                ("integer", format!("abs({a}) * 2")),
                ("integer", format!("max({a}, {b}, 3)")),
                ("integer", format!("sum([{a}, {b}])")),
                ("text", format!("string({a})")),
                ("text", format!("hex({a})")),
                ("boolean", format!("{a} > 3")),
                ("duration", format!("times(duration('2s'), {a})")),
            ]);
        }
        if !times.is_empty() {
            let a = self.one(&times);
            choices.extend([
                ("text", format!("strftime({a}, '%Y-%m')")),
                ("timestamp", format!("coalesce({a}, timestamp('2020-01-01T00:00:00Z'))")),
                ("timestamp", format!("{a} + duration('1h')")),
            ]);
        }
        if !lists.is_empty() {
            let a = self.one(&lists);
            choices.extend([
                ("integer", format!("size({a})")),
                ("boolean", format!("'a' in {a}")),
                ("[text]", format!("flatten([{a}, ['x']])")),
                ("text", format!("join({a}, ' ')")),
                ("[text]", a),
                ("integer", format!("size(keys('{table}'))")),
            ]);
        }
        self.one(&choices)
    }

    fn state(&mut self, collection: &mut Collection) {
        if !self.chance(220) {
            return;
        }
        let text = collection.fields.iter().find(|field| field.is_contributed && field.is("text")).map(|field| field.name.clone());
        let mut status = json!({ "type": "text", "seed": "'new'" });
        if self.chance(300) {
            status["index"] = json!("equal");
        }
        if self.chance(300) {
            status["one_of"] = json!(["new", "old"]);
        }
        if let Some(field) = text.filter(|_| self.chance(300)) {
            status = json!({ "type": "text", "seed": format!("coalesce({field}, 'new')") });
        }
        collection.keywords.insert("state".into(), json!({ "status": status, "count": "integer" }));
        let mut go = json!({ "set": { "status": "'old'", "count": "args.n" } });
        go["args"] = json!({ "n": self.one(&[json!("integer"), json!({ "type": "integer", "default": "1" }), json!({ "type": "integer", "required": true, "min": 1, "max": 9, "one_of": [1, 7] })]) });
        if self.chance(600) {
            go["refuse"] = json!([{ "when": "status == 'old'", "reason": "'it is ' + status" }]);
            if self.chance(300) {
                go["refuse"][0]["code"] = json!(422);
            }
        }
        collection.keywords.insert("transitions".into(), json!({ "go": go, "back": { "set": { "status": "'new'", "count": null } } }));
    }

    // --- sources ------------------------------------------------------------------------------------------------------------

    fn feeds(&self, source: &Source, collection: &Collection) -> bool {
        source.feeds.iter().any(|feed| self.name("c", *feed) == collection.name)
    }

    fn feed(&mut self, sources: &mut [Source], collections: &mut [Collection]) {
        for source in sources.iter_mut() {
            source.feeds.push(self.random.below(collections.len() as u64) as usize);
            for other in 0..collections.len() {
                if !source.feeds.contains(&other) && self.chance(250) {
                    source.feeds.push(other);
                }
            }
        }
        for (index, collection) in collections.iter_mut().enumerate() {
            if sources.iter().all(|source| !source.feeds.contains(&index)) {
                let source = self.random.below(sources.len() as u64) as usize;
                sources[source].feeds.push(index);
            }
            collection.is_fed = true;
        }
    }

    fn source(&mut self, index: usize, sources: &mut [Source], collections: &[Collection]) -> Json {
        let (name, format, feeds) = (sources[index].name.clone(), sources[index].format, sources[index].feeds.clone());
        let source = &mut sources[index];
        source.keywords.insert("format".into(), json!(format));
        self.lets(source);
        match format {
            "xml" if self.chance(500) => {
                source.keywords.insert("records".into(), json!(self.one(&["record", "all/record", "all/*"])));
            }
            "json" if self.chance(120) => {
                source.keywords.insert("records".into(), json!("$.value[*]"));
            }
            "marc" => {
                if self.chance(200) {
                    source.keywords.insert("tolerance".into(), json!(self.one(&["repair", "strict"])));
                }
                if self.chance(200) {
                    // the documents are MARC-in-JSON, in which the encoding is always UTF-8
                    source.keywords.insert("encoding".into(), json!(self.one(&["auto", "utf-8", "marc-8", "latin-1", "cp1252"])));
                }
            }
            _ => {}
        }
        if self.chance(60) {
            source.keywords.insert("empty".into(), json!("nothing here"));
        }
        // every delivery names its source, so these keywords concern other files
        if self.chance(60) {
            source.keywords.insert("files".into(), if self.chance(500) { json!(format!("{name}_*")) } else { json!([format!("[!a-f]{name}?")]) });
        }
        if self.chance(60) {
            let path = match format {
                "xml" => "@own",
                "json" => "$.own",
                "marc" => "900$a",
                _ => "own",
            };
            source.keywords.insert("has".into(), json!(path));
        }
        if format == "csv" && self.chance(200) {
            source.keywords.insert("skip".into(), json!(self.one(&[0, 1, 2])));
        }
        if format == "csv" && self.chance(200) {
            source.keywords.insert("null".into(), if self.chance(500) { json!("NA") } else { json!(["NA", "-/-"]) });
        }
        if format == "csv" && self.chance(200) {
            source.keywords.insert("delimiter".into(), json!(self.one(&[",", ";", "\t", "^"])));
        }
        if format == "csv" && self.chance(250) {
            source.keywords.insert("short_rows".into(), json!(self.one(&["absent", "absent", "fail"])));
        }
        // of a text it changes nothing
        if format == "csv" && self.chance(200) {
            source.keywords.insert("merged".into(), json!(self.one(&["first", "every"])));
        }
        if format == "xml" && self.chance(150) {
            source.keywords.insert("namespaces".into(), json!({ "n": "urn:n" }));
        }
        if self.chance(350) {
            source.keywords.insert("gone".into(), json!("said == 'gone'"));
        }
        if self.chance(120) {
            let mut accept = json!([{ "unless": "who != 'b'" }]);
            if self.chance(700) {
                accept[0]["do"] = json!(self.one(&["fail", "skip"]));
            }
            if self.chance(500) {
                accept[0]["reason"] = json!("'refused ' + who");
            }
            source.keywords.insert("accept".into(), accept);
        }
        let replaces = self.chance(120);
        let as_of = match self.random.below(12) {
            0 if replaces => json!(["meta.received"]),
            _ if replaces => json!("meta.received"),
            0..7 => json!("at"),
            7 => json!("coalesce(at, meta.received)"),
            8 | 9 => json!(["at", "meta.received"]),
            _ => json!("meta.received"),
        };
        source.keywords.insert("as_of".into(), as_of);
        if replaces {
            let mut keywords = json!({ "scope": self.one(&["'all'", "coalesce(who, 'none')"]) });
            if self.chance(500) {
                keywords["at"] = json!("coalesce(at, timestamp('2024-01-01T00:00:00Z'))");
            }
            if self.chance(400) {
                keywords["most"] = json!(self.one(&["100%", "50%", "0%"]));
            }
            source.keywords.insert("replaces".into(), keywords);
        }
        if format == "json" && !replaces && self.chance(40) && source.keywords.get("records") == Some(&json!("$.value[*]")) {
            let url = json!("http://127.0.0.1:9/Products");
            let collect = json!({ "odata": { "one": url }, "window": "at", "page": 10, "lag": "15m", "since": "2026-01-01T00:00:00Z", "filter": "x eq 1", "credentials": "NOBODY" });
            source.keywords.insert("collect".into(), collect);
        }
        let contributor = (!replaces && self.chance(250)).then(|| json!(self.one(&["{who}", "who", "{who}-x"])));
        let maps: Vec<(usize, Option<Json>)> = feeds.iter().map(|feed| (*feed, self.map(source, &collections[*feed]))).collect();
        // all members of the documents, with the types that read them
        for (feed, map) in &maps {
            let collection = &collections[*feed];
            for field in collection.fields.iter().filter(|field| field.is_contributed) {
                let rule = match map {
                    Some(map) => map.get(&field.name).cloned(),
                    None => Some(Json::Object(field.keywords.clone())),
                };
                let Some(rule) = rule else { continue };
                for member in read_members(&rule, &field.name, format) {
                    if source.members.iter().all(|(known, _)| *known != member) {
                        source.members.push((member, field.ty.clone()));
                    }
                }
            }
        }
        if maps.len() == 1 && self.chance(600) {
            let (feed, map) = &maps[0];
            source.keywords.insert("into".into(), json!(collections[*feed].name));
            if let Some(contributor) = contributor {
                source.keywords.insert("contributor".into(), contributor);
            }
            if let Some(map) = map {
                // a map belongs to a feed
                source.keywords.remove("into");
                let contributor = source.keywords.remove("contributor");
                let mut feed = json!({ "into": collections[*feed].name, "map": map });
                if let Some(contributor) = contributor {
                    feed["contributor"] = contributor;
                }
                source.keywords.insert("feeds".into(), json!([feed]));
            }
        } else {
            let mut feeds = Vec::new();
            for (feed, map) in &maps {
                let mut keywords = json!({ "into": collections[*feed].name });
                if let Some(contributor) = &contributor {
                    keywords["contributor"] = contributor.clone();
                }
                if self.chance(200) {
                    keywords["when"] = json!(self.one(&["who != 'x'", "who == null || who != 'a'"]));
                }
                if let Some(map) = map {
                    keywords["map"] = map.clone();
                }
                feeds.push(keywords);
            }
            source.keywords.insert("feeds".into(), feeds.into());
        }
        self.service_calls(source, &name, collections, replaces);
        let mut keywords = Map::new();
        keywords.insert("format".into(), json!(format));
        keywords.insert("let".into(), Json::Object(source.lets.clone()));
        keywords.extend(source.keywords.clone());
        keywords.into()
    }

    /// Returns one or several functions that clean texts.
    fn clean(&mut self) -> Json {
        let names = ["trim", "squash", "isbd", "lower", "upper", "strip_marks", "nfc", "fold", "digits", "isbn", "issn", "lccn"];
        // functions that keep most of a text are drawn more often
        let mut one = || json!(if self.chance(600) { self.one(&names[..6]) } else { self.one(&names) });
        let first = one();
        if first != "trim" { json!([first, one()]) } else { first }
    }

    fn lets(&mut self, source: &mut Source) {
        let path = |member: &str| json!(path(source.format, member, false));
        let mut at = json!({ "path": path("at"), "type": "timestamp" });
        if self.chance(150) {
            at["format"] = json!(self.one(&["epoch", "epoch_ms", "%Y-%m-%dT%H:%M:%SZ"]));
        }
        let (said, who, pattern) = (path("said"), path("who"), self.name("p", 0));
        source.lets.insert("at".into(), at);
        source.lets.insert("said".into(), if source.format == "json" { said } else { json!({ "path": said }) });
        source.lets.insert("who".into(), json!({ "path": who }));
        if self.chance(200) {
            source.lets.insert("parts".into(), json!({ "match": pattern, "of": "who" }));
        }
        if self.chance(150) {
            let expression = self.one(&["coalesce(who, 'nobody')", "meta.name", "who + '!'", "meta.ordinal"]);
            let ty = if expression == "meta.ordinal" { "integer" } else { "text" };
            source.lets.insert("x".into(), json!({ "expr": expression, "type": ty }));
        }
    }

    /// Makes the map of a feed; `None` if the fields have their own rules.
    fn map(&mut self, source: &Source, collection: &Collection) -> Option<Json> {
        let own_rules = collection.format == source.format;
        let by_name = matches!(source.format, "json" | "csv") && matches!(collection.format, "json" | "csv");
        let no_rules =
            collection.fields.iter().all(|field| !field.is_contributed || field.keywords.keys().all(|word| !RULES.contains(&word.as_str())));
        let key_is_named =
            collection.fields[..collection.keys].iter().all(|field| matches!(source.format, "json" | "csv") || field.keywords.contains_key("path"));
        // only JSON and XML have lists of structs
        let flat = matches!(source.format, "csv" | "marc");
        let fits = !flat || collection.fields.iter().all(|field| field.members().is_empty());
        if fits && key_is_named && (own_rules || (by_name && no_rules)) && !self.chance(300) {
            return None;
        }
        let lets: Vec<String> = source.lets.keys().cloned().collect();
        let mut map = Map::new();
        for (index, field) in collection.fields.iter().enumerate().filter(|(_, field)| field.is_contributed && (!flat || field.members().is_empty()))
        {
            if index < collection.keys || field.keywords.contains_key("required") || self.chance(900) {
                let rule = if index < collection.keys {
                    json!(path(source.format, &field.name, false))
                } else {
                    self.rule(field, source.format, &lets, false)
                };
                map.insert(field.name.clone(), rule);
            }
        }
        Some(map.into())
    }

    /// Makes the rule of a field.
    fn rule(&mut self, field: &Field, format: &'static str, lets: &[String], bare: bool) -> Json {
        let list = field.is_list();
        let member = if self.chance(80) { "f9".to_owned() } else { field.name.clone() };
        let own_path = json!(path(format, &member, list && self.chance(700)));
        let structs = field.members();
        if !structs.is_empty() && (format == "xml" || (format == "json" && self.chance(400))) {
            let mut map = Map::new();
            for (name, _) in &structs {
                let inner = if format == "json" { format!("$.{name}") } else { name.clone() };
                map.insert(name.clone(), json!(inner));
            }
            return json!({ "path": path(format, &member, format == "json"), "map": map });
        }
        if !structs.is_empty() {
            return own_path;
        }
        let mut rule = match self.random.below(20) {
            0..9 if !bare => return own_path,
            0..10 => json!({ "path": own_path }),
            10..12 => json!({ "first": [path(format, "f9", false), own_path] }),
            12 if field.is("text") || field.is("integer") => {
                json!({ "cases": [{ "if": path(format, "f9", false), "then": "7" }, { "if": own_path, "then": "1" }] })
            }
            13 if field.is("text") && lets.iter().any(|name| name == "who") => {
                json!({ "expr": self.one(&["coalesce(who, 'nobody')", "who", "meta.name", "who + '.' + said"]) })
            }
            14 if field.is("json") && lets.iter().any(|name| name == "who") => json!({ "match": self.name("p", 0), "of": "who" }),
            _ => json!({ "path": own_path }),
        };
        let from_paths = rule.get("path").is_some() || rule.get("first").is_some();
        if self.chance(120) {
            rule["on_error"] = json!(self.one(&["fail", "warn"]));
        }
        if from_paths && field.ty == "text" || field.ty == json!(["text"]) {
            match self.random.below(8) {
                0 => rule["clean"] = self.clean(),
                1 => rule["lookup"] = json!(self.name("k", 0)),
                2 if from_paths => {
                    rule["join"] = json!(self.one(&["; ", ""]));
                    if format == "marc" {
                        rule["each"] = json!(self.one(&["field", "subfield"]));
                    }
                }
                _ => {}
            }
        }
        if from_paths && field.is("timestamp") && self.chance(150) {
            rule["format"] = json!("epoch_us");
        }
        if from_paths && field.is("duration") && self.chance(300) {
            rule["format"] = json!(self.one(&["s", "ms", "d", "h", "m", "us"]));
        }
        if from_paths && field.is("date") && self.chance(200) {
            rule["format"] = if self.chance(500) { json!("%Y%m%d") } else { json!(["%d.%m.%Y", "%Y%m%d"]) };
        }
        rule
    }

    /// Embeds documents in documents.
    fn embeds(&mut self, sources: &[Source], collections: &[Collection], finished: &mut Map<String, Json>) {
        for outer in 0..sources.len() {
            for inner in 0..sources.len() {
                let fits = |source: &Json| source.get("replaces").is_none() && source.get("asks").is_none();
                // sources of embedded documents have no complete deliveries and no service
                let ok = inner != outer && matches!(sources[inner].format, "xml" | "json") && matches!(sources[outer].format, "xml" | "json");
                let free = fits(&finished[&sources[inner].name]) && finished[&sources[inner].name].get("embeds").is_none();
                let taken = finished.values().any(|source| source["embeds"].get(&sources[outer].name).is_some());
                if ok && free && !taken && collections.len() > 1 && self.chance(150) {
                    let embed = json!({ "path": path(sources[outer].format, "inner", false), "name": "{who}.doc" });
                    finished[&sources[outer].name]["embeds"] = json!({ &sources[inner].name: embed });
                }
            }
        }
    }

    fn tags(&mut self, sources: &[Source], collections: &mut [Collection]) {
        for collection in collections {
            let of_xml: Vec<String> =
                sources.iter().filter(|source| source.format == "xml" && self.feeds(source, collection)).map(|source| source.name.clone()).collect();
            if !self.chance(if of_xml.len() > 1 { 600 } else { 150 }) {
                continue;
            }
            if !of_xml.is_empty() && self.chance(600) {
                collection.keywords.insert("raw".into(), json!("keep"));
            }
            let mut tags = json!({});
            if self.chance(500) {
                tags["attributes"] = json!({ "note": "text", "label": { "type": "text", "join": ", ", "first": "all" } });
            }
            if let Some(root) = of_xml.first().filter(|_| collection.keywords.get("raw") == Some(&json!("keep"))) {
                tags["document"] = json!({ "root": root });
                if self.chance(500) {
                    tags["document"]["otherwise"] = json!("empty");
                }
                if let Some(part) = of_xml.get(1) {
                    tags["document"]["parts"] = json!({ "part": part });
                }
                if self.chance(500) {
                    tags["steps"] = json!(2_000);
                }
            }
            collection.keywords.insert("tags".into(), tags);
        }
    }

    fn service_calls(&mut self, source: &mut Source, name: &str, collections: &[Collection], replaces: bool) {
        let collection = &collections[source.feeds[0]];
        let alone = source.feeds.len() == 1 && source.keywords.get("contributor").is_none() && source.keywords.get("collect").is_none();
        if replaces || !alone || !matches!(source.format, "json" | "xml") || !self.chance(60) {
            return;
        }
        let contributed: Vec<&Field> =
            collection.fields.iter().filter(|field| field.is_contributed && field.is("text") && golden_has_field_type(collection, field)).collect();
        let Some(field) = contributed.first() else { return };
        let takes = self.one(&["value", "pattern", "list"]);
        let mut arg = json!({ "field": field.name, "takes": takes });
        if self.chance(300) {
            arg["shape"] = json!("^k");
        }
        if self.chance(300) {
            arg["required"] = json!(true);
        }
        let mut args = json!({ "q": arg });
        if let Some(time) =
            collection.fields.iter().find(|field| field.is_contributed && field.is("timestamp") && golden_has_field_type(collection, field))
        {
            args["since"] = json!({ "field": time.name, "takes": self.one(&["from", "to"]), "as": self.one(&["epoch", "text"]) });
        }
        if let Some(other) = contributed.get(1) {
            args["z"] = json!({ "field": other.name, "default": "z" });
        }
        let page = match (source.format, self.random.below(3)) {
            ("json", 0) => json!({ "next": "@odata.nextLink" }),
            ("xml", 0) => json!({ "token": "resumptionToken", "argument": "token" }),
            _ => json!({ "offset": "offset", "limit": "limit", "size": 10 }),
        };
        let calls = json!({ "all": { "get": "/all", "args": args, "page": page, "cost": 2 } });
        source.keywords.insert("asks".into(), json!({ "service": format!("{name}w"), "calls": calls }));
        source.keywords.insert("as_of".into(), json!("meta.received"));
        if let Some(feeds) = source.keywords.get_mut("feeds").and_then(Json::as_array_mut) {
            for feed in feeds {
                if let Some(feed) = feed.as_object_mut() {
                    feed.remove("contributor");
                }
            }
        }
    }

    fn service(&mut self) -> Json {
        json!({
            "url": "http://127.0.0.1:9/api", "timeout": "1s", "deadline": "1s", "parallel": 1, "rate": 10, "attempts": 1, "most_bytes": "1MiB",
            "ttl": "1h", "ttl_empty": "30m", "ttl_failed": "20m", "ahead": "0s", "wildcard": "%", "credentials": "NOBODY"
        })
    }

    // --- what stands around -------------------------------------------------------------------------------------------------

    fn surroundings(&mut self, definition: &mut Json, sources: &[Source], collections: &[Collection]) {
        if self.chance(300) {
            let mut profile = json!({ "source": sources[0].name });
            if self.chance(700) {
                profile["matched"] = json!(self.one(&["update", "skip", "fail", "withdraw"]));
                profile["unmatched"] = json!(self.one(&["create", "skip", "fail"]));
            }
            definition["profiles"] = json!({ self.name("q", 0): profile });
        }
        if self.chance(100) {
            definition["tenants"] = json!({ format!("{}t", self.prefix): { "weight": 3, "most_running": 2 }, "else": { "weight": 1 } });
        }
        let first = &collections[0];
        if self.chance(150) {
            let mut word = json!({ "tests": { &first.name: "f0" } });
            if self.chance(500) {
                word = json!({ "select": first.name, "tests": [{ "shape": "^k", &first.name: "f0" }, { &first.name: "key" }] });
            }
            definition["words"] = json!({ self.name("w", 0): word });
        }
        if self.chance(150) {
            definition["serve"] = json!({ "error": "description" });
        }
        self.routes(definition, collections);
    }

    fn routes(&mut self, definition: &mut Json, collections: &[Collection]) {
        if !self.chance(150) {
            return;
        }
        let first = &collections[0];
        let (key, prefix) = (&first.fields[0], self.prefix.clone());
        let mut one = json!({
            "get": format!("/{prefix}/one/{{ref}}"), "params": { "ref": "text" }, "one": first.name, "where": { "key": "params.ref" },
            "missing": "There is none.", "fields": { "ref": "f0", "kind": "'B'" }
        });
        let indexed = |kinds: &[&str]| {
            let mut all = first.fields.iter().filter(|field| field.is_contributed && field.is("text") && golden_has_field_type(first, field));
            all.find(|field| field.keywords.get("index").and_then(Json::as_str).is_some_and(|kind| kinds.contains(&kind)))
                .map(|field| field.name.clone())
        };
        if let Some(text) = indexed(&["equal", "prefix"]) {
            let mut more = json!({ "list": first.name, "where": { &text: text } });
            if golden_has_field_type(first, key) {
                more["sort"] = json!([key.name.clone() + "-"]);
            }
            if self.chance(500) {
                more["include"] = json!({ "again": { "one": first.name, "where": { "key": "key" }, "fields": { "r": "f0" } } });
            }
            one["include"] = json!({ "more": more });
            if self.chance(500) {
                one["include"]["more"]["required"] = self.one(&[json!(true), json!({ "400": "It has none." })]);
            }
        }
        let conditions = match (indexed(&["equal", "prefix"]), indexed(&["contains"])) {
            (Some(field), _) if self.chance(500) => json!({ field: { "prefix": "params.ref" } }),
            (_, Some(field)) => json!({ field: { "contains": "params.ref" } }),
            _ => json!({ "key": "params.ref" }),
        };
        let list = json!({
            "post": format!("/{prefix}/list"),
            "params": {
                "ref": { "type": "text", "in": "query", "required": "say which", "default": "k1" },
                "page": { "type": "integer", "default": 1, "min": 1, "max": 9 },
                "size": { "type": "integer", "default": 5, "one_of": [1, 5], "min": 1, "max": 5 },
                "most": { "type": "integer", "default": 3, "min": 1, "max": 9, "required": false }
            },
            "list": first.name, "where": conditions, "distinct": true,
            "page": { "number": "params.page", "size": "params.size", "most": "params.most" }, "answer": { "rows": "rows", "total": "total" }
        });
        let mut sorted = json!({
            "post": format!("/{prefix}/sorted"), "params": { "ref": { "type": "text", "in": "body" } }, "list": first.name, "where": { "key": "params.ref" },
            "fields": { "r": "f0" }
        });
        if golden_has_field_type(first, key) {
            sorted["sort"] = json!([key.name]);
        }
        let mut routes = vec![one, list, sorted];
        if first.keywords.contains_key("transitions") {
            let method = self.one(&["put", "patch", "delete"]);
            routes.push(json!({
                method: format!("/{prefix}/back/{{ref}}"), "params": { "ref": "text" }, "transition": "back", "of": first.name, "key": "{ref}"
            }));
            routes.push(json!({
                "post": format!("/{prefix}/go/{{ref}}"), "params": { "ref": "text", "n": "integer" }, "transition": "go", "of": first.name, "key": "{ref}",
                "args": { "n": "params.n" }
            }));
        }
        let mut ask = json!({
            "get": format!("/{prefix}/ask"), "params": { "input": { "type": "text", "required": true }, "idx": "integer", "limit": "integer", "pid": "text" },
            "ask": { "query": "input", "offset": "idx", "limit": "limit", "ticket": "pid", "by_source": true },
            "answer": { "status": "status", "nresults": "total", "data": "rows", "reason": "reason", "at": "at", "seconds": "seconds", "query": "query", "parsed": "parsed", "cached": "cached", "services": "services" }
        });
        if self.chance(500) {
            ask["ask"]["one_is_enough"] = true.into();
            ask["answer"]["client_message"] = "warning".into();
        }
        if self.chance(500) {
            ask["ask"]["answers_mistakes"] = true.into();
        }
        routes.push(ask);
        definition["routes"] = routes.into();
    }
}

const RULES: [&str; 12] = ["path", "first", "cases", "expr", "match", "of", "each", "join", "clean", "format", "map", "lookup"];

/// Whether a link uses a list.
fn leads_to_several(collection: &Collection, link: &str) -> bool {
    let link_definition = &collection.keywords["links"][link];
    let is_list = |name: &str| collection.fields.iter().any(|field| field.name == name && field.is_list());
    let by_key = link_definition["key"].as_str().is_some_and(is_list);
    let same = link_definition["same"].as_object().into_iter().flat_map(Map::keys).any(|name| is_list(name));
    let named = link_definition["same"].as_array().into_iter().flatten().filter_map(Json::as_str).any(is_list);
    by_key || ((same || named) && link_definition.get("overlap").is_none())
}

/// Whether a golden value has the field's own type.
fn golden_has_field_type(collection: &Collection, field: &Field) -> bool {
    field.keywords.get("survivorship").or(collection.keywords.get("survivorship")) != Some(&json!("by_contributor"))
}

fn element_of_struct(grammar: &mut Grammar<'_>) -> Json {
    json!(grammar.one(&["integer", "float", "boolean", "timestamp", "date", "duration", "size", "uuid"]))
}

fn json_type(ty: &str) -> Json {
    match ty.strip_prefix('[') {
        Some(element) => json!([element.trim_end_matches(']')]),
        None => json!(ty),
    }
}

/// Returns the path of a member, in the language of a format.
pub fn path(format: &str, member: &str, each: bool) -> String {
    match format {
        "json" if each => format!("$.{member}[*]"),
        "json" => format!("$.{member}"),
        "marc" => format!("{}$a", tag(member)),
        _ => member.to_owned(),
    }
}

/// Returns the MARC field that represents a member.
pub fn tag(member: &str) -> String {
    match member {
        "at" => "980".into(),
        "who" => "981".into(),
        "said" => "982".into(),
        "inner" => "983".into(),
        other => format!("90{}", other.trim_start_matches('f')),
    }
}

/// Returns the members that a rule reads.
fn read_members(rule: &Json, field: &str, format: &str) -> Vec<String> {
    let member = |path: &str| match format {
        "json" => path.trim_start_matches("$.").trim_end_matches("[*]").to_owned(),
        "marc" => format!("f{}", path.trim_end_matches("$a").trim_start_matches("90")),
        _ => path.to_owned(),
    };
    match rule {
        Json::String(path) => vec![member(path)],
        rule => {
            let mut paths: Vec<&str> = rule["path"].as_str().into_iter().collect();
            paths.extend(rule["first"].as_array().into_iter().flatten().filter_map(Json::as_str));
            paths.extend(rule["cases"].as_array().into_iter().flatten().filter_map(|case| case["if"].as_str()));
            let named = rule.get("expr").is_some() || rule.get("match").is_some();
            if paths.is_empty() && !named { vec![field.to_owned()] } else { paths.into_iter().map(member).collect() }
        }
    }
}
