//! `help`: the help of a command, and the functions and rules of expressions.

use crate::arguments::Arguments;
use crate::{CommandError, CommandResult};
use clap::CommandFactory;
use serde_json::{Value as Json, json};
use stook_catalogue::functions::{FUNCTIONS, RULES};

pub fn help(topic: &[String], as_json: bool) -> CommandResult {
    match topic {
        [topic] if topic == "expressions" => expressions(as_json),
        _ if as_json => Err(CommandError::usage("only `stook help expressions` is shown as JSON")),
        names => {
            let mut command = Arguments::command();
            command.build();
            let mut found = &mut command;
            for name in names {
                found = found.find_subcommand_mut(name).ok_or_else(|| {
                    CommandError::usage(format!(
                        "there is no command or topic `{name}`; `stook help` lists the commands, and there is `stook help expressions`"
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
