//! Collects the remarks about one file.

use std::cell::RefCell;

use super::yaml::Node;
use super::{Diagnostic, Severity};

/// Remarks on one file; the later ones beyond [`MAX`] are counted only.
pub(super) struct Report<'a> {
    file: &'a str,
    found: RefCell<Vec<Diagnostic>>,
    /// Fields that stand for something else than what was written; what follows from that is not worth reporting.
    mistaken: RefCell<Vec<String>>,
}

/// More remarks on one file help nobody.
const MAX: usize = 200;
/// Bytes of a field's path and of a message each: both may quote the file.
const MAX_TEXT: usize = 1024;

impl<'a> Report<'a> {
    pub fn new(file: &'a str) -> Self {
        Self {
            file,
            found: RefCell::default(),
            mistaken: RefCell::default(),
        }
    }

    pub fn add(&self, severity: Severity, line: Option<u32>, field: &str, message: &str) {
        if self.is_full(severity) {
            return;
        }
        let diagnostic = Diagnostic {
            severity,
            file: self.file.to_owned(),
            line,
            field: shortened(field),
            message: shortened(message),
        };
        let mut found = self.found.borrow_mut();
        // A document may be gone through more than once.
        if !found.contains(&diagnostic) {
            found.push(diagnostic);
        }
    }

    /// A further remark of this kind would be left out. Asked before work that grows with the file.
    fn is_full(&self, severity: Severity) -> bool {
        let room = match severity {
            Severity::Warning => MAX,
            Severity::Error => 2 * MAX,
        };
        self.found.borrow().len() >= room
    }

    pub fn error(&self, line: u32, field: &str, message: &str) {
        self.add(Severity::Error, Some(line), field, message);
    }

    pub fn warn(&self, line: u32, field: &str, message: &str) {
        self.add(Severity::Warning, Some(line), field, message);
    }

    /// An error in a field that goes on with a zero value.
    pub fn mistake(&self, line: u32, field: &str, message: &str) {
        self.error(line, field, message);
        self.mistaken.borrow_mut().push(field.to_owned());
    }

    /// Whether a field stands for something else than what was written.
    pub fn has_mistakes(&self) -> bool {
        !self.mistaken.borrow().is_empty()
    }

    fn is_mistaken(&self, field: &str) -> bool {
        self.mistaken.borrow().iter().any(|mistaken| {
            field
                .strip_prefix(mistaken.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }

    /// How many remarks there are; with [`Self::since`], those of one pod.
    pub fn mark(&self) -> usize {
        self.found.borrow().len()
    }

    pub fn since(&self, mark: usize) -> Vec<Diagnostic> {
        self.found.borrow()[mark..].to_vec()
    }

    pub fn has_errors_since(&self, mark: usize) -> bool {
        self.found.borrow()[mark..]
            .iter()
            .any(|d| d.severity == Severity::Error)
    }

    /// All remarks in the order of their lines.
    pub fn finish(self) -> Vec<Diagnostic> {
        let mut found = self.found.into_inner();
        found.sort_by_key(|d| d.line);
        found
    }
}

fn shortened(text: &str) -> String {
    if text.len() <= MAX_TEXT {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(MAX_TEXT)])
}

/// One pod document (or item of a list), for checks that name fields by path.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub report: &'a Report<'a>,
    /// The pod as it is written.
    pub node: &'a Node,
    /// `items[2].` in a list, else empty.
    pub prefix: &'a str,
}

impl Scope<'_> {
    pub fn error(&self, path: &str, message: &str) {
        if self.report.is_full(Severity::Error) {
            return;
        }
        let field = format!("{}{path}", self.prefix);
        if !self.report.is_mistaken(&field) {
            self.report.error(self.node.line_of(path), &field, message);
        }
    }

    pub fn warn(&self, path: &str, message: &str) {
        if self.report.is_full(Severity::Warning) {
            return;
        }
        let field = format!("{}{path}", self.prefix);
        self.report.warn(self.node.line_of(path), &field, message);
    }
}
