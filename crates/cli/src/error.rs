//! What a command says when it cannot do its work, and its exit code.

/// What a command says when it cannot do its work.
#[derive(Debug)]
pub struct CommandError {
    /// Words for the person at the terminal, possibly several lines.
    pub message: String,
    /// The exit code.
    pub code: u8,
}

impl<E: std::error::Error> From<E> for CommandError {
    fn from(error: E) -> Self {
        Self { message: error.to_string(), code: 1 }
    }
}

impl CommandError {
    /// A failure with exit code 1.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 1 }
    }

    /// Wrong usage.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 64 }
    }
}

/// Results of commands: the exit code of those that did their work.
pub type CommandResult = Result<u8, CommandError>;
