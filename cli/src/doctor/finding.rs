//! The finding of one check, for people and for programs.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Value, json};

use crate::console::{Console, Shade};
use crate::text;

/// The severity. The worst is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Status {
    Ok,
    /// For information, or not visible from here.
    Note,
    /// Needs a repair.
    Problem,
}

impl Status {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Note => "note",
            Status::Problem => "problem",
        }
    }

    const fn shade(self) -> Shade {
        match self {
            Status::Ok => Shade::Good,
            Status::Note => Shade::Notable,
            Status::Problem => Shade::Bad,
        }
    }
}

/// The finding of one check.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    check: &'static str,
    pub(super) status: Status,
    pub(super) message: String,
    advice: Option<String>,
    details: Value,
}

/// The columns before the message. The longest status, the longest name of a check, and two spaces after each.
const MARGIN: u16 = 26;

impl Finding {
    pub(super) fn ok(check: &'static str, message: impl Into<String>) -> Finding {
        let details = json!({});
        Finding { check, status: Status::Ok, message: message.into(), advice: None, details }
    }

    pub(super) fn note(check: &'static str, message: impl Into<String>, advice: String) -> Finding {
        let advice = Some(advice).filter(|advice| !advice.is_empty());
        Finding { advice, status: Status::Note, ..Finding::ok(check, message) }
    }

    pub(super) fn problem(
        check: &'static str,
        message: impl Into<String>,
        advice: String,
    ) -> Finding {
        Finding { status: Status::Problem, ..Finding::note(check, message, advice) }
    }

    /// The finding if the user lacks the privilege, or the server does not tell.
    pub(super) fn unseen(check: &'static str, why: &str) -> Finding {
        Finding::note(check, format!("cannot be checked: {why}"), String::new())
    }

    /// Adds details for programs.
    pub(super) fn with(self, details: Value) -> Finding {
        Finding { details, ..self }
    }

    /// The JSON form. The keys are stable.
    pub(super) fn report(&self) -> Value {
        json!({
            "check": self.check.to_lowercase().replace(' ', "_"),
            "status": self.status.as_str(),
            "message": self.message,
            "advice": self.advice,
            "details": self.details,
        })
    }

    /// The text form.
    pub(super) fn lines(&self, width: Option<u16>, console: &Console) -> Vec<String> {
        let mut texts = wrapped(&text::printable(&self.message), width);
        if let Some(advice) = &self.advice {
            let advice =
                wrapped(&text::printable(advice), width.map(|width| width.saturating_sub(2)));
            let heads = std::iter::once("> ").chain(std::iter::repeat("  "));
            texts.extend(heads.zip(advice).map(|(head, text)| format!("{head}{text}")));
        }
        let status = format!("{:<9}", self.status.as_str());
        let status = console.paint(self.status.shade(), &status);
        let heads = [format!("{status}{:<17}", self.check)];
        let blank = " ".repeat(MARGIN.into());
        let heads = heads.into_iter().chain(std::iter::repeat(blank));
        heads.zip(texts).map(|(head, text)| format!("{head}{text}")).collect()
    }
}

/// Breaks a text into lines, if there is a terminal.
fn wrapped(text: &str, width: Option<u16>) -> Vec<String> {
    let Some(width) = width else { return vec![text.to_owned()] };
    let mut table = Table::new();
    table.load_style(presets::NOTHING).add_row([text]);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width.saturating_sub(MARGIN).max(20));
    for column in table.column_iter_mut() {
        column.set_padding((0, 0));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}
