//! Columns, aligned as kubectl does it: three spaces apart, the last one as long as it likes.

/// Lays out rows; the first is the head. Every row has as many cells as the head.
pub fn render(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns).map(|column| width(rows, column)).collect();
    rows.iter().map(|row| line(row, &widths)).collect()
}

fn width(rows: &[Vec<String>], column: usize) -> usize {
    rows.iter()
        .filter_map(|row| row.get(column))
        .map(|cell| cell.chars().count())
        .max()
        .unwrap_or(0)
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
