//! YAML and JSON text to trees that know their lines. Untyped: what a plain `0400` or `yes` means is decided by
//! [`super::decode`], which knows the type that is asked for.
//!
//! Read with `granit-parser`, the event parser under serde-saphyr, and not with serde_yaml: that one is frozen upstream,
//! its multi-document iterator repeats a syntax error for ever and panics on an undefined alias, and it tells neither
//! lines nor whether a scalar was quoted. From events we get in one pass, with less code than the adapters around either
//! crate would take, lines for every field and key, documents that fail alone, duplicate keys and bounded aliases.
//!
//! Invariant: time and memory are bounded by the text's size and [`MAX_WEIGHT`], recursion by [`MAX_DEPTH`].

use std::collections::BTreeMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

/// Levels of nesting, aliases expanded.
const MAX_DEPTH: usize = 100;
/// Sum over all values of a file, aliases expanded, of [`NODE_WEIGHT`] plus the text's bytes.
const MAX_WEIGHT: usize = 12 << 20;
const NODE_WEIGHT: usize = 64;
/// Problems reported per file; more help nobody.
const MAX_PROBLEMS: usize = 50;

/// A value and where it begins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// From 1.
    pub line: u32,
    pub value: Value,
}

/// What a [`Node`] is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Scalar(Scalar),
    Sequence(Vec<Node>),
    Mapping(Vec<Entry>),
}

/// Text that is not yet interpreted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scalar {
    pub text: String,
    /// Not quoted: may also be a number, a boolean or null.
    pub plain: bool,
}

/// One key of a mapping. Keys are unique.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub key: String,
    /// Line of the key, from 1.
    pub line: u32,
    pub node: Node,
}

/// What is wrong with the text itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Problem {
    pub line: u32,
    pub message: String,
}

impl Node {
    /// The value below `key`, if this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Mapping(entries) => entries.iter().find(|e| e.key == key),
            Value::Scalar(_) | Value::Sequence(_) => None,
        }
    }

    /// Elements, if this is a sequence.
    pub fn items(&self) -> &[Node] {
        match &self.value {
            Value::Sequence(items) => items,
            Value::Scalar(_) | Value::Mapping(_) => &[],
        }
    }

    /// The text, if this is a scalar other than null.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(_) if self.is_null() => None,
            Value::Scalar(scalar) => Some(&scalar.text),
            Value::Sequence(_) | Value::Mapping(_) => None,
        }
    }

    /// Is it nothing, as in `key:`?
    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar(s) if s.plain && super::scalar::is_null(&s.text))
    }

    /// Is it null, `[]` or `{}`?
    pub fn is_empty(&self) -> bool {
        match &self.value {
            Value::Scalar(_) => self.is_null(),
            Value::Sequence(items) => items.is_empty(),
            Value::Mapping(entries) => entries.is_empty(),
        }
    }

    /// Line of the field at `path` (`spec.containers[0].image`, `metadata.labels[a.b/c]`), or of the deepest part of it
    /// that exists.
    pub fn line_of(&self, path: &str) -> u32 {
        let mut line = self.line;
        let mut node = self;
        let mut rest = path;
        while let Some((step, after)) = next_step(rest) {
            rest = after;
            let next = match &node.value {
                Value::Sequence(items) => step
                    .parse::<usize>()
                    .ok()
                    .and_then(|i| items.get(i))
                    .map(|n| (n.line, n)),
                Value::Mapping(_) => node.get(step).map(|e| (e.line, &e.node)),
                Value::Scalar(_) => None,
            };
            match next {
                Some((found, child)) => (line, node) = (found, child),
                None => break,
            }
        }
        line
    }

    /// Weight and height of the tree.
    fn measure(&self) -> (usize, usize) {
        match &self.value {
            Value::Scalar(scalar) => (NODE_WEIGHT + scalar.text.len(), 1),
            Value::Sequence(items) => tally(items.iter().map(Node::measure)),
            Value::Mapping(entries) => tally(entries.iter().map(|e| {
                let (weight, height) = e.node.measure();
                (weight + NODE_WEIGHT + e.key.len(), height)
            })),
        }
    }
}

