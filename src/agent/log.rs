//! One line per happening on stderr. Levels (style rule 13): error = a person must act; warn = degraded, we go on;
//! info = a pod or container changed state.

use std::fmt::Display;
use std::io::Write;

/// How much a line matters, as syslog numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// A person must act.
    Error,
    /// Degraded, we go on.
    Warn,
    /// A pod or container changed state.
    Info,
}

impl Level {
    fn number(self) -> u8 {
        match self {
            Self::Error => 3,
            Self::Warn => 4,
            Self::Info => 6,
        }
    }
    fn word(self) -> &'static str {
        match self {
            Self::Error => "error: ",
            Self::Warn => "warning: ",
            Self::Info => "",
        }
    }
}

/// Writes lines, with `<N>` prefixes when stderr is the journal.
#[derive(Debug, Clone, Copy)]
pub struct Log {
    journal: bool,
}

impl Log {
    /// Looks at `JOURNAL_STREAM`.
    pub fn from_env() -> Self {
        Self {
            journal: std::env::var_os("JOURNAL_STREAM").is_some(),
        }
    }
    /// Degraded, we go on.
    pub fn warn(self, text: impl Display) {
        self.line(Level::Warn, text);
    }
    /// A pod or container changed state.
    pub fn info(self, text: impl Display) {
        self.line(Level::Info, text);
    }
    /// A person must act.
    pub fn error(self, text: impl Display) {
        self.line(Level::Error, text);
    }

    fn line(self, level: Level, text: impl Display) {
        let line = self.format(level, &text.to_string());
        // Nobody reads stderr any more: supervising goes on.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }

    /// Control characters would let a manifest or a container forge lines.
    fn format(self, level: Level, text: &str) -> String {
        let text: String = text
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        if self.journal {
            format!("<{}>{text}\n", level.number())
        } else {
            format!("{}{text}\n", level.word())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_cannot_be_forged() {
        let journal = Log { journal: true };
        assert_eq!(journal.format(Level::Warn, "a\n<0>b"), "<4>a <0>b\n");
        let terminal = Log { journal: false };
        assert_eq!(terminal.format(Level::Error, "a"), "error: a\n");
    }
}
