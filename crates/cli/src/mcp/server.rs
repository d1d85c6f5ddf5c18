//! Answers messages: reads them one after the other, and runs tools in threads, so that a slow one delays no other and can be cancelled.

use super::protocol::{INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Message, PARSE_ERROR, Request, RpcError, read};
use super::{Context, tools};
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::io::{BufRead, Read, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stook_store::cancel::CancelToken;

/// Max bytes of a message.
const MAX_MESSAGE: usize = 4 << 20;
/// How long calls may go on when there is no more input.
const TIME_AFTER_INPUT: Duration = Duration::from_secs(5);
/// Max calls of tools that run at a time; further ones wait.
const MAX_RUNNING: usize = 4;
/// Max calls that run or wait.
const MAX_CALLS: usize = 64;
/// How long a tool may take that only reads.
pub const READ_TIME: Duration = Duration::from_secs(60);

/// What the model is told about the server.
const INSTRUCTIONS: &str = "A catalogue that combines the records of several sources: each record has one value for each field, chosen from what the sources say by rules \
    of the definition. Call describe_catalogue first: it names collections, fields and sources. Then query finds records, get_record shows one, and explain_record says which source \
    each value comes from and what other sources say instead. Results are pages: while a result has `next`, there is more.";

/// The calls of tools that are not answered yet.
#[derive(Default)]
struct Calls {
    state: Mutex<CallState>,
    changed: Condvar,
}

#[derive(Default)]
struct CallState {
    /// All calls, by the ids of their requests.
    tokens: HashMap<String, CancelToken>,
    /// How many of them run.
    running: usize,
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, CallState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a call; `None` if there are too many, or one with this id.
    fn add(&self, id: &Json) -> Option<CancelToken> {
        let mut state = self.lock();
        if state.tokens.len() >= MAX_CALLS || state.tokens.contains_key(&id.to_string()) {
            return None;
        }
        let token = CancelToken::default();
        state.tokens.insert(id.to_string(), token.clone());
        Some(token)
    }

    /// Waits until another call may run.
    fn begin(&self) {
        let state = self.changed.wait_while(self.lock(), |state| state.running >= MAX_RUNNING);
        state.unwrap_or_else(PoisonError::into_inner).running += 1;
    }

    /// Waits until a call has ended, for as long as it may take. Returns whether it has.
    fn wait_for(&self, id: &Json, time: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), time, |state| state.tokens.contains_key(&id.to_string()));
        let (_state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        !timeout.timed_out()
    }

    fn end(&self, id: &Json) {
        let mut state = self.lock();
        state.tokens.remove(&id.to_string());
        state.running -= 1;
        self.changed.notify_all();
    }

    fn cancel(&self, id: &Json) {
        if let Some(token) = self.lock().tokens.get(&id.to_string()) {
            token.cancel();
        }
    }

    /// Waits until all calls have ended, at most for this time.
    fn wait_for_all(&self, time: Duration) {
        drop(self.changed.wait_timeout_while(self.lock(), time, |state| !state.tokens.is_empty()));
    }

    fn cancel_all(&self) {
        self.lock().tokens.values().for_each(CancelToken::cancel);
    }
}