/// The first step of a path (`b`, `b` or `0` of `b.c`, `[b].c` or `[0].c`) and what follows.
fn next_step(path: &str) -> Option<(&str, &str)> {
    let path = path.strip_prefix('.').unwrap_or(path);
    if let Some(bracketed) = path.strip_prefix('[') {
        return bracketed.split_once(']');
    }
    let end = path.find(['.', '[']).unwrap_or(path.len());
    (end > 0).then(|| path.split_at(end))
}

fn tally(children: impl Iterator<Item = (usize, usize)>) -> (usize, usize) {
    children.fold((NODE_WEIGHT, 1), |(weight, height), child| {
        (weight + child.0, height.max(child.1 + 1))
    })
}

/// Reads all documents of a text. Empty documents are left out; broken ones are in the problems.
pub(crate) fn read(text: &str) -> (Vec<Node>, Vec<Problem>) {
    let options = granit_parser::options! {
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
        // As libyaml and its port in Go have it.
        block_scalar_eof_without_line_feed: true,
    };
    let mut composer = Composer {
        parser: Parser::new_from_str_with_options(text, options),
        text,
        anchors: BTreeMap::new(),
        weight: 0,
        problems: Vec::new(),
    };
    let mut documents = Vec::new();
    loop {
        match composer.document() {
            Ok(None) => break,
            Ok(Some(root)) if root.is_null() => {}
            Ok(Some(root)) => documents.push(root),
            Err(problem) => composer.problems.push(problem),
        }
        // Beyond its bounds the rest of a file is not even scanned.
        let enough = composer.problems.len() >= MAX_PROBLEMS || composer.weight > MAX_WEIGHT;
        if enough || !composer.parser.proceed_next_document().unwrap_or(false) {
            break;
        }
    }
    (documents, composer.problems)
}

struct Composer<'a> {
    parser: Parser<'a, StrInput<'a>>,
    text: &'a str,
    /// Finished anchored values of the current document.
    anchors: BTreeMap<usize, Node>,
    weight: usize,
    /// Duplicate keys and the like, which do not end the document.
    problems: Vec<Problem>,
}

type Step<T> = Result<T, Problem>;

impl<'a> Composer<'a> {
    /// The next document; none at the end of the text.
    fn document(&mut self) -> Step<Option<Node>> {
        self.anchors.clear();
        loop {
            let (event, span) = self.next()?;
            if event == Event::StreamEnd {
                return Ok(None);
            }
            if event.is_node() {
                return self.node(event, span, 1).map(Some);
            }
        }
    }

    fn next(&mut self) -> Step<(Event<'a>, Span)> {
        match self.parser.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => Err(self.syntax(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Step<Node> {
        let line = line(&span);
        self.spend(NODE_WEIGHT, line)?;
        if depth > MAX_DEPTH {
            return Err(too_deep(line));
        }
        let anchor = event.anchor_id();
        let value = match event {
            Event::Alias(id) => return self.alias(id, line, depth),
            Event::Scalar(text, style, _, tag) => {
                self.spend(text.len(), line)?;
                Value::Scalar(Scalar {
                    plain: is_plain(style, tag.as_deref()),
                    text: text.into_owned(),
                })
            }
            Event::SequenceStart(..) => self.sequence(depth)?,
            Event::MappingStart(..) => self.mapping(depth)?,
            Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(..)
            | Event::DocumentEnd
            | Event::Anchor(..)
            | Event::UnresolvedAlias(_)
            | Event::SequenceEnd
            | Event::MappingEnd
            | _ => return Err(problem(line, "a value is missing")),
        };
        let node = Node { line, value };
        if let Some(id) = anchor {
            self.spend(node.measure().0, line)?;
            self.anchors.insert(id, node.clone());
        }
        Ok(node)
    }

    /// An alias is its anchor's value once more; this is where a billion laughs would be bought.
    fn alias(&mut self, id: usize, line: u32, depth: usize) -> Step<Node> {
        let Some(node) = self.anchors.get(&id) else {
            return Err(problem(line, "an alias inside its own anchor"));
        };
        let (weight, height) = node.measure();
        let node = node.clone();
        self.spend(weight, line)?;
        if depth + height > MAX_DEPTH {
            return Err(too_deep(line));
        }
        Ok(node)
    }

    fn sequence(&mut self, depth: usize) -> Step<Value> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(Value::Sequence(items));
            }
            items.push(self.node(event, span, depth + 1)?);
        }
    }

