//! The error of a command, and its exit code.

/// The error of a command.
#[derive(Debug)]
pub struct CommandError {
    /// The message for the user, possibly several lines.
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
    /// Makes an error with exit code 1.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 1 }
    }

    /// Makes an error for wrong usage, with exit code 64.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 64 }
    }
}

/// The result of a command: the exit code, or an error.
pub type CommandResult = Result<u8, CommandError>;
