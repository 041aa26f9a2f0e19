//! The parts of a picture: lanes, bars, arrows and numbered steps.

use svg::node::element::{Circle, Description, Group, Line, Polygon, Rectangle, Text, Title};
use svg::{Document, Node};

/// The width of every picture.
const WIDTH: f64 = 1000.0;
/// Where lanes begin: their names stand to the left.
const LANES: f64 = 185.0;
const MARGIN: f64 = 24.0;
/// Half of a bar's height.
const HALF: f64 = 19.0;
/// The size of letters.
const SIZE: f64 = 16.0;
const LINE: f64 = 25.0;

/// A colour, by its role.
#[derive(Clone, Copy)]
pub(crate) enum Ink {
    Text,
    Quiet,
    First,
    Second,
    Stalled,
    Refused,
}

impl Ink {
    const fn stroke(self) -> &'static str {
        match self {
            Ink::Text => "#1f2328",
            Ink::Quiet => "#59636e",
            Ink::First => "#2a6f97",
            Ink::Second => "#2d6a2e",
            Ink::Stalled => "#8a5a00",
            Ink::Refused => "#b3261e",
        }
    }

    const fn fill(self) -> &'static str {
        match self {
            Ink::Text => "#ffffff",
            Ink::Quiet => "#eaeef2",
            Ink::First => "#cfe5f2",
            Ink::Second => "#d3ecd3",
            Ink::Stalled => "#fbe6bf",
            Ink::Refused => "#fbd9d6",
        }
    }
}

/// The place of a text. Tests look whether two of them overlap.
#[derive(Clone, Debug)]
pub struct Label {
    /// The text.
    pub text: String,
    /// Its left end.
    pub left: f64,
    /// Its right end, by a guess that is rather too wide.
    pub right: f64,
    /// The line that it stands on.
    pub base: f64,
}

/// A picture: time goes to the right, and each lane is a process or a document.
pub struct Picture {
    height: f64,
    title: &'static str,
    about: &'static str,
    content: Group,
    labels: Vec<Label>,
}

impl Picture {
    pub(crate) fn new(height: f64, title: &'static str, about: &'static str) -> Picture {
        let content = Group::new().set("font-family", "Helvetica, Arial, sans-serif");
        let mut picture = Picture { height, title, about, content, labels: Vec::new() };
        picture.text(MARGIN, 38.0, title, Ink::Text, Weight::Bold);
        picture
    }

    /// A lane with a name, which may have a second line.
    pub(crate) fn lane(&mut self, y: f64, name: &str, remark: &str) {
        self.line((LANES, y), (WIDTH - MARGIN, y), Ink::Quiet, Stroke::Dotted);
        let base = if remark.is_empty() { y + 5.0 } else { y - 4.0 };
        self.text(MARGIN, base, name, Ink::Text, Weight::Bold);
        if !remark.is_empty() {
            self.text(MARGIN, y + 16.0, remark, Ink::Quiet, Weight::Plain);
        }
    }

    /// A state that lasts, with its description.
    pub(crate) fn bar(&mut self, y: f64, from: f64, to: f64, ink: Ink, texts: &[&str]) {
        let height = HALF * if texts.len() > 1 { 3.0 } else { 2.0 };
        let bar = Rectangle::new()
            .set("x", from)
            .set("y", y - height / 2.0)
            .set("width", to - from)
            .set("height", height)
            .set("rx", 4)
            .set("fill", ink.fill())
            .set("stroke", ink.stroke());
        self.add(bar);
        let lines = texts.iter().zip(0_u32..);
        let first = if texts.len() > 1 { y - 6.0 } else { y + 5.5 };
        for (text, number) in lines {
            self.text(from + 10.0, first + 22.0 * f64::from(number), text, ink, Weight::Plain);
        }
    }

    /// A command or an event. `from` and `to` are heights.
    pub(crate) fn arrow(&mut self, x: f64, from: f64, to: f64, ink: Ink) {
        let down = (to - from).signum();
        self.line((x, from), (x, to - down * 8.0), ink, Stroke::Whole);
        let head = [(x, to), (x - 6.0, to - down * 11.0), (x + 6.0, to - down * 11.0)];
        let points: Vec<String> = head.iter().map(|(x, y)| format!("{x},{y}")).collect();
        self.add(Polygon::new().set("points", points.join(" ")).set("fill", ink.stroke()));
    }