    fn mapping(&mut self, depth: usize) -> Step<Value> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut merges = Vec::new();
        let mut seen = BTreeMap::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                merge(&mut entries, merges, &mut seen);
                return Ok(Value::Mapping(entries));
            }
            let line = line(&span);
            let (key, plain) = match self.node(event, span, depth + 1)?.value {
                Value::Scalar(Scalar { text, plain }) => (text, plain),
                Value::Sequence(_) | Value::Mapping(_) => {
                    return Err(problem(line, "a key must be a simple text"));
                }
            };
            let (event, span) = self.next()?;
            let node = self.node(event, span, depth + 1)?;
            if plain && key == "<<" {
                merges.push(node);
            } else if let Some(before) = seen.insert(key.clone(), line) {
                let message = format!("duplicate key {key:?}, already on line {before}");
                self.report(problem(line, &message));
            } else {
                entries.push(Entry { key, line, node });
            }
        }
    }

    fn report(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    fn spend(&mut self, weight: usize, line: u32) -> Step<()> {
        self.weight = self.weight.saturating_add(weight);
        if self.weight > MAX_WEIGHT {
            return Err(problem(
                line,
                "too many values, counting each alias as the whole value it stands for",
            ));
        }
        Ok(())
    }

    fn syntax(&self, error: &ScanError) -> Problem {
        let line = error.marker().line();
        let source = self.text.lines().nth(line.saturating_sub(1)).unwrap_or("");
        let indent = &source[..source.len() - source.trim_start().len()];
        let line = number(line);
        if *error.kind() == ErrorKind::RecursionLimitExceeded {
            too_deep(line)
        } else if *error.kind() == ErrorKind::UnknownAnchor {
            problem(
                line,
                "an alias without its anchor; quote the text if the '*' belongs to it",
            )
        } else if indent.contains('\t') {
            problem(line, "a tab in the indentation; YAML wants spaces")
        } else {
            problem(line, &error.info())
        }
    }
}

/// YAML 1.1 `<<`: the keys of other mappings, where not set here.
fn merge(entries: &mut Vec<Entry>, merges: Vec<Node>, seen: &mut BTreeMap<String, u32>) {
    for node in merges {
        let sources = match node.value {
            Value::Sequence(items) => items.into_iter().map(|n| n.value).collect(),
            value @ (Value::Mapping(_) | Value::Scalar(_)) => vec![value],
        };
        for source in sources {
            if let Value::Mapping(theirs) = source {
                let is_new = |e: &Entry| seen.insert(e.key.clone(), e.line).is_none();
                entries.extend(theirs.into_iter().filter(is_new));
            }
        }
    }
}

/// `!!str 1` is text, `!!int "1"` is not.
fn is_plain(style: ScalarStyle, tag: Option<&Tag>) -> bool {
    match tag.and_then(Tag::core_suffix) {
        Some("str") => false,
        Some("int" | "bool" | "float" | "null") => true,
        Some(_) | None => style == ScalarStyle::Plain,
    }
}

fn line(span: &Span) -> u32 {
    number(span.start.line())
}

fn number(line: usize) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX).max(1)
}

fn problem(line: u32, message: &str) -> Problem {
    Problem {
        line,
        message: message.to_owned(),
    }
}

fn too_deep(line: u32) -> Problem {
    problem(line, &format!("nested deeper than {MAX_DEPTH} levels"))
}

#[cfg(test)]
mod tests;
