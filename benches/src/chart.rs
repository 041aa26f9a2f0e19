//! Charts for the documentation.

use std::path::Path;

use mongo_lease_measure::{Outcome, Spread};
use plotters::prelude::*;

const OURS: RGBColor = RGBColor(0x2a, 0x6f, 0x97);
const FLOOR: RGBColor = RGBColor(0x9a, 0x9a, 0x9a);

/// One comparison with the floor.
pub(crate) struct Bar {
    pub(crate) what: String,
    pub(crate) ratio: Spread,
}

/// A figure over time.
pub(crate) struct Line {
    pub(crate) what: String,
    pub(crate) is_floor: bool,
    /// Seconds, and milliseconds.
    pub(crate) points: Vec<(f64, f64)>,
}

/// A bar for each ratio, the quartiles as a line across its end, and the floor at 1.
pub(crate) fn bars(path: &Path, bars: &[Bar]) -> Outcome<()> {
    const ROW: u32 = 34;
    let rows = u32::try_from(bars.len())?;
    let root = SVGBackend::new(path, (760, rows * ROW + 90)).into_drawing_area();
    root.fill(&WHITE)?;
    let longest = bars.iter().map(|bar| bar.ratio.high).fold(1.0, f64::max) * 1.1;
    let count = i32::try_from(bars.len())?;
    let mut chart = ChartBuilder::on(&root)
        .caption("ours / the driver's floor, in the same run", ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(28)
        .y_label_area_size(250)
        .build_cartesian_2d(0.0..longest, (0..count - 1).into_segmented())?;
    let name = |at: &SegmentValue<i32>| match at {
        SegmentValue::CenterOf(row) => usize::try_from(count - 1 - row)
            .ok()
            .and_then(|row| bars.get(row))
            .map_or_else(String::new, |bar| bar.what.clone()),
        SegmentValue::Exact(_) | SegmentValue::Last => String::new(),
    };
    chart.configure_mesh().disable_y_mesh().y_labels(bars.len()).y_label_formatter(&name).draw()?;
    for (row, bar) in (0..count).rev().zip(bars) {
        let (bottom, top) = (SegmentValue::Exact(row), SegmentValue::Exact(row + 1));
        let mut rectangle = Rectangle::new([(0.0, bottom), (bar.ratio.median, top)], OURS.filled());
        rectangle.set_margin(7, 7, 0, 0);
        chart.draw_series([rectangle])?;
        let middle = SegmentValue::CenterOf(row);
        let ends = [(bar.ratio.low, middle.clone()), (bar.ratio.high, middle)];
        chart.draw_series([PathElement::new(ends, BLACK)])?;
    }
    let floor = [(1.0, SegmentValue::Exact(0)), (1.0, SegmentValue::Exact(count))];
    chart.draw_series([PathElement::new(floor, FLOOR.stroke_width(2))])?;
    root.present()?;
    Ok(())
}

/// A line for each, over time.
pub(crate) fn lines(path: &Path, lines: &[Line]) -> Outcome<()> {
    let root = SVGBackend::new(path, (760, 320)).into_drawing_area();
    root.fill(&WHITE)?;
    let points = || lines.iter().flat_map(|line| &line.points);
    let last = points().map(|point| point.0).fold(1.0, f64::max);
    let highest = points().map(|point| point.1).fold(1.0, f64::max) * 1.1;
    let mut chart = ChartBuilder::on(&root)
        .caption("ever new names: milliseconds a pair, over seconds", ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(28)
        .y_label_area_size(44)
        .build_cartesian_2d(0.0..last, 0.0..highest)?;
    chart.configure_mesh().draw()?;
    for line in lines {
        let colour = if line.is_floor { FLOOR } else { OURS };
        let series = LineSeries::new(line.points.iter().copied(), colour.stroke_width(2));
        chart
            .draw_series(series)?
            .label(&line.what)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart.configure_series_labels().border_style(FLOOR).background_style(WHITE).draw()?;
    root.present()?;
    Ok(())
}