    /// A cross at the end of an arrow that is refused.
    pub(crate) fn cross(&mut self, x: f64, y: f64) {
        self.line((x - 9.0, y - 9.0), (x + 9.0, y + 9.0), Ink::Refused, Stroke::Thick);
        self.line((x - 9.0, y + 9.0), (x + 9.0, y - 9.0), Ink::Refused, Stroke::Thick);
    }

    /// A moment in all lanes.
    pub(crate) fn moment(&mut self, x: f64, from: f64, to: f64, ink: Ink) {
        self.line((x, from), (x, to), ink, Stroke::Dashed);
    }

    /// The number of a step, as the list below the lanes has it.
    pub(crate) fn step(&mut self, number: u32, x: f64, y: f64, ink: Ink) {
        self.add(Circle::new().set("cx", x).set("cy", y).set("r", 12).set("fill", ink.stroke()));
        let text = Text::new(number.to_string())
            .set("x", x)
            .set("y", y + 5.5)
            .set("text-anchor", "middle")
            .set("font-size", SIZE)
            .set("font-weight", "bold")
            .set("fill", "#ffffff");
        self.add(text);
        self.labels.push(Label {
            text: number.to_string(),
            left: x - 12.0,
            right: x + 12.0,
            base: y + 5.5,
        });
    }

    /// The list of steps.
    pub(crate) fn steps(&mut self, top: f64, steps: &[(Ink, &str, &str)]) {
        for ((ink, head, text), number) in steps.iter().zip(1_u32..) {
            let y = top + f64::from(number - 1) * LINE;
            self.step(number, MARGIN + 12.0, y, *ink);
            self.text(MARGIN + 36.0, y + 5.5, head, *ink, Weight::Bold);
            self.text(LANES, y + 5.5, text, Ink::Text, Weight::Plain);
        }
    }

    /// A text beside an arrow or a bar.
    pub(crate) fn note(&mut self, x: f64, base: f64, text: &str, ink: Ink) {
        self.text(x, base, text, ink, Weight::Plain);
    }

    /// Where the texts stand.
    #[must_use]
    pub fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// The width and the height.
    #[must_use]
    pub fn extent(&self) -> (f64, f64) {
        (WIDTH, self.height)
    }

    /// The picture as a file.
    #[must_use]
    pub fn svg(&self) -> String {
        let background = Rectangle::new()
            .set("width", WIDTH)
            .set("height", self.height)
            .set("rx", 8)
            .set("fill", "#ffffff");
        let document = Document::new()
            .set("viewBox", (0, 0, WIDTH, self.height))
            .set("width", WIDTH)
            .set("height", self.height)
            .set("role", "img")
            .add(Title::new(self.title))
            .add(Description::new().add(svg::node::Text::new(self.about)))
            .add(background)
            .add(self.content.clone());
        format!("{document}\n")
    }

    fn text(&mut self, x: f64, base: f64, text: &str, ink: Ink, weight: Weight) {
        let (weight, per_letter) = match weight {
            Weight::Plain => ("normal", 0.5),
            Weight::Bold => ("bold", 0.65),
        };
        let drawn = Text::new(text)
            .set("x", x)
            .set("y", base)
            .set("font-size", SIZE)
            .set("font-weight", weight)
            .set("fill", ink.stroke());
        self.add(drawn);
        let letters = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        let right = x + f64::from(letters) * SIZE * per_letter;
        self.labels.push(Label { text: text.to_owned(), left: x, right, base });
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), ink: Ink, stroke: Stroke) {
        let (width, dashes) = match stroke {
            Stroke::Whole => (2.0, "none"),
            Stroke::Thick => (3.5, "none"),
            Stroke::Dashed => (1.5, "6 5"),
            Stroke::Dotted => (1.0, "2 4"),
        };
        let line = Line::new()
            .set("x1", from.0)
            .set("y1", from.1)
            .set("x2", to.0)
            .set("y2", to.1)
            .set("stroke", ink.stroke())
            .set("stroke-width", width)
            .set("stroke-dasharray", dashes);
        self.add(line);
    }

    fn add(&mut self, node: impl Into<Box<dyn Node>>) {
        self.content.append(node);
    }
}

#[derive(Clone, Copy)]
enum Weight {
    Plain,
    Bold,
}

#[derive(Clone, Copy)]
enum Stroke {
    Whole,
    Thick,
    Dashed,
    Dotted,
}
