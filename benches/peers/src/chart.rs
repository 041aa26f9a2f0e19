//! Charts for the documentation.

use std::path::Path;

use mongo_lease_measure::{Outcome, Spread};
use plotters::prelude::*;

const OURS: RGBColor = RGBColor(0x2a, 0x6f, 0x97);
const PEER: RGBColor = RGBColor(0xc9, 0x8b, 0x4e);
const FLOOR: RGBColor = RGBColor(0xb4, 0xb4, 0xb4);

/// A picture, and the file that it goes to.
pub(crate) struct Chart {
    pub(crate) file: &'static str,
    pub(crate) caption: &'static str,
    pub(crate) bars: Vec<Bar>,
}

/// One bar.
pub(crate) struct Bar {
    pub(crate) what: String,
    pub(crate) spread: Spread,
    pub(crate) is_floor: bool,
}

impl Bar {
    fn colour(&self) -> RGBColor {
        if self.is_floor {
            FLOOR
        } else if self.what.starts_with("mongo-lease") {
            OURS
        } else {
            PEER
        }
    }
}

impl Chart {
    /// A bar for each on a logarithmic scale, with the quartiles as a line across its end.
    pub(crate) fn draw(&self, folder: &Path) -> Outcome<()> {
        const ROW: u32 = 30;
        let bars = &self.bars;
        let path = folder.join(self.file);
        let rows = u32::try_from(bars.len())?;
        let root = SVGBackend::new(&path, (820, rows * ROW + 90)).into_drawing_area();
        root.fill(&WHITE)?;
        let low = bars.iter().map(|bar| bar.spread.low).fold(1.0, f64::min) / 1.5;
        let high = bars.iter().map(|bar| bar.spread.high).fold(1.0, f64::max) * 1.2;
        let count = i32::try_from(bars.len())?;
        let mut chart = ChartBuilder::on(&root)
            .caption(self.caption, ("sans-serif", 16))
            .margin(12)
            .x_label_area_size(28)
            .y_label_area_size(330)
            .build_cartesian_2d((low..high).log_scale(), (0..count - 1).into_segmented())?;
        let name = |at: &SegmentValue<i32>| match at {
            SegmentValue::CenterOf(row) => usize::try_from(count - 1 - row)
                .ok()
                .and_then(|row| bars.get(row))
                .map_or_else(String::new, |bar| bar.what.clone()),
            SegmentValue::Exact(_) | SegmentValue::Last => String::new(),
        };
        let mut mesh = chart.configure_mesh();
        mesh.disable_y_mesh().light_line_style(WHITE).x_labels(4);
        mesh.y_labels(bars.len()).y_label_formatter(&name).draw()?;
        for (row, bar) in (0..count).rev().zip(bars) {
            let (bottom, top) = (SegmentValue::Exact(row), SegmentValue::Exact(row + 1));
            let corners = [(low, bottom), (bar.spread.median, top)];
            let mut rectangle = Rectangle::new(corners, bar.colour().filled());
            rectangle.set_margin(6, 6, 0, 0);
            chart.draw_series([rectangle])?;
            let middle = SegmentValue::CenterOf(row);
            let ends = [(bar.spread.low, middle.clone()), (bar.spread.high, middle)];
            chart.draw_series([PathElement::new(ends, BLACK)])?;
        }
        root.present()?;
        Ok(())
    }
}
