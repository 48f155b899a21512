//! Lines of `name: value`, at a depth, in kubectl's columns.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

/// A page as it grows. Writing to a String cannot fail, so results are dropped.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
}

impl Page {
    /// `name: value`.
    pub fn row(&mut self, depth: usize, name: &str, value: impl Display) {
        // kubectl's columns.
        let column: usize = if depth == 0 { 17 } else { 19 };
        let width = column.saturating_sub(depth * 2);
        // Further lines of a message are set in, so that they cannot be taken for rows.
        let further = format!("\n{:column$} ", "");
        let value = value.to_string().trim_end().replace('\n', &further);
        let _ = writeln!(
            self.text,
            "{:indent$}{:width$} {value}",
            "",
            format!("{name}:"),
            indent = depth * 2
        );
    }

    /// The same, if there is a value.
    pub fn optional(&mut self, depth: usize, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.row(depth, name, value);
        }
    }

    /// `name:`, with what follows below.
    pub fn head(&mut self, depth: usize, name: &str) {
        let _ = writeln!(self.text, "{:indent$}{name}:", "", indent = depth * 2);
    }

    /// A line of its own.
    pub fn line(&mut self, depth: usize, value: impl Display) {
        let _ = writeln!(self.text, "{:indent$}{value}", "", indent = depth * 2);
    }

    /// Labels and such, one a line.
    pub fn map(&mut self, name: &str, map: Option<&BTreeMap<String, String>>, separator: &str) {
        let mut name = format!("{name}:");
        for (key, value) in map.into_iter().flatten() {
            let _ = writeln!(self.text, "{name:17} {key}{separator}{value}");
            name.clear();
        }
        if !name.is_empty() {
            let _ = writeln!(self.text, "{name:17} <none>");
        }
    }

    /// Text that has its lines already.
    pub fn paste(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// All of it.
    pub fn into_text(self) -> String {
        self.text
    }
}
