//! `$(NAME)` expansion of environment values, commands and arguments (C-2, C-4). No nesting, no default values.

/// Replaces each `$(NAME)` that `lookup` knows; unknown names stay as written, `$$` becomes `$`, and an unclosed `$(` or
/// a lone `$` stays.
pub fn expand(input: &str, lookup: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(input.len());
    let mut rest = input;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|r| r.split_once(')')) {
            match lookup(name) {
                Some(value) => out.push_str(&value),
                None => out.push_str(&format!("$({name})")),
            }
            rest = after;
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::expand;

    /// C-2: the vectors of the specification's section 12.4, and a few more.
    #[test]
    fn expands_as_kubelet_does() {
        let vectors = [
            ("$(A)", "1"),
            ("x$(A)y", "x1y"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$(B)", "$(B)"),
            ("$A", "$A"),
            ("$(A", "$(A"),
            ("$$", "$"),
            ("$()", "$()"),
            ("$", "$"),
            ("", ""),
            ("$(A)$(A)", "11"),
            ("$($(A))", "$($(A))"),
            ("$(EMPTY)", ""),
            ("€$(A)ü$", "€1ü$"),
            ("$(LOOP)", "$(A)"),
        ];
        let lookup = |name: &str| match name {
            "A" => Some("1".to_owned()),
            "EMPTY" => Some(String::new()),
            "LOOP" => Some("$(A)".to_owned()),
            _ => None,
        };
        for (written, result) in vectors {
            assert_eq!(expand(written, lookup), result, "{written}");
        }
    }
}
