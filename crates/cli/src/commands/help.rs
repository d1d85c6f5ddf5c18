//! `help`: the help of a command, the functions and rules of expressions, and examples of queries.

use crate::arguments::Arguments;
use crate::{CommandError, CommandResult};
use clap::CommandFactory;
use serde_json::{Value as Json, json};
use stook_catalogue::diagnostic::did_you_mean;
use stook_catalogue::functions::{FUNCTIONS, RULES};
use stook_query::examples::LESSONS;

pub fn help(topic: &[String], as_json: bool) -> CommandResult {
    match topic {
        [topic] if topic == "expressions" => expressions(as_json),
        [topic] if topic == "queries" => queries(as_json),
        _ if as_json => Err(CommandError::usage("only `stook help expressions` and `stook help queries` are shown as JSON")),
        names => {
            let mut command = Arguments::command();
            command.build();
            let mut found = &mut command;
            for name in names {
                let known: Vec<String> = found.get_subcommands().map(|known| known.get_name().to_owned()).collect();
                let known = known.iter().map(String::as_str).chain(["expressions", "queries"]);
                let meant = did_you_mean(name, known).map_or_else(String::new, |meant| format!(" did you mean `{meant}`?"));
                found = found.find_subcommand_mut(name).ok_or_else(|| {
                    CommandError::usage(format!(
                        "there is no command or topic `{name}`;{meant} `stook help` lists the commands, and there are `stook help expressions` and `stook help queries`"
                    ))
                })?;
            }
            say!("{}", found.render_long_help().to_string().trim_end());
            Ok(0)
        }
    }
}

fn expressions(as_json: bool) -> CommandResult {
    if as_json {
        let functions = FUNCTIONS.iter().map(|function| {
            let value: Json = serde_json::from_str(function.value).unwrap_or_default();
            json!({
                "name": function.name, "signatures": function.signatures, "about": function.about,
                "example": function.example, "value": value, "null_counts": function.null_counts,
            })
        });
        say!("{}", json!({ "rules": RULES, "functions": functions.collect::<Vec<_>>() }));
        return Ok(0);
    }
    say!("Expressions are written in CEL, the Common Expression Language; which names they can use depends on where they are.\n");
    RULES.iter().for_each(|rule| say!("- {rule}"));
    say!("\nFunctions (`?`: the result can be null even if no argument is):");
    for function in FUNCTIONS {
        say!("\n  {}\n      {}\n      {} is {}", function.signatures.join("\n  "), function.about, function.example, function.value);
    }
    Ok(0)
}

fn queries(as_json: bool) -> CommandResult {
    if as_json {
        let examples = LESSONS.iter().flat_map(|lesson| lesson.examples.iter().map(move |example| (lesson, example)));
        let shown = examples.map(|(lesson, example)| json!({ "lesson": lesson.title, "query": example.query, "about": example.about }));
        say!("{}", Json::Array(shown.collect()));
        return Ok(0);
    }
    say!("Queries find records: stook query 'QUERY'. These examples are of the catalogue in docs/query.md, which explains all of the language.");
    for lesson in LESSONS {
        say!("\n{}", lesson.title);
        for example in lesson.examples {
            say!("\n  {}\n      {}", example.query, example.about);
        }
    }
    say!("\nA mistake is shown at its place, with what could be written there. `--explain` shows which index answers.");
    Ok(0)
}
