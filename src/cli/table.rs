//! Columns, aligned as kubectl does it: three spaces apart, the last one as long as it likes.

/// Lays out rows; the first is the head. Every row has as many cells as the head.
pub fn render(rows: &[Vec<String>]) -> String {
    Layout::default().render(rows)
}

/// A table that goes on: its columns stay where they were, unless a cell needs more.
#[derive(Debug, Default)]
pub struct Layout {
    widths: Vec<usize>,
}

impl Layout {
    /// Lays out further rows.
    pub fn render(&mut self, rows: &[Vec<String>]) -> String {
        for row in rows {
            self.widths.resize(row.len().max(self.widths.len()), 0);
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        rows.iter().map(|row| line(row, &self.widths)).collect()
    }
}

fn line(row: &[String], widths: &[usize]) -> String {
    let cells: String = row
        .iter()
        .zip(widths)
        // A row stays a row, whatever a message holds.
        .map(|(cell, width)| format!("{:width$}   ", cell.replace('\n', " ")))
        .collect();
    format!("{}\n", cells.trim_end())
}
