//! Findings of other tools, read from their output.

use crate::cluster::Failed;

/// A table of the model's worlds and of the fuzzing, from the output of each.
///
/// Of the model: `cargo run --release -p mongo-lease-model --example explore`, a line for each world that says how many
/// states it has. Of the fuzzing: `cargo test -p mongo-lease --lib fuzz -- --nocapture`, a line for each decoder.
pub(crate) fn beside(model: Option<&str>, fuzzing: Option<&str>) -> Result<String, Failed> {
    let mut text = "| what | |\n| --- | --- |\n".to_owned();
    if let Some(output) = model {
        let worlds: Vec<World> = output.lines().filter_map(World::read).collect();
        if worlds.is_empty() {
            return Err(Failed::new("the model's output names no world"));
        }
        let unsound = output.contains("BROKEN") || worlds.iter().any(|world| !world.is_sound);
        if unsound {
            return Err(Failed::new(
                "the model reports a violation, or did not explore every world completely",
            ));
        }
        let states: u64 = worlds.iter().map(|world| world.states).sum();
        let worlds = worlds.len();
        text += &format!("| states explored by the model | {states}, in {worlds} worlds |\n");
    }
    if let Some(output) = fuzzing {
        let runs: Vec<(u64, u64)> = output.lines().filter_map(fuzzed).collect();
        if runs.is_empty() || !output.contains("test result: ok") {
            return Err(Failed::new(
                "the output of the fuzzing reports a failure, or names no decoder",
            ));
        }
        let (decoders, all) = (runs.len(), runs.iter().map(|(yes, no)| yes + no).sum::<u64>());
        let believed: u64 = runs.iter().map(|(yes, _)| yes).sum();
        text += &format!(
            "| fuzzing of the decoders | {decoders} decoders, {all} runs, {believed} of them \
             decoded a value: 0 panics, 0 values that the bytes do not contain |\n"
        );
    }
    Ok(text)
}

struct World {
    states: u64,
    /// Searched to its end, with all required sights seen.
    is_sound: bool,
}

impl World {
    /// `name: 123 states, depth 4, 5.6s, exhausted true, unseen []`
    fn read(line: &str) -> Option<World> {
        let (_, rest) = line.split_once(": ")?;
        let (states, rest) = rest.split_once(" states, ")?;
        let is_sound = rest.contains("exhausted true") && rest.ends_with("unseen []");
        Some(World { states: states.parse().ok()?, is_sound })
    }
}

/// `name::of   believed   12, not believed   3`: how often it believed something, and how often it did not.
fn fuzzed(line: &str) -> Option<(u64, u64)> {
    let (name, rest) = line.split_once(" believed ")?;
    let (yes, no) = rest.split_once(", not believed ")?;
    let number = |text: &str| text.trim().parse().ok();
    name.contains("::").then_some((number(yes)?, number(no)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worlds_are_summed_up() {
        let output = "a b: 12 states, depth 3, 1.2s, exhausted true, unseen []\n\
            c: 30 states, depth 3, 1.2s, exhausted true, unseen []\n";
        let text = beside(Some(output), None).unwrap();
        assert!(text.contains("| 42, in 2 worlds |"), "{text}");
        assert!(beside(Some("nothing"), None).is_err());
        let cut_short = output.replace("exhausted true", "exhausted false");
        assert!(beside(Some(&cut_short), None).is_err());
        assert!(beside(Some(&format!("{output}  BROKEN: x\n")), None).is_err());
    }

    #[test]
    fn runs_of_the_fuzzing_are_summed_up() {
        let output = "a::A      believed    12, not believed     3\n\
            test b ... b::B  believed 1, not believed 4\ntest result: ok. 4 passed\n";
        let text = beside(None, Some(output)).unwrap();
        assert!(text.contains("| 2 decoders, 20 runs, 13 of them decoded"), "{text}");
        assert!(beside(None, Some("test result: ok")).is_err());
        assert!(beside(None, Some(&output.replace("ok.", "FAILED."))).is_err());
    }
}
