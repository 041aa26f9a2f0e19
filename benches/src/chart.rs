//! Charts for the documentation.

use std::path::Path;

use mongo_lease_measure::Outcome;
use plotters::prelude::*;

use crate::combine::CombinedFigure;

const OURS: RGBColor = RGBColor(0x2a, 0x6f, 0x97);
const FLOOR: RGBColor = RGBColor(0x9a, 0x9a, 0x9a);
const LINES: [RGBColor; 9] = [
    OURS,
    RGBColor(0xc9, 0x6b, 0x2e),
    RGBColor(0x4b, 0x8f, 0x4b),
    RGBColor(0x8a, 0x4f, 0x9e),
    RGBColor(0xb8, 0x3b, 0x4b),
    RGBColor(0x6b, 0x5b, 0x3a),
    RGBColor(0x2f, 0x8f, 0x8f),
    RGBColor(0x55, 0x55, 0x55),
    RGBColor(0xd9, 0x9a, 0xc2),
];

/// A bar for each ratio, its range as a line across its end, and the floor at 1.
pub(crate) fn bars(path: &Path, bars: &[&CombinedFigure]) -> Outcome<()> {
    const ROW: u32 = 30;
    let rows = u32::try_from(bars.len())?;
    let root = SVGBackend::new(path, (900, rows * ROW + 90)).into_drawing_area();
    root.fill(&WHITE)?;
    let longest = bars.iter().map(|bar| range(bar).1).fold(1.0, f64::max) * 1.1;
    let count = i32::try_from(bars.len())?;
    let mut chart = ChartBuilder::on(&root)
        .caption(
            "ours / the floor in the same run (pairs a second: more is better; else less)",
            ("sans-serif", 16),
        )
        .margin(12)
        .x_label_area_size(28)
        .y_label_area_size(400)
        .build_cartesian_2d(0.0..longest, (0..count - 1).into_segmented())?;
    let name = |at: &SegmentValue<i32>| match at {
        SegmentValue::CenterOf(row) => usize::try_from(count - 1 - row)
            .ok()
            .and_then(|row| bars.get(row))
            .map_or_else(String::new, |bar| label(bar)),
        SegmentValue::Exact(_) | SegmentValue::Last => String::new(),
    };
    chart.configure_mesh().disable_y_mesh().y_labels(bars.len()).y_label_formatter(&name).draw()?;
    for (row, bar) in (0..count).rev().zip(bars) {
        let (bottom, top) = (SegmentValue::Exact(row), SegmentValue::Exact(row + 1));
        let ends = [(0.0, bottom), (bar.figure.value, top)];
        let mut rectangle = Rectangle::new(ends, OURS.filled());
        rectangle.set_margin(7, 7, 0, 0);
        chart.draw_series([rectangle])?;
        let middle = SegmentValue::CenterOf(row);
        let (low, high) = range(bar);
        chart.draw_series([PathElement::new([(low, middle.clone()), (high, middle)], BLACK)])?;
    }
    let floor = [(1.0, SegmentValue::Exact(0)), (1.0, SegmentValue::Exact(count))];
    chart.draw_series([PathElement::new(floor, FLOOR.stroke_width(2))])?;
    root.present()?;
    Ok(())
}

/// A line for each subject's ratio over sizes, on logarithmic axes, and the floor at 1.
pub(crate) fn by_size(path: &Path, caption: &str, rows: &[&CombinedFigure]) -> Outcome<()> {
    let root = SVGBackend::new(path, (860, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let point = |row: &CombinedFigure| {
        (row.figure.column.as_ref().and_then(|it| it.size).unwrap_or(1.0), row.figure.value)
    };
    let sizes = || rows.iter().map(|row| point(row).0);
    let (first, last) = (sizes().fold(f64::MAX, f64::min), sizes().fold(1.0, f64::max) * 1.01);
    let highest = rows.iter().map(|row| point(row).1).fold(1.0, f64::max) * 1.3;
    // The labels stand below the lines.
    let lowest = rows.iter().map(|row| point(row).1).fold(1.0, f64::min) / 6.0;
    let caption = format!("{caption}: ours / the floor at the same size");
    let mut chart = ChartBuilder::on(&root)
        .caption(caption, ("sans-serif", 16))
        .margin(12)
        .margin_right(40)
        .x_label_area_size(28)
        .y_label_area_size(44)
        .build_cartesian_2d((first..last).log_scale(), (lowest..highest).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|size| format!("{size:.0}"))
        .y_label_formatter(&|ratio| format!("{ratio:.1}"))
        .draw()?;
    chart.draw_series(LineSeries::new([(first, 1.0), (last, 1.0)], FLOOR.stroke_width(2)))?;
    let mut subjects: Vec<&CombinedFigure> = Vec::new();
    for row in rows {
        if !subjects.iter().any(|subject| subject.figure.is_same_row(&row.figure)) {
            subjects.push(row);
        }
    }
    for (subject, colour) in subjects.into_iter().zip(LINES.iter().cycle()) {
        let its = rows.iter().filter(|row| row.figure.is_same_row(&subject.figure));
        let mut points: Vec<(f64, f64)> = its.map(|row| point(row)).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        let dots = points.iter().map(|at| Circle::new(*at, 3, colour.filled()));
        chart.draw_series(dots)?;
        chart
            .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?
            .label(label(subject))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    let labels = &mut chart.configure_series_labels();
    labels.position(SeriesLabelPosition::LowerLeft).border_style(FLOOR).background_style(WHITE);
    labels.draw()?;
    root.present()?;
    Ok(())
}

fn label(row: &CombinedFigure) -> String {
    format!("{} / {}", row.figure.what, row.figure.beside).replace('`', "")
}

/// Of the runs, or of one run's rounds.
fn range(row: &CombinedFigure) -> (f64, f64) {
    row.figure.quartiles.unwrap_or(row.range)
}