/// Answers messages until there are no more.
pub fn serve(context: &Context, mut input: impl BufRead, output: impl Write + Send) -> std::io::Result<()> {
    let (output, calls) = (Mutex::new(output), Calls::default());
    let (output, calls) = (&output, &calls);
    std::thread::scope(|scope| {
        let mut read_all = || -> std::io::Result<()> {
            while let Some(line) = next_line(&mut input)? {
                let message = match line {
                    Line::TooLong => Err(RpcError::new(PARSE_ERROR, format!("a message has at most {MAX_MESSAGE} bytes")).response(&Json::Null)),
                    Line::Text(text) if text.trim_ascii().is_empty() => continue,
                    Line::Text(text) => read(&text),
                };
                match message {
                    Err(response) => send(output, &response),
                    Ok(Message::Ignored) => {}
                    Ok(Message::Cancelled(id)) => calls.cancel(&id),
                    Ok(Message::Request(request)) if request.method == "tools/call" => match calls.add(&request.id) {
                        Some(token) => {
                            scope.spawn(move || {
                                calls.begin();
                                if let Some(limit) = tools::time_limit(&request) {
                                    let (token, id) = (token.clone(), request.id.clone());
                                    scope.spawn(move || {
                                        if !calls.wait_for(&id, limit) {
                                            token.cancel()
                                        }
                                    });
                                }
                                let response = token.during(|| answer(context, &request));
                                calls.end(&request.id);
                                send(output, &response);
                            });
                        }
                        None => {
                            let reason = format!("there are {MAX_CALLS} calls at a time at most, and no two with one id");
                            send(output, &RpcError::new(INVALID_REQUEST, reason).response(&request.id));
                        }
                    },
                    Ok(Message::Request(request)) => send(output, &answer(context, &request)),
                }
            }
            Ok(())
        };
        let ended = read_all();
        // whoever writes a few messages and closes the pipe still reads the responses; nobody waits for longer ones
        calls.wait_for_all(TIME_AFTER_INPUT);
        calls.cancel_all();
        ended
    })
}

/// A line of input, without its end.
enum Line {
    Text(Vec<u8>),
    TooLong,
}

fn next_line(input: &mut impl BufRead) -> std::io::Result<Option<Line>> {
    let mut text = Vec::new();
    let mut part = input.by_ref().take(MAX_MESSAGE as u64 + 1);
    if part.read_until(b'\n', &mut text)? == 0 {
        return Ok(None);
    }
    if text.len() <= MAX_MESSAGE || text.ends_with(b"\n") {
        return Ok(Some(Line::Text(text)));
    }
    input.skip_until(b'\n')?;
    Ok(Some(Line::TooLong))
}

fn send(output: &Mutex<impl Write>, response: &Json) {
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    // a client that has gone also closes standard input, which ends the program
    let _ = writeln!(output, "{response}").and_then(|()| output.flush());
}

fn answer(context: &Context, request: &Request) -> Json {
    let result = match request.method.as_str() {
        "initialize" => Ok(request.initialized(INSTRUCTIONS)),
        "server/discover" => Ok(request.discovered(INSTRUCTIONS)),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(request.uncached(json!({ "tools": tools::list(context.allows_writes) }))),
        "tools/call" => call(context, request),
        other => Err(RpcError::new(METHOD_NOT_FOUND, format!("there is no method {other:?} here; this server has tools"))),
    };
    match result {
        Ok(result) => request.response(result),
        Err(error) => error.response(&request.id),
    }
}

/// Calls a tool. What goes wrong in it is its result, which the model reads and can act on.
fn call(context: &Context, request: &Request) -> Result<Json, RpcError> {
    let named = request.params.get("name").and_then(Json::as_str).unwrap_or_default();
    let tool = tools::find(named, context.allows_writes).map_err(|reason| RpcError::new(INVALID_PARAMS, reason))?;
    let arguments = match request.params.get("arguments") {
        None | Some(Json::Null) => serde_json::Map::new(),
        Some(Json::Object(arguments)) => arguments.clone(),
        Some(_) => return Err(RpcError::new(INVALID_PARAMS, "arguments is an object")),
    };
    // a tool that fails must not take its thread along without an answer
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tool.run(context, arguments)));
    let ran = ran.map_err(|_| RpcError::new(INTERNAL_ERROR, format!("the tool {named} failed")))?;
    Ok(match ran {
        Ok(result) => json!({ "content": [{ "type": "text", "text": result.to_string() }], "structuredContent": result, "isError": false }),
        Err(reason) => json!({ "content": [{ "type": "text", "text": reason }], "isError": true }),
    })
}
